/* Signals as a readable descriptor, for a process whose one loop waits for everything. */
#include "spurcore.h"

#include <signal.h>
#include <sys/signalfd.h>

/* Block `mask` (bit n-1 is signal n) in the calling thread and read what is then pending from *ret_fd. signalfd(2) */
int spur_signals_open(uint64_t mask, int *ret_fd)
{
    sigset_t set;

    sigemptyset(&set);
    for (int number = 1; number <= 64; number++)
        if (mask >> (number - 1) & 1)
            sigaddset(&set, number);
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return -errno;
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0) {
        int error = -errno;
        close(fd);
        return error;
    }
    *ret_fd = fd;
    return 0;
}
