/* One pass over many subjects of different kinds: what a table of a thousand runs asks every second. */
#include "spurcore.h"

#include <string.h>

static int state_liveness(int state)
{
    return state < 0 ? SPUR_UNKNOWN : state == 0 ? SPUR_ALIVE : SPUR_GONE;
}

static int subject_liveness(const spur_reader_t *reader, const char *subject)
{
    spur_subject_t head;
    memcpy(&head, subject, sizeof head);
    switch (head.kind) {
    case SPUR_SUBJECT_IDENTITY: return spur_identity_liveness(reader, subject);
    case SPUR_SUBJECT_PIDFD: return state_liveness(spur_pidfd_poll(head.number));
    case SPUR_SUBJECT_FOLDER: return state_liveness(spur_pidfd_poll_folder(head.number));
    default: return SPUR_UNKNOWN;
    }
}

int spur_liveness_many(const spur_reader_t *reader, const char *subjects, size_t count, unsigned char *ret_liveness)
{
    for (size_t index = 0; index < count; index++)
        ret_liveness[index] = (unsigned char)subject_liveness(reader, subjects + index * sizeof(spur_subject_t));
    return 0;
}
