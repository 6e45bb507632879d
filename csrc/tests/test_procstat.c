/* units: procstat.c */
#include "spurcore.h"

#include <assert.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char TAIL[] = " S 11 12 13 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 145361 7 8 18446744073709551615"
                           " 1 2 3 4 5 0 0 0 0 0 0 0 17 1 0 0 0 0 0 1 2 3 4 5 6 7 1792\n";

/* On the heap and exactly as long as the text, so that one byte read too far is seen. */
static int parse(const char *text, size_t length, spur_procstat_t *ret_stat)
{
    char *copy = malloc(length > 0 ? length : 1);
    assert(copy != NULL);
    memcpy(copy, text, length);
    int error = spur_procstat_parse(copy, length, ret_stat);
    free(copy);
    assert(error == 0 || error == -EBADMSG);
    return error;
}

static void name_is_no_field(const char *name)
{
    char text[512];
    spur_procstat_t stat;
    int length = snprintf(text, sizeof text, "42 (%s)%s", name, TAIL);
    assert(parse(text, (size_t)length, &stat) == 0);
    assert(stat.pid == 42 && stat.state == 'S' && stat.parent_pid == 11 && stat.process_group == 12 && stat.session == 13);
    assert(stat.threads == 3 && stat.start_ticks == 145361 && stat.wait_status == 1792);
}

static void cut_anywhere_is_refused(void)
{
    char text[512];
    spur_procstat_t stat = {.pid = -1};
    int length = snprintf(text, sizeof text, "42 (a b) c)%s", TAIL);
    for (size_t cut = 0; cut < (size_t)length; cut++) {
        assert(parse(text, cut, &stat) == -EBADMSG);
        assert(stat.pid == -1); /* written on success only */
    }
}

static void numbers_that_do_not_fit(void)
{
    spur_procstat_t stat;
    static const char *const lines[] = {
        "99999999999 (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
        "1 (x) S 99999999999 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
        "1 (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99999999999999999999 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
    };
    for (size_t index = 0; index < sizeof lines / sizeof *lines; index++)
        assert(parse(lines[index], strlen(lines[index]), &stat) == -EBADMSG);
}

static void ended_needs_an_empty_group(void)
{
    spur_procstat_t zombie = {.state = 'Z', .threads = 1}, leader = {.state = 'Z', .threads = 2}, sleeper = {.state = 'S', .threads = 1};
    spur_procstat_t let_go = {.state = 'Z', .threads = 0}; /* the former leader of a process that called execve from another thread */
    assert(spur_procstat_ended(&zombie) == 1);
    assert(spur_procstat_ended(&leader) == 0);
    assert(spur_procstat_ended(&let_go) == 0);
    assert(spur_procstat_ended(&sleeper) == 0);
}

static void own_stat_is_read(void)
{
    spur_procstat_t by_number, by_folder;
    int folder_fd;
    assert(spur_procstat_read((int)getpid(), &by_number) == 0);
    assert(by_number.pid == (int)getpid() && by_number.parent_pid == (int)getppid() && by_number.start_ticks > 0);
    assert(spur_procstat_folder_open((int)getpid(), &folder_fd) == 0);
    assert(fcntl(folder_fd, F_GETFD) == FD_CLOEXEC);
    assert(spur_procstat_read_at(folder_fd, &by_folder) == 0);
    assert(by_folder.start_ticks == by_number.start_ticks);
    close(folder_fd);
    assert(spur_procstat_read(0, &by_number) == -EINVAL);
    assert(spur_procstat_read(-1, &by_number) == -EINVAL);
    assert(spur_procstat_read(INT32_MAX, &by_number) == -ENOENT);
}

/* A file of the corpus: good-* parses, bad-* does not; each with every byte cut off and every byte changed in turn. */
static void corpus_file(const char *folder, const char *name)
{
    char path[4096], text[8192];
    spur_procstat_t stat;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    assert(file != NULL);
    size_t length = fread(text, 1, sizeof text, file);
    fclose(file);
    assert((parse(text, length, &stat) == 0) == (strncmp(name, "good-", 5) == 0));
    for (size_t cut = 0; cut < length; cut++)
        parse(text, cut, &stat);
    for (size_t at = 0; at < length; at++) {
        char kept = text[at];
        for (int byte = 0; byte < 256; byte += 1 + (int)(at % 7)) {
            text[at] = (char)byte;
            parse(text, length, &stat);
        }
        text[at] = kept;
    }
}

int main(int argc, char **argv)
{
    int files = 0;
    name_is_no_field("sleep");
    name_is_no_field("");
    name_is_no_field(") R 1 1\n(x");
    name_is_no_field("a b c d e f g");
    name_is_no_field("\xff\xfe\x01)");
    name_is_no_field("))))");
    cut_anywhere_is_refused();
    numbers_that_do_not_fit();
    ended_needs_an_empty_group();
    own_stat_is_read();
    assert(argc == 2);
    DIR *folder = opendir(argv[1]);
    assert(folder != NULL);
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        if (entry->d_name[0] == '.')
            continue;
        corpus_file(argv[1], entry->d_name);
        files++;
    }
    closedir(folder);
    assert(files > 0);
    return 0;
}
