/* A leader with as many children as its first argument says. Says ready (m) when all are born; all hold. */
#include "payload.h"

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 1;
    for (int i = 0; i < count; i++) {
        pid_t child = fork();
        if (child < 0)
            return 121;
        if (child == 0) {
            payload_hold();
            _exit(0);
        }
    }
    payload_ready('m');
    payload_hold();
    return 0;
}
