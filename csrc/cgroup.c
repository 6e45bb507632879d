/* A cgroup v2 folder held by a descriptor: cgroups(7), Documentation/admin-guide/cgroup-v2.rst. */
#include "spurcore.h"

#include <limits.h>
#include <string.h>
#include <sys/vfs.h>

int spur_cgroup_inode(int folder_fd, uint64_t *ret_inode)
{
    struct statfs file_system;
    struct stat folder;
    if (fstatfs(folder_fd, &file_system) < 0 || fstat(folder_fd, &folder) < 0)
        return -errno;
    if (!S_ISDIR(folder.st_mode))
        return -ENOTDIR;
    if ((uint64_t)file_system.f_type != SPUR_CGROUP2_MAGIC)
        return -EMEDIUMTYPE; /* a folder that poses as a cgroup, or a v1 hierarchy */
    *ret_inode = folder.st_ino;
    return 0;
}

int spur_cgroup_open_handle(int mount_fd, uint64_t inode, int *ret_fd)
{
    struct {
        struct file_handle head;
        uint64_t inode;
    } handle = {{sizeof(uint64_t), SPUR_HANDLE_TYPE_KERNFS}, inode};
    int fd = open_by_handle_at(mount_fd, &handle.head, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    return 0;
}

/* The value, 0 or 1, in a line "KEY VALUE" of known key; the keys may stand in any order and others may be added. */
static int line_value(const char *line, size_t length, const char *key, int *ret_value)
{
    size_t key_length = strlen(key);
    if (length != key_length + 2 || memcmp(line, key, key_length) != 0 || line[key_length] != ' ')
        return -ENOKEY;
    if (line[key_length + 1] != '0' && line[key_length + 1] != '1')
        return -EBADMSG;
    *ret_value = line[key_length + 1] - '0';
    return 0;
}

int spur_cgroup_events_parse(const char *text, size_t length, spur_cgroup_events_t *ret_events)
{
    spur_cgroup_events_t events = {.populated = -1, .frozen = -1};
    while (length > 0) {
        const char *newline = memchr(text, '\n', length);
        size_t line_length = newline ? (size_t)(newline - text) : length;
        if (line_value(text, line_length, "populated", &events.populated) == -EBADMSG
            || line_value(text, line_length, "frozen", &events.frozen) == -EBADMSG)
            return -EBADMSG;
        size_t step = newline ? line_length + 1 : line_length;
        text += step;
        length -= step;
    }
    if (events.populated < 0)
        return -EBADMSG;
    *ret_events = events;
    return 0;
}

/* The first key alone, in the kernel's order, without a look at the rest: what a table of a thousand cgroups asks for. */
static int populated_quick(const char *text, size_t length)
{
    static const char key[] = "populated ";
    const size_t at = sizeof key - 1;
    if (length < at + 2 || memcmp(text, key, at) != 0 || text[at + 1] != '\n' || (text[at] != '0' && text[at] != '1'))
        return -1;
    return text[at] - '0';
}

int spur_cgroup_populated_read(int events_fd, int *ret_populated)
{
    char text[256];
    spur_cgroup_events_t events;
    ssize_t length = pread(events_fd, text, sizeof text, 0);
    if (length < 0)
        return -errno;
    int quick = populated_quick(text, (size_t)length);
    int error = quick < 0 ? spur_cgroup_events_parse(text, (size_t)length, &events) : 0;
    if (error == 0)
        *ret_populated = quick < 0 ? events.populated : quick;
    return error;
}

int spur_cgroup_events_read(int events_fd, spur_cgroup_events_t *ret_events)
{
    char text[256];
    ssize_t length = pread(events_fd, text, sizeof text, 0); /* one pread is always current; a poll may lag by 20 ms */
    return length < 0 ? -errno : spur_cgroup_events_parse(text, (size_t)length, ret_events);
}

int spur_pid_list_feed(spur_pid_list_t *pid_list, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (text[i] >= '0' && text[i] <= '9') {
            int digit = text[i] - '0';
            if (pid_list->value > (INT_MAX - digit) / 10)
                return -EBADMSG;
            pid_list->value = pid_list->value * 10 + digit;
            pid_list->digits = 1;
        } else if (text[i] == '\n' && pid_list->digits) {
            if (pid_list->count < pid_list->capacity)
                pid_list->pids[pid_list->count] = pid_list->value;
            pid_list->count++;
            pid_list->value = pid_list->digits = 0;
        } else {
            return -EBADMSG;
        }
    }
    return 0;
}

/* One read gives about one page whatever the buffer, and a number may be cut in two: read to the end, with state. */
static int list_fill(int fd, spur_pid_list_t *list)
{
    char text[16384];
    for (;;) {
        ssize_t length = read(fd, text, sizeof text);
        if (length < 0 && errno == EINTR)
            continue;
        if (length < 0)
            return -errno;
        if (length == 0)
            return list->digits ? -EBADMSG : 0;
        int error = spur_pid_list_feed(list, text, (size_t)length);
        if (error)
            return error;
    }
}

int spur_cgroup_pids_read(int folder_fd, const char *file, int *pids, size_t capacity, size_t *ret_count)
{
    spur_pid_list_t list = {.pids = pids, .capacity = capacity};
    int fd = openat(folder_fd, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -errno;
    int error = list_fill(fd, &list);
    close(fd);
    if (error == 0)
        *ret_count = list.count;
    return error;
}

/* The whole of the "0::" line: a cgroup's name holds no newline, but a hybrid host has other lines before it. */
int spur_cgroup_path_parse(const char *text, size_t length, const char **ret_path, size_t *ret_length)
{
    while (length > 0) {
        const char *newline = memchr(text, '\n', length);
        if (newline == NULL)
            return -EBADMSG;
        size_t line_length = (size_t)(newline - text);
        if (line_length > 3 && memcmp(text, "0::/", 4) == 0) {
            *ret_path = text + 3;
            *ret_length = line_length - 3;
            return 0;
        }
        text = newline + 1;
        length -= line_length + 1;
    }
    return -ENOKEY;
}

int spur_cgroup_path_within(const char *path, size_t length, const char *above)
{
    size_t above_length = strlen(above);
    if (above_length == 1 && above[0] == '/')
        return length > 0 && path[0] == '/';
    return length >= above_length && memcmp(path, above, above_length) == 0
        && (length == above_length || path[above_length] == '/');
}
