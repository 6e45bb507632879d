/* A process named for good: its number, start ticks, boot, namespaces and, where there is one, the inode of its pidfd. */
#include "spurcore.h"

#include <string.h>

/* The descriptor that the reader's rung uses for process `pid`. */
static int holder_open(const spur_reader_t *reader, int pid, int *ret_fd)
{
    if (reader->facilities & SPUR_FACILITY_PIDFD_OPEN)
        return spur_pidfd_open(pid, ret_fd);
    return reader->procfs_is_ours ? spur_pidfd_open_folder(pid, ret_fd) : -EXDEV;
}

static int holder_poll(const spur_reader_t *reader, int fd)
{
    return reader->facilities & SPUR_FACILITY_PIDFD_OPEN ? spur_pidfd_poll(fd) : spur_pidfd_poll_folder(fd);
}

/* The stat of the process that `fd` holds, not of a later one under its number. -ESRCH: it is reaped; -EACCES: it is hidden. */
static int holder_stat(const spur_reader_t *reader, int fd, int pid, spur_procstat_t *ret_stat)
{
    spur_procstat_t stat;
    if (!(reader->facilities & SPUR_FACILITY_PIDFD_OPEN))
        return spur_procstat_read_at(fd, ret_stat);
    int error = spur_procstat_read(pid, &stat);
    int reaped = spur_pidfd_unreaped(fd, reader->facilities);
    if (reaped)
        return reaped;
    if (error == -ENOENT || error == -ESRCH || error == -EPERM)
        return -EACCES; /* it is there, and hidepid veils it */
    if (error == 0)
        *ret_stat = stat;
    return error;
}

int spur_identity_take(const spur_reader_t *reader, int fd, int pid, spur_subject_t *ret_identity)
{
    spur_procstat_t stat;
    spur_subject_t identity;
    memset(&identity, 0, sizeof identity);
    if (!reader->procfs_is_ours)
        return -EXDEV;
    int error = holder_stat(reader, fd, pid, &stat);
    if (error)
        return error;
    if (reader->facilities & SPUR_FACILITY_PIDFS_INODE)
        error = spur_pidfd_inode(fd, &identity.inode);
    if (error)
        return error;
    identity.kind = SPUR_SUBJECT_IDENTITY;
    identity.number = pid;
    identity.start_ticks = stat.start_ticks;
    identity.pid_namespace = reader->pid_namespace;
    identity.time_namespace = reader->time_namespace;
    memcpy(identity.boot_id, reader->boot_id, sizeof identity.boot_id);
    *ret_identity = identity;
    return 0;
}

int spur_identity_of(const spur_reader_t *reader, int pid, spur_subject_t *ret_identity)
{
    int fd, error = holder_open(reader, pid, &fd);
    if (error)
        return error;
    error = spur_identity_take(reader, fd, pid, ret_identity);
    close(fd);
    return error;
}

static int told(spur_observation_t *seen, int liveness, int evidence, int error)
{
    seen->liveness = liveness;
    seen->evidence = evidence;
    seen->error = -error;
    return liveness;
}

/* Rung of 6.14: the inode alone finds the process, or proves that there is none. */
static int open_by_handle(const spur_subject_t *identity, int same_namespace, int *ret_fd, spur_observation_t *seen)
{
    int error = spur_pidfd_open_handle(identity->inode, ret_fd);
    if (error == 0)
        return told(seen, SPUR_ALIVE, SPUR_EVIDENCE_HANDLE, 0);
    if (error == -ESTALE && same_namespace)
        return told(seen, SPUR_GONE, SPUR_EVIDENCE_HANDLE, 0);
    /* From another namespace a live process is ESTALE too. */
    return told(seen, SPUR_UNKNOWN, error == -ESTALE ? SPUR_EVIDENCE_PID_NAMESPACE : SPUR_EVIDENCE_ERROR, error);
}

/* Rung of 6.9: whoever has the number now, compared by inode. */
static int compare_inode(const spur_subject_t *identity, int fd, spur_observation_t *seen)
{
    uint64_t inode;
    int error = spur_pidfd_inode(fd, &inode);
    if (error)
        return told(seen, SPUR_UNKNOWN, SPUR_EVIDENCE_ERROR, error);
    return told(seen, inode == identity->inode ? SPUR_ALIVE : SPUR_GONE, SPUR_EVIDENCE_PIDFS_INODE, 0);
}

/* Lowest rung: start ticks, which mean something only in the time namespace and through the procfs that they came from. */
static int compare_ticks(const spur_reader_t *reader, const spur_subject_t *identity, int fd, spur_observation_t *seen)
{
    spur_procstat_t stat;
    if (reader->time_namespace != identity->time_namespace)
        return told(seen, SPUR_UNKNOWN, SPUR_EVIDENCE_TIME_NAMESPACE, 0);
    if (!reader->procfs_is_ours)
        return told(seen, SPUR_UNKNOWN, SPUR_EVIDENCE_PROCFS, 0);
    int error = holder_stat(reader, fd, identity->number, &stat);
    if (error == -ESRCH)
        return told(seen, SPUR_GONE, SPUR_EVIDENCE_ESRCH, 0);
    if (error)
        return told(seen, SPUR_UNKNOWN, error == -EACCES ? SPUR_EVIDENCE_HIDDEN : SPUR_EVIDENCE_ERROR, error);
    return told(seen, stat.start_ticks == identity->start_ticks ? SPUR_ALIVE : SPUR_GONE, SPUR_EVIDENCE_TICKS, 0);
}

/* Whoever holds the number now, opened and compared with the identity. */
static int open_by_number(const spur_reader_t *reader, const spur_subject_t *identity, int *ret_fd, spur_observation_t *seen)
{
    int error = holder_open(reader, identity->number, ret_fd);
    if (error == -ESRCH)
        return told(seen, SPUR_GONE, SPUR_EVIDENCE_ESRCH, 0);
    if (error == -EINVAL) /* the number is a thread's now, so it is no longer this process's */
        return told(seen, SPUR_GONE, SPUR_EVIDENCE_THREAD, 0);
    if (error)
        return told(seen, SPUR_UNKNOWN, error == -EACCES ? SPUR_EVIDENCE_HIDDEN : SPUR_EVIDENCE_ERROR, error);
    int by_inode = identity->inode != 0 && reader->facilities & SPUR_FACILITY_PIDFS_INODE;
    int liveness = by_inode ? compare_inode(identity, *ret_fd, seen) : compare_ticks(reader, identity, *ret_fd, seen);
    if (liveness != SPUR_ALIVE)
        close(*ret_fd);
    return liveness;
}

static int identity_open(const spur_reader_t *reader, const spur_subject_t *identity, int *ret_fd, spur_observation_t *seen)
{
    int same_namespace = reader->pid_namespace == identity->pid_namespace;
    if (reader->pid_namespace == 0) /* it does not know where it stands, its boot neither */
        return told(seen, SPUR_UNKNOWN, SPUR_EVIDENCE_ERROR, 0);
    if (memcmp(reader->boot_id, identity->boot_id, sizeof identity->boot_id) != 0)
        return told(seen, SPUR_GONE, SPUR_EVIDENCE_BOOT, 0);
    if (identity->inode != 0 && reader->facilities & SPUR_FACILITY_PIDFS_HANDLE)
        return open_by_handle(identity, same_namespace, ret_fd, seen);
    if (!same_namespace)
        return told(seen, SPUR_UNKNOWN, SPUR_EVIDENCE_PID_NAMESPACE, 0);
    return open_by_number(reader, identity, ret_fd, seen);
}

int spur_identity_open(const spur_reader_t *reader, const char *subject, int *ret_fd, spur_observation_t *ret_seen)
{
    spur_subject_t identity;
    memcpy(&identity, subject, sizeof identity); /* bytes of the caller: of no alignment */
    return identity_open(reader, &identity, ret_fd, ret_seen);
}

int spur_identity_observe(const spur_reader_t *reader, const char *subject, spur_observation_t *ret_seen)
{
    int fd, liveness = spur_identity_open(reader, subject, &fd, ret_seen);
    if (liveness != SPUR_ALIVE)
        return liveness;
    int state = holder_poll(reader, fd);
    close(fd);
    if (state < 0)
        return told(ret_seen, SPUR_UNKNOWN, SPUR_EVIDENCE_ERROR, state);
    return state ? told(ret_seen, SPUR_GONE, SPUR_EVIDENCE_ZOMBIE, 0) : SPUR_ALIVE;
}

int spur_identity_liveness(const spur_reader_t *reader, const char *subject)
{
    spur_observation_t seen;
    return spur_identity_observe(reader, subject, &seen);
}
