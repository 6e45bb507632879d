/* /proc/PID/stat, proc_pid_stat(5). The command name may hold spaces, newlines and ')': the fields start behind the last ')'. */
#include "spurcore.h"

#include "path.h"

#include <string.h>

enum { FIELD_PPID = 4, FIELD_PGRP = 5, FIELD_SESSION = 6, FIELD_THREADS = 20, FIELD_START = 22, FIELD_EXIT_CODE = 52 };
enum { MOST_LOOKS = 8 };
enum { STAT_BYTES = 2048 }; /* 52 numbers of at most 20 digits and a name of at most 64 bytes */

/* One decimal field at *cursor, closed by a space or a newline; moves the cursor behind that. */
static int number_next(const char **cursor, const char *end, int64_t *ret_value)
{
    const char *at = *cursor;
    int negative = at < end && *at == '-';
    uint64_t value = 0;
    at += negative;
    if (at >= end || *at < '0' || *at > '9')
        return -EBADMSG;
    for (; at < end && *at >= '0' && *at <= '9'; at++) {
        if (__builtin_mul_overflow(value, (uint64_t)10, &value) || __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
            return -EBADMSG;
    }
    if (at >= end || (*at != ' ' && *at != '\n'))
        return -EBADMSG; /* a number without its end may be half a number */
    *cursor = at + 1;
    *ret_value = (int64_t)(negative ? 0 - value : value);
    return 0;
}

static int int_store(int64_t value, int *ret_value)
{
    if (value < INT32_MIN || value > INT32_MAX)
        return -EBADMSG;
    *ret_value = (int)value;
    return 0;
}

static int field_store(spur_procstat_t *stat, int field, int64_t value)
{
    switch (field) {
    case FIELD_PPID: return int_store(value, &stat->parent_pid);
    case FIELD_PGRP: return int_store(value, &stat->process_group);
    case FIELD_SESSION: return int_store(value, &stat->session);
    case FIELD_THREADS: return int_store(value, &stat->threads);
    case FIELD_START: stat->start_ticks = (uint64_t)value; return 0;
    case FIELD_EXIT_CODE: return int_store(value, &stat->wait_status);
    default: return 0;
    }
}

int spur_procstat_parse(const char *text, size_t length, spur_procstat_t *ret_stat)
{
    const char *end = text + length;
    const char *close = length > 0 ? memrchr(text, ')', length) : NULL;
    const char *cursor = text;
    spur_procstat_t stat = {0};
    int64_t value;
    int error = number_next(&cursor, end, &value);
    if (error == 0)
        error = int_store(value, &stat.pid);
    if (error)
        return error;
    if (close == NULL || close <= cursor || *cursor != '(' || end - close < 5 || close[1] != ' ' || close[3] != ' ')
        return -EBADMSG;
    stat.state = close[2];
    cursor = close + 4;
    for (int field = FIELD_PPID; field <= FIELD_EXIT_CODE && error == 0; field++) {
        error = number_next(&cursor, end, &value);
        if (error == 0)
            error = field_store(&stat, field, value);
    }
    if (error == 0)
        *ret_stat = stat;
    return error;
}

static int text_read(int fd, spur_procstat_t *ret_stat)
{
    char text[STAT_BYTES];
    ssize_t length = read(fd, text, sizeof text); /* the kernel gives the whole line at once */
    return length < 0 ? -errno : spur_procstat_parse(text, (size_t)length, ret_stat);
}

/* A task let go of while the line was written has no threads to count: a reaped process, or the former leader of one whose other
 * thread has just called execve(2), which lives on under the number. The same open file says which. */
static int fd_read(int fd, spur_procstat_t *ret_stat)
{
    spur_procstat_t stat = {0};
    int error = text_read(fd, &stat);
    for (int look = 1; error == 0 && stat.threads == 0 && look < MOST_LOOKS; look++)
        error = lseek(fd, 0, SEEK_SET) < 0 ? -errno : text_read(fd, &stat);
    if (error == 0 && stat.threads == 0)
        error = -EAGAIN;
    if (error == 0)
        *ret_stat = stat;
    return error;
}

int spur_procstat_read_at(int folder_fd, spur_procstat_t *ret_stat)
{
    int fd = openat(folder_fd, "stat", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno == ENOENT) {
        /* Hidden by hidepid, or reaped between two checks of the kernel; a second look tells: what is reaped is ESRCH. */
        fd = openat(folder_fd, "stat", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0 && errno == ENOENT)
            return -EACCES;
    }
    if (fd < 0)
        return errno == EPERM ? -EACCES : -errno;
    int error = fd_read(fd, ret_stat);
    close(fd);
    return error;
}

int spur_procstat_read(int pid, spur_procstat_t *ret_stat)
{
    char path[SPUR_PATH_BYTES];
    if (pid <= 0)
        return -EINVAL;
    spur_path_write(path, "/proc/", pid, "/stat");
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -errno;
    int error = fd_read(fd, ret_stat);
    close(fd);
    return error;
}

int spur_procstat_folder_open(int pid, int *ret_fd)
{
    char path[SPUR_PATH_BYTES];
    if (pid <= 0)
        return -EINVAL;
    spur_path_write(path, "/proc/", pid, "");
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW); /* not O_PATH: pidfd_send_signal takes it */
    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    return 0;
}

int spur_procstat_ended(const spur_procstat_t *stat)
{
    /* The leader may have exited while other threads run; the process has ended when it is the only one left. */
    return (stat->state == 'Z' || stat->state == 'X' || stat->state == 'x') && stat->threads == 1;
}
