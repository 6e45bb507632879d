/* The recorder's files: `exit` (the sentinel), `started` and `usage`.
 *
 * The launcher has written each of them full of NULs, so that a disk that fills up later cannot take the room away. */
#define _GNU_SOURCE
#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void spur_text_add_bytes(spur_text_t *text, const char *bytes, size_t length)
{
    if (text->used > text->size || length > text->size - text->used) {
        text->used = text->size + 1; /* it stays "did not fit", whatever is added later */
        return;
    }
    memcpy(text->bytes + text->used, bytes, length);
    text->used += length;
}

void spur_text_add(spur_text_t *text, const char *word)
{
    spur_text_add_bytes(text, word, strlen(word));
}

void spur_text_add_number(spur_text_t *text, uint64_t number)
{
    char digits[20];
    size_t at = sizeof digits;

    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    spur_text_add_bytes(text, digits + at, sizeof digits - at);
}

static void add_field(spur_text_t *text, uint64_t number)
{
    spur_text_add(text, " ");
    spur_text_add_number(text, number);
}

static void begin(spur_text_t *text, const char *word, const char *nonce)
{
    spur_text_add(text, word);
    spur_text_add_bytes(text, nonce, SPUR_RECORD_NONCE_BYTES);
}

/* `code` and `status` are si_code and si_status of waitid(2). */
void spur_record_ended(spur_text_t *text, const char *nonce, int code, int status)
{
    begin(text, "spurproc-exit 1 ", nonce);
    spur_text_add(text, code == CLD_EXITED ? " exited" : " signaled");
    add_field(text, (uint64_t)(unsigned)status);
    spur_text_add(text, code == CLD_DUMPED ? " core\n" : "\n");
}

void spur_record_not_started(spur_text_t *text, const char *nonce, int stage, int error)
{
    begin(text, "spurproc-exit 1 ", nonce);
    spur_text_add(text, " not-started");
    add_field(text, (uint64_t)(unsigned)stage);
    add_field(text, (uint64_t)(unsigned)error);
    spur_text_add(text, "\n");
}

static uint64_t microseconds(const struct timeval *time)
{
    return (uint64_t)time->tv_sec * 1000000 + (uint64_t)time->tv_usec;
}

/* user us, system us, peak memory KiB, minor and major faults, voluntary and forced switches */
void spur_record_usage(spur_text_t *text, const char *nonce, const struct rusage *usage)
{
    const long counts[] = {usage->ru_maxrss, usage->ru_minflt, usage->ru_majflt, usage->ru_nvcsw, usage->ru_nivcsw};

    begin(text, "spurproc-usage 1 ", nonce);
    add_field(text, microseconds(&usage->ru_utime));
    add_field(text, microseconds(&usage->ru_stime));
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        add_field(text, (uint64_t)counts[i]);
    spur_text_add(text, "\n");
}

/* `inode` 0: this kernel's pidfds have none of their own. */
void spur_record_identity(spur_text_t *text, const char *role, int pid, uint64_t ticks, uint64_t inode, const spur_vantage_t *from)
{
    spur_text_add(text, role);
    spur_text_add(text, " spurproc-id 1");
    add_field(text, (uint64_t)(unsigned)pid);
    add_field(text, ticks);
    spur_text_add(text, " ");
    spur_text_add_bytes(text, from->boot_id, sizeof from->boot_id);
    if (inode != 0)
        add_field(text, inode);
    else
        spur_text_add(text, " -");
    add_field(text, from->pid_namespace);
    add_field(text, from->time_namespace);
    spur_text_add(text, "\n");
}

/* "pid:[4026531836]" */
static int read_namespace(const char *path, uint64_t *ret_inode)
{
    char link[64];
    ssize_t length = readlink(path, link, sizeof link - 1);
    uint64_t inode = 0;

    if (length < 0)
        return -errno;
    link[length] = '\0';
    const char *digit = strchr(link, '[');
    for (digit = digit == NULL ? "" : digit + 1; *digit >= '0' && *digit <= '9'; digit++)
        inode = inode * 10 + (uint64_t)(*digit - '0');
    if (*digit != ']' || inode == 0)
        return -EIO;
    *ret_inode = inode;
    return 0;
}

int spur_record_vantage(spur_vantage_t *ret_vantage)
{
    spur_vantage_t seen;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return -errno;
    ssize_t length = read(fd, seen.boot_id, sizeof seen.boot_id);
    close(fd);
    if (length != (ssize_t)sizeof seen.boot_id)
        return -EIO;
    int result = read_namespace("/proc/self/ns/pid", &seen.pid_namespace);
    if (result == 0)
        result = read_namespace("/proc/self/ns/time", &seen.time_namespace);
    if (result == -ENOENT) {
        seen.time_namespace = 0; /* a kernel without time namespaces */
        result = 0;
    }
    if (result == 0)
        *ret_vantage = seen;
    return result;
}

/* One write, so that a reader sees the whole line or none of it. */
int spur_record_append(int fd, int64_t *offset, const spur_text_t *text)
{
    if (text->used > text->size)
        return -EOVERFLOW;
    ssize_t written = pwrite(fd, text->bytes, text->used, *offset);
    if (written < 0)
        return -errno;
    if ((size_t)written != text->used)
        return -ENOSPC;
    *offset += written;
    return 0;
}

/* `exit.tmp`, open as `fd`, holds the whole line for good. */
int spur_record_write(int fd, const spur_text_t *text)
{
    int64_t offset = 0;
    int result = spur_record_append(fd, &offset, text);

    if (result == 0 && (ftruncate(fd, offset) < 0 || fdatasync(fd) < 0))
        result = -errno;
    return result;
}

/* `exit.tmp` becomes `exit`: never seen half written, and true after a power cut. */
int spur_record_publish(int folder_fd)
{
    if (renameat(folder_fd, "exit.tmp", folder_fd, "exit") < 0)
        return -errno;
    /* Best effort: the record is there for every living reader, and a file system without fsync on folders is no reason to deny it. */
    (void)fsync(folder_fd);
    return 0;
}
