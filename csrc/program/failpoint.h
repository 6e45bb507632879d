/* Named points at which a test build of the recorder stops itself (SIGSTOP), for the test to kill whom it likes right there.
 * The shipped program is built without SPUR_FAILPOINT and has none of them. */
#ifndef SPUR_FAILPOINT_H
#define SPUR_FAILPOINT_H

#ifdef SPUR_FAILPOINT
#include <signal.h>
enum {
    SPUR_AT_BEGIN = 1,
    SPUR_AT_NAMED,
    SPUR_AT_LOCKED,
    SPUR_AT_CLONED,
    SPUR_AT_STARTED,
    SPUR_AT_GATE_OPENED,
    SPUR_AT_CONFIRMED,
    SPUR_AT_LAUNCHED,
    SPUR_AT_ENDED,
    SPUR_AT_WRITTEN,
    SPUR_AT_PUBLISHED,
    SPUR_AT_REAPED
};
#define SPUR_POINT(name) ((void)(SPUR_AT_##name == SPUR_FAILPOINT && raise(SIGSTOP)))
#else
#define SPUR_POINT(name) ((void)0)
#endif

#endif
