/* Recorder mode: start the job at a gate, wait for it, write down how it ended, end as it did.
 *
 * It stands outside the job's process group, session and cgroup, with every signal blocked: nothing but SIGKILL ends it before the
 * job has ended. Without a folder (folder_fd -1) it is a keeper: it writes nothing and tells its launcher over the channel. */
#include "recorder.h"

#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { CODE_GAVE_UP = 125, CODE_NO_EXEC = 127, FD_FIRST = 3, BLOCKED_MS = 20, COMMIT_MS = 10000 };

static void report(const struct recorder *recorder, int kind, int value)
{
    const spur_stage_record_t record = {kind, value};
    (void)send(recorder->launcher_fd, &record, sizeof record, MSG_NOSIGNAL);
}

static int readable(int fd, int timeout_ms)
{
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    return poll(&entry, 1, timeout_ms) > 0;
}

static _Noreturn void give_up(const struct recorder *recorder, spur_stage_t stage, int error)
{
    report(recorder, (int)stage, -error);
    report(recorder, SPUR_REPORT_NOT_STARTED, 0);
    _exit(CODE_GAVE_UP);
}

/* Born there, or moved by its own hand: it must not end with its launcher's cgroup. */
static int settle_in(struct recorder *recorder)
{
    struct stat facts;

    if (recorder->plan.home_fd < 0)
        return 0;
    int error = result_of(fstat(recorder->plan.home_fd, &facts));
    if (error == 0)
        error = spur_cgroup_join(recorder->facilities, recorder->plan.home_fd, facts.st_ino);
    close_fd(&recorder->plan.home_fd);
    return error;
}

static int stand_apart(struct recorder *recorder)
{
    int error = spur_child_signals_default();
    if (error == 0)
        error = spur_child_mask(~0ULL, NULL);
    if (error == 0)
        error = spur_child_session();
    if (error == 0 && recorder->plan.containment == SPUR_CONTAINMENT_DESCENDANTS)
        error = result_of(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0));
    if (error || !keeps_records(recorder))
        return error;
    return spur_folder_take(recorder);
}

/* A copy of this process in the job's cgroup; 0 in the copy. Without clone3 the copy joins by itself: leader mode sees to that. */
static int clone_leader(struct recorder *recorder, int cgroup_fd, int *ret_pidfd)
{
    struct spur_clone_args args = {.flags = SPUR_CLONE_PIDFD, .exit_signal = SIGCHLD};

    args.pidfd = (uint64_t)(uintptr_t)ret_pidfd;
    if (cgroup_fd >= 0 && recorder->facilities & SPUR_FACILITY_CLONE_INTO_CGROUP) {
        args.flags |= SPUR_CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)cgroup_fd;
    }
    if (recorder->facilities & SPUR_FACILITY_CLONE3)
        return result_of(syscall(SPUR_SYS_CLONE3, &args, sizeof args));
    /* The older call gives a pidfd as well, in place of the parent's tid (5.2): a sandbox that refuses clone3 refuses pidfd_open too. */
    return result_of(syscall(SYS_clone, (unsigned long)(SPUR_CLONE_PIDFD | SIGCHLD), NULL, ret_pidfd, NULL, NULL));
}

/* The copy must not hold the other ends: its own gate would never say EOF. */
static _Noreturn void become_leader(const struct spur_view *view, const int *channel, const int *gate)
{
    close(channel[0]);
    close(gate[1]);
    view->header->channel_fd = channel[1];
    view->header->gate_fd = gate[0];
    spur_leader_run(view);
}

static int start_once(struct recorder *recorder, const struct spur_view *view)
{
    int channel[2], gate[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel) < 0 || pipe2(gate, O_CLOEXEC) < 0)
        return -errno;
    recorder->leader = clone_leader(recorder, view->header->cgroup_fd, &recorder->leader_pidfd);
    if (recorder->leader == 0)
        become_leader(view, channel, gate);
    close(channel[1]);
    close(gate[0]);
    recorder->leader_fd = channel[0];
    recorder->gate_fd = gate[1];
    return recorder->leader < 0 ? recorder->leader : 0;
}

/* A leader speaks before it first can block. */
static int died_at_birth(const struct recorder *recorder)
{
    char byte;
    return recv(recorder->leader_fd, &byte, 1, MSG_PEEK) == 0;
}

static void reap(int pid)
{
    siginfo_t info;
    (void)waitid(P_PID, (id_t)pid, &info, WEXITED);
}

/* When this returns the leader has joined its cgroup or failed to: a name in `started` is the name of a member. The kernel kills a
 * child on its way from a cgroup that was killed more or less often than the one it is born in: then it joins by hand. */
static int start_leader(struct recorder *recorder, const struct spur_view *view)
{
    int error = start_once(recorder, view);

    if (error || view->header->cgroup_fd < 0 || !died_at_birth(recorder))
        return error;
    if (!(recorder->facilities & SPUR_FACILITY_CLONE_INTO_CGROUP))
        return 0;
    reap(recorder->leader);
    close_fd(&recorder->leader_fd);
    close_fd(&recorder->gate_fd);
    close_fd(&recorder->leader_pidfd);
    recorder->facilities &= ~(uint32_t)SPUR_FACILITY_CLONE_INTO_CGROUP;
    return start_once(recorder, view);
}

/* Nothing of ours may stand between the job and its output, and the plan may be large. */
static void drop_plan(const struct spur_view *view)
{
    spur_plan_t *plan = view->header;

    for (int i = 0; i < FD_FIRST; i++) {
        close(i);
        close_fd(&plan->stdio_fd[i]);
    }
    for (uint64_t i = 0; i < plan->pass_fds_count; i++)
        close(view->pass_fds[i]);
    close_fd(&plan->cgroup_fd);
    (void)chdir("/");
    munmap(plan, plan->size);
}

/* The launcher holds the leader before it can have ended, so it can name it and, later, ask how it ended. */
static void report_leader(const struct recorder *recorder)
{
    const spur_stage_record_t record = {SPUR_REPORT_LEADER, recorder->leader};
    struct iovec part = {(void *)(uintptr_t)&record, sizeof record};
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr aligned;
    } control;
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);

    memset(&control, 0, sizeof control);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(rights), &recorder->leader_pidfd, sizeof(int));
    (void)sendmsg(recorder->launcher_fd, &message, MSG_NOSIGNAL);
}


/* What the leader says until it execs, fails or dies. The launcher is told of a stage only where it blocks: each word wakes it. Not of
 * the exec: to the launcher that word means that it has come about. */
static void follow_leader(struct recorder *recorder)
{
    spur_stage_record_t record;

    for (;;) {
        if (!readable(recorder->leader_fd, BLOCKED_MS) && recorder->outcome.stage != SPUR_STAGE_EXEC)
            report(recorder, recorder->outcome.stage, 0);
        if (recv(recorder->leader_fd, &record, sizeof record, MSG_WAITALL) != (ssize_t)sizeof record)
            break;
        recorder->outcome = record;
    }
    close_fd(&recorder->leader_fd);
}

/* Not reaped: until the end is on disk the zombie is its only witness. */
static int wait_any(const struct recorder *recorder, struct end *ret_end)
{
    int any = recorder->plan.containment == SPUR_CONTAINMENT_DESCENDANTS;

    memset(ret_end, 0, sizeof *ret_end);
    return result_of(syscall(SYS_waitid, any ? P_ALL : P_PID, any ? 0 : recorder->leader, &ret_end->info, WEXITED | WNOWAIT,
                             &ret_end->usage));
}

static void record_usage(struct recorder *recorder, const struct end *end)
{
    char line[SPUR_RECORD_LINE_BYTES] = {0};
    spur_text_t text = {line, sizeof line, 0};
    int64_t offset = 0;

    spur_record_usage(&text, recorder->plan.nonce, &end->usage);
    if (keeps_records(recorder))
        (void)spur_record_append(recorder->usage_fd, &offset, &text);
    else
        (void)send(recorder->launcher_fd, line, sizeof line, MSG_NOSIGNAL);
}

/* As wait(2) would have put it. */
static int wait_status(const siginfo_t *info)
{
    int core = info->si_code == CLD_DUMPED ? 0x80 : 0;
    return info->si_code == CLD_EXITED ? info->si_status << 8 : info->si_status | core;
}

static void settle(struct recorder *recorder, const struct end *end)
{
    SPUR_POINT(ENDED);
    if (!launched(recorder)) {
        report(recorder, recorder->outcome.stage, recorder->outcome.error);
        report(recorder, SPUR_REPORT_NOT_STARTED, 0);
    } else if (!keeps_records(recorder)) {
        report(recorder, SPUR_REPORT_ENDED, wait_status(&end->info));
    }
    if (keeps_records(recorder) || launched(recorder))
        record_usage(recorder, end);
    if (keeps_records(recorder))
        spur_folder_exit(recorder, end);
}

/* Until the leader has ended and, as a subreaper, until nobody is left: ECHILD proves it. */
static void wait_all(struct recorder *recorder, siginfo_t *ret_info)
{
    struct end end;
    int error;

    while ((error = wait_any(recorder, &end)) == 0 || error == -EINTR) {
        if (error)
            continue;
        int is_leader = end.info.si_pid == recorder->leader;
        if (is_leader) {
            settle(recorder, &end);
            *ret_info = end.info;
        }
        reap(end.info.si_pid);
        if (is_leader) {
            recorder->leader = 0; /* its number may be a later descendant's now */
            SPUR_POINT(REAPED);
        }
    }
    if (error != -ECHILD)
        return;
    if (recorder->plan.containment == SPUR_CONTAINMENT_DESCENDANTS)
        spur_folder_note(recorder, "empty");
    if (!keeps_records(recorder))
        report(recorder, SPUR_REPORT_EMPTY, 0);
}

/* Same code, or the same signal with its own core off, for whoever watches this process instead of the record. */
static _Noreturn void end_like(const siginfo_t *info)
{
    const uint64_t none[2] = {0, 0};

    if (info->si_code == CLD_EXITED)
        _exit(info->si_status);
    (void)syscall(SYS_prlimit64, 0, RLIMIT_CORE, none, NULL);
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    (void)raise(info->si_status);
    (void)spur_child_mask(~(1ULL << (info->si_status - 1)), NULL);
    _exit(128 + info->si_status);
}

/* One byte from a launcher that holds us by now, and so undoes a launch that is interrupted. Nothing has run, and no leader is named, if
 * it never comes: the launcher has died or thought better of it. Bounded, as a fork of it may hold its end open. */
static int await_commit(const struct recorder *recorder)
{
    char byte;
    return readable(recorder->launcher_fd, COMMIT_MS) && recv(recorder->launcher_fd, &byte, 1, 0) == 1 ? 0 : -ECANCELED;
}

static void open_gate(struct recorder *recorder)
{
    (void)!write(recorder->gate_fd, "", 1); /* a leader that failed before has closed it; SIGPIPE is blocked */
    close_fd(&recorder->gate_fd);
}

void spur_recorder_run(const struct spur_view *view)
{
    struct recorder recorder = {.plan = view->header->recorder,
                                .facilities = view->header->facilities,
                                .launcher_fd = view->header->channel_fd,
                                .lock_fd = -1,
                                .leader_pidfd = -1};
    siginfo_t info = {.si_code = CLD_EXITED, .si_status = CODE_NO_EXEC};

    SPUR_POINT(BEGIN);
    int error = settle_in(&recorder);
    if (error)
        give_up(&recorder, SPUR_STAGE_CGROUP, error);
    error = stand_apart(&recorder);
    if (error)
        give_up(&recorder, SPUR_STAGE_RECORDER, error);
    SPUR_POINT(LOCKED);
    error = start_leader(&recorder, view);
    if (error) /* a full process table says EAGAIN; else it is the cgroup that nobody can be born in */
        give_up(&recorder, view->header->cgroup_fd < 0 || error == -EAGAIN ? SPUR_STAGE_CLONE : SPUR_STAGE_CGROUP, error);
    SPUR_POINT(CLONED);
    drop_plan(view);
    error = await_commit(&recorder);
    if (error == 0 && keeps_records(&recorder))
        error = spur_folder_identity(&recorder, "leader", recorder.leader, recorder.leader_pidfd);
    if (error)
        give_up(&recorder, SPUR_STAGE_RECORDER, error); /* the gate closes with us: the job never ran */
    report_leader(&recorder);
    close_fd(&recorder.leader_pidfd);
    SPUR_POINT(STARTED);
    open_gate(&recorder);
    SPUR_POINT(GATE_OPENED);
    follow_leader(&recorder);
    SPUR_POINT(CONFIRMED);
    if (launched(&recorder)) {
        spur_folder_note(&recorder, "launched");
        report(&recorder, SPUR_STAGE_EXEC, 0);
        if (keeps_records(&recorder))
            close_fd(&recorder.launcher_fd); /* the record says the rest */
    }
    SPUR_POINT(LAUNCHED);
    wait_all(&recorder, &info);
    end_like(&info);
}
