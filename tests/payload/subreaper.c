/* A subreaper over a child and a grandchild that left for a session and a parent of its own. Ready: r (itself), c, g; and e when
 * the last of its descendants has ended. */
#include "payload.h"

#include <sys/prctl.h>
#include <sys/wait.h>

int main(void)
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
    payload_ready('r');
    while (wait(NULL) > 0 || errno == EINTR)
        ;
    payload_ready('e');
    payload_hold();
    return 0;
}
