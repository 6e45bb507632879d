/* The static program that stands between the clone and the job in through.c: `between lower|keep CHANNEL PROGRAM`.
 *
 *   lower  sets a limit, drops groups, gid and uid, and becomes PROGRAM; the channel ends with that exec
 *   keep   forks PROGRAM, which waits at a gate, tells its pid over the channel, opens the gate, waits for its exec, tells that, and
 *          waits for its end: what any process that outlives the launcher and knows how the job ended has to do */
#define _GNU_SOURCE
#include <fcntl.h>
#include <grp.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOBODY = 65534 };

static void lower_and_exec(int channel, char **argv)
{
    const struct rlimit files = {100, 200};
    if (setrlimit(RLIMIT_NOFILE, &files) == 0 && setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
        setresuid(NOBODY, NOBODY, NOBODY) == 0)
        execv(argv[0], argv);
    (void)!write(channel, "!", 1); /* or its end would read as the exec */
    _exit(127);
}

static void keep(int channel, char **argv)
{
    int told[2], gate[2], pid;
    char byte;
    if (read(channel, &byte, 1) != 1 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, told) < 0 || pipe2(gate, O_CLOEXEC) < 0)
        _exit(125);
    pid = fork();
    if (pid == 0) {
        close(gate[1]);
        if (read(gate[0], &byte, 1) == 1)
            execv(argv[0], argv);
        _exit(127);
    }
    close(told[1]);
    (void)!write(channel, &pid, sizeof pid);
    (void)!write(gate[1], "", 1);
    (void)!read(told[0], &byte, 1);
    (void)!write(channel, "", 1);
    waitpid(pid, NULL, 0);
    _exit(0);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    int channel = atoi(argv[2]);
    fcntl(channel, F_SETFD, FD_CLOEXEC);
    if (argv[1][0] == 'k')
        keep(channel, argv + 3);
    lower_and_exec(channel, argv + 3);
}
