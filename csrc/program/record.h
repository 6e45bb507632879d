/* What a recorder writes: lines of text in a caller's buffer, and the way they reach the disk. */
#ifndef SPUR_RECORD_H
#define SPUR_RECORD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

enum {
    SPUR_RECORD_NONCE_BYTES = 32,
    SPUR_RECORD_BOOT_ID_BYTES = 36,
    SPUR_RECORD_EXIT_BYTES = 128, /* the longest sentinel */
    SPUR_RECORD_LINE_BYTES = 256
};

/* Text that grows in memory of the caller. `used` > `size` says that it did not fit. */
typedef struct {
    char *bytes;
    size_t size;
    size_t used;
} spur_text_t;

/* One reader's names for a process: where it looks from is part of what it sees. */
typedef struct {
    char boot_id[SPUR_RECORD_BOOT_ID_BYTES];
    uint64_t pid_namespace;
    uint64_t time_namespace;
} spur_vantage_t;

void spur_text_add(spur_text_t *text, const char *word);
void spur_text_add_bytes(spur_text_t *text, const char *bytes, size_t length);
void spur_text_add_number(spur_text_t *text, uint64_t number);

void spur_record_ended(spur_text_t *text, const char *nonce, int code, int status);
void spur_record_not_started(spur_text_t *text, const char *nonce, int stage, int error);
void spur_record_usage(spur_text_t *text, const char *nonce, const struct rusage *usage);
void spur_record_identity(spur_text_t *text, const char *role, int pid, uint64_t ticks, uint64_t inode, const spur_vantage_t *from);

int spur_record_vantage(spur_vantage_t *ret_vantage);
int spur_record_append(int fd, int64_t *offset, const spur_text_t *text);
int spur_record_write(int fd, const spur_text_t *text);
int spur_record_publish(int folder_fd);

#endif
