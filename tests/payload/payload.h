/* What every payload needs: say ready by one byte, and hold until the test lets go. */
#ifndef PAYLOAD_H
#define PAYLOAD_H

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static inline int payload_fd(const char *name)
{
    const char *text = getenv(name);
    return text ? atoi(text) : -1;
}

/* One byte for the test: this process stands where it should. */
static inline void payload_ready(char byte)
{
    if (write(payload_fd("PAYLOAD_READY_FD"), &byte, 1) != 1)
        _exit(120);
}

/* Blocks until the test closes its end, or dies: no payload outlives its test. */
static inline void payload_hold(void)
{
    char byte;
    ssize_t got;
    do
        got = read(payload_fd("PAYLOAD_HOLD_FD"), &byte, 1);
    while (got > 0 || (got < 0 && errno == EINTR));
}

#endif
