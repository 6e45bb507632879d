/* units: cgroup.c members.c pidfd.c procstat.c */
#include "spurcore.h"

#include <assert.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*parser_t)(const char *text, size_t length);

static int parse_events(const char *text, size_t length)
{
    spur_cgroup_events_t events = {.populated = 9, .frozen = 9};
    int error = spur_cgroup_events_parse(text, length, &events);
    assert(error == 0 || error == -EBADMSG);
    assert(error ? events.populated == 9 : events.populated == 0 || events.populated == 1);
    return error;
}

/* Every split of the text into two reads must give the same list as one read. */
static int parse_pids(const char *text, size_t length)
{
    int whole[16], split[16], error = 0;
    for (size_t cut = 0; cut <= length; cut++) {
        spur_pid_list_t one = {.pids = whole, .capacity = 16}, two = {.pids = split, .capacity = 16};
        error = spur_pid_list_feed(&one, text, length);
        int other = spur_pid_list_feed(&two, text, cut);
        if (other == 0)
            other = spur_pid_list_feed(&two, text + cut, length - cut);
        assert(error == other && (error == 0 || error == -EBADMSG));
        if (error == 0) {
            assert(one.count == two.count && one.digits == two.digits && one.value == two.value);
            assert(memcmp(whole, split, sizeof *whole * (one.count < 16 ? one.count : 16)) == 0);
            error = one.digits ? -EBADMSG : 0; /* a last number without a newline */
        }
    }
    return error;
}

static int parse_path(const char *text, size_t length)
{
    const char *path = NULL;
    size_t path_length = 0;
    int error = spur_cgroup_path_parse(text, length, &path, &path_length);
    assert(error == 0 || error == -EBADMSG || error == -ENOKEY);
    assert(error || (path >= text && path + path_length < text + length && path[0] == '/'));
    return error;
}

/* On the heap and exactly as long as the text, so that one byte read too far is seen. */
static int parse(parser_t parser, const char *text, size_t length)
{
    char *copy = malloc(length > 0 ? length : 1);
    assert(copy != NULL);
    memcpy(copy, text, length);
    int error = parser(copy, length);
    free(copy);
    return error;
}

static void events_by_key(void)
{
    spur_cgroup_events_t events;
    static const char text[] = "unpopulated 1\nfrozen 1\npopulated 0\n";
    assert(spur_cgroup_events_parse(text, sizeof text - 1, &events) == 0);
    assert(events.populated == 0 && events.frozen == 1);
    assert(spur_cgroup_events_parse("populated 1\n", 12, &events) == 0);
    assert(events.populated == 1 && events.frozen == -1);
}

static void list_longer_than_its_room(void)
{
    int pids[2] = {7, 7};
    spur_pid_list_t list = {.pids = pids, .capacity = 1};
    assert(spur_pid_list_feed(&list, "11\n12\n13\n", 9) == 0);
    assert(list.count == 3 && pids[0] == 11 && pids[1] == 7);
}

static void path_within(void)
{
    assert(spur_cgroup_path_within("/a/b", 4, "/a") == 1);
    assert(spur_cgroup_path_within("/a", 2, "/a") == 1);
    assert(spur_cgroup_path_within("/ab", 3, "/a") == 0);
    assert(spur_cgroup_path_within("/", 1, "/a") == 0);
    assert(spur_cgroup_path_within("/anything", 9, "/") == 1);
}

static void seen_table(void)
{
    uint64_t small[8] = {0}, large[32] = {0};
    spur_seen_t table = {.keys = small, .size = 8}, grown = {.keys = large, .size = 32};
    for (uint64_t key = 1; key <= 7; key++) {
        assert(spur_seen_has(&table, key * 8) == 0);
        assert(spur_seen_add(&table, key * 8) == 0);
        assert(spur_seen_add(&table, key * 8) == (key == 7 ? -ENOSPC : 0)); /* again: nothing, unless it is full */
    }
    assert(table.used == 7 && spur_seen_add(&table, 99) == -ENOSPC && spur_seen_has(&table, 99) == 0);
    assert(spur_seen_add(&grown, 0) == -ENOSPC); /* 0 marks a free slot */
    assert(spur_seen_move(&table, &grown) == 0 && grown.used == 7);
    for (uint64_t key = 1; key <= 7; key++)
        assert(spur_seen_has(&grown, key * 8) == 1);
}

/* Numbers that must never be signalled, in a cgroup that would hold them all: the top one. */
static void never_signalled(void)
{
    uint64_t keys[64] = {0};
    spur_refusal_t refusals[8];
    spur_seen_t seen = {.keys = keys, .size = 64};
    spur_sweep_t sweep = {.signal = 0, .tree_path = "/", .seen = &seen, .refusals = refusals, .refusals_capacity = 8,
                          .facilities = SPUR_FACILITY_PIDFD_OPEN | SPUR_FACILITY_PIDFD_SEND_SIGNAL};
    const int pids[] = {0, 1, -1, (int)getpid(), INT32_MIN};
    assert(spur_members_signal(&sweep, pids, 5) == 0);
    assert(sweep.signalled == 0 && sweep.refused == 5 && seen.used == 0);
    assert(refusals[0].reason == SPUR_REFUSAL_FOREIGN && refusals[1].reason == SPUR_REFUSAL_INIT);
    assert(refusals[2].reason == SPUR_REFUSAL_FOREIGN && refusals[3].reason == SPUR_REFUSAL_CALLER);
    sweep.refused = 0;
    sweep.refusals_capacity = 1; /* more are counted than kept */
    assert(spur_members_signal(&sweep, pids, 5) == 0 && sweep.refused == 5);
}

static void corpus_file(const char *folder, const char *name)
{
    char path[4096], text[8192];
    parser_t parser = strncmp(name, "events-", 7) == 0 ? parse_events : strncmp(name, "pids-", 5) == 0 ? parse_pids : parse_path;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    assert(file != NULL);
    size_t length = fread(text, 1, sizeof text, file);
    fclose(file);
    assert((parse(parser, text, length) == 0) == (strstr(name, "-good-") != NULL));
    for (size_t cut = 0; cut < length; cut++)
        parse(parser, text, cut);
    for (size_t at = 0; at < length; at++) {
        char kept = text[at];
        for (int byte = 0; byte < 256; byte++) {
            text[at] = (char)byte;
            parse(parser, text, length);
        }
        text[at] = kept;
    }
}

int main(int argc, char **argv)
{
    int files = 0;
    events_by_key();
    list_longer_than_its_room();
    path_within();
    seen_table();
    never_signalled();
    assert(argc == 2);
    DIR *folder = opendir(argv[1]);
    assert(folder != NULL);
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        if (entry->d_name[0] == '.')
            continue;
        corpus_file(argv[1], entry->d_name);
        files++;
    }
    closedir(folder);
    assert(files > 0);
    return 0;
}
