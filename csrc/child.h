/* What stands between clone and exec, shared by the core and the static program: the plan as pointers, and the steps. */
#ifndef SPUR_CHILD_H
#define SPUR_CHILD_H

#include "spurcore.h"

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* A plan whose offsets were checked and turned into pointers. `header` may be written: a recorder gives its leader another gate. */
struct spur_view {
    spur_plan_t *header;
    char **argv;
    char **envp;
    char **candidates;
    const char *cwd; /* NULL: stay */
    const char *stdio_path[3];
    const uint32_t *groups;
    const spur_plan_limit_t *limits;
    const unsigned char *affinity;
    const int32_t *pass_fds;
};

/* plan.c: checks every offset and count; once only, for it changes the plan in place. -EBADMSG: not a plan. */
int spur_plan_relocate(void *base, size_t size, struct spur_view *ret_view);

/* child.c: each is one step, safe in shared memory after clone: system calls only. */
int spur_child_mask(uint64_t mask, uint64_t *ret_old);
int spur_child_signals_default(void);
int spur_child_session(void);
int spur_child_stdio(const int32_t *fds);
int spur_child_descriptors(uint32_t facilities, const int32_t *keep, size_t count);
int spur_child_exec(const struct spur_view *view);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
