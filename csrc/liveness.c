/* One pass over many subjects of different kinds: what a table of a thousand runs asks every second. */
#include "spurcore.h"

#include <poll.h>
#include <string.h>

enum { BATCH = 64 };

static int state_liveness(int state)
{
    return state < 0 ? SPUR_UNKNOWN : state == 0 ? SPUR_ALIVE : SPUR_GONE;
}

static int entry_liveness(const struct pollfd *entry)
{
    if (entry->fd < 0 || entry->revents & POLLNVAL)
        return SPUR_UNKNOWN;
    return entry->revents & (POLLIN | POLLHUP) ? SPUR_GONE : SPUR_ALIVE;
}

static spur_subject_t subject_at(const char *subjects, size_t index)
{
    spur_subject_t subject;
    memcpy(&subject, subjects + index * sizeof subject, sizeof subject); /* bytes of the caller: of no alignment */
    return subject;
}

/* The pidfds at the head of the list, up to a batch of them, in one poll(2). Returns how many it answered. */
static size_t pidfds_liveness(const char *subjects, size_t count, unsigned char *ret_liveness)
{
    struct pollfd entries[BATCH];
    size_t held = 0;
    for (; held < count && held < BATCH; held++) {
        spur_subject_t subject = subject_at(subjects, held);
        if (subject.kind != SPUR_SUBJECT_PIDFD)
            break;
        entries[held] = (struct pollfd){subject.number, POLLIN, 0};
    }
    int polled = held > 0 ? poll(entries, (nfds_t)held, 0) : 0;
    for (size_t index = 0; index < held; index++)
        ret_liveness[index] = (unsigned char)(polled < 0 ? state_liveness(spur_pidfd_poll(entries[index].fd)) : entry_liveness(&entries[index]));
    return held;
}

/* `events_fd`: a kept cgroup.events. A removed cgroup is as empty as one without members. */
static int cgroup_liveness(int events_fd)
{
    int populated;
    int error = spur_cgroup_populated_read(events_fd, &populated);
    if (error)
        return error == -ENODEV ? SPUR_GONE : SPUR_UNKNOWN;
    return populated ? SPUR_ALIVE : SPUR_GONE;
}

static int subject_liveness(const spur_reader_t *reader, const char *subject)
{
    spur_subject_t head = subject_at(subject, 0);
    switch (head.kind) {
    case SPUR_SUBJECT_IDENTITY: return spur_identity_liveness(reader, subject);
    case SPUR_SUBJECT_FOLDER: return state_liveness(spur_pidfd_poll_folder(head.number));
    case SPUR_SUBJECT_CGROUP: return cgroup_liveness(head.number);
    default: return SPUR_UNKNOWN;
    }
}

int spur_liveness_many(const spur_reader_t *reader, const char *subjects, size_t count, unsigned char *ret_liveness)
{
    for (size_t index = 0; index < count;) {
        const char *head = subjects + index * sizeof(spur_subject_t);
        size_t answered = pidfds_liveness(head, count - index, ret_liveness + index);
        if (answered == 0) {
            ret_liveness[index] = (unsigned char)subject_liveness(reader, head);
            answered = 1;
        }
        index += answered;
    }
    return 0;
}

void spur_liveness_cgroups(const int *events_fds, size_t count, unsigned char *ret_liveness)
{
    for (size_t index = 0; index < count; index++)
        ret_liveness[index] = (unsigned char)cgroup_liveness(events_fds[index]);
}
