/*
 * unetmm: the share of a user in the workers of the driver's pager
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdlib.h>
#include <cmocka.h>

#include "share/share.h"

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

static void test_alone(void **state)
{
    for (unsigned workers = 2; workers < MOST_WORKERS; workers++) {
        Pool pool = { .workers = workers };

        take_all(&pool, 0);
        assert_int_equal(pool.has[0], workers / 2);
    }
}

/* The second has half of the rest, and so on. */
static void test_one_after_another(void **state)
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
static void test_always_one(void **state)
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
static void test_some_are_left(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_one_after_another),
        cmocka_unit_test(test_always_one),
        cmocka_unit_test(test_some_are_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
