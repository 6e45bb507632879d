/* stamped: a job that says when its main began and when it ended, nanoseconds of CLOCK_MONOTONIC: the two words of the file `stamps` in
 * its folder, which is its argument, or where it stands. It ends with code 7 once there is a byte in the FIFO `hold`, and a while after
 * that, so that whoever watches it has fallen asleep. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bare.h"

enum { SETTLE_NS = 20000000, CODE = 7 };

int main(int argc, char **argv)
{
    const uint64_t begun = now_ns();
    const struct timespec settle = {0, SETTLE_NS};
    char byte;
    if (argc > 1 && chdir(argv[1]) != 0)
        return 1;
    int stamps_fd = open("stamps", O_RDWR | O_CLOEXEC), hold_fd = open("hold", O_RDWR | O_CLOEXEC);
    volatile uint64_t *stamps = mmap(NULL, 2 * sizeof *stamps, PROT_READ | PROT_WRITE, MAP_SHARED, stamps_fd, 0);
    if (hold_fd < 0 || stamps == MAP_FAILED)
        return 1;
    stamps[0] = begun;
    while (read(hold_fd, &byte, 1) != 1)
        continue;
    nanosleep(&settle, NULL);
    stamps[1] = now_ns();
    _exit(CODE);
}
