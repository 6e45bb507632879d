/* A parent that decides when its child is reaped: the child is no child of the test.
 * Arguments: exit|signal NUMBER. The child writes its pid (8 hex digits) once it is sure to end with its parent; SIGUSR1 to the child
 * lets it end so; SIGUSR1 to the parent makes it reap and write 'r'. */
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

static void child_run(pid_t parent, const sigset_t *usr1, const char *how, int number)
{
    char text[16];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it was killed before that held */
        _exit(125);
    snprintf(text, sizeof text, "%08x", (unsigned)getpid());
    for (int index = 0; index < 8; index++)
        payload_ready(text[index]);
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
    pid_t parent = getpid();
    if (argc != 3)
        return 122;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigprocmask(SIG_BLOCK, &usr1, NULL);
    pid_t child = fork();
    if (child < 0)
        return 123;
    if (child == 0)
        child_run(parent, &usr1, argv[1], atoi(argv[2]));
    usr1_wait(&usr1);
    if (waitpid(child, NULL, 0) != child)
        return 124;
    payload_ready('r');
    payload_hold();
    return 0;
}
