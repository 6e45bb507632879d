/* Takes the memory that it is told to (MiB) and holds it; says ready only if it lives to do so. */
#include "payload.h"

#include <string.h>

int main(int argc, char **argv)
{
    size_t bytes = argc > 1 ? (size_t)atoi(argv[1]) << 20 : 0;
    char *memory = malloc(bytes);
    if (memory == NULL)
        return 121;
    memset(memory, 1, bytes);
    payload_ready(memory[bytes / 2] == 1 ? 'e' : 'x');
    payload_hold();
}
