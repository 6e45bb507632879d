/* The binary plan of a program that is to be started: one block of memory, packed by Python (core/spawn/plan_layout.py), read by the
 * core and, through a sealed memfd, by the static program. Read by compilers and by cffi: typedefs and enums only.
 *
 * Behind the header, each right behind the one before: tables for argv, envp and candidates, count + 1 places of 8 bytes, which the
 * reader fills with pointers; limits; the CPU mask; groups; pass_fds; then all strings, each with its NUL: those of the tables in
 * order, the paths of stdin, stdout and stderr, and cwd, empty where there is none. The last one ends the plan. Host byte order:
 * a plan never leaves its machine, and never outlives a boot. */

enum {
    SPUR_PLAN_MAGIC = 0x52555053, /* "SPUR" */
    SPUR_PLAN_VERSION = 2
};

typedef enum {
    SPUR_MODE_LEADER = 1,  /* become the job */
    SPUR_MODE_RECORDER = 2 /* start the job, wait for it, write down how it ended */
} spur_mode_t;

typedef enum {
    SPUR_CONTAINMENT_CGROUP = 1,
    SPUR_CONTAINMENT_DESCENDANTS = 2,
    SPUR_CONTAINMENT_PROCESS_GROUP = 3
} spur_containment_t;

/* How far a child came. A record on the channel is {stage, errno}: errno 0 means "about to do this", anything else "failed here".
 * {SPUR_STAGE_EXEC, 0} is the last record of a program that started. Values are part of the sentinel's text: never reuse one. */
typedef enum {
    SPUR_STAGE_NONE = 0,  /* no code of the child ran */
    SPUR_STAGE_CLONE = 1, /* in the parent */
    SPUR_STAGE_CHILD = 2, /* the child's first instruction */
    SPUR_STAGE_SIGNALS = 3,
    SPUR_STAGE_SESSION = 4,
    SPUR_STAGE_DESCRIPTORS = 5,
    SPUR_STAGE_PROGRAM = 6, /* exec of spurproc-exec */
    SPUR_STAGE_PLAN = 7,    /* spurproc-exec reads its plan */
    SPUR_STAGE_CGROUP = 8,
    SPUR_STAGE_OOM_SCORE_ADJ = 9,
    SPUR_STAGE_LIMITS = 10,
    SPUR_STAGE_AFFINITY = 11,
    SPUR_STAGE_UMASK = 12,
    SPUR_STAGE_GROUPS = 13,
    SPUR_STAGE_GID = 14,
    SPUR_STAGE_UID = 15,
    SPUR_STAGE_CWD = 16,
    SPUR_STAGE_STDIN = 17,
    SPUR_STAGE_STDOUT = 18,
    SPUR_STAGE_STDERR = 19,
    SPUR_STAGE_NO_NEW_PRIVS = 20,
    SPUR_STAGE_GATE = 21,
    SPUR_STAGE_EXEC = 22,
    SPUR_STAGE_RECORDER = 23 /* the recorder itself could not do its work */
} spur_stage_t;

typedef struct {
    int32_t stage;
    int32_t error; /* an errno, positive */
} spur_stage_record_t;

/* What else a recorder tells its launcher in a record of the same shape. */
typedef enum {
    SPUR_REPORT_LEADER = 100, /* value: the leader's pid; its pidfd comes along (SCM_RIGHTS) */
    SPUR_REPORT_ENDED = 101,  /* keeper only; value: the wait status; a usage line of 256 bytes follows */
    SPUR_REPORT_EMPTY = 102,  /* keeper only: its last descendant has ended */
    SPUR_REPORT_NOT_STARTED = 103 /* the stage record before this one was the leader's last */
} spur_report_t;

typedef enum {
    SPUR_PLAN_HAS_UMASK = 1,
    SPUR_PLAN_HAS_OOM_SCORE_ADJ = 2,
    SPUR_PLAN_HAS_GROUPS = 4, /* the list may be empty */
    SPUR_PLAN_HAS_GID = 8,
    SPUR_PLAN_HAS_UID = 16,
    SPUR_PLAN_NO_NEW_PRIVS = 32,
    SPUR_PLAN_HAS_CWD = 64
} spur_plan_flag_t;

typedef struct {
    uint64_t resource;
    uint64_t soft;
    uint64_t hard;
} spur_plan_limit_t;

typedef struct {
    int32_t folder_fd;    /* the folder of the run */
    int32_t lock_fd;      /* its lock, held by the launcher; given up once the recorder holds its own */
    uint32_t containment; /* spur_containment_t */
    int32_t home_fd;      /* folder of the cgroup that the recorder itself belongs in; -1: where it is born */
    char nonce[32]; /* hexadecimal, no NUL */
} spur_plan_recorder_t;

typedef struct {
    uint32_t magic;
    uint32_t version;
    uint64_t size; /* of the whole plan, in bytes */
    uint32_t mode;
    uint32_t flags;
    uint32_t facilities; /* SPUR_FACILITY_ bits that the program may use */
    int32_t channel_fd;  /* stream socket to the launcher; stage records go there. Filled in by the core */
    int32_t gate_fd;     /* one byte opens it, EOF means do not exec; -1: none */
    int32_t cgroup_fd;   /* folder of the cgroup the job belongs in; -1: where it is born */
    uint64_t cgroup_inode;
    uint32_t uid;
    uint32_t gid;
    uint32_t umask;
    int32_t oom_score_adj;
    int32_t stdio_fd[3]; /* descriptors >= 3 that become 0, 1, 2; -1: its path is opened, as the user, or is none: the null device */
    uint32_t argv_count;
    uint32_t envp_count;
    uint32_t candidates_count; /* what to exec, tried in order */
    uint32_t limits_count;     /* spur_plan_limit_t each */
    uint32_t affinity_bytes;   /* of a CPU mask, a multiple of 8 */
    uint32_t groups_count;     /* uint32_t each */
    uint32_t pass_fds_count;   /* int32_t each, kept open under the same number */
    spur_plan_recorder_t recorder;
} spur_plan_t;
