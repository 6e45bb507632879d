/* Paths that hold one number, made without stdio. */
#ifndef SPUR_PATH_H
#define SPUR_PATH_H

#include <string.h>

enum { SPUR_PATH_BYTES = 64 };

/* Writes `head`, `number` (not negative) and `tail`; the caller's buffer has SPUR_PATH_BYTES and the texts are short constants. */
static inline void spur_path_write(char *path, const char *head, int number, const char *tail)
{
    char digits[12];
    size_t count = 0, length = strlen(head);
    unsigned rest = (unsigned)number;
    memcpy(path, head, length);
    do {
        digits[count++] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    while (count > 0)
        path[length++] = digits[--count];
    memcpy(path + length, tail, strlen(tail) + 1);
}

#endif
