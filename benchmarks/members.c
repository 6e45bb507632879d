/* members COUNT [ignore]: a tree of COUNT processes that live until stdin ends. Each writes 'r' to stdout when it is ready, and 't' each
 * time it has handled SIGTERM, or ignores it: so one tree serves all rounds, and where it handles a round ends when all were reached. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static void handle(int number)
{
    (void)number;
    (void)!write(1, "t", 1);
}

int main(int argc, char **argv)
{
    const struct sigaction action = {.sa_handler = argc == 3 ? SIG_IGN : handle, .sa_flags = SA_RESTART};
    char byte;
    if (argc < 2)
        return 2;
    sigaction(SIGTERM, &action, NULL);
    signal(SIGCHLD, SIG_IGN);
    for (int left = atoi(argv[1]) - 1; left > 0; left--)
        if (fork() == 0)
            break;
    (void)!write(1, "r", 1);
    return read(0, &byte, 1) == 0 ? 0 : 1;
}
