/* /proc/PID/stat, proc_pid_stat(5). The command name may hold spaces, newlines and ')': the fields start behind the last ')'. */
#include "spurcore.h"

#include <stdio.h>
#include <string.h>

enum { FIELD_STATE = 3, FIELD_PPID = 4, FIELD_PGRP = 5, FIELD_SESSION = 6, FIELD_THREADS = 20, FIELD_START = 22, FIELD_EXIT_CODE = 52 };

/* One decimal field at *cursor; moves the cursor behind it and its one space. */
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
    if (at < end && *at != ' ' && *at != '\n')
        return -EBADMSG;
    *cursor = at < end ? at + 1 : at;
    *ret_value = negative ? (int64_t)(0 - value) : (int64_t)value;
    return 0;
}

static void field_store(spur_procstat_t *stat, int field, int64_t value)
{
    switch (field) {
    case FIELD_PPID: stat->parent_pid = (int)value; break;
    case FIELD_PGRP: stat->process_group = (int)value; break;
    case FIELD_SESSION: stat->session = (int)value; break;
    case FIELD_THREADS: stat->threads = (int)value; break;
    case FIELD_START: stat->start_ticks = (uint64_t)value; break;
    case FIELD_EXIT_CODE: stat->wait_status = (int)value; break;
    default: break;
    }
}

int spur_procstat_parse(const char *text, size_t length, spur_procstat_t *ret_stat)
{
    const char *end = text + length;
    const char *close = memrchr(text, ')', length);
    const char *cursor = text;
    spur_procstat_t stat = {0};
    int64_t value;
    int error = number_next(&cursor, end, &value);
    if (error)
        return error;
    stat.pid = (int)value;
    if (close == NULL || end - close < 5 || close[1] != ' ' || close[3] != ' ')
        return -EBADMSG;
    stat.state = close[2];
    cursor = close + 4;
    for (int field = FIELD_PPID; field <= FIELD_EXIT_CODE; field++) {
        error = number_next(&cursor, end, &value);
        if (error)
            return error;
        field_store(&stat, field, value);
    }
    *ret_stat = stat;
    return 0;
}

int spur_procstat_read(int pid, spur_procstat_t *ret_stat)
{
    char path[32], text[2048];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -errno;
    ssize_t length = read(fd, text, sizeof text);
    int error = length < 0 ? -errno : 0;
    close(fd);
    return error ? error : spur_procstat_parse(text, (size_t)length, ret_stat);
}
