/* Room in a file for what has to be written later, even when the disk has filled up meanwhile. */
#include "spurcore.h"

/* Beyond its end: the size, and so what a reader sees, stays. fallocate(2), FALLOC_FL_KEEP_SIZE */
int spur_file_reserve(int fd, uint64_t offset, uint64_t size)
{
    int result;

    do {
        result = fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)size);
    } while (result < 0 && errno == EINTR);
    return result < 0 ? -errno : 0;
}
