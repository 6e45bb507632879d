/* units: program/record.c */
#define _GNU_SOURCE
#include "program/record.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NONCE "0123456789abcdef0123456789abcdef"

/* Not assert(3): it must also check where NDEBUG is set. */
#define CHECK(condition)                                                      \
    do {                                                                      \
        if (!(condition)) {                                                   \
            fprintf(stderr, "%s:%d: not %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                          \
        }                                                                     \
    } while (0)

static int reads(const spur_text_t *text, const char *expected)
{
    return text->used == strlen(expected) && memcmp(text->bytes, expected, text->used) == 0;
}

static void ends_are_spelled(void)
{
    static const struct {
        int code, status;
        const char *line;
    } cases[] = {
        {CLD_EXITED, 0, "spurproc-exit 1 " NONCE " exited 0\n"},
        {CLD_EXITED, 255, "spurproc-exit 1 " NONCE " exited 255\n"},
        {CLD_KILLED, 9, "spurproc-exit 1 " NONCE " signaled 9\n"},
        {CLD_KILLED, 64, "spurproc-exit 1 " NONCE " signaled 64\n"},
        {CLD_DUMPED, 6, "spurproc-exit 1 " NONCE " signaled 6 core\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char line[SPUR_RECORD_EXIT_BYTES];
        spur_text_t text = {line, sizeof line, 0};
        spur_record_ended(&text, NONCE, cases[i].code, cases[i].status);
        CHECK(reads(&text, cases[i].line));
    }
}

static void longest_sentinel_fits(void)
{
    char line[SPUR_RECORD_EXIT_BYTES];
    spur_text_t text = {line, sizeof line, 0};
    spur_record_not_started(&text, NONCE, 0x7fffffff, 0x7fffffff);
    CHECK(reads(&text, "spurproc-exit 1 " NONCE " not-started 2147483647 2147483647\n"));
}

static void identity_is_one_line(void)
{
    char line[SPUR_RECORD_LINE_BYTES];
    spur_text_t text = {line, sizeof line, 0};
    spur_vantage_t from = {.pid_namespace = UINT64_MAX, .time_namespace = 0};
    memcpy(from.boot_id, "01234567-89ab-cdef-0123-456789abcdef", sizeof from.boot_id);
    spur_record_identity(&text, "leader", 0x7fffffff, UINT64_MAX, UINT64_MAX, &from);
    CHECK(reads(&text, "leader spurproc-id 1 2147483647 18446744073709551615 01234567-89ab-cdef-0123-456789abcdef "
                       "18446744073709551615 18446744073709551615 0\n"));
    text.used = 0;
    spur_record_identity(&text, "leader", 7, 8, 0, &from);
    CHECK(memcmp(line, "leader spurproc-id 1 7 8 01234567-89ab-cdef-0123-456789abcdef - ", 64) == 0);
}

/* In memory of exactly its size, so that one byte too many is seen. */
static void what_does_not_fit_is_not_written(void)
{
    for (size_t size = 0; size < 60; size++) {
        char *bytes = malloc(size + 1);
        spur_text_t text = {bytes, size, 0};
        CHECK(bytes != NULL);
        bytes[size] = '#';
        spur_record_ended(&text, NONCE, CLD_EXITED, 7);
        CHECK((text.used > text.size) == (size < strlen("spurproc-exit 1 " NONCE " exited 7\n")));
        CHECK(bytes[size] == '#');
        int64_t offset = 0;
        CHECK(text.used <= text.size || spur_record_append(-1, &offset, &text) < 0);
        free(bytes);
    }
}

static void usage_is_spelled(void)
{
    char line[SPUR_RECORD_LINE_BYTES];
    spur_text_t text = {line, sizeof line, 0};
    struct rusage usage = {.ru_maxrss = 3, .ru_minflt = 4, .ru_majflt = 5, .ru_nvcsw = 6, .ru_nivcsw = 7};
    usage.ru_utime.tv_sec = 1;
    usage.ru_utime.tv_usec = 2;
    spur_record_usage(&text, NONCE, &usage);
    CHECK(reads(&text, "spurproc-usage 1 " NONCE " 1000002 0 3 4 5 6 7\n"));
}

static void vantage_is_this_process(void)
{
    spur_vantage_t seen;
    struct stat facts;
    CHECK(spur_record_vantage(&seen) == 0);
    CHECK(stat("/proc/self/ns/pid", &facts) == 0 && facts.st_ino == seen.pid_namespace);
    CHECK(seen.boot_id[8] == '-' && seen.boot_id[23] == '-');
}

/* The room was made with NULs: what is left of them is cut off, and only a whole record gets the name. */
static void a_record_is_published_whole(void)
{
    char folder[] = "/tmp/spur-record-XXXXXX", line[SPUR_RECORD_EXIT_BYTES], back[256], room[128] = {0};
    spur_text_t text = {line, sizeof line, 0};
    CHECK(mkdtemp(folder) != NULL);
    int folder_fd = open(folder, O_RDONLY | O_DIRECTORY);
    int fd = openat(folder_fd, "exit.tmp", O_RDWR | O_CREAT, 0600);
    CHECK(write(fd, room, sizeof room) == sizeof room);
    spur_record_ended(&text, NONCE, CLD_KILLED, 9);
    CHECK(spur_record_write(fd, &text) == 0);
    CHECK(faccessat(folder_fd, "exit", F_OK, 0) < 0);
    CHECK(spur_record_publish(folder_fd) == 0);
    CHECK(pread(fd, back, sizeof back, 0) == (ssize_t)text.used && memcmp(back, line, text.used) == 0);
    CHECK(faccessat(folder_fd, "exit.tmp", F_OK, 0) < 0);
    CHECK(spur_record_publish(folder_fd) < 0);
    CHECK(unlinkat(folder_fd, "exit", 0) == 0 && rmdir(folder) == 0);
    close(fd);
    close(folder_fd);
}

int main(void)
{
    ends_are_spelled();
    longest_sentinel_fits();
    identity_is_one_line();
    what_does_not_fit_is_not_written();
    usage_is_spelled();
    vantage_is_this_process();
    a_record_is_published_whole();
    return 0;
}
