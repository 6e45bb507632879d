/* Who the job runs as. Each change is checked: a job that keeps a group or an id of its launcher must not run. credentials(7) */
#include "program.h"

enum { GROUPS_COMPARED_MAX = 256, CAPABILITY_VERSION_3 = 0x20080522 };

static int group_in(uint32_t group, const uint32_t *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i] == group)
            return 1;
    }
    return 0;
}

/* But for the primary group, which a member of it has by its gid: databases name it among the others, containers do not. */
static int groups_are(const spur_plan_t *plan, const uint32_t *wanted)
{
    uint32_t is[GROUPS_COMPARED_MAX], primary = plan->flags & SPUR_PLAN_HAS_GID ? plan->gid : (uint32_t)syscall(SYS_getegid);
    long have = syscall(SYS_getgroups, GROUPS_COMPARED_MAX, is);
    if (have < 0)
        return 0;
    for (size_t i = 0; i < plan->groups_count; i++) {
        if (wanted[i] != primary && !group_in(wanted[i], is, (size_t)have))
            return 0;
    }
    for (long i = 0; i < have; i++) {
        if (is[i] != primary && !group_in(is[i], wanted, plan->groups_count))
            return 0;
    }
    return 1;
}

/* Without privilege the list cannot be set, and need not be where it is that list already. */
int spur_groups_set(const struct spur_view *view)
{
    size_t count = view->header->groups_count;
    if (!(view->header->flags & SPUR_PLAN_HAS_GROUPS) || syscall(SYS_setgroups, count, view->groups) == 0)
        return 0;
    int error = -errno;
    return error == -EPERM && groups_are(view->header, view->groups) ? 0 : error;
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

/* setresuid(2) drops capabilities only on the way down from uid 0, and never the inheritable ones: a launcher that is a user with
 * CAP_SETUID, as a service manager makes it, would hand on its own. capabilities(7) */
static int capabilities_drop(void)
{
    const struct {
        uint32_t version;
        int32_t pid;
    } header = {CAPABILITY_VERSION_3, 0};
    const uint32_t none[6] = {0};
    return syscall(SYS_capset, &header, none) < 0 ? -errno : 0; /* what is not permitted and inheritable leaves the ambient set too */
}

int spur_uid_set(const struct spur_view *view)
{
    uid_t real, effective, saved, wanted = view->header->uid;
    if (!(view->header->flags & SPUR_PLAN_HAS_UID))
        return 0;
    if (syscall(SYS_setresuid, wanted, wanted, wanted) < 0 || syscall(SYS_getresuid, &real, &effective, &saved) < 0)
        return -errno;
    if (real != wanted || effective != wanted || saved != wanted)
        return -EPERM;
    return wanted == 0 ? 0 : capabilities_drop();
}
