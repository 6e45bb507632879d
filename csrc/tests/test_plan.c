/* units: plan.c */
/* Whatever bytes a plan holds, it is refused or every pointer made from it lies inside it. */
#include "child.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 20000, WORDS_MAX = 512 };

static volatile size_t sink; /* so that no read is optimised away */
static uint64_t random_state = 0x9E3779B97F4A7C15U;

static uint64_t random_next(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static void touch_strings(char **table, uint64_t count, size_t *sum)
{
    for (uint64_t i = 0; i < count; i++)
        *sum += strlen(table[i]);
    if (table[count] != NULL)
        abort();
}

/* Reads everything a reader would: ASan says whether it lies inside. */
static size_t touch(const struct spur_view *view)
{
    const spur_plan_t *plan = view->header;
    size_t sum = 0;
    touch_strings(view->argv, plan->argv_count, &sum);
    touch_strings(view->envp, plan->envp_count, &sum);
    touch_strings(view->candidates, plan->candidates_count, &sum);
    for (uint64_t i = 0; i < plan->groups_count; i++)
        sum += view->groups[i];
    for (uint64_t i = 0; i < plan->limits_count; i++)
        sum += view->limits[i].soft ^ view->limits[i].hard;
    for (uint64_t i = 0; i < plan->affinity_bytes; i++)
        sum += view->affinity[i];
    for (uint64_t i = 0; i < plan->pass_fds_count; i++)
        sum += (size_t)view->pass_fds[i];
    sum += view->cwd ? strlen(view->cwd) : 0;
    for (int i = 0; i < 3; i++)
        sum += view->stdio_path[i] ? strlen(view->stdio_path[i]) : 0;
    return sum;
}

/* A copy of exactly `size` bytes, so that one byte beyond is an error. 1: it was a plan. */
static int attempt(const void *bytes, size_t size)
{
    struct spur_view view;
    void *copy = malloc(size ? size : 1);
    if (copy == NULL)
        abort();
    memcpy(copy, bytes, size);
    int accepted = spur_plan_relocate(copy, size, &view) == 0;
    if (accepted)
        sink = touch(&view);
    free(copy);
    return accepted;
}

/* One word of the header or of a table becomes something else: small, huge, or near the size of the plan. */
static void mutate(unsigned char *bytes, size_t size)
{
    const uint64_t values[] = {0, 1, 2, 8, size - 1, size, size + 1, size - 8, ~0ULL, ~0ULL / 8, 1ULL << 63, random_next() % size, random_next()};
    uint64_t value = values[random_next() % (sizeof values / sizeof values[0])];
    size_t at = random_next() % (size / 8) * 8;
    memcpy(bytes + at, &value, 1U << random_next() % 4);
}

static void fuzz(const unsigned char *seed, size_t size)
{
    unsigned char *bytes = malloc(size);
    if (bytes == NULL)
        abort();
    for (int round = 0; round < ROUNDS; round++) {
        memcpy(bytes, seed, size);
        for (uint64_t count = 1 + random_next() % 3; count > 0; count--)
            mutate(bytes, size);
        attempt(bytes, random_next() % 8 ? size : random_next() % size);
    }
    free(bytes);
}

static size_t file_read(const char *folder, const char *name, unsigned char *bytes, size_t capacity)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        abort();
    size_t size = fread(bytes, 1, capacity, file);
    fclose(file);
    return size;
}

/* Names that begin with "good" are plans and seeds; all others must be refused. */
static int corpus_try(const char *folder)
{
    static unsigned char bytes[65536];
    DIR *listing = opendir(folder);
    int files = 0;
    if (listing == NULL)
        abort();
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        size_t size = file_read(folder, entry->d_name, bytes, sizeof bytes);
        int good = strncmp(entry->d_name, "good", 4) == 0;
        if (attempt(bytes, size) != good) {
            fprintf(stderr, "%s: %s\n", entry->d_name, good ? "refused" : "accepted");
            exit(1);
        }
        if (good)
            fuzz(bytes, size);
        files++;
    }
    closedir(listing);
    return files;
}

static void noise(void)
{
    uint64_t words[WORDS_MAX];
    for (int round = 0; round < ROUNDS; round++) {
        size_t count = 1 + random_next() % WORDS_MAX;
        for (size_t i = 0; i < count; i++)
            words[i] = random_next();
        if (attempt(words, count * 8))
            abort();
    }
}

int main(int argc, char **argv)
{
    if (argc != 2 || corpus_try(argv[1]) == 0)
        return 1;
    noise();
    return 0;
}
