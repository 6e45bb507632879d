/* A leader and a grandchild that left for a session and a parent of its own; both say ready (l, g), both hold. */
#include "payload.h"

#include <sys/wait.h>

int main(void)
{
    pid_t middle = fork();
    if (middle < 0)
        return 121;
    if (middle == 0) {
        if (setsid() < 0)
            _exit(122);
        if (fork() != 0)
            _exit(0);
        payload_ready('g');
        payload_hold();
        _exit(0);
    }
    if (waitpid(middle, NULL, 0) != middle)
        return 123;
    payload_ready('l');
    payload_hold();
    return 0;
}
