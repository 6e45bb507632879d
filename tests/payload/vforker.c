/* A process that waits in the kernel for its vfork child: state D. The child says ready (v) and holds. vfork(2). */
#define _GNU_SOURCE
#include "payload.h"

int main(void)
{
    pid_t child = vfork();
    if (child < 0)
        return 121;
    if (child == 0) {
        payload_ready('v');
        payload_hold();
        _exit(0);
    }
    return 0;
}
