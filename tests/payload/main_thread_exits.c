/* A zombie leader with a live thread: the main thread ends, the other says ready and holds. */
#include "payload.h"

#include <pthread.h>

static pthread_t main_thread;

static void *other(void *unused)
{
    (void)unused;
    pthread_join(main_thread, NULL); /* returns when the kernel has cleared its tid */
    payload_ready('t');
    payload_hold();
    exit(7);
}

int main(void)
{
    pthread_t thread;
    main_thread = pthread_self();
    if (pthread_create(&thread, NULL, other, NULL) != 0)
        return 121;
    pthread_exit(NULL);
}
