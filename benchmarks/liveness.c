/* The bare loops of bench_liveness.py: nanoseconds of one question.
 *
 *   bare_pidfd       poll(2) of a kept pidfd
 *   bare_identities  for each stored inode open_by_handle_at(2), poll, close
 *   bare_cgroups     for each kept cgroup.events pread(2) and a look for "populated 1" */
#define _GNU_SOURCE
#include "kernel.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>

#include "bare.h"

struct handle {
    struct file_handle head;
    uint64_t inode;
};

static int lives(int pidfd)
{
    struct pollfd entry = {pidfd, POLLIN, 0};
    return poll(&entry, 1, 0) == 0;
}

static int identity_lives(uint64_t inode)
{
    struct handle handle = {{sizeof inode, SPUR_HANDLE_TYPE_KERNFS}, inode};
    int fd = open_by_handle_at(SPUR_FD_PIDFS_ROOT, &handle.head, O_CLOEXEC);
    if (fd < 0)
        return 0;
    int result = lives(fd);
    close(fd);
    return result;
}

static int cgroup_lives(int events_fd)
{
    char text[256];
    ssize_t length = pread(events_fd, text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    return strstr(text, "populated 1") != NULL;
}

static double per_question(uint64_t begun, long alive, long asked)
{
    return alive == asked ? (double)(now_ns() - begun) / (double)asked : -1;
}

double bare_pidfd(int pidfd, long turns)
{
    uint64_t begun = now_ns();
    long alive = 0;
    for (long turn = 0; turn < turns; turn++)
        alive += lives(pidfd);
    return per_question(begun, alive, turns);
}

double bare_identities(const uint64_t *inodes, long count, long turns)
{
    uint64_t begun = now_ns();
    long alive = 0;
    for (long turn = 0; turn < turns; turn++)
        for (long index = 0; index < count; index++)
            alive += identity_lives(inodes[index]);
    return per_question(begun, alive, turns * count);
}

double bare_cgroups(const int *events_fds, long count, long turns)
{
    uint64_t begun = now_ns();
    long alive = 0;
    for (long turn = 0; turn < turns; turn++)
        for (long index = 0; index < count; index++)
            alive += cgroup_lives(events_fds[index]);
    return per_question(begun, alive, turns * count);
}
