/* What the parts of the recorder share. */
#ifndef SPUR_RECORDER_H
#define SPUR_RECORDER_H

#include "failpoint.h"
#include "program.h"
#include "record.h"

#include <signal.h>

struct recorder {
    spur_plan_recorder_t plan;
    uint32_t facilities;
    int launcher_fd; /* channel to the launcher */
    int leader_fd;   /* channel from the leader */
    int gate_fd;
    int lock_fd, started_fd, exit_fd, usage_fd;
    int leader_pidfd;
    int leader;
    int64_t started_end;
    spur_vantage_t vantage;
    spur_stage_record_t outcome; /* the leader's last word */
};

struct end {
    siginfo_t info;
    struct rusage usage;
};

static inline int result_of(long value)
{
    return value < 0 ? -errno : (int)value;
}

static inline void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static inline int keeps_records(const struct recorder *recorder)
{
    return recorder->plan.folder_fd >= 0;
}

static inline int launched(const struct recorder *recorder)
{
    return recorder->outcome.stage == SPUR_STAGE_EXEC && recorder->outcome.error == 0;
}

/* run_folder.c: the folder of the run. 0 or -errno. */
int spur_folder_take(struct recorder *recorder);
int spur_folder_identity(struct recorder *recorder, const char *role, int pid, int pidfd);
void spur_folder_note(struct recorder *recorder, const char *word);
void spur_folder_exit(struct recorder *recorder, const struct end *end);

#endif
