/* Who the job runs as. Each change is checked: a job that keeps a group or an id of its launcher must not run. credentials(7) */
#include "program.h"

enum { GROUPS_COMPARED_MAX = 256 };

static int groups_are(const uint32_t *wanted, size_t count)
{
    uint32_t is[GROUPS_COMPARED_MAX];
    long have = syscall(SYS_getgroups, GROUPS_COMPARED_MAX, is);
    size_t same = 0;
    for (size_t i = 0; i < count && have == (long)count; i++) {
        for (size_t k = 0; k < count; k++)
            same += wanted[i] == is[k];
    }
    return have == (long)count && same == count;
}

/* Without privilege the list cannot be set, and need not be where it is that list already. */
int spur_groups_set(const struct spur_view *view)
{
    size_t count = view->header->groups.count;
    if (!(view->header->flags & SPUR_PLAN_HAS_GROUPS) || syscall(SYS_setgroups, count, view->groups) == 0)
        return 0;
    int error = -errno;
    return error == -EPERM && groups_are(view->groups, count) ? 0 : error;
}

int spur_gid_set(const struct spur_view *view)
{
    gid_t real, effective, saved, wanted = view->header->gid;
    if (!(view->header->flags & SPUR_PLAN_HAS_GID))
        return 0;
    if (syscall(SYS_setresgid, wanted, wanted, wanted) < 0 || syscall(SYS_getresgid, &real, &effective, &saved) < 0)
        return -errno;
    return real == wanted && effective == wanted && saved == wanted ? 0 : -EPERM;
}

int spur_uid_set(const struct spur_view *view)
{
    uid_t real, effective, saved, wanted = view->header->uid;
    if (!(view->header->flags & SPUR_PLAN_HAS_UID))
        return 0;
    if (syscall(SYS_setresuid, wanted, wanted, wanted) < 0 || syscall(SYS_getresuid, &real, &effective, &saved) < 0)
        return -errno;
    return real == wanted && effective == wanted && saved == wanted ? 0 : -EPERM;
}
