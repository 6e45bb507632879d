/* spurproc-exec, the static program that stands between clone and the job. argv[1] is the number of the plan's descriptor.
 *
 * It starts with every signal blocked, 0-2 on the null device and nothing else open but what its plan names. Its environment is
 * empty: the job's stands in the plan. */
#include "program.h"

#include <stdlib.h>
#include <sys/mman.h>

static int number_of(const char *text)
{
    char *end;
    long value = strtol(text, &end, 10);
    return *text != '\0' && *end == '\0' && value > 2 && value < 0x7fffffff ? (int)value : -1;
}

/* A private mapping: the sealed memory cannot change under us, and what we write stays ours. */
static int plan_map(int fd, struct spur_view *ret_view)
{
    struct stat status;
    if (fstat(fd, &status) < 0)
        return -errno;
    if (status.st_size < (off_t)sizeof(spur_plan_t))
        return -EBADMSG;
    size_t size = (size_t)status.st_size;
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (base == MAP_FAILED)
        return -errno;
    close(fd);
    return spur_plan_relocate(base, size, ret_view);
}

int main(int argc, char **argv)
{
    struct spur_view view;
    int fd = argc == 2 ? number_of(argv[1]) : -1;
    if (fd < 0 || plan_map(fd, &view) < 0)
        return SPUR_CODE_NO_EXEC; /* EOF on the channel says the rest: no plan, no channel to name it on */
    if (view.header->mode == SPUR_MODE_LEADER)
        spur_leader_run(&view);
    if (view.header->mode == SPUR_MODE_RECORDER)
        spur_recorder_run(&view);
    spur_stage_send(&view, SPUR_STAGE_PLAN, EBADMSG);
    return SPUR_CODE_NO_EXEC;
}
