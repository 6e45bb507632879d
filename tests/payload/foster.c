/* A parent that decides when its child is reaped: the child is no child of the test.
 * Arguments: exit|signal NUMBER. Writes the child's pid (8 hex digits); SIGUSR1 to the child lets it end so; SIGUSR1 to the parent
 * makes it reap and write 'r'. */
#define _GNU_SOURCE
#include "payload.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static void usr1_wait(const sigset_t *usr1)
{
    int sig;
    sigwait(usr1, &sig);
}

static void child_run(const sigset_t *usr1, const char *how, int number)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    usr1_wait(usr1);
    if (strcmp(how, "exit") == 0)
        _exit(number);
    signal(number, SIG_DFL);
    raise(number);
    _exit(121);
}

int main(int argc, char **argv)
{
    sigset_t usr1;
    char text[16];
    if (argc != 3)
        return 122;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigprocmask(SIG_BLOCK, &usr1, NULL);
    pid_t child = fork();
    if (child < 0)
        return 123;
    if (child == 0)
        child_run(&usr1, argv[1], atoi(argv[2]));
    snprintf(text, sizeof text, "%08x", (unsigned)child);
    for (int index = 0; index < 8; index++)
        payload_ready(text[index]);
    usr1_wait(&usr1);
    if (waitpid(child, NULL, 0) != child)
        return 124;
    payload_ready('r');
    payload_hold();
    return 0;
}
