/* For a set-uid file: becomes root for good, so that its starter may not signal it. Says ready, and holds. */
#define _GNU_SOURCE
#include "payload.h"

int main(void)
{
    if (setresuid(0, 0, 0) < 0)
        return 121;
    payload_ready('r');
    payload_hold();
    return 0;
}
