/* A subreaper over a child and a grandchild that left for a session and a parent of its own, and as many more children as its
 * argument says. Ready: r (itself, when all are born), c, g; and e when the last of its descendants has ended. */
#include "payload.h"

#include <sys/prctl.h>
#include <sys/wait.h>

static void more(int count)
{
    for (; count > 0; count--) {
        pid_t child = fork();
        if (child < 0)
            _exit(123);
        if (child == 0) {
            payload_hold();
            _exit(0);
        }
    }
}

int main(int argc, char **argv)
{
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return 121;
    pid_t child = fork();
    if (child < 0)
        return 122;
    if (child == 0) {
        pid_t middle = fork();
        if (middle == 0) {
            setsid();
            if (fork() != 0)
                _exit(0);
            payload_ready('g');
            payload_hold();
            _exit(0);
        }
        waitpid(middle, NULL, 0);
        payload_ready('c');
        payload_hold();
        _exit(0);
    }
    more(argc > 1 ? atoi(argv[1]) : 0);
    payload_ready('r');
    while (wait(NULL) > 0 || errno == EINTR)
        ;
    payload_ready('e');
    payload_hold();
    return 0;
}
