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

/* ---- pidfd.c: a process held by a descriptor */

int spur_pidfd_open(int pid, int *ret_fd);
int spur_pidfd_send_signal(int pidfd, int sig);

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

/* ---- identity.c: a process named for good */

/* ---- cgroup.c: a cgroup v2 folder held by a descriptor */

/* ---- members.c: one signalling pass over a cgroup */

/* ---- spawn.c: start a program */

