/* Leader mode: from a fresh process with a plan to the job. In memory of its own, so it may change credentials and may block. */
#include "program.h"

#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

enum { FD_FIRST = 3, CPU_BYTES_MAX = 1024 };

void spur_stage_send(const struct spur_view *view, spur_stage_t stage, int error)
{
    const spur_stage_record_t record = {(int32_t)stage, error};
    if (view->header->channel_fd >= FD_FIRST)
        (void)send(view->header->channel_fd, &record, sizeof record, MSG_NOSIGNAL);
}

static int result_of(long value)
{
    return value < 0 ? -errno : 0;
}

/* Straight from a spawn the dispositions are the default already; a recorder may have made some of its own. */
static int signals_reset(const struct spur_view *view)
{
    int error = view->header->mode == SPUR_MODE_LEADER ? 0 : spur_child_signals_default();
    return error ? error : spur_child_mask(0, NULL);
}

static int session_begin(const struct spur_view *view)
{
    (void)view;
    return spur_child_session();
}

static int descriptors_wire(const struct spur_view *view)
{
    int error = spur_child_stdio(view->header->stdio_fd);
    return error ? error : spur_child_descriptors(view->header->facilities, view->pass_fds, view->header->pass_fds_count);
}

static int oom_score_adj_set(const struct spur_view *view)
{
    char text[16];
    int value = view->header->oom_score_adj, at = (int)sizeof text;
    unsigned rest = value < 0 ? 0U - (unsigned)value : (unsigned)value;
    if (!(view->header->flags & SPUR_PLAN_HAS_OOM_SCORE_ADJ))
        return 0;
    do {
        text[--at] = (char)('0' + rest % 10);
    } while ((rest /= 10) != 0);
    if (value < 0)
        text[--at] = '-';
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int error = write(fd, text + at, sizeof text - (size_t)at) < 0 ? -errno : 0;
    close(fd);
    return error;
}

static int limits_set(const struct spur_view *view)
{
    for (uint64_t i = 0; i < view->header->limits_count; i++) {
        const spur_plan_limit_t *limit = &view->limits[i];
        const uint64_t wanted[2] = {limit->soft, limit->hard};
        if (syscall(SYS_prlimit64, 0, (int)limit->resource, wanted, NULL) < 0)
            return -errno;
    }
    return 0;
}

/* The kernel quietly drops CPUs that the cpuset forbids: read back, and refuse anything but what was asked for. */
static int affinity_set(const struct spur_view *view)
{
    _Alignas(8) unsigned char is[CPU_BYTES_MAX] = {0}, wanted[CPU_BYTES_MAX] = {0};
    size_t count = view->header->affinity_bytes;
    if (count == 0)
        return 0;
    memcpy(wanted, view->affinity, count);
    if (syscall(SYS_sched_setaffinity, 0, count, wanted) < 0 || syscall(SYS_sched_getaffinity, 0, sizeof is, is) < 0)
        return -errno;
    return memcmp(is, wanted, sizeof is) == 0 ? 0 : -EINVAL;
}

static int umask_set(const struct spur_view *view)
{
    return view->header->flags & SPUR_PLAN_HAS_UMASK ? result_of(syscall(SYS_umask, view->header->umask)) : 0;
}

static int cwd_change(const struct spur_view *view)
{
    if (view->cwd == NULL)
        return 0;
    spur_stage_send(view, SPUR_STAGE_CWD, 0);
    return result_of(chdir(view->cwd));
}

/* O_APPEND, never O_TRUNC: what an earlier attempt wrote stays, and stdout and stderr may share one file. The number is freed first, so
 * that the file lands on it: a limit of three descriptors leaves room for no other. */
static int stdio_open(const struct spur_view *view, int target)
{
    const char *path = view->stdio_path[target];
    if (path == NULL)
        return 0;
    spur_stage_send(view, (spur_stage_t)(SPUR_STAGE_STDIN + target), 0);
    close(target);
    int fd = open(path, O_NOCTTY | (target == 0 ? O_RDONLY : O_WRONLY | O_CREAT | O_APPEND), 0666);
    if (fd < 0)
        return -errno;
    if (fd == target)
        return 0;
    int error = result_of(dup2(fd, target));
    close(fd);
    return error;
}

static int stdin_open(const struct spur_view *view)
{
    return stdio_open(view, 0);
}

static int stdout_open(const struct spur_view *view)
{
    return stdio_open(view, 1);
}

static int stderr_open(const struct spur_view *view)
{
    return stdio_open(view, 2);
}

static int no_new_privs_set(const struct spur_view *view)
{
    return view->header->flags & SPUR_PLAN_NO_NEW_PRIVS ? result_of(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) : 0;
}

/* EOF: whoever held the gate is gone or gave up, so nobody would know of the job. */
static int gate_wait(const struct spur_view *view)
{
    char byte;
    ssize_t length;
    if (view->header->gate_fd < FD_FIRST)
        return 0;
    spur_stage_send(view, SPUR_STAGE_GATE, 0);
    do {
        length = read(view->header->gate_fd, &byte, 1);
    } while (length < 0 && errno == EINTR);
    return length == 1 ? 0 : length == 0 ? -ECANCELED : -errno;
}

/* A program that was just written may still be open for writing in some child that has forked and not yet exec'd, and the user may
 * just now have as many processes as it is allowed (EAGAIN, execve(2)): that passes within milliseconds and is no fault of the
 * job. The pauses add up to half a second. */
static int exec_patiently(const struct spur_view *view)
{
    spur_stage_send(view, SPUR_STAGE_EXEC, 0);
    int error = spur_child_exec(view);
    for (long pause_ns = 1000000; (error == -ETXTBSY || error == -EAGAIN) && pause_ns < 512000000; pause_ns *= 2) {
        const struct timespec pause = {0, pause_ns};
        nanosleep(&pause, NULL);
        error = spur_child_exec(view);
    }
    return error;
}

/* A step that can block announces itself first: a launcher that waits wants to know where. */
static const struct step {
    spur_stage_t stage;
    int (*take)(const struct spur_view *view);
} STEPS[] = {
    {SPUR_STAGE_SIGNALS, signals_reset},
    {SPUR_STAGE_DESCRIPTORS, descriptors_wire},
    {SPUR_STAGE_SESSION, session_begin},
    {SPUR_STAGE_CGROUP, spur_cgroup_enter},
    {SPUR_STAGE_OOM_SCORE_ADJ, oom_score_adj_set},
    {SPUR_STAGE_LIMITS, limits_set},
    {SPUR_STAGE_AFFINITY, affinity_set},
    {SPUR_STAGE_UMASK, umask_set},
    {SPUR_STAGE_GROUPS, spur_groups_set},
    {SPUR_STAGE_GID, spur_gid_set},
    {SPUR_STAGE_UID, spur_uid_set},
    {SPUR_STAGE_CWD, cwd_change},
    {SPUR_STAGE_STDIN, stdin_open},
    {SPUR_STAGE_STDOUT, stdout_open},
    {SPUR_STAGE_STDERR, stderr_open},
    {SPUR_STAGE_NO_NEW_PRIVS, no_new_privs_set},
    {SPUR_STAGE_GATE, gate_wait},
    {SPUR_STAGE_EXEC, exec_patiently},
};

void spur_leader_run(const struct spur_view *view)
{
    for (size_t i = 0; i < sizeof STEPS / sizeof STEPS[0]; i++) {
        int error = STEPS[i].take(view);
        if (error) {
            spur_stage_send(view, STEPS[i].stage, -error);
            break;
        }
    }
    _exit(SPUR_CODE_NO_EXEC);
}
