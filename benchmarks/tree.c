/* The bare loop of bench_tree.py, with the guards of ours: no number is signalled. Nanoseconds of one signal to all members.
 *
 * cgroup.procs is read to its end; each pid but 1 and the caller is opened as a pidfd, its inode read, and, if that was not met before,
 * the process asked for its cgroup and signalled through the pidfd. Then once more, for who has come since. */
#define _GNU_SOURCE
#include "kernel.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "bare.h"

enum { MOST = 16384, SLOTS = 65536 };

static uint64_t slots[SLOTS];

static int pids_list(int folder_fd, int *pids)
{
    static char text[MOST * 8];
    size_t length = 0;
    ssize_t got;
    int fd = openat(folder_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC), count = 0;
    while ((got = read(fd, text + length, sizeof text - 1 - length)) > 0)
        length += (size_t)got;
    close(fd);
    text[length] = '\0';
    for (char *at = text; *at; at = strchr(at, '\n') + 1)
        pids[count++] = (int)strtol(at, NULL, 10);
    return count;
}

/* Whether the inode is new. */
static int remember(uint64_t inode)
{
    size_t slot = ((inode * 0x9E3779B97F4A7C15ULL) >> 32) % SLOTS;
    while (slots[slot] != 0 && slots[slot] != inode)
        slot = (slot + 1) % SLOTS;
    int fresh = slots[slot] == 0;
    slots[slot] = inode;
    return fresh;
}

static int is_member(int pidfd, uint64_t cgroup)
{
    struct spur_pidfd_info info = {.mask = SPUR_PIDFD_INFO_CGROUPID};
    return ioctl(pidfd, SPUR_PIDFD_GET_INFO, &info) == 0 && info.cgroupid == cgroup;
}

static int signal_pass(int folder_fd, uint64_t cgroup, int number)
{
    static int pids[MOST];
    int count = pids_list(folder_fd, pids), sent = 0;
    for (int i = 0; i < count; i++) {
        struct stat file;
        if (pids[i] <= 1 || pids[i] == getpid())
            continue;
        int pidfd = (int)syscall(SPUR_SYS_PIDFD_OPEN, pids[i], 0);
        if (pidfd < 0)
            continue;
        if (fstat(pidfd, &file) == 0 && remember(file.st_ino) && is_member(pidfd, cgroup))
            sent += syscall(SPUR_SYS_PIDFD_SEND_SIGNAL, pidfd, number, NULL, 0) == 0;
        close(pidfd);
    }
    return sent;
}

/* -1 where fewer or more than `members` were signalled. */
double bare_signal_tree(int folder_fd, int number, int members)
{
    uint64_t begun = now_ns();
    struct stat folder;
    memset(slots, 0, sizeof slots);
    if (fstat(folder_fd, &folder) < 0)
        return -1;
    int sent = signal_pass(folder_fd, folder.st_ino, number);
    sent += signal_pass(folder_fd, folder.st_ino, number);
    return sent == members ? (double)(now_ns() - begun) : -1;
}
