/* Checks a plan and points at its parts. Runs before a clone in the core and first thing in the static program. */
#include "child.h"

#include <string.h>

enum { AFFINITY_BYTES_MAX = 1024, PLACE_BYTES = sizeof(char *), LOOSE_STRINGS = 4, LOOSE_CWD = 3 };
_Static_assert(PLACE_BYTES == 8, "a place holds a pointer");

/* All but the strings. The counts are of 32 bits, so nothing here can overflow. */
static uint64_t parts_bytes(const spur_plan_t *plan)
{
    uint64_t places = (uint64_t)plan->argv_count + plan->envp_count + plan->candidates_count + 3;
    return sizeof *plan + places * PLACE_BYTES + plan->limits_count * sizeof(spur_plan_limit_t) + plan->affinity_bytes +
           plan->groups_count * sizeof(uint32_t) + plan->pass_fds_count * sizeof(int32_t);
}

static int header_check(const spur_plan_t *plan, size_t size)
{
    if (size < sizeof *plan || plan->magic != SPUR_PLAN_MAGIC || plan->version != SPUR_PLAN_VERSION || plan->size != size)
        return -EBADMSG;
    if (plan->argv_count == 0 || plan->candidates_count == 0 || plan->affinity_bytes % 8 != 0 || plan->affinity_bytes > AFFINITY_BYTES_MAX)
        return -EBADMSG;
    return parts_bytes(plan) < size && ((const char *)plan)[size - 1] == '\0' ? 0 : -EBADMSG;
}

/* `bytes` at *at, which moves behind them. */
static void *part_take(char **at, uint64_t bytes)
{
    char *part = *at;
    *at += bytes;
    return part;
}

/* The next `count` strings from *text on: the last byte before `end` is NUL. */
static int strings_point(char **table, uint64_t count, char **text, const char *end)
{
    for (uint64_t i = 0; i < count; i++) {
        if (*text >= end)
            return -EBADMSG;
        table[i] = *text;
        *text += strlen(*text) + 1;
    }
    table[count] = NULL;
    return 0;
}

static void parts_point(char **at, struct spur_view *view)
{
    const spur_plan_t *plan = view->header;
    view->argv = part_take(at, (plan->argv_count + 1ULL) * PLACE_BYTES);
    view->envp = part_take(at, (plan->envp_count + 1ULL) * PLACE_BYTES);
    view->candidates = part_take(at, (plan->candidates_count + 1ULL) * PLACE_BYTES);
    view->limits = part_take(at, plan->limits_count * sizeof(spur_plan_limit_t));
    view->affinity = part_take(at, plan->affinity_bytes);
    view->groups = part_take(at, plan->groups_count * sizeof(uint32_t));
    view->pass_fds = part_take(at, plan->pass_fds_count * sizeof(int32_t));
}

int spur_plan_relocate(void *base, size_t size, struct spur_view *ret_view)
{
    struct spur_view view = {.header = base};
    char *loose[LOOSE_STRINGS + 1], *at = (char *)base + sizeof *view.header;
    const char *end = (char *)base + size;
    int error = header_check(base, size);
    if (error)
        return error;
    parts_point(&at, &view);
    error = strings_point(view.argv, view.header->argv_count, &at, end);
    if (error == 0)
        error = strings_point(view.envp, view.header->envp_count, &at, end);
    if (error == 0)
        error = strings_point(view.candidates, view.header->candidates_count, &at, end);
    if (error == 0)
        error = strings_point(loose, LOOSE_STRINGS, &at, end);
    if (error || at != end)
        return -EBADMSG;
    for (int i = 0; i < 3; i++)
        view.stdio_path[i] = *loose[i] ? loose[i] : NULL;
    view.cwd = view.header->flags & SPUR_PLAN_HAS_CWD ? loose[LOOSE_CWD] : NULL;
    *ret_view = view;
    return 0;
}
