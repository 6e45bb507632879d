/* One signalling pass over the members that one cgroup lists.
 *
 * A number from cgroup.procs may already be somebody else's: it is opened as a pidfd first, and the process that the pidfd holds is
 * asked for its cgroup. Nothing is ever sent to a number. */
#include "spurcore.h"

#include <stdio.h>
#include <string.h>

static uint64_t key_slot(uint64_t key, size_t size)
{
    return ((key * 0x9E3779B97F4A7C15ULL) >> 32) & (size - 1);
}

int spur_seen_has(const spur_seen_t *seen, uint64_t key)
{
    for (size_t slot = key_slot(key, seen->size); seen->keys[slot] != 0; slot = (slot + 1) & (seen->size - 1)) {
        if (seen->keys[slot] == key)
            return 1;
    }
    return 0;
}

int spur_seen_add(spur_seen_t *seen, uint64_t key)
{
    size_t slot = key_slot(key, seen->size);
    if (key == 0 || seen->used + 1 >= seen->size)
        return -ENOSPC; /* one slot stays free, or a search would not end */
    while (seen->keys[slot] != 0 && seen->keys[slot] != key)
        slot = (slot + 1) & (seen->size - 1);
    seen->used += seen->keys[slot] == 0;
    seen->keys[slot] = key;
    return 0;
}

int spur_seen_move(const spur_seen_t *seen, spur_seen_t *grown)
{
    for (size_t slot = 0; slot < seen->size; slot++) {
        int error = seen->keys[slot] ? spur_seen_add(grown, seen->keys[slot]) : 0;
        if (error)
            return error;
    }
    return 0;
}

int spur_member_open(int pid, uint32_t facilities, int *ret_fd)
{
    return facilities & SPUR_FACILITY_PIDFD_OPEN ? spur_pidfd_open(pid, ret_fd) : spur_pidfd_open_folder(pid, ret_fd);
}

/* A number that is never used twice in this boot: the pidfd's inode, else pid and start ticks in one word. */
int spur_member_key(int pidfd, int pid, uint32_t facilities, uint64_t *ret_key)
{
    if ((facilities & SPUR_FACILITY_PIDFS_INODE) && (facilities & SPUR_FACILITY_PIDFD_OPEN))
        return spur_pidfd_inode(pidfd, ret_key);
    spur_procstat_t stat;
    int error = spur_procstat_read(pid, &stat);
    if (error)
        return error;
    *ret_key = (stat.start_ticks << 22) | ((uint64_t)pid & 0x3FFFFF); /* PID_MAX_LIMIT is 2^22 */
    return 0;
}

/* Whether /proc/PATH/cgroup lies in or below the tree's root: 1, 0 or -errno. */
static int path_confirm(spur_sweep_t *sweep, const char *path)
{
    char text[8192];
    const char *found;
    size_t found_length, length = 0;
    ssize_t got;
    if (sweep->tree_path == NULL) {
        sweep->pathless++;
        return -ENODATA;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    while (length < sizeof text && (got = read(fd, text + length, sizeof text - length)) > 0)
        length += (size_t)got;
    close(fd);
    int error = spur_cgroup_path_parse(text, length, &found, &found_length);
    return error ? error : spur_cgroup_path_within(found, found_length, sweep->tree_path);
}

/* Whether the process that `pidfd` holds is a member: 1, 0 or -errno. One that has just moved to a sub-cgroup, or whose main
 * thread stands in a threaded one, is none here and is found there. Where the kernel cannot tell the id, the path decides. */
static int member_confirm(spur_sweep_t *sweep, int pidfd, int pid)
{
    char path[48];
    const uint32_t needed = SPUR_FACILITY_PIDFD_INFO | SPUR_FACILITY_PIDFD_OPEN; /* a /proc/PID folder knows no such question */
    if ((sweep->facilities & needed) == needed) {
        spur_pidfd_facts_t facts;
        int error = spur_pidfd_info(pidfd, &facts);
        if (error)
            return error;
        return facts.cgroup_id == sweep->cgroup_id;
    }
    snprintf(path, sizeof path, "/proc/%d/cgroup", pid);
    return path_confirm(sweep, path);
}

static void refusal_add(spur_sweep_t *sweep, int pid, int error, int reason)
{
    if (sweep->refused < sweep->refusals_capacity)
        sweep->refusals[sweep->refused] = (spur_refusal_t){.pid = pid, .error = error, .reason = reason};
    sweep->refused++;
}

/* What became of one try; -errno only for what stops the pass. */
static int outcome_count(spur_sweep_t *sweep, int pid, uint64_t key, int error)
{
    switch (error) {
    case 0:
        sweep->signalled++;
        return spur_seen_add(sweep->seen, key);
    case -ESRCH:
    case -EINVAL: sweep->gone++; return 0; /* EINVAL: the number is a thread's by now */
    case -EPERM: refusal_add(sweep, pid, EPERM, SPUR_REFUSAL_NOT_PERMITTED); return 0;
    case -ENOSYS: refusal_add(sweep, pid, ENOSYS, SPUR_REFUSAL_UNSUPPORTED); return 0;
    case -EMFILE:
    case -ENFILE:
    case -ENOMEM:
    case -ENOSPC: return error;
    default: refusal_add(sweep, pid, -error, SPUR_REFUSAL_ERROR); return 0;
    }
}

/* A listed process that is not shown to be a member: dead, elsewhere, or not to be looked at. */
static void unconfirmed_count(spur_sweep_t *sweep, int pidfd, int pid, int error)
{
    if (spur_pidfd_unreaped(pidfd, sweep->facilities) == -ESRCH)
        sweep->gone++;
    else if (error == 0)
        sweep->moved++; /* elsewhere: a member that left, or a stranger whose number was a member's */
    else
        refusal_add(sweep, pid, -error, SPUR_REFUSAL_UNCONFIRMED);
}

static int pidfd_signal(spur_sweep_t *sweep, int pidfd, int pid, int confirmed)
{
    uint64_t key;
    int error = spur_member_key(pidfd, pid, sweep->facilities, &key);
    if (error) {
        unconfirmed_count(sweep, pidfd, pid, error);
        return 0;
    }
    if (spur_seen_has(sweep->seen, key)) {
        sweep->known++;
        return 0;
    }
    if (!confirmed)
        confirmed = member_confirm(sweep, pidfd, pid);
    if (confirmed == 1)
        return outcome_count(sweep, pid, key, spur_pidfd_send_signal(pidfd, pid, sweep->signal, sweep->facilities));
    unconfirmed_count(sweep, pidfd, pid, confirmed);
    return 0;
}

/* Pids that are never signalled, whoever lists them: counted, and 1 returned. */
static int pid_refuse(spur_sweep_t *sweep, int pid)
{
    if (spur_pid_guard(pid) == 0)
        return 0;
    if (pid <= 0)
        refusal_add(sweep, pid, EREMOTE, SPUR_REFUSAL_FOREIGN); /* shown as 0: outside the reader's pid namespace */
    else
        refusal_add(sweep, pid, EINVAL, pid == 1 ? SPUR_REFUSAL_INIT : SPUR_REFUSAL_CALLER);
    return 1;
}

static int member_signal(spur_sweep_t *sweep, int pid)
{
    int pidfd;
    if (pid_refuse(sweep, pid))
        return 0;
    int error = spur_member_open(pid, sweep->facilities, &pidfd);
    if (error)
        return outcome_count(sweep, pid, 0, error);
    error = pidfd_signal(sweep, pidfd, pid, 0);
    close(pidfd);
    return error;
}

/* The process of a thread id: "Tgid:" of /proc/TID/status, proc_pid_status(5). */
static int thread_owner(int tid, int *ret_pid)
{
    char path[48], text[4096];
    snprintf(path, sizeof path, "/proc/%d/status", tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? -ESRCH : -errno;
    ssize_t length = read(fd, text, sizeof text - 1);
    int error = length < 0 ? -errno : 0;
    close(fd);
    if (error)
        return error;
    text[length] = '\0';
    const char *line = strstr(text, "\nTgid:\t"); /* the name, in the line before, has its newlines escaped */
    return line != NULL && sscanf(line, "\nTgid:\t%d", ret_pid) == 1 ? 0 : -EBADMSG;
}

/* A process one of whose threads a threaded cgroup lists. The thread is looked up under the held process, so that a thread id that
 * changed hands proves nothing. */
static int thread_signal(spur_sweep_t *sweep, int tid)
{
    char path[64];
    int pid, pidfd;
    if (tid <= 0) {
        refusal_add(sweep, tid, EREMOTE, SPUR_REFUSAL_FOREIGN);
        return 0;
    }
    int error = thread_owner(tid, &pid);
    if (error)
        return outcome_count(sweep, tid, 0, error);
    if (pid_refuse(sweep, pid))
        return 0;
    error = spur_member_open(pid, sweep->facilities, &pidfd);
    if (error)
        return outcome_count(sweep, pid, 0, error);
    snprintf(path, sizeof path, "/proc/%d/task/%d/cgroup", pid, tid);
    int confirmed = path_confirm(sweep, path);
    if (confirmed == 1)
        error = pidfd_signal(sweep, pidfd, pid, 1);
    else if (confirmed == 0 || confirmed == -ENOENT || confirmed == -ESRCH)
        sweep->gone++; /* the thread ended or moved: the next pass tells which */
    else
        unconfirmed_count(sweep, pidfd, pid, confirmed);
    close(pidfd);
    return error;
}

int spur_members_signal(spur_sweep_t *sweep, const int *pids, size_t count)
{
    int error = 0;
    for (size_t i = 0; i < count && error == 0; i++)
        error = sweep->threads ? thread_signal(sweep, pids[i]) : member_signal(sweep, pids[i]);
    return error;
}
