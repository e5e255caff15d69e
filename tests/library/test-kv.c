/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm-kv's store and protocol, under the sanitizers.  The network
 * feeds them: in pieces of every size, with lengths of every kind, with garbage.
 *
 * UNETMM_SEED=N repeats a run; it is 1 if nobody says another.
 */
#include <errno.h>
#include "../one_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv_protocol.h"

#define scene_test(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

#define STORE_BYTES     (64u << 10)
#define HEARD_BYTES     (4u << 20)

static uint64_t seed, state_word;

static uint32_t pick(uint32_t below)
{
    state_word = state_word * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(state_word >> 33) % below;
}

/* ---- The store ----------------------------------------------------------- */

struct fixture {
    struct kv_server server;
    struct kv_talk talk;
    uint8_t *memory;
    char *heard;
    size_t nheard;
    size_t at_once;             /* the client takes so much in one go; 0: all */
    size_t credit;              /* and so much until the next turn */
};

static void __attribute__((constructor)) choose_seed(void)
{
    const char *given = getenv("UNETMM_SEED");

    state_word = seed = given ? strtoull(given, NULL, 0) : 1;
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    printf("# repeat: UNETMM_SEED=%llu %s\n", (unsigned long long)seed,
           program_invocation_name);
    /* The very size: the sanitizer sees accesses beyond it. */
    f->memory = malloc(STORE_BYTES);
    f->heard = malloc(HEARD_BYTES);
    assert_true(kv_store_make(&f->server.store, f->memory, STORE_BYTES));
    f->server.now = 1000;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    kv_talk_stop(&f->talk);
    /* Nothing is lost: without items, every chunk is free. */
    kv_delete_all(&f->server.store);
    assert_int_equal(f->server.store.stats.chunks_used, 0);
    assert_int_equal(f->server.store.stats.items, 0);
    kv_store_free(&f->server.store);
    free(f->memory);
    free(f->heard);
    free(f);
    return 0;
}

static void fill(struct kv_store *s, struct kv_item *item, uint32_t word)
{
    struct kv_place at;
    size_t n, i;

    for (kv_start(s, item, &at); at.left; kv_skip(s, &at, n)) {
        uint8_t *to = kv_next(s, &at, &n);

        /* In pieces that end anywhere. */
        n = 1 + pick((uint32_t)n);
        for (i = 0; i < n; i++) {
            to[i] = (uint8_t)(word + at.left - i);
        }
    }
}

static void check(const struct kv_store *s, const struct kv_item *item,
                  uint32_t word)
{
    struct kv_place at;
    size_t n, i;

    for (kv_start(s, item, &at); at.left; kv_skip(s, &at, n)) {
        const uint8_t *from = kv_next(s, &at, &n);

        n = 1 + pick((uint32_t)n);
        for (i = 0; i < n; i++) {
            assert_int_equal(from[i], (uint8_t)(word + at.left - i));
        }
    }
}

static size_t make_key(char *key, uint32_t n)
{
    /* Some are as long as keys can be. */
    return (size_t)sprintf(key, n % 7 ? "key%u" : "%0250u", n);
}

#define KEYS    200

/* Against a table of each key's last value: it has that value, or none. */
TEST(store_keeps_what_it_has, scene_test)
{
    struct kv_store *s = &((struct fixture *)*state)->server.store;
    uint32_t words[KEYS] = { 0 }, lengths[KEYS] = { 0 }, i, hits = 0;
    struct kv_item *held = NULL;
    uint32_t held_word = 0;
    char key[KV_MAX_KEY + 1];

    for (i = 1; i < 40000; i++) {
        uint32_t n = pick(KEYS);
        size_t length = make_key(key, n);
        struct kv_item *item;

        switch (pick(4)) {
        case 0:
            lengths[n] = pick(pick(8) ? 2000 : 20000);
            words[n] = i;
            item = kv_begin(s, key, length, lengths[n]);
            assert_non_null(item);
            fill(s, item, i);
            kv_publish(s, item);
            kv_release(s, item);
            break;
        case 1:
            kv_delete(s, key, length, 0);
            assert_null(kv_find(s, key, length, 0));
            break;
        default:
            item = kv_find(s, key, length, 0);
            if (!item) {
                break;
            }
            hits++;
            assert_int_equal(item->length, lengths[n]);
            check(s, item, words[n]);
            if (!held && item->length < 5000) {
                held = item;
                held_word = words[n];
            } else {
                kv_release(s, item);
            }
            break;
        }
        if (held && !pick(50)) {
            /* Whatever has become of its key. */
            check(s, held, held_word);
            kv_release(s, held);
            held = NULL;
        }
        assert_true(s->stats.chunks_used <= s->chunks);
    }
    if (held) {
        kv_release(s, held);
    }
    assert_true(hits > 1000);
    assert_true(s->stats.evicted > 1000);
}

TEST(store_forgets_the_oldest, scene_test)
{
    struct kv_store *s = &((struct fixture *)*state)->server.store;
    struct kv_item *item;
    uint32_t i;
    char key[16];

    for (i = 0; i < s->chunks; i++) {
        size_t n = (size_t)sprintf(key, "k%u", i);

        item = kv_begin(s, key, n, 100);
        kv_publish(s, item);
        kv_release(s, item);
    }
    assert_int_equal(s->stats.evicted, 0);
    /* The first is used, so the second is the oldest. */
    kv_release(s, kv_find(s, "k0", 2, 0));
    item = kv_begin(s, "new", 3, 100);
    kv_publish(s, item);
    kv_release(s, item);
    assert_int_equal(s->stats.evicted, 1);
    assert_null(kv_find(s, "k1", 2, 0));
    item = kv_find(s, "k0", 2, 0);
    assert_non_null(item);
    kv_release(s, item);
}

TEST(store_has_bounds, scene_test)
{
    struct kv_store *s = &((struct fixture *)*state)->server.store, none;
    struct kv_item *all, *item;
    char key[KV_MAX_KEY + 1];

    memset(key, 'k', sizeof(key));
    assert_null(kv_begin(s, key, 0, 1));
    assert_null(kv_begin(s, key, KV_MAX_KEY + 1, 1));
    assert_null(kv_begin(s, key, 1, KV_MAX_VALUE + 1));
    assert_null(kv_begin(s, key, 1, UINT32_MAX));
    assert_null(kv_begin(s, key, 1, STORE_BYTES));
    all = kv_begin(s, key, 1, STORE_BYTES - 1);
    assert_non_null(all);
    kv_publish(s, all);
    /* Used memory makes no room. */
    assert_null(kv_begin(s, key, 2, 1));
    assert_ptr_equal(kv_find(s, key, 1, 0), all);
    kv_release(s, all);
    kv_release(s, all);
    item = kv_begin(s, key, 2, 0);
    assert_non_null(item);
    kv_release(s, item);
    assert_false(kv_store_make(&none, NULL, KV_CHUNK - 1));
}

/* ---- The protocol -------------------------------------------------------- */

static size_t hear(void *arg, const void *data, size_t length)
{
    struct fixture *f = arg;
    size_t n = f->at_once && length > f->at_once ? f->at_once : length;

    n = n < f->credit ? n : f->credit;
    assert_true(n <= HEARD_BYTES - f->nheard - 1);
    memcpy(f->heard + f->nheard, data, n);
    f->nheard += n;
    f->credit -= n;
    return n;
}

static void begin_talk(struct fixture *f, size_t at_once)
{
    kv_talk_stop(&f->talk);
    kv_delete_all(&f->server.store);
    kv_talk_start(&f->talk, &f->server, hear, f);
    f->nheard = 0;
    f->at_once = at_once;
    f->credit = SIZE_MAX;
}

/* In pieces; each in memory of its own, so that nothing behind it is read. */
static void say_in(struct fixture *f, const char *text, size_t length,
                   size_t piece)
{
    while (length) {
        size_t n = piece < length ? piece : length, done = 0;
        char *copy = malloc(n);
        unsigned turns = 0;

        memcpy(copy, text, n);
        while (done < n) {
            if (f->at_once) {
                f->credit = f->at_once;
            }
            done += kv_talk_input(&f->talk, copy + done, n - done);
            assert_true(done <= n);
            assert_true(++turns < 10000000);
        }
        free(copy);
        text += n;
        length -= n;
    }
    do {
        f->credit = f->at_once ? f->at_once : SIZE_MAX;
    } while (!kv_talk_run(&f->talk));
    f->heard[f->nheard] = 0;
}

struct dialogue {
    const char *said, *answer;
    bool ends;
};

#define KEY_50  "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
#define KEY_250 KEY_50 KEY_50 KEY_50 KEY_50 KEY_50

static const struct dialogue dialogues[] = {
    { "set a 5 0 5\r\nhello\r\nget a\r\n",
      "STORED\r\nVALUE a 5 5\r\nhello\r\nEND\r\n", false },
    { "set a 0 0 0\r\n\r\nget a b\r\n",
      "STORED\r\nVALUE a 0 0\r\n\r\nEND\r\n", false },
    { "set a 4294967295 0 1 noreply\r\nx\r\nget a\n",
      "VALUE a 4294967295 1\r\nx\r\nEND\r\n", false },
    { "set a 0 0 2\r\n\r\n\r\nget a a\r\n",
      "STORED\r\nVALUE a 0 2\r\n\r\n\r\nVALUE a 0 2\r\n\r\n\r\nEND\r\n", false },
    { "replace a 0 0 1\r\nx\r\nadd a 0 0 1\r\ny\r\nadd a 0 0 1\r\nz\r\nget a\r\n"
      "replace a 0 0 1\r\nw\r\nget a\r\n",
      "NOT_STORED\r\nSTORED\r\nNOT_STORED\r\nVALUE a 0 1\r\ny\r\nEND\r\n"
      "STORED\r\nVALUE a 0 1\r\nw\r\nEND\r\n", false },
    { "set a 0 0 1\r\nx\r\ndelete a\r\ndelete a\r\ndelete a 0 noreply\r\nget a\r\n",
      "STORED\r\nDELETED\r\nNOT_FOUND\r\nEND\r\n", false },
    { "set a 0 -1 1\r\nx\r\nget a\r\nset a 0 10 1\r\nx\r\nget a\r\n",
      "STORED\r\nEND\r\nSTORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n", false },
    { "set " KEY_250 " 0 0 1\r\nx\r\nget " KEY_250 "\r\n",
      "STORED\r\nVALUE " KEY_250 " 0 1\r\nx\r\nEND\r\n", false },
    { "set a 0 0 1\r\nx\r\nflush_all\r\nget a\r\nflush_all noreply\r\n",
      "STORED\r\nOK\r\nEND\r\n", false },
    { "\r\nnonsense\r\nget\r\nget \r\n\n",
      "ERROR\r\nERROR\r\nERROR\r\nERROR\r\nERROR\r\n", false },
    { "get " KEY_250 "k\r\nget a\tb\r\n",
      "CLIENT_ERROR bad command line format\r\n"
      "CLIENT_ERROR bad command line format\r\n", false },
    { "version\r\nquit\r\nget a\r\n", "VERSION unetmm-kv\r\n", true },
    /* A value may follow, of unknown length. */
    { "set a 0 0\r\nget a\r\n", "CLIENT_ERROR bad command line format\r\n",
      true },
    { "set a 0 0 -1\r\n", "CLIENT_ERROR bad command line format\r\n", true },
    { "set a 0 0 2147483648\r\n", "CLIENT_ERROR bad command line format\r\n",
      true },
    { "set a 0 0 18446744073709551617\r\n",
      "CLIENT_ERROR bad command line format\r\n", true },
    { "set a 4294967296 0 1\r\n", "CLIENT_ERROR bad command line format\r\n",
      true },
    { "set a 0 0 1 please\r\n", "CLIENT_ERROR bad command line format\r\n",
      true },
    { "set " KEY_250 "k 0 0 1\r\n", "CLIENT_ERROR bad command line format\r\n",
      true },
    { "set a 0 0 1\r\nxy\r\n", "CLIENT_ERROR bad data chunk\r\n", true },
    { "set a 0 0 3 noreply\r\nx\r\nget a\r\n",
      "CLIENT_ERROR bad data chunk\r\n", true },
};

TEST_OF(says_what_memcached_says, struct fixture *f, scene_test)
{
    size_t i, piece, at_once;

    for (i = 0; i < sizeof(dialogues) / sizeof(dialogues[0]); i++) {
        const struct dialogue *d = &dialogues[i];

        for (piece = 1; piece <= strlen(d->said); piece++) {
            for (at_once = 0; at_once < 20; at_once += 1 + at_once) {
                begin_talk(f, at_once);
                say_in(f, d->said, strlen(d->said), piece);
                assert_string_equal(f->heard, d->answer);
                assert_int_equal(kv_talk_ended(&f->talk), d->ends);
            }
        }
    }
}

/* A value that nobody can store is passed over, however long it is. */
TEST_OF(passes_over_what_is_too_long, struct fixture *f, scene_test)
{
    static const uint32_t lengths[] = {
        STORE_BYTES, KV_MAX_VALUE, KV_MAX_VALUE + 1, 3 * KV_MAX_VALUE,
    };
    size_t i;

    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        char line[64], *value = malloc(lengths[i]);

        begin_talk(f, 0);
        memset(value, '\n', lengths[i]);
        say_in(f, line, (size_t)sprintf(line, "set a 0 0 %u\r\n", lengths[i]),
               5);
        say_in(f, value, lengths[i], 1460);
        say_in(f, "\r\nget a\r\n", 9, 9);
        assert_string_equal(f->heard, lengths[i] > KV_MAX_VALUE ?
            "SERVER_ERROR object too large for cache\r\nEND\r\n" :
            "SERVER_ERROR out of memory storing object\r\nEND\r\n");
        free(value);
    }
}

TEST_OF(lines_have_an_end, struct fixture *f, scene_test)
{
    static char line[2 * KV_LINE];
    size_t piece;

    memset(line, 'x', sizeof(line));
    for (piece = 1; piece < sizeof(line); piece += piece / 2 + 1) {
        begin_talk(f, 0);
        say_in(f, line, sizeof(line), piece);
        assert_string_equal(f->heard, "CLIENT_ERROR line too long\r\n");
        assert_true(kv_talk_ended(&f->talk));
    }
    /* The longest that is read: a get of many keys. */
    begin_talk(f, 0);
    memcpy(line, "get ", 4);
    for (piece = 4; piece < KV_LINE - 1; piece++) {
        line[piece] = piece % 2 ? ' ' : 'k';
    }
    line[KV_LINE - 1] = '\n';
    say_in(f, line, KV_LINE, 100);
    assert_string_equal(f->heard, "END\r\n");
}

/* A client that asks and does not read: it is not read from either. */
TEST_OF(does_not_answer_into_the_void, struct fixture *f, scene_test)
{
    static const char ask[] = "get a\r\nget a\r\nget a\r\nget a\r\n";
    static char value[20000];
    char line[32];
    size_t taken;

    begin_talk(f, 0);
    say_in(f, line, (size_t)sprintf(line, "set a 0 0 %zu\r\n", sizeof(value)),
           100);
    say_in(f, value, sizeof(value), 1460);
    say_in(f, "\r\n", 2, 2);
    f->nheard = 0;
    f->credit = 30000;
    taken = kv_talk_input(&f->talk, ask, sizeof(ask) - 1);
    assert_true(taken < sizeof(ask) - 1);
    assert_int_equal(f->nheard, 30000);
    /* The value that it is sending stays, though no look-up finds it any more. */
    kv_delete_all(&f->server.store);
    assert_true(f->server.store.stats.chunks_used > 0);
    f->credit = SIZE_MAX;
    taken += kv_talk_input(&f->talk, ask + taken, sizeof(ask) - 1 - taken);
    assert_int_equal(taken, sizeof(ask) - 1);
    assert_int_equal(f->server.store.stats.chunks_used, 0);
}

static size_t two_lines(void *arg, unsigned n, char *line, size_t size)
{
    (void)arg;
    return n < 2 ? (size_t)snprintf(line, size, "more%u %u", n, n) : 0;
}

TEST_OF(tells_its_counters, struct fixture *f, scene_test)
{
    f->server.more_stats = two_lines;
    begin_talk(f, 7);
    say_in(f, "set a 0 0 1\r\nx\r\nget a b\r\nstats\r\n", 32, 3);
    assert_non_null(strstr(f->heard, "STAT cmd_get 2\r\n"));
    assert_non_null(strstr(f->heard, "STAT get_hits 1\r\n"));
    assert_non_null(strstr(f->heard, "STAT curr_items 1\r\n"));
    assert_non_null(strstr(f->heard, "STAT more1 1\r\nEND\r\n"));
}

TEST_OF(values_expire, struct fixture *f, scene_test)
{
    begin_talk(f, 0);
    say_in(f, "set a 0 10 1\r\nx\r\nset b 0 1005 1\r\nx\r\n", 36, 99);
    f->server.now += 9;
    say_in(f, "get a\r\n", 7, 7);
    assert_non_null(strstr(f->heard, "VALUE a 0 1"));
    f->server.now++;
    f->nheard = 0;
    say_in(f, "get a\r\n", 7, 7);
    assert_string_equal(f->heard, "END\r\n");
}

/* Pieces of commands, numbers at the edges, bytes: it lives, and stays in step. */
TEST_OF(takes_any_garbage, struct fixture *f, scene_test)
{
    static const char *const words[] = {
        "get ", "set ", "add ", "replace ", "delete ", "stats", "flush_all",
        "version", "a ", "b ", KEY_250 " ", KEY_250 "k ", "0 ", "1 ", "5 ",
        "100 ", "65535 ", "1048576 ", "1048577 ", "2147483647 ",
        "4294967295 ", "4294967296 ", "-1 ", "99999999999999999999 ",
        "noreply", "\r\n", "\n", "\r", " ", "hello", "\r\n", "a 0 0 5\r\nhello\r\n",
    };
    unsigned round;

    for (round = 0; round < 20000; round++) {
        char text[4096];
        size_t n = 0, most = pick(600);

        if (!round || kv_talk_ended(&f->talk) || !pick(10)) {
            begin_talk(f, pick(3) ? 0 : 1 + pick(40));
        }
        f->nheard = 0;
        while (n < most) {
            if (pick(20)) {
                const char *word = words[pick(sizeof(words) /
                                              sizeof(words[0]))];

                memcpy(text + n, word, strlen(word));
                n += strlen(word);
            } else {
                text[n++] = (char)pick(256);
            }
        }
        if (n) {
            say_in(f, text, n, 1 + pick((uint32_t)n));
        }
    }
    begin_talk(f, 0);
    say_in(f, "set a 0 0 1\r\nx\r\nget a\r\n", 23, 23);
    assert_string_equal(f->heard, "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
}
