/* Deaf to SIGTERM and SIGINT, as is its child; both say ready (d) and hold. With an argument the leader ends at once. */
#include "payload.h"

#include <signal.h>

int main(int argc, char **argv)
{
    (void)argv;
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    pid_t child = fork();
    if (child < 0)
        return 121;
    payload_ready('d');
    if (child > 0 && argc > 1)
        return 0;
    payload_hold();
    return 0;
}
