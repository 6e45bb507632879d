/* The recorder's side of the run's folder: whose it is, what is noted in it, and the record of the end. */
#include "recorder.h"

#include <sys/file.h>

/* The launcher's lock may live on in a child that it forks, so ours is another open file description. Both are shared locks, and ours is
 * taken before the launcher's is let go: whoever wants it for itself, to conclude that nobody writes any more, never finds a gap. */
static int lock_take(struct recorder *recorder)
{
    int fd = result_of(openat(recorder->plan.folder_fd, "lock", O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (fd < 0)
        return fd;
    recorder->lock_fd = fd;
    if (flock(fd, LOCK_SH | LOCK_NB) < 0 || flock(recorder->plan.lock_fd, LOCK_UN) < 0)
        return -errno;
    close_fd(&recorder->plan.lock_fd);
    return 0;
}

/* Everything that can fail for want of something is opened before the job starts. */
static int files_open(struct recorder *recorder)
{
    const int flags = O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, folder = recorder->plan.folder_fd;

    recorder->started_fd = result_of(openat(folder, "started", flags));
    recorder->exit_fd = result_of(openat(folder, "exit.tmp", flags));
    recorder->usage_fd = result_of(openat(folder, "usage", flags));
    if (recorder->started_fd < 0)
        return recorder->started_fd;
    if (recorder->exit_fd < 0)
        return recorder->exit_fd;
    return recorder->usage_fd < 0 ? recorder->usage_fd : spur_record_vantage(&recorder->vantage);
}

/* 0 where this kernel gives pidfds no inode of their own. */
static uint64_t pidfd_inode(const struct recorder *recorder, int pidfd)
{
    struct stat facts;
    return recorder->facilities & SPUR_FACILITY_PIDFS_INODE && fstat(pidfd, &facts) == 0 ? facts.st_ino : 0;
}

int spur_folder_identity(struct recorder *recorder, const char *role, int pid, int pidfd)
{
    char line[SPUR_RECORD_LINE_BYTES];
    spur_text_t text = {line, sizeof line, 0};
    spur_procstat_t stat;
    int error = spur_procstat_read(pid, &stat);

    if (error < 0)
        return error;
    spur_record_identity(&text, role, pid, stat.start_ticks, pidfd_inode(recorder, pidfd), &recorder->vantage);
    return spur_record_append(recorder->started_fd, &recorder->started_end, &text);
}

void spur_folder_note(struct recorder *recorder, const char *word)
{
    char line[SPUR_RECORD_LINE_BYTES];
    spur_text_t text = {line, sizeof line, 0};

    if (!keeps_records(recorder))
        return;
    spur_text_add(&text, word);
    spur_text_add(&text, "\n");
    (void)spur_record_append(recorder->started_fd, &recorder->started_end, &text);
}

/* Where pidfds have no inode, or pidfd_open is refused, start ticks alone tell it apart: the record says "-", a weaker name. */
static int name_self(struct recorder *recorder)
{
    int pidfd = -1;

    if (recorder->facilities & SPUR_FACILITY_PIDFS_INODE)
        pidfd = result_of(syscall(SPUR_SYS_PIDFD_OPEN, getpid(), 0));
    if (recorder->facilities & SPUR_FACILITY_PIDFS_INODE && pidfd < 0)
        return pidfd;
    int error = spur_folder_identity(recorder, "recorder", getpid(), pidfd);
    close_fd(&pidfd);
    return error;
}

int spur_folder_take(struct recorder *recorder)
{
    int error = files_open(recorder);

    if (error == 0)
        error = name_self(recorder);
    SPUR_POINT(NAMED);
    return error ? error : lock_take(recorder);
}

void spur_folder_exit(struct recorder *recorder, const struct end *end)
{
    char line[SPUR_RECORD_EXIT_BYTES];
    spur_text_t text = {line, sizeof line, 0};

    if (launched(recorder))
        spur_record_ended(&text, recorder->plan.nonce, end->info.si_code, end->info.si_status);
    else
        spur_record_not_started(&text, recorder->plan.nonce, recorder->outcome.stage, recorder->outcome.error);
    int error = spur_record_write(recorder->exit_fd, &text);
    SPUR_POINT(WRITTEN);
    if (error == 0)
        error = spur_record_publish(recorder->plan.folder_fd);
    if (error)
        spur_folder_note(recorder, "unrecorded");
    SPUR_POINT(PUBLISHED);
}
