/* A tree that forks without end, deaf to SIGTERM: each process makes two children and ends, as fast as the limit on its user
 * (second argument, for the uid in the first) lets it. Never started outside a pid namespace and a cgroup of its own. */
#include "payload.h"

#include <signal.h>
#include <sys/resource.h>

int main(int argc, char **argv)
{
    if (argc < 3)
        return 120;
    uid_t uid = (uid_t)atoi(argv[1]);
    rlim_t limit = (rlim_t)atoi(argv[2]);
    struct rlimit processes = {limit, limit};
    signal(SIGCHLD, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    nice(19); /* as fast as the machine can, but not against the one that is to end it */
    if (setrlimit(RLIMIT_NPROC, &processes) < 0 || setgid(uid) < 0 || setuid(uid) < 0)
        return 121;
    payload_ready('f');
    for (int made = 0;;) {
        pid_t child = fork();
        if (child == 0)
            made = 0;
        else if (child > 0 && ++made == 2)
            _exit(0);
    }
}
