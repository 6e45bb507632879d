/* A process held by a descriptor: pidfd_open(2), pidfd_send_signal(2). */
#include "spurcore.h"

int spur_pidfd_open(int pid, int *ret_fd)
{
    if (pid <= 0)
        return -EINVAL;
    long fd = syscall(SPUR_SYS_PIDFD_OPEN, pid, 0); /* born close-on-exec */
    if (fd < 0)
        return -errno;
    *ret_fd = (int)fd;
    return 0;
}

int spur_pidfd_send_signal(int pidfd, int sig)
{
    return syscall(SPUR_SYS_PIDFD_SEND_SIGNAL, pidfd, sig, (void *)0, 0) < 0 ? -errno : 0;
}
