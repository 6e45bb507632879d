/* mortal: the parent of processes whose end somebody else notices. For each byte on stdin it forks one, says its pid on stdout, waits for
 * its end and reaps it at once. The process waits for one more byte, lets its watchers fall asleep, says what time it is and ends. All
 * that it says are 8 bytes of host order; times are CLOCK_MONOTONIC, in nanoseconds. */
#define _GNU_SOURCE
#include <sys/wait.h>
#include <unistd.h>

#include "bare.h"

enum { SETTLE_NS = 5000000 };

static void say(uint64_t value)
{
    (void)!write(1, &value, sizeof value);
}

int main(void)
{
    const struct timespec settle = {0, SETTLE_NS};
    char byte;
    while (read(0, &byte, 1) == 1) {
        pid_t pid = fork();
        if (pid == 0) {
            if (read(0, &byte, 1) != 1)
                _exit(1);
            nanosleep(&settle, NULL);
            say(now_ns());
            _exit(0);
        }
        say((uint64_t)pid);
        waitpid(pid, NULL, 0);
    }
    return 0;
}
