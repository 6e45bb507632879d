/* Four processes that answer each SIGUSR1 with a byte (u) and each SIGTERM with another (t), and end on neither. */
#include "payload.h"

#include <signal.h>

static void answer(int number)
{
    payload_ready(number == SIGUSR1 ? 'u' : 't');
}

int main(void)
{
    struct sigaction action = {.sa_handler = answer, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (fork() < 0 || fork() < 0) /* four of them: the leader, two children, a grandchild */
        return 121;
    payload_ready('r');
    payload_hold();
    return 0;
}
