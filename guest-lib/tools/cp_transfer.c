/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Common to both sides of unetmm-cp: the stream, and the words about a file.
 */
#include "cp.h"
#include "cp_stream.h"
#include "row.h"

#include <inttypes.h>
#include <stdlib.h>

#define RING_BYTES      (1u << 20)
/* Nothing is said of progress before. */
#define PROGRESS_NS     (2 * NS_PER_S)

bool transfer_lost(const struct transfer *t, int error)
{
    complain("%s%s%s", t->name ? t->name : "", t->name ? ": " : "",
             error == -ETIMEDOUT ? "the peer was silent for too long" :
             error ? unetmm_stream_strerror(error) :
             "the peer ended before the transfer was complete");
    return false;
}

bool transfer_put(const struct transfer *t, const void *bytes, size_t length)
{
    int ret = cp_stream_put(t->stream, bytes, length);

    return !ret || transfer_lost(t, ret);
}

int transfer_take(const struct transfer *t, void *bytes, size_t length, bool patient)
{
    size_t got;
    int ret = cp_stream_take(t->stream, bytes, length, patient, &got);

    if (!ret && got == length) {
        return 1;
    }
    if (!ret && !got) {
        return 0;
    }
    transfer_lost(t, ret);
    return -1;
}

static void show_progress(struct transfer *t)
{
    uint64_t now = now_ns();
    double seconds = (double)(now - t->start_ns) / (double)NS_PER_S;

    if (now - t->start_ns < PROGRESS_NS || now - t->shown_ns < NS_PER_S) {
        return;
    }
    t->shown_ns = now;
    fprintf(stderr, "%s: %" PRIu64 " of %" PRIu64 " MiB, %.0f MB/s\n", t->name,
            t->done >> 20, (t->done > t->length ? t->done : t->length) >> 20,
            (double)t->done / seconds / 1e6);
}

void transfer_add(struct transfer *t, size_t length)
{
    XXH64_update(t->sum, t->buffer, length);
    t->done += length;
    show_progress(t);
}

void transfer_begin(struct transfer *t, const char *name, uint64_t length)
{
    t->name = name;
    t->length = length;
    t->done = 0;
    XXH64_reset(t->sum, 0);
    t->start_ns = now_ns();
    t->shown_ns = 0;
}

void transfer_end(const struct transfer *t)
{
    double seconds = (double)(now_ns() - t->start_ns) / (double)NS_PER_S;
    double rate = seconds > 0 ? (double)t->done / seconds / 1e6 : 0;
    struct unetmm_stream_stats stats = { .size = sizeof(stats) };
    char sum[20];
    json_t *row;

    if (!t->opt->json) {
        printf("%s: %" PRIu64 " bytes, %.3f s, %.1f MB/s\n", t->name, t->done,
               seconds, rate);
        return;
    }
    unetmm_stream_stats(t->stream, &stats);
    snprintf(sum, sizeof(sum), "%016" PRIx64, XXH64_digest(t->sum));
    row = row_new();
    row_text(row, "file", t->name);
    row_count(row, "bytes", t->done);
    row_real(row, "seconds", seconds, 6);
    row_real(row, "mb_per_s", rate, 1);
    row_text(row, "checksum", sum);
    row_text(row, "source", source_name(t->opt->source));
    row_count(row, "redirected", stats.redirected);
    row_count(row, "copied", stats.copied);
    row_print(row);
}

struct unetmm_ctx *cp_open(const struct cp_options *opt, struct unetmm_stream_attr *attr)
{
    static const struct unetmm_stream_attr usual = UNETMM_STREAM_ATTR_INIT;
    struct unetmm_ctx *ctx;
    int ret = unetmm_open(opt->device, opt->source, &ctx);

    if (ret) {
        fail_call(ret, UNETMM_CALL_OPEN, opt->device);
    }
    *attr = usual;
    attr->ring_bytes = RING_BYTES;
    attr->timeout_ns = (int64_t)opt->timeout_ns;
    if (opt->copy) {
        attr->redirect_least = 0;
    }
    return ctx;
}

void transfer_make(struct transfer *t, const struct cp_options *opt)
{
    *t = (struct transfer) {
        .opt = opt,
        .buffer = aligned_alloc(UNETMM_PAGE_BYTES, CP_PIECE),
        .sum = XXH64_createState(),
    };
    if (!t->buffer || !t->sum) {
        fail("out of memory");
    }
}

void transfer_free(struct transfer *t)
{
    free(t->buffer);
    XXH64_freeState(t->sum);
}
