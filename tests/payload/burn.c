/* Uses as much CPU time as its argument says (ms), and ends. */
#include "payload.h"

#include <time.h>

int main(int argc, char **argv)
{
    clock_t end = (clock_t)(argc > 1 ? atol(argv[1]) : 1) * (CLOCKS_PER_SEC / 1000);
    while (clock() < end)
        continue;
    return 0;
}
