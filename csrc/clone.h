/* One clone whose child runs a function and ends: it never returns into the frames of its parent. */
#ifndef SPUR_CLONE_H
#define SPUR_CLONE_H

#include "spurcore.h"

enum { SPUR_CODE_NO_EXEC = 127 };

struct spur_clone {
    int (*run)(void *);
    void *argument;
    void *stack; /* its lowest byte; used only where the memory is shared */
    size_t stack_bytes;
    volatile int32_t *ret_pidfd; /* NULL: none wanted */
    int cgroup_fd;               /* born in it; -1: in the caller's */
    int exit_signal;             /* 0: no stranger's wait() can take it, and SIGCHLD ignored does not discard it */
    int share_descriptors;       /* CLONE_FILES */
};

/* The caller sleeps until the child execs or ends (CLONE_VFORK). With SPUR_FACILITY_CLONE3 the child is in shared memory (CLONE_VM),
 * so that a parent of 4 GiB is as fast as a small one. Without it: in a copy, as after a fork, and in no cgroup. Returns the pid or -errno. All signals
 * are blocked by the caller. clone(2); Linux 5.3, CLONE_INTO_CGROUP 5.7. */
long spur_clone(const struct spur_clone *how, uint32_t facilities);

#endif
