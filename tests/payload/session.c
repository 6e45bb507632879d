/* A session of three: the leader, a member of its group, and one in a group of its own. Each says ready (l, g, o) and holds. The
 * first argument is a uid to become (0: none), in sight of that user as after an exec; with a second one the leader ends at once. */
#include "payload.h"

#include <sys/prctl.h>

static void member(char name, int own_group)
{
    pid_t child = fork();
    if (child < 0)
        _exit(121);
    if (child > 0)
        return;
    if (own_group && setpgid(0, 0) < 0)
        _exit(122);
    payload_ready(name);
    payload_hold();
    _exit(0);
}

int main(int argc, char **argv)
{
    int uid = argc > 1 ? atoi(argv[1]) : 0;
    if (setsid() < 0 || (uid != 0 && (setgid((gid_t)uid) < 0 || setuid((uid_t)uid) < 0)))
        return 123;
    if (uid != 0 && prctl(PR_SET_DUMPABLE, 1) < 0)
        return 124;
    member('g', 0);
    member('o', 1);
    payload_ready('l');
    if (argc > 2)
        return 0;
    payload_hold();
    return 0;
}
