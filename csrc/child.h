/* What stands between clone and exec, shared by the core and the static program: the plan as pointers, and the steps. */
#ifndef SPUR_CHILD_H
#define SPUR_CHILD_H

#include "clone.h"

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* A plan that was checked, and where its parts are. `header` may be written: a recorder gives its leader another gate. */
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

/* plan.c: checks every count and string, and fills the tables of the plan where they stand. -EBADMSG: not a plan. */
int spur_plan_relocate(void *base, size_t size, struct spur_view *ret_view);

/* child.c: each is one step, safe in shared memory after clone: system calls only. */
int spur_child_mask(uint64_t mask, uint64_t *ret_old);
int spur_child_signals_default(void);
int spur_child_session(void);
int spur_child_stdio(const int32_t *fds);
int spur_child_descriptors(uint32_t facilities, const int32_t *keep, size_t count);
int spur_child_exec(const struct spur_view *view);
uint64_t spur_child_clock_ns(void);

enum { SPUR_STAT_BYTES = 1024 };

/* What child and parent share: written by one, read by the other after it was released. Lies in MAP_SHARED memory where the child is
 * a plain fork. */
struct spur_report {
    volatile int32_t stage; /* the last one begun */
    volatile int32_t error; /* what ended it there, an errno */
    volatile int32_t pid, pidfd;
    volatile int32_t ended, wait_status; /* set by an intermediate that has reaped the child */
    volatile uint64_t before_ns;   /* CLOCK_BOOTTIME right before the child's clone */
    volatile uint64_t clock_ticks; /* its start in ticks by that clock; 0: a tick passed meanwhile */
    volatile int32_t stat_length;
    char stat[SPUR_STAT_BYTES]; /* the child's own /proc/self/stat: read before anybody can reap it */
};

/* Ready made before the clone; the child only reads it. */
struct spur_child {
    const struct spur_view *view;
    int32_t program_fd; /* exec the static program, which carries the plan out; -1: exec the job at once */
    int32_t plan_fd;    /* where the program finds the plan */
    char *const *program_argv;
    int32_t read_stat; /* read it in any case */
    struct spur_report *report;
};

/* Ready made too: an intermediate clones the child and ends, so that the child belongs to init or the nearest subreaper. */
struct spur_intermediate {
    struct spur_clone *how;
    uint32_t facilities;
    struct spur_report *report;
};

int spur_child_run(void *child);
int spur_child_intermediate(void *intermediate);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
