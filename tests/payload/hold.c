/* Says ready, holds until let go, ends with the code in its first argument (0 without one). */
#include "payload.h"

int main(int argc, char **argv)
{
    payload_ready('r');
    payload_hold();
    return argc > 1 ? atoi(argv[1]) : 0;
}
