/* spurproc-exec: one static program, two modes. */
#ifndef SPUR_PROGRAM_H
#define SPUR_PROGRAM_H

#include "../child.h"

/* leader.c: take every step of the plan and become the job; a failure goes to header->channel_fd and ends with code 127.
 * A recorder calls it in its own child, after it has set header->channel_fd and header->gate_fd to that child's own. */
_Noreturn void spur_leader_run(const struct spur_view *view);

/* One stage record to the channel: {stage, error}, error 0 for "about to". Never raises SIGPIPE; a launcher that is gone is fine. */
void spur_stage_send(const struct spur_view *view, spur_stage_t stage, int error);

/* membership.c and credentials.c: steps of the leader, 0 or -errno */
int spur_cgroup_enter(const struct spur_view *view);
int spur_cgroup_join(uint32_t facilities, int cgroup_fd, uint64_t inode);
int spur_groups_set(const struct spur_view *view);
int spur_gid_set(const struct spur_view *view);
int spur_uid_set(const struct spur_view *view);

/* recorder.c */
_Noreturn void spur_recorder_run(const struct spur_view *view);

#endif
