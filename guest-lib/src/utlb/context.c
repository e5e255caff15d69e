/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Source utlb of a context: its limits, its policy, its counts.
 */
#include "utlb.h"
#include "record.h"

#define DEFAULT_QUOTA   8192u
#define DEFAULT_PREPIN  16u

static int set_up(struct unetmm_utlb_ctx *u, uint32_t quota, uint32_t prepin,
                  const struct unetmm_utlb_policy *policy)
{
    struct slot *slots = sys_calloc(quota, sizeof(*slots));
    void *state = slots ? policy->create(quota) : NULL;
    uint32_t i;

    if (!state) {
        free(slots);
        return -ENOMEM;
    }
    if (u->slots) {
        u->policy->destroy(u->state);
        free(u->slots);
    }
    for (i = 0; i < quota; i++) {
        slots[i].next = i + 1;
    }
    u->slots = slots;
    u->state = state;
    u->quota = quota;
    u->prepin = prepin;
    u->policy = policy;
    u->first_free = 0;
    u->used = 0;
    atomic_store(&u->last_used, UNETMM_UTLB_NONE);
    return 0;
}

int unetmm_utlb_open(struct unetmm_ctx *ctx, const struct unetmm_space *space)
{
    struct unetmm_utlb_ctx *u = sys_calloc(1, sizeof(*u));
    uint32_t quota = space->quota_pages;
    void *log;
    int ret = -ENOMEM;

    if (!u) {
        return ret;
    }
    u->fd = ctx->fd;
    u->driver_quota = quota;
    u->root = sys_calloc(1, sizeof(*u->root));
    if (!u->root) {
        goto free_u;
    }
    quota = quota > DEFAULT_QUOTA ? DEFAULT_QUOTA : quota ? quota : 1;
    ret = set_up(u, quota, DEFAULT_PREPIN, unetmm_utlb_policy("lru"));
    if (ret) {
        goto free_root;
    }
    ret = -EPROTO;
    if (space->log_bytes == sizeof(*u->log)) {
        ret = sys_mmap(&log, space->log_bytes, PROT_READ, MAP_SHARED, ctx->fd,
                       space->log_map);
    }
    if (ret) {
        goto free_slots;
    }
    u->log = log;
    pthread_mutex_init(&u->lock, NULL);
    pthread_mutex_init(&ctx->exported_lock, NULL);
    ctx->utlb = u;
    return 0;

free_slots:
    u->policy->destroy(u->state);
    free(u->slots);
free_root:
    free(u->root);
free_u:
    free(u);
    return ret;
}

void unetmm_utlb_close(struct unetmm_ctx *ctx, bool child)
{
    struct unetmm_utlb_ctx *u = ctx->utlb;

    if (!u) {
        return;
    }
    unetmm_utlb_forget_exports(ctx);
    if (!child) {
        sys_munmap((void *)(uintptr_t)u->log, sizeof(*u->log));
        pthread_mutex_destroy(&u->lock);
        pthread_mutex_destroy(&ctx->exported_lock);
    }
    u->policy->destroy(u->state);
    free(u->slots);
    unetmm_utlb_free_nodes(u->root, LEVELS - 1);
    free(u);
    ctx->utlb = NULL;
}

static bool is_policy(const struct unetmm_utlb_policy *policy)
{
    return policy->size >= sizeof(*policy) && policy->create &&
        policy->destroy && policy->pinned && policy->unpinned &&
        policy->choose;
}

int unetmm_utlb_configure(struct unetmm_ctx *ctx,
                          const struct unetmm_utlb_config *given)
{
    struct unetmm_utlb_config config = { sizeof(config) };
    const struct unetmm_utlb_policy *policy;
    struct unetmm_utlb_ctx *u = ctx->utlb;
    int ret = unetmm_ctx_check(ctx);
    uint32_t quota;

    if (ret) {
        return ret;
    }
    ret = sized_read(&config, sizeof(config),
                     SIZED_UP_TO(struct unetmm_utlb_config, policy), given);
    if (ret) {
        return ret;
    }
    policy = config.policy ? config.policy : unetmm_utlb_policy("lru");
    if (!u || !is_policy(policy) || config.prepin > MOST_AT_ONCE) {
        return -EINVAL;
    }
    quota = config.quota_pages ? config.quota_pages : DEFAULT_QUOTA;
    quota = quota > u->driver_quota ? u->driver_quota : quota;
    if (!quota) {
        return -EDQUOT;
    }
    pthread_mutex_lock(&u->lock);
    unetmm_utlb_read_log(u);
    /* An export that another thread is making holds its pages already, or takes one now. */
    if (atomic_load(&ctx->endpoints) || unetmm_utlb_any_in_use(u) ||
        !unetmm_utlb_unpin_all(u)) {
        ret = -EBUSY;
    } else {
        ret = set_up(u, quota, config.prepin ? config.prepin : DEFAULT_PREPIN,
                     policy);
    }
    pthread_mutex_unlock(&u->lock);
    return ret;
}

int unetmm_utlb_stats(struct unetmm_ctx *ctx, struct unetmm_utlb_stats *stats)
{
    struct unetmm_utlb_ctx *u = ctx->utlb;
    int ret = unetmm_ctx_check(ctx);

    if (ret) {
        return ret;
    }
    if (!u) {
        return -EINVAL;
    }
    pthread_mutex_lock(&u->lock);
    u->stats.pinned_now = u->used;
    u->stats.quota_pages = u->quota;
    ret = sized_write(stats, &u->stats, sizeof(u->stats),
                      SIZED_UP_TO(struct unetmm_utlb_stats, repeated));
    pthread_mutex_unlock(&u->lock);
    return ret;
}
