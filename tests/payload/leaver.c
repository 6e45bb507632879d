/* Says ready (l); on SIGUSR1 leaves a child in a session of its own, which holds and then ends with 3, and ends with 0 at once. */
#define _GNU_SOURCE
#include "payload.h"

#include <signal.h>

int main(void)
{
    sigset_t usr1;
    int sig;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigprocmask(SIG_BLOCK, &usr1, NULL);
    payload_ready('l');
    sigwait(&usr1, &sig);
    pid_t child = fork();
    if (child < 0)
        return 121;
    if (child == 0) {
        setsid();
        payload_hold();
        _exit(3);
    }
    return 0;
}
