/* Forks children that hold until it may not, or has as many as its argument says. Says "." for each, and then A for EAGAIN, d for
 * done, ? for another errno. All hold. */
#include "payload.h"

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 1;
    for (int i = 0; i < count; i++) {
        pid_t child = fork();
        if (child < 0) {
            payload_ready(errno == EAGAIN ? 'A' : '?');
            payload_hold();
            return 0;
        }
        if (child == 0) {
            payload_hold();
            _exit(0);
        }
        payload_ready('.');
    }
    payload_ready('d');
    payload_hold();
    return 0;
}
