/* The bare C side of bench_tree.py. One line of output: nanoseconds for each of the rounds, separated by spaces.
 *
 *   tree_loop signal FOLDER SIGNAL ROUNDS  list cgroup.procs, open each pid as a pidfd, ask it for its cgroup, signal it, close it;
 *                                          then look for new ones: list again and compare each pidfd's inode with those before
 *   tree_loop once FOLDER SIGNAL ROUNDS    the same without the second look
 *   tree_loop events ROUNDS FILE...        pread each kept cgroup.events and find "populated 1" */
#define _GNU_SOURCE
#include "kernel.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>

enum { MOST = 16384, SLOTS = 65536 };

static uint64_t slots[SLOTS];

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

static int list_pids(int folder_fd, int *pids)
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

static int signal_pass(int folder_fd, uint64_t id, int number)
{
    static int pids[MOST];
    int count = list_pids(folder_fd, pids), sent = 0;
    for (int i = 0; i < count; i++) {
        struct spur_pidfd_info info = {.mask = SPUR_PIDFD_INFO_CGROUPID};
        struct stat file;
        if (pids[i] <= 1 || pids[i] == getpid())
            continue;
        int pidfd = (int)syscall(SPUR_SYS_PIDFD_OPEN, pids[i], 0);
        if (pidfd < 0)
            continue;
        if (fstat(pidfd, &file) == 0 && remember(file.st_ino) && ioctl(pidfd, SPUR_PIDFD_GET_INFO, &info) == 0 && info.cgroupid == id)
            sent += syscall(SPUR_SYS_PIDFD_SEND_SIGNAL, pidfd, number, NULL, 0) == 0;
        close(pidfd);
    }
    return sent;
}

static int signal_rounds(char **argv)
{
    int folder_fd = open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC), number = atoi(argv[3]), twice = argv[1][0] == 's';
    struct stat folder;
    fstat(folder_fd, &folder);
    for (int round = atoi(argv[4]); round > 0; round--) {
        uint64_t start = now_ns();
        memset(slots, 0, sizeof slots);
        signal_pass(folder_fd, folder.st_ino, number);
        if (twice)
            signal_pass(folder_fd, folder.st_ino, number);
        printf("%llu ", (unsigned long long)(now_ns() - start));
    }
    return 0;
}

static int events_rounds(int argc, char **argv)
{
    int *fds = calloc((size_t)argc, sizeof *fds), alive = 0;
    for (int i = 3; i < argc; i++)
        fds[i] = open(argv[i], O_RDONLY | O_CLOEXEC);
    for (int round = atoi(argv[2]); round > 0; round--) {
        uint64_t start = now_ns();
        for (int i = 3; i < argc; i++) {
            char text[256];
            ssize_t length = pread(fds[i], text, sizeof text - 1, 0);
            text[length > 0 ? length : 0] = '\0';
            alive += strstr(text, "populated 1") != NULL;
        }
        printf("%llu ", (unsigned long long)(now_ns() - start));
    }
    return alive < 0;
}

int main(int argc, char **argv)
{
    return strcmp(argv[1], "events") == 0 ? events_rounds(argc, argv) : signal_rounds(argv);
}
