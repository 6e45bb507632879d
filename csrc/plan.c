/* Checks a plan and turns its offsets into pointers. Runs before a clone in the core and first thing in the static program. */
#include "child.h"

enum { AFFINITY_BYTES_MAX = 1024, FD_FIRST = 3 };

/* Does [offset, offset + count * width) lie behind the header, aligned, inside the plan? */
static int span_fits(const spur_plan_t *plan, spur_plan_span_t span, uint64_t width)
{
    uint64_t bytes, end;
    if (__builtin_mul_overflow(span.count, width, &bytes) || __builtin_add_overflow(span.offset, bytes, &end))
        return 0;
    return span.offset >= sizeof *plan && span.offset % width == 0 && end <= plan->size;
}

static int string_fits(const spur_plan_t *plan, uint64_t offset)
{
    return offset >= sizeof *plan && offset < plan->size; /* the last byte of the plan is NUL */
}

/* A table of offsets becomes a NULL-terminated array of pointers, where it stands. Two tables in one place are refused: the pointers
 * of the first are no offsets to the second. */
static int table_relocate(spur_plan_t *plan, spur_plan_span_t span, char ***ret_table)
{
    spur_plan_span_t whole = {span.offset, span.count + 1};
    _Static_assert(sizeof(char *) == sizeof(uint64_t), "an offset and a pointer share their place");
    if (whole.count == 0 || !span_fits(plan, whole, sizeof(uint64_t)))
        return -EBADMSG;
    char *base = (char *)plan;
    uint64_t *offsets = (uint64_t *)(void *)(base + span.offset);
    char **pointers = (char **)(void *)offsets;
    for (uint64_t i = 0; i < span.count; i++) {
        if (!string_fits(plan, offsets[i]))
            return -EBADMSG;
    }
    if (offsets[span.count] != 0)
        return -EBADMSG;
    for (uint64_t i = 0; i < span.count; i++) {
        uint64_t offset = offsets[i];
        pointers[i] = base + offset;
    }
    pointers[span.count] = NULL;
    *ret_table = pointers;
    return 0;
}

static int header_check(const spur_plan_t *plan, size_t size)
{
    if (size < sizeof *plan || plan->magic != SPUR_PLAN_MAGIC || plan->version != SPUR_PLAN_VERSION || plan->size != size)
        return -EBADMSG;
    if (((const char *)plan)[size - 1] != '\0' || plan->argv.count == 0 || plan->candidates.count == 0)
        return -EBADMSG;
    for (int i = 0; i < 3; i++) {
        if (plan->stdio_fd[i] < FD_FIRST && !string_fits(plan, plan->stdio_path[i]))
            return -EBADMSG;
    }
    return plan->cwd != 0 && !string_fits(plan, plan->cwd) ? -EBADMSG : 0;
}

static int arrays_check(const spur_plan_t *plan)
{
    return span_fits(plan, plan->groups, sizeof(uint32_t)) && span_fits(plan, plan->limits, sizeof(uint64_t)) &&
                   plan->limits.count <= plan->size / sizeof(spur_plan_limit_t) &&
                   span_fits(plan, (spur_plan_span_t){plan->limits.offset, plan->limits.count * 3}, sizeof(uint64_t)) &&
                   span_fits(plan, plan->affinity, 1) && plan->affinity.offset % 8 == 0 && plan->affinity.count % 8 == 0 &&
                   plan->affinity.count <= AFFINITY_BYTES_MAX && span_fits(plan, plan->pass_fds, sizeof(int32_t))
               ? 0
               : -EBADMSG;
}

static int tables_relocate(spur_plan_t *plan, struct spur_view *view)
{
    int error = table_relocate(plan, plan->argv, &view->argv);
    if (error == 0)
        error = table_relocate(plan, plan->envp, &view->envp);
    if (error == 0)
        error = table_relocate(plan, plan->candidates, &view->candidates);
    return error;
}

int spur_plan_relocate(void *base, size_t size, struct spur_view *ret_view)
{
    spur_plan_t *plan = base;
    const char *text = base;
    struct spur_view view = {.header = plan};
    int error = header_check(plan, size);
    if (error == 0)
        error = arrays_check(plan);
    if (error == 0)
        error = tables_relocate(plan, &view);
    if (error)
        return error;
    view.groups = (const uint32_t *)(const void *)(text + plan->groups.offset);
    view.limits = (const spur_plan_limit_t *)(const void *)(text + plan->limits.offset);
    view.affinity = (const unsigned char *)(text + plan->affinity.offset);
    view.pass_fds = (const int32_t *)(const void *)(text + plan->pass_fds.offset);
    view.cwd = plan->cwd ? text + plan->cwd : NULL;
    for (int i = 0; i < 3; i++)
        view.stdio_path[i] = plan->stdio_fd[i] < FD_FIRST ? text + plan->stdio_path[i] : NULL;
    *ret_view = view;
    return 0;
}
