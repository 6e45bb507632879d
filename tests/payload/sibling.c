/* Says ready (l); on SIGUSR1 makes a child that is its own sibling, which ends with 5, and then holds. clone(2), CLONE_PARENT. */
#define _GNU_SOURCE
#include "payload.h"

#include <linux/sched.h>
#include <signal.h>
#include <sys/syscall.h>

int main(void)
{
    sigset_t usr1;
    int sig;
    struct clone_args arguments = {.flags = CLONE_PARENT};
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigprocmask(SIG_BLOCK, &usr1, NULL);
    payload_ready('l');
    sigwait(&usr1, &sig);
    long sibling = syscall(SYS_clone3, &arguments, sizeof arguments);
    if (sibling < 0)
        return 121;
    payload_hold();
    return sibling == 0 ? 5 : 0;
}
