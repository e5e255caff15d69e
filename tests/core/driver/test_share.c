/*
 * unetmm: the share of a user in the workers of the driver's pager, and in its pools
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include "../../one_test.h"

#include "util/share.h"

#define MOST_WORKERS    160
#define USERS           3
#define STEPS           20000

typedef struct Pool {
    unsigned workers;
    unsigned has[USERS];
} Pool;

static unsigned taken(const Pool *pool)
{
    unsigned all = 0;

    for (unsigned user = 0; user < USERS; user++) {
        all += pool->has[user];
    }
    return all;
}

/* As unetmm_may_serve(): one more if the user has less than its share. */
static bool take(Pool *pool, unsigned user)
{
    unsigned others = taken(pool) - pool->has[user];

    if (pool->has[user] >= unetmm_share(pool->workers, others)) {
        return false;
    }
    pool->has[user]++;
    return true;
}

static void take_all(Pool *pool, unsigned user)
{
    unsigned tries = 0;

    while (take(pool, user)) {
        assert_in_range(++tries, 1, MOST_WORKERS);
    }
}

TEST(test_alone, cmocka_unit_test)
{
    for (unsigned workers = 2; workers < MOST_WORKERS; workers++) {
        Pool pool = { .workers = workers };

        take_all(&pool, 0);
        assert_int_equal(pool.has[0], workers / 2);
    }
}

/* The second has half of the rest, and so on. */
TEST(test_one_after_another, cmocka_unit_test)
{
    static const unsigned has[USERS] = { 64, 32, 16 };
    Pool pool = { .workers = 128 };

    for (unsigned user = 0; user < USERS; user++) {
        take_all(&pool, user);
        assert_int_equal(pool.has[user], has[user]);
    }
    assert_false(take(&pool, 0));
}

/* Whatever the others have, more than there is included. */
TEST(test_always_one, cmocka_unit_test)
{
    for (unsigned others = 0; others < 2 * MOST_WORKERS; others++) {
        for (unsigned workers = 0; workers < MOST_WORKERS; workers++) {
            assert_true(unetmm_share(workers, others) >= 1);
        }
    }
    assert_int_equal(unetmm_share(8, UINT32_MAX), 1);
    assert_int_equal(unetmm_share(UINT32_MAX, 0), UINT32_MAX / 2);
}

/* In any order of takes and ends two users leave a quarter, three an eighth. */
TEST(test_some_are_left, cmocka_unit_test)
{
    const char *text = getenv("UNETMM_SEED");
    unsigned seed = text ? (unsigned)atoll(text) : 1;

    print_message("# seed %u\n", seed);
    srand(seed);
    for (unsigned users = 1; users <= USERS; users++) {
        Pool pool = { .workers = 64 };
        unsigned most = 0;

        for (unsigned step = 0; step < STEPS; step++) {
            unsigned user = (unsigned)rand() % users;

            if (rand() % 4) {
                take(&pool, user);
            } else if (pool.has[user]) {
                pool.has[user]--;
            }
            most = taken(&pool) > most ? taken(&pool) : most;
        }
        assert_true(most <= 64 - (64u >> users));
    }
}

/* ---- Pools of objects ---------------------------------------------------------- */

#define MANY            64

/* Of a pool of `all`, all that the rule gives; in steps of `step`. */
static unsigned take_more(unsigned all, unsigned *has, unsigned user,
                          unsigned step)
{
    unsigned others = 0, took = 0, more;

    for (unsigned i = 0; i < MANY; i++) {
        others += i == user ? 0 : has[i];
    }
    while ((more = unetmm_share_more(all, has[user], others))) {
        more = more < step ? more : step;
        has[user] += more;
        took += more;
        assert_true(has[user] + others <= all);
    }
    return took;
}

/* One user has half; the pool of one object is not empty for it. */
TEST(test_pool_of_one_user, cmocka_unit_test)
{
    for (unsigned all = 0; all < 1000; all++) {
        unsigned has[MANY] = { 0 };

        take_more(all, has, 0, 1 + all % 3);
        assert_int_equal(has[0], (all + 1) / 2);
    }
    assert_int_equal(unetmm_share_more(UINT32_MAX, 0, 0), 1u << 31);
    assert_int_equal(unetmm_share_more(UINT32_MAX, 0, UINT32_MAX), 0);
    assert_int_equal(unetmm_share_more(7, 9, 9), 0);
}

/*
 * Whatever users came before that took all that they could, in any steps: some are
 * left to one that has none, and a sixteenth to those without a limit.
 */
TEST(test_pool_is_never_empty, cmocka_unit_test)
{
    for (unsigned all = 16; all < 5000; all += 1 + all / 7) {
        for (unsigned step = 1; step < all; step *= 5) {
            unsigned has[MANY] = { 0 }, left = all;
            unsigned least = all / 256 ? all / 256 : 1;
            unsigned users = (all / 8 - all / 16) / least;

            /* Each leaves half of the rest: these are all that are greedy. */
            for (unsigned user = 0; user < MANY; user++) {
                left -= take_more(all, has, user, step);
                assert_true(left >= all / 16);
                if (user < users) {
                    assert_true(has[user] >= least);
                }
            }
            /* A second round gives them no more. */
            for (unsigned user = 0; user < MANY; user++) {
                left -= take_more(all, has, user, step);
            }
            assert_true(left >= all / 16);
        }
    }
}

/* Users that take and give back as they like leave as much. */
TEST(test_pool_at_random, cmocka_unit_test)
{
    const char *text = getenv("UNETMM_SEED");
    unsigned seed = text ? (unsigned)atoll(text) : 1;
    unsigned has[MANY] = { 0 }, all = 0, n;

    print_message("# seed %u\n", seed);
    srand(seed);
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned user = (unsigned)rand() % MANY;

        if (rand() % 4) {
            n = unetmm_share_more(256, has[user], all - has[user]);
            n = n ? 1 + (unsigned)rand() % n : 0;
            has[user] += n;
            all += n;
        } else if (has[user]) {
            n = 1 + (unsigned)rand() % has[user];
            has[user] -= n;
            all -= n;
        }
        assert_true(all <= 256 - 16);
    }
}
