/* The face of the C core: read by the compiler (through spurcore.h) and by cffi. Typedefs, enums and prototypes only.
 *
 * Every function returns 0 (or a count) on success and -errno on failure; outputs are named ret_* and are written on success
 * only. The caller supplies all memory; every descriptor is born close-on-exec. `facilities` is a set of SPUR_FACILITY_ bits:
 * a function uses what is in the set and nothing else. */

typedef enum {
    SPUR_FACILITY_PIDFD_OPEN = 1,
    SPUR_FACILITY_PIDFD_SEND_SIGNAL = 2,
    SPUR_FACILITY_PIDFS_INODE = 4,
    SPUR_FACILITY_PIDFS_HANDLE = 8,
    SPUR_FACILITY_PIDFD_INFO = 16,
    SPUR_FACILITY_PIDFD_EXIT_INFO = 32,
    SPUR_FACILITY_CLONE3 = 64,
    SPUR_FACILITY_CLONE_INTO_CGROUP = 128,
    SPUR_FACILITY_CGROUP_KILL = 256,
    SPUR_FACILITY_CLOSE_RANGE = 512,
    SPUR_FACILITY_PIDFD_PROCESS_GROUP = 1024,
    SPUR_FACILITY_WAITID_PIDFD = 2048
} spur_facility_t;

/* The order of the bits: index n stands for bit 1 << n. */
typedef enum {
    SPUR_FACILITY_INDEX_PIDFD_OPEN,
    SPUR_FACILITY_INDEX_PIDFD_SEND_SIGNAL,
    SPUR_FACILITY_INDEX_PIDFS_INODE,
    SPUR_FACILITY_INDEX_PIDFS_HANDLE,
    SPUR_FACILITY_INDEX_PIDFD_INFO,
    SPUR_FACILITY_INDEX_PIDFD_EXIT_INFO,
    SPUR_FACILITY_INDEX_CLONE3,
    SPUR_FACILITY_INDEX_CLONE_INTO_CGROUP,
    SPUR_FACILITY_INDEX_CGROUP_KILL,
    SPUR_FACILITY_INDEX_CLOSE_RANGE,
    SPUR_FACILITY_INDEX_PIDFD_PROCESS_GROUP,
    SPUR_FACILITY_INDEX_WAITID_PIDFD,
    SPUR_FACILITY_COUNT
} spur_facility_index_t;

/* ---- facilities.c: what this host lets us do */

/* Tries everything but cgroup.kill; SPUR_FACILITY_COUNT entries: 0 where present, else the errno that refused it. */
int spur_facilities_probe(int *ret_errors);

/* ---- what is asked about: one process or one cgroup, in one fixed size, so that a thousand of them are one call */

typedef enum { SPUR_SUBJECT_NONE, SPUR_SUBJECT_IDENTITY, SPUR_SUBJECT_PIDFD, SPUR_SUBJECT_FOLDER, SPUR_SUBJECT_CGROUP } spur_subject_kind_t;

typedef struct {
    uint32_t kind;  /* SPUR_SUBJECT_ */
    int32_t number; /* pid, or the open descriptor */
    uint64_t start_ticks;
    uint64_t inode; /* of the pidfd or of the cgroup; 0: none */
    uint64_t pid_namespace;
    uint64_t time_namespace;
    uint8_t boot_id[16];
} spur_subject_t;

/* Who asks: from another boot, namespace or procfs the same numbers mean something else. */
typedef struct {
    uint64_t pid_namespace; /* 0: unknown, and with it everything that identities are compared by */
    uint64_t time_namespace;
    uint8_t boot_id[16];
    uint32_t facilities;
    uint32_t procfs_is_ours; /* /proc shows the reader's own pid namespace */
} spur_reader_t;

typedef enum { SPUR_UNKNOWN, SPUR_ALIVE, SPUR_GONE } spur_liveness_t;

typedef enum {
    SPUR_EVIDENCE_ERROR,
    SPUR_EVIDENCE_BOOT,
    SPUR_EVIDENCE_HANDLE,
    SPUR_EVIDENCE_PIDFS_INODE,
    SPUR_EVIDENCE_TICKS,
    SPUR_EVIDENCE_ESRCH,
    SPUR_EVIDENCE_THREAD,
    SPUR_EVIDENCE_ZOMBIE,
    SPUR_EVIDENCE_HIDDEN,
    SPUR_EVIDENCE_PID_NAMESPACE,
    SPUR_EVIDENCE_TIME_NAMESPACE,
    SPUR_EVIDENCE_PROCFS
} spur_evidence_t;

typedef struct {
    int liveness;
    int evidence;
    int error; /* errno behind SPUR_UNKNOWN, else 0 */
} spur_observation_t;

/* ---- pidfd.c: a process held by a descriptor */

typedef enum { SPUR_PIDFD_ENDED = 1, SPUR_PIDFD_REAPED = 2 } spur_pidfd_state_t;

/* A wait status in the form of wait(2), and the usage of the reaped process with that of its own reaped children. */
typedef struct {
    int status;
    uint64_t user_usec;
    uint64_t system_usec;
    uint64_t max_rss_bytes;
    uint64_t minor_faults;
    uint64_t major_faults;
    uint64_t voluntary_switches;
    uint64_t involuntary_switches;
} spur_waited_t;

typedef struct {
    int pid; /* 0: the kernel no longer names it */
    int has_status;
    int status;
    uint64_t cgroup_id;
} spur_pidfd_facts_t;

/* -ECANCELED for a number that no signal may go to: <= 1 and the caller itself. */
int spur_pid_guard(int pid);
/* 0 for a process, hidden by hidepid or not; -EINVAL for a thread, -ESRCH for neither. */
int spur_pid_exists(int pid);
/* -EINVAL for a thread. */
int spur_pidfd_open(int pid, int *ret_fd);
/* -EINVAL for a thread, -EACCES for what hidepid hides. */
int spur_pidfd_open_folder(int pid, int *ret_fd);
int spur_pidfd_open_handle(uint64_t inode, int *ret_fd);
int spur_pidfd_inode(int pidfd, uint64_t *ret_inode);
/* A set of spur_pidfd_state_t; 0 while the process, or any thread of it, runs. */
int spur_pidfd_poll(int pidfd);
int spur_pidfd_poll_folder(int folder_fd);
/* Sleeps until the pidfd shows `events` (POLLHUP always counts): 1; 0 after `timeout_ms` (-1: never); -EINTR: a signal came. With 1
 * *ret_facts is written; has_status needs a `reap_ms`, for which the reap that others do right after the end is waited for too. */
int spur_pidfd_await(int pidfd, int events, int timeout_ms, int reap_ms, spur_pidfd_facts_t *ret_facts);
/* From here on `facilities` without PIDFD_OPEN says that `pidfd` is a folder, and `pid` is the number of the process behind it. */
/* -ECANCELED for a number that the guard refuses, -ENOSYS without PIDFD_SEND_SIGNAL: nothing is ever sent to a number. */
int spur_pidfd_send_signal(int pidfd, int pid, int sig, uint32_t facilities);
/* 0 while the number still belongs to the process that `pidfd` holds, else -ESRCH. */
int spur_pidfd_unreaped(int pidfd, uint32_t facilities);
/* Never blocks: -EAGAIN while the child runs, -ECHILD for any other process. `keep` leaves the zombie. */
int spur_pidfd_wait(int pidfd, int pid, int keep, uint32_t facilities, spur_waited_t *ret_waited);
int spur_pidfd_info(int pidfd, spur_pidfd_facts_t *ret_facts);
/* -EAGAIN while it runs, -EACCES to a reader without ptrace rights. */
int spur_pidfd_zombie_status(int pidfd, int pid, uint32_t facilities, int *ret_status);

/* ---- procstat.c: /proc/PID/stat */

typedef struct {
    int pid;
    int parent_pid;
    int process_group;
    int session;
    char state;
    int threads;
    uint64_t start_ticks;
    int wait_status;
} spur_procstat_t;

int spur_procstat_parse(const char *text, size_t length, spur_procstat_t *ret_stat);
int spur_procstat_read(int pid, spur_procstat_t *ret_stat);
/* Through the open folder /proc/PID. -ESRCH: reaped; -EACCES: hidden from this reader (hidepid). */
int spur_procstat_read_at(int folder_fd, spur_procstat_t *ret_stat);
int spur_procstat_folder_open(int pid, int *ret_fd);
/* 1 when no thread is left to run, 0 for a leader that exited before its threads. */
int spur_procstat_ended(const spur_procstat_t *stat);

/* ---- identity.c: a process named for good */

/* -EXDEV: /proc is another namespace's; -EACCES: hidden; -ESRCH: gone meanwhile. `fd` holds process `pid` and is borrowed. */
int spur_identity_take(const spur_reader_t *reader, int fd, int pid, spur_subject_t *ret_identity);
int spur_identity_of(const spur_reader_t *reader, int pid, spur_subject_t *ret_identity);
/* A spur_liveness_t. `subject` is a spur_subject_t as plain bytes. With SPUR_ALIVE the caller owns *ret_fd (a zombie's too). */
int spur_identity_open(const spur_reader_t *reader, const char *subject, int *ret_fd, spur_observation_t *ret_seen);
int spur_identity_observe(const spur_reader_t *reader, const char *subject, spur_observation_t *ret_seen);
int spur_identity_liveness(const spur_reader_t *reader, const char *subject);

/* ---- liveness.c: many subjects at once */

/* `subjects`: `count` spur_subject_t on end; one spur_liveness_t a byte. */
int spur_liveness_many(const spur_reader_t *reader, const char *subjects, size_t count, unsigned char *ret_liveness);

/* The same for kept cgroup.events alone: no subject to make and to copy. */
void spur_liveness_cgroups(const int *events_fds, size_t count, unsigned char *ret_liveness);

/* ---- cgroup.c: a cgroup v2 folder held by a descriptor */

typedef struct {
    int populated; /* 0 or 1 */
    int frozen;    /* 0, 1, or -1 where the kernel does not say (before 5.2) */
} spur_cgroup_events_t;

typedef struct {
    int *pids;
    size_t capacity;
    size_t count; /* may exceed the capacity: then read again with more room */
    int value;    /* the number being read, which a read may cut in two */
    int digits;
} spur_pid_list_t;

int spur_cgroup_inode(int folder_fd, uint64_t *ret_inode);
/* Any cgroup2 folder serves as `mount_fd`. -ESTALE: no such cgroup any more; -EPERM: needs CAP_DAC_READ_SEARCH. */
int spur_cgroup_open_handle(int mount_fd, uint64_t inode, int *ret_fd);
int spur_cgroup_events_parse(const char *text, size_t length, spur_cgroup_events_t *ret_events);
int spur_cgroup_events_read(int events_fd, spur_cgroup_events_t *ret_events);
int spur_cgroup_populated_read(int events_fd, int *ret_populated);
int spur_pid_list_feed(spur_pid_list_t *pid_list, const char *text, size_t length);
int spur_cgroup_pids_read(int folder_fd, const char *file, int *pids, size_t capacity, size_t *ret_count);
int spur_cgroup_path_parse(const char *text, size_t length, const char **ret_path, size_t *ret_length);
int spur_cgroup_path_within(const char *path, size_t length, const char *above);

/* ---- members.c: one signalling pass over a cgroup */

typedef enum {
    SPUR_REFUSAL_NOT_PERMITTED = 1,
    SPUR_REFUSAL_FOREIGN = 2,     /* lives outside the caller's pid namespace */
    SPUR_REFUSAL_INIT = 3,        /* pid 1 */
    SPUR_REFUSAL_CALLER = 4,
    SPUR_REFUSAL_UNCONFIRMED = 5, /* alive, but its cgroup cannot be read */
    SPUR_REFUSAL_ERROR = 6,
    SPUR_REFUSAL_UNSUPPORTED = 7 /* needs pidfd_send_signal */
} spur_refusal_reason_t;

typedef struct {
    int pid;
    int error;
    int reason;
} spur_refusal_t;

/* Who was signalled in this call: an open hash table of member keys; 0 is an empty slot, size a power of two. */
typedef struct {
    uint64_t *keys;
    size_t size;
    size_t used;
} spur_seen_t;

typedef struct {
    int signal;
    int threads; /* the list holds thread ids, from cgroup.threads */
    uint32_t facilities;
    uint64_t cgroup_id;    /* inode of the listed cgroup */
    const char *tree_path; /* the tree's root as /proc/PID/cgroup would show it; NULL: unknown */
    spur_seen_t *seen;
    spur_refusal_t *refusals;
    size_t refusals_capacity;
    size_t refused; /* counts, added to by each pass; refused may exceed the capacity */
    size_t signalled;
    size_t known;
    size_t gone;
    size_t moved; /* listed, and not in this cgroup: members that left, and strangers whose number was a member's */
    size_t pathless; /* how often tree_path was needed and unknown */
} spur_sweep_t;

int spur_seen_has(const spur_seen_t *seen, uint64_t key);
int spur_seen_add(spur_seen_t *seen, uint64_t key);
int spur_seen_move(const spur_seen_t *seen, spur_seen_t *grown);
int spur_member_open(int pid, uint32_t facilities, int *ret_fd);
int spur_member_key(int pidfd, int pid, uint32_t facilities, uint64_t *ret_key);
int spur_members_signal(spur_sweep_t *sweep, const int *pids, size_t count);

/* ---- spawn.c: start a program */

typedef struct {
    void *plan; /* in writable memory; a refused spawn may be tried again with it */
    uint64_t plan_bytes;
    int32_t program_fd; /* the static program, which carries the plan out; -1: the child itself does, and execs the job at once */
    int32_t cgroup_fd;  /* born in it; -1: in the caller's */
    int32_t detach;     /* the child belongs to init or the nearest subreaper, not to the caller */
    int32_t read_stat;  /* let the child read its start ticks in any case */
} spur_spawn_t;

typedef struct {
    int32_t started;
    int32_t pid;   /* -1 where not started: then nothing is left, no process, zombie or descriptor */
    int32_t pidfd;
    int32_t channel; /* to the program; -1: none */
    int32_t stage; /* spur_stage_t, the last one begun */
    int32_t error; /* what ended it there, an errno; 0: it was killed */
    int32_t ended; /* wait_status is known */
    int32_t wait_status;
    int32_t is_child; /* the caller's to reap */
    uint64_t clock_ticks; /* its start in ticks by CLOCK_BOOTTIME; 0: not known that way */
    uint64_t stat_ticks;  /* by its own /proc/self/stat; 0: not read, or not readable */
    uint64_t inode;       /* of its pidfd; 0: without PIDFS_INODE */
} spur_spawned_t;

/* -errno for what is made before the clone; a refusal by the kernel from there on is in *ret_spawned. */
int spur_spawn(const spur_spawn_t *how, spur_spawned_t *ret_spawned);
void spur_spawn_undo(spur_spawned_t *spawned); /* kill it, reap it if it is ours, let go of it; waits a second at most */
int spur_plan_check(void *plan, size_t size);
/* 1: the kernel's OOM killer spares this process more than others. proc_pid_oom_score_adj(5) */
int spur_oom_protected(void);

/* ---- signals.c: signals as a descriptor */

int spur_signals_open(uint64_t mask, int *ret_fd);

/* ---- reserve.c: room in a file */

int spur_file_reserve(int fd, uint64_t offset, uint64_t size);

/* ---- watch.c: changes of a folder */

int spur_watch_open(int folder_fd, int *ret_fd);
