/* Ends with 42 by its own handler of SIGTERM; says ready (r) and holds. */
#include "payload.h"

#include <signal.h>

static void on_term(int number)
{
    (void)number;
    _exit(42);
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_term};
    sigaction(SIGTERM, &action, NULL);
    payload_ready('r');
    payload_hold();
    return 0;
}
