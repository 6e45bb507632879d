/* A zombie leader with a live thread: the main thread ends, the other says ready and holds. */
#include "payload.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

static pthread_t main_thread;

/* Field 3 of the main thread's stat is Z. proc_pid_stat(5). */
static int main_thread_is_zombie(void)
{
    char text[256] = "";
    int fd = open("/proc/self/stat", O_RDONLY);
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    return got > 0 && strstr(text, ") Z ") != NULL;
}

static void *other(void *unused)
{
    (void)unused;
    pthread_join(main_thread, NULL);
    while (!main_thread_is_zombie()) /* the join returns a moment earlier: when the kernel has cleared its tid */
        sched_yield();
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
