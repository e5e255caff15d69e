/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A reliable channel within the process, and the driver's parameters. */
#include "pair.h"
#include "card.h"

#include <stdio.h>
#include <sys/mman.h>

#define PARAMETERS      "/sys/module/unetmm/parameters/"

void set_parameter(const char *name, unsigned value)
{
    char path[200], text[20];

    snprintf(path, sizeof(path), PARAMETERS "%s", name);
    snprintf(text, sizeof(text), "%u", value);
    CHECK_RET(write_file(path, text), 0);
}

/* Which mapping lies behind another is chance. */
void pair_open(struct pair *p)
{
    static const struct unetmm_channel_attr attr = UNETMM_CHANNEL_ATTR_INIT;
    struct unetmm_ep_attr patient = default_attr();

    /* With policy skip a buffer comes back whose page-in takes its time. */
    patient.policy = UNETMM_POLICY_DROP;
    set_parameter("odp_prefetch", 0);
    p->ctx = look_open(&p->look);
    station_open(&p->one, p->ctx, NULL);
    station_open(&p->two, p->ctx, &patient);
    CHECK_RET(try_join(&p->one, &p->two, &attr, 10 * NS_PER_S * run.slow), 0);
}

void pair_close(struct pair *p)
{
    station_close(&p->one);
    station_close(&p->two);
    look_close(&p->look);
    CHECK_RET(unetmm_close(p->ctx), 0);
    set_parameter("odp_prefetch", PREFETCH);
}

uint64_t faults(const struct pair *p)
{
    return driver_counter(p->ctx, UNETMM_D_faults);
}

void check_faults(const struct pair *p, uint64_t before, unsigned n)
{
    uint64_t got = faults(p) - before;

    if (got < n || got > n + 2) {
        FAIL("%llu faults, not %u", (unsigned long long)got, n);
    }
}

uint8_t *small_pages(unsigned n)
{
    uint8_t *at = pages(n);

    /* EINVAL: a kernel that has no other ones. */
    (void)madvise(at, n * PAGE, MADV_NOHUGEPAGE);
    return at;
}

void pass(struct pair *p, uint8_t *from, uint8_t *to, size_t len)
{
    struct iovec iov = { from, len };
    struct unetmm_completion c;

    post(&p->two, to, len, 1);
    send_pieces(&p->one, &iov, 1, 2, 0);
    take(&p->two, UNETMM_CQE_RECEIVED, &c);
    CHECK_EQ(c.status, UNETMM_ST_OK);
    CHECK_EQ(c.len, len);
    take(&p->one, UNETMM_CQE_SENT, &c);
    CHECK_EQ(c.status, UNETMM_ST_OK);
}

void pass_pattern(struct pair *p, uint8_t *from, uint8_t *to, size_t len,
                  uint64_t key)
{
    pattern_fill(from, len, key, 0);
    pass(p, from, to, len);
    CHECK_PATTERN(to, len, key);
}
