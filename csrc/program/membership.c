/* Being in the cgroup that the plan names: checked, and entered by a write where the process was not born there. */
#include "program.h"

/* By the kernel's own word on this process, 6.13. 1: in it, 0: elsewhere. */
static int member_by_info(uint64_t inode)
{
    struct spur_pidfd_info info = {.mask = SPUR_PIDFD_INFO_CGROUPID};
    int pidfd = (int)syscall(SPUR_SYS_PIDFD_OPEN, getpid(), 0);
    if (pidfd < 0)
        return -errno;
    int error = syscall(SYS_ioctl, pidfd, SPUR_PIDFD_GET_INFO, &info) < 0 ? -errno : 0;
    close(pidfd);
    if (error)
        return error;
    return (info.mask & SPUR_PIDFD_INFO_CGROUPID) != 0 && info.cgroupid == inode;
}

/* By the list of members; one read gives about 4 KiB and a number may be cut in two by it. */
static int member_by_list(int cgroup_fd)
{
    char text[4096];
    long wanted = getpid(), value = 0;
    ssize_t length;
    int found = 0, fd = openat(cgroup_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    while ((length = read(fd, text, sizeof text)) > 0) {
        for (ssize_t i = 0; i < length; i++) {
            found |= text[i] == '\n' && value == wanted;
            value = text[i] == '\n' ? 0 : value * 10 + (text[i] - '0');
        }
    }
    int error = length < 0 ? -errno : 0;
    close(fd);
    return error ? error : found;
}

static int member_check(uint32_t facilities, int cgroup_fd, uint64_t inode)
{
    return facilities & SPUR_FACILITY_PIDFD_INFO ? member_by_info(inode) : member_by_list(cgroup_fd);
}

static int cgroup_write_self(int cgroup_fd)
{
    int fd = openat(cgroup_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int error = write(fd, "0", 1) < 0 ? -errno : 0;
    close(fd);
    return error;
}

/* Born in it or not: what counts is that it is there now. Looked at first, as a write costs some 10 ms even of a member. */
int spur_cgroup_join(uint32_t facilities, int cgroup_fd, uint64_t inode)
{
    int member = member_check(facilities, cgroup_fd, inode);
    if (member != 0)
        return member < 0 ? member : 0;
    int error = cgroup_write_self(cgroup_fd);
    if (error)
        return error;
    member = member_check(facilities, cgroup_fd, inode);
    return member < 0 ? member : member ? 0 : -EXDEV;
}

int spur_cgroup_enter(const struct spur_view *view)
{
    const spur_plan_t *plan = view->header;
    return plan->cgroup_fd < 0 ? 0 : spur_cgroup_join(plan->facilities, plan->cgroup_fd, plan->cgroup_inode);
}
