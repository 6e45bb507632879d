/* The bare loops that bench_liveness.py compares with: the same system calls, nothing around them.
 * liveness_loop pidfd|identity PID COUNT: ns per question. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct handle {
    struct file_handle head;
    uint64_t inode;
};

static int ended(int fd)
{
    struct pollfd entry = {fd, POLLIN, 0};
    return poll(&entry, 1, 0) != 0;
}

static int identity_ended(uint64_t inode)
{
    struct handle handle = {{sizeof inode, 0xFE}, inode};
    int fd = open_by_handle_at(-10002, &handle.head, O_CLOEXEC); /* FD_PIDFS_ROOT */
    if (fd < 0)
        return 1;
    int result = ended(fd);
    close(fd);
    return result;
}

int main(int argc, char **argv)
{
    struct timespec start, stop;
    struct stat status;
    long wrong = 0;
    if (argc != 4)
        return 2;
    int pidfd = (int)syscall(434, atoi(argv[2]), 0);
    long count = atol(argv[3]);
    int by_identity = strcmp(argv[1], "identity") == 0;
    if (pidfd < 0 || fstat(pidfd, &status) < 0)
        return 1;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (long turn = 0; turn < count; turn++)
        wrong += by_identity ? identity_ended(status.st_ino) : ended(pidfd);
    clock_gettime(CLOCK_MONOTONIC, &stop);
    if (wrong)
        return 1;
    printf("%.1f\n", ((double)(stop.tv_sec - start.tv_sec) * 1e9 + (double)(stop.tv_nsec - start.tv_nsec)) / (double)count);
    return 0;
}
