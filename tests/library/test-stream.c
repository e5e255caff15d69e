/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Positions of streams: two sides that keep to the rules lose nothing and never
 * stand still; an impossible word of one that does not is refused.  And unetmm-cp's
 * names for files that a peer has chosen.
 */
#include "../one_test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cp_file.h"
#include "flow.h"

#include <libunetmm/stream.h>

#define RING    UNETMM_STREAM_RING_LEAST

/* ---- Two that keep to the rules ---------------------------------------- */

struct word {
    uint32_t word;
    uint64_t offset;
    uint32_t len;
};

/* One direction, with the messages on their way in both. */
struct line {
    struct flow from, to;
    struct word data[FLOW_WORDS + 8], credit[64];
    unsigned ndata, ncredit;
};

static uint64_t seed = 12345;

static uint32_t below(uint32_t n)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)((seed >> 33) % n);
}

static void line_init(struct line *l)
{
    memset(l, 0, sizeof(*l));
    flow_init(&l->from, RING);
    flow_init(&l->to, RING);
    assert_true(flow_peer(&l->from, RING));
    assert_false(flow_peer(&l->from, RING));
}

static bool sends(struct line *l, uint32_t most)
{
    uint64_t offset;
    uint32_t piece = flow_piece(&l->from, &offset);

    if (!piece) {
        return false;
    }
    piece = 1 + below(piece < most ? piece : most);
    assert_true(offset + piece <= RING);
    assert_true(l->ndata < FLOW_WORDS);
    l->data[l->ndata].len = piece;
    l->data[l->ndata].offset = offset;
    l->data[l->ndata++].word = flow_put(&l->from, piece);
    return true;
}

static bool takes_word(struct line *l)
{
    if (!l->ndata) {
        return false;
    }
    assert_true(flow_take(&l->to, l->data[0].word, l->data[0].offset,
                          l->data[0].len));
    memmove(l->data, l->data + 1, --l->ndata * sizeof(*l->data));
    return true;
}

static bool consumes(struct line *l)
{
    uint64_t offset;
    uint32_t stretch = flow_stretch(&l->to, &offset);

    if (!stretch) {
        return false;
    }
    assert_true(offset + stretch <= RING);
    assert_int_equal(offset, l->to.consumed % RING);
    flow_consume(&l->to, 1 + below(stretch));
    if (flow_owes(&l->to)) {
        assert_true(l->ncredit < 64);
        l->credit[l->ncredit++].word = flow_tell(&l->to);
    }
    return true;
}

static bool takes_credit(struct line *l)
{
    if (!l->ncredit) {
        return false;
    }
    assert_true(flow_take(&l->from, l->credit[0].word, 0, 0));
    memmove(l->credit, l->credit + 1, --l->ncredit * sizeof(*l->credit));
    return true;
}

/* In any order; short and long pieces; many times round the ring. */
TEST(nothing_stands_still, cmocka_unit_test)
{
    static const uint32_t most[] = { 1, 60, RING };
    struct line l;
    unsigned i, k;

    for (k = 0; k < 3; k++) {
        line_init(&l);
        for (i = 0; i < 200000; i++) {
            bool done = false;

            switch (below(4)) {
            case 0: done = sends(&l, most[k]); break;
            case 1: done = takes_word(&l); break;
            case 2: done = consumes(&l); break;
            case 3: done = takes_credit(&l); break;
            }
            if (!done) {
                assert_true(sends(&l, most[k]) || takes_word(&l) ||
                            consumes(&l) || takes_credit(&l));
            }
            assert_true(l.to.received - l.to.consumed <= RING);
        }
        while (takes_word(&l) || consumes(&l) || takes_credit(&l)) {
        }
        assert_int_equal(l.to.consumed, l.from.sent);
        /* The credit that the sender does not know of is less than a share. */
        assert_true(flow_room(&l.from) > RING - RING / FLOW_SHARE);
    }
}

/* ---- One that does not ------------------------------------------------- */

static bool data(struct flow *flow, uint64_t end, uint64_t offset, uint32_t len)
{
    return flow_take(flow, flow_word(FLOW_DATA, end), offset, len);
}

TEST(what_cannot_be_is_refused, cmocka_unit_test)
{
    struct flow flow, before;

    flow_init(&flow, RING);
    assert_true(flow_peer(&flow, RING));
    assert_true(data(&flow, 100, 0, 100));
    flow_put(&flow, 50);
    before = flow;
    assert_false(data(&flow, 100, 100, 0));         /* of nothing */
    assert_false(data(&flow, 90, 90, 10));          /* again */
    assert_false(data(&flow, 200, 100, 99));        /* another length */
    assert_false(data(&flow, 200, 101, 100));       /* another place */
    assert_false(data(&flow, 200, 100 + RING, 100));
    assert_false(data(&flow, 100 + RING, 100, RING));   /* over itself */
    assert_false(data(&flow, RING + 1, 100, RING - 99)); /* beyond room */
    assert_false(flow_take(&flow, flow_word(FLOW_CREDIT, 0), 0, 0));
    assert_false(flow_take(&flow, flow_word(FLOW_CREDIT, 51), 0, 0));
    assert_false(flow_take(&flow, flow_word(FLOW_CREDIT, 50), 0, 1));
    assert_false(flow_take(&flow, flow_word(FLOW_CREDIT, ~0ull), 0, 0));
    assert_false(flow_take(&flow, flow_word(FLOW_FIN, 99), 0, 0));
    assert_false(flow_take(&flow, flow_word(FLOW_FIN, 101), 0, 0));
    assert_false(flow_take(&flow, flow_word(FLOW_AHEAD, 99), 0, 0));
    assert_false(flow_take(&flow, flow_word(FLOW_AHEAD, RING + 1), 0, 0));
    assert_memory_equal(&flow, &before, sizeof(flow));
    assert_true(flow_take(&flow, flow_word(FLOW_AHEAD, 300), 0, 0));
    assert_false(flow_take(&flow, flow_word(FLOW_AHEAD, 200), 0, 0));
    assert_false(flow_take(&flow, flow_word(FLOW_FIN, 100), 0, 0));
    assert_true(data(&flow, 300, 100, 200));
    assert_true(flow_take(&flow, flow_word(FLOW_FIN, 300), 0, 0));
    assert_false(flow_take(&flow, flow_word(FLOW_FIN, 300), 0, 0));
    assert_false(data(&flow, 301, 300, 1));
    assert_true(flow_take(&flow, flow_word(FLOW_CREDIT, 50), 0, 0));
    assert_int_equal(flow_room(&flow), RING);
}

/* More words than may be on their way. */
TEST(words_are_bounded, cmocka_unit_test)
{
    struct flow flow;
    unsigned i;

    flow_init(&flow, RING);
    for (i = 0; i < FLOW_WORDS; i++) {
        assert_true(data(&flow, i + 1, i, 1));
    }
    assert_false(data(&flow, i + 1, i, 1));
    /* That they were consumed does not count before it was told. */
    flow_consume(&flow, FLOW_WORDS / 2);
    assert_false(data(&flow, i + 1, i, 1));
    assert_true(flow_owes(&flow));
    flow_tell(&flow);
    assert_true(data(&flow, i + 1, i, 1));
}

/* Any words at all: whatever is believed, positions stay in the rings. */
TEST(nothing_leads_out_of_the_ring, cmocka_unit_test)
{
    struct flow flow;
    uint64_t offset;
    unsigned i;

    flow_init(&flow, RING);
    assert_true(flow_peer(&flow, RING));
    for (i = 0; i < 500000; i++) {
        uint32_t word = flow_word(below(4), (below(2) ? flow.received :
                                             flow.credited) + below(200));

        if (below(2)) {
            word = below(1u << 31) * 2 + below(2);
        }
        flow_take(&flow, word, flow.received % RING,
                  word >> FLOW_KIND_SHIFT ? 0 :
                  (word - (uint32_t)flow.received) & FLOW_POSITION);
        flow.fin_in = false;
        assert_true(flow.received - flow.consumed <= RING);
        assert_true(flow.ahead - flow.consumed <= RING);
        assert_true(flow.credited <= flow.sent);
        assert_true(flow_stretch(&flow, &offset) + offset <= RING);
        flow_consume(&flow, flow_there(&flow) ? below((uint32_t)flow_there(
                         &flow) + 1) : 0);
        if (flow_owes(&flow)) {
            flow_tell(&flow);
        }
        if (flow_piece(&flow, &offset) && below(2)) {
            flow_put(&flow, 1);
        }
        assert_true(flow_piece(&flow, &offset) + offset <= RING);
    }
    assert_true(flow.received && flow.credited);
}

TEST(rings_have_sizes, cmocka_unit_test)
{
    static const uint64_t wrong[] = {
        0, 1, 2048, 4097, 12288, 1ull << 27, 1ull << 32, (1ull << 32) + 4096,
        UINT64_MAX,
    };
    struct flow flow;
    unsigned i;

    flow_init(&flow, RING);
    assert_int_equal(flow_room(&flow), 0);
    for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_false(flow_peer(&flow, wrong[i]));
    }
    assert_true(flow_peer(&flow, UNETMM_STREAM_RING_MOST));
    assert_int_equal(flow_room(&flow), UNETMM_STREAM_RING_MOST);
}

/* ---- Names and files of unetmm-cp -------------------------------------- */

TEST(names_stay_in_the_directory, cmocka_unit_test)
{
    static const char *const wrong[] = {
        "", ".", "..", ".hidden", "../x", "a/b", "/etc/passwd", "a/", "a\nb",
        "\033[2J", "a\177",
        /* U+009B as UTF-8, as a byte, in an incomplete character, in an overlong one */
        "\xc2\x9b" "2J", "a\xc2\x80", "\x9b" "2J", "a\xe2\x9b", "\xe0\x82\x9b",
        "\xc2", "caf\xe9",
    };
    char longest[CP_NAME_MOST + 2];
    unsigned i;

    for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_false(cp_name_good(wrong[i], strlen(wrong[i])));
    }
    assert_false(cp_name_good("a\0b", 3));
    assert_true(cp_name_good("a", 1));
    assert_true(cp_name_good("a file..txt", 11));
    /* The same bytes in other characters; U+00A0, which is no control character */
    assert_true(cp_name_good("\xc4\x9b\xe2\x82\xac\xc2\xa0", 7));
    memset(longest, 'x', sizeof(longest));
    assert_true(cp_name_good(longest, CP_NAME_MOST));
    assert_false(cp_name_good(longest, CP_NAME_MOST + 1));
}

static unsigned entries(int directory)
{
    int copy = openat(directory, ".", O_RDONLY | O_DIRECTORY);
    DIR *dir = fdopendir(copy);
    struct dirent *entry;
    unsigned n = 0;

    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        n += strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
    }
    closedir(dir);
    return n;
}

static void check_content(int directory, const char *name, const char *wanted)
{
    int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW);
    char got[20] = "";

    assert_true(fd >= 0);
    assert_int_equal(read(fd, got, sizeof(got) - 1), strlen(wanted));
    assert_string_equal(got, wanted);
    close(fd);
}

TEST(files_are_whole_or_not_there, cmocka_unit_test)
{
    char path[] = "/tmp/unetmm-stream-XXXXXX";
    struct cp_file file;
    struct stat stat;
    mode_t mask = umask(0022);
    int directory;

    cp_file_init();
    assert_non_null(mkdtemp(path));
    directory = open(path, O_RDONLY | O_DIRECTORY);
    assert_true(directory >= 0);
    assert_int_equal(cp_file_create(&file, directory), 0);
    assert_int_equal(cp_file_write(&file, "half", 4), 0);
    cp_file_drop(&file);
    assert_int_equal(entries(directory), 0);
    assert_int_equal(symlinkat("outside", directory, "link"), 0);
    assert_int_equal(cp_file_create(&file, directory), 0);
    assert_int_equal(cp_file_write(&file, "first", 5), 0);
    assert_int_equal(cp_file_finish(&file, "link", 0666, false), -EEXIST);
    assert_int_equal(cp_file_finish(&file, "a", 07777, false), 0);
    cp_file_drop(&file);
    check_content(directory, "a", "first");
    assert_int_equal(fstatat(directory, "a", &stat, 0), 0);
    assert_int_equal(stat.st_mode & 07777, 0755);
    assert_int_equal(cp_file_create(&file, directory), 0);
    assert_int_equal(cp_file_write(&file, "second", 6), 0);
    assert_int_equal(cp_file_finish(&file, "a", 0600, false), -EEXIST);
    umask(0027);
    cp_file_init();
    assert_int_equal(cp_file_finish(&file, "link", 0777, true), 0);
    assert_int_equal(umask(mask), 0027);
    cp_file_drop(&file);
    assert_int_equal(fstatat(directory, "link", &stat, AT_SYMLINK_NOFOLLOW), 0);
    assert_int_equal(stat.st_mode & 07777, 0750);
    check_content(directory, "a", "first");
    check_content(directory, "link", "second");
    assert_int_equal(entries(directory), 2);
    unlinkat(directory, "a", 0);
    unlinkat(directory, "link", 0);
    close(directory);
    rmdir(path);
}

TEST(paths_stay_below_the_directory, cmocka_unit_test)
{
    static const char *const bad[] = {
        "", "/", "/etc", "a/", "a//b", "..", "a/..", "../a", "a/../../b", "a/.b",
        ".ssh/id", "a\n/b", "a/b\033[2J",
    };
    char path[] = "/tmp/unetmm-stream-XXXXXX", deep[CP_PATH_MOST + 2];
    struct stat stat;
    const char *name;
    int directory, at;
    size_t i;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(cp_path_good(bad[i], strlen(bad[i])));
    }
    assert_true(cp_path_good("a", 1));
    assert_true(cp_path_good("a/b.c/d", 7));
    /* A length that ends a name early, or that reaches behind the string. */
    assert_true(cp_path_good("a/b", 1));
    assert_false(cp_path_good("a/b\0c", 5));
    for (i = 0; i < sizeof(deep); i++) {
        deep[i] = i % 2 ? '/' : 'd';
    }
    assert_true(cp_path_good(deep, 2 * CP_DEPTH_MOST - 1));
    assert_false(cp_path_good(deep, 2 * CP_DEPTH_MOST + 1));
    memset(deep, 'n', sizeof(deep));
    assert_false(cp_path_good(deep, CP_PATH_MOST + 1));

    assert_non_null(mkdtemp(path));
    directory = open(path, O_RDONLY | O_DIRECTORY);
    assert_true(directory >= 0);
    at = cp_path_open(directory, "one/two/file", &name);
    assert_true(at >= 0);
    assert_string_equal(name, "file");
    close(at);
    assert_int_equal(fstatat(directory, "one/two", &stat, 0), 0);
    assert_true(S_ISDIR(stat.st_mode));
    assert_int_equal(symlinkat("/tmp", directory, "link"), 0);
    assert_in_range(-cp_path_open(directory, "link/x", &name), 1, 200);
    unlinkat(directory, "link", 0);
    unlinkat(directory, "one/two", AT_REMOVEDIR);
    unlinkat(directory, "one", AT_REMOVEDIR);
    close(directory);
    assert_int_equal(rmdir(path), 0);
}

TEST(every_error_has_a_sentence, cmocka_unit_test)
{
    int error;

    for (error = -200; error < 200; error++) {
        assert_non_null(unetmm_stream_strerror(error));
    }
}
