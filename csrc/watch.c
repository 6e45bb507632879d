/* Changes of a folder as readable events: for a reader of a run that has not said yet which process to wait for. */
#include "spurcore.h"

#include <stdio.h>
#include <sys/inotify.h>

/* The descriptor's own folder, whatever its name leads to by now. inotify(7); one instance each, limited per user. */
int spur_watch_open(int folder_fd, int *ret_fd)
{
    char path[32];
    int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

    if (fd < 0)
        return -errno;
    snprintf(path, sizeof path, "/proc/self/fd/%d", folder_fd);
    if (inotify_add_watch(fd, path, IN_MODIFY | IN_CLOSE | IN_MOVED_TO | IN_DELETE | IN_DELETE_SELF | IN_ONLYDIR) < 0) {
        int error = -errno;
        close(fd);
        return error;
    }
    *ret_fd = fd;
    return 0;
}
