/* The bare waits of bench_exit.py, by one who is not the parent. Both return the time at which they knew, CLOCK_MONOTONIC in nanoseconds.
 *
 *   bare_poll_end    poll(2) of the pidfd until POLLIN: that it has ended
 *   bare_learn_end   that, then until POLLHUP, which is the parent's reap, and PIDFD_GET_INFO: also how it has ended */
#define _GNU_SOURCE
#include "kernel.h"

#include <poll.h>
#include <sys/ioctl.h>

#include "bare.h"

double bare_poll_end(int pidfd)
{
    struct pollfd entry = {pidfd, POLLIN, 0};
    return poll(&entry, 1, -1) == 1 ? (double)now_ns() : -1;
}

double bare_learn_end(int pidfd)
{
    struct spur_pidfd_info info = {.mask = SPUR_PIDFD_INFO_EXIT};
    struct pollfd ended = {pidfd, POLLIN, 0}, reaped = {pidfd, 0, 0};
    if (poll(&ended, 1, -1) != 1 || poll(&reaped, 1, -1) != 1)
        return -1;
    if (ioctl(pidfd, SPUR_PIDFD_GET_INFO, &info) < 0 || !(info.mask & SPUR_PIDFD_INFO_EXIT) || info.exit_code != 0)
        return -1;
    return (double)now_ns();
}
