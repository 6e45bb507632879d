/* One process with two threads; says ready (t) when both run, and holds. */
#include "payload.h"

#include <pthread.h>

static void *other(void *unused)
{
    (void)unused;
    payload_ready('t');
    payload_hold();
    return NULL;
}

int main(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, other, NULL) != 0)
        return 121;
    pthread_join(thread, NULL);
    return 0;
}
