/* Writes '1'; on SIGUSR1 a thread other than the leader execs this program again, which writes '2' and holds. */
#define _GNU_SOURCE
#include "payload.h"

#include <pthread.h>
#include <signal.h>

static void *other(void *usr1)
{
    int sig;
    payload_ready('1');
    sigwait(usr1, &sig);
    execl("/proc/self/exe", "again", "again", (char *)NULL);
    exit(121);
}

int main(int argc, char **argv)
{
    sigset_t usr1;
    pthread_t thread;
    (void)argv;
    if (argc > 1) {
        payload_ready('2');
        payload_hold();
        return 0;
    }
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigprocmask(SIG_BLOCK, &usr1, NULL);
    if (pthread_create(&thread, NULL, other, &usr1) != 0)
        return 122;
    pthread_join(thread, NULL);
    return 123;
}
