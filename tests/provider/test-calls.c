/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The calls that docs/provider.rst documents, in each state that its tables name: the tests
 * are the cells of these tables, and a cell is the result.
 */
#define SCENE_WHOLE
#include "scene.h"

#include <ctype.h>
#include <stdio.h>

#define CELLS       12
#define NAME_BYTES  32
#define NOT_ALLOWED INT32_MAX       /* an empty cell */
#define POSITIVE    (INT32_MAX - 1)

/* ---- Objects ------------------------------------------------------------------ */

static struct objects {
    struct fid_fabric *fabric;
    struct fid_eq *eq;
    struct fid_domain *domain;
    struct fid_cq *cq;
    struct fid_pep *pep;
    struct fid_ep *ep;
    struct fi_info *info, *request;
    struct card *data, *cm;
    bool closed;                /* the object of the call is */
    char memory[64];
} o;
static const struct sockaddr_in to = { .sin_family = AF_INET };

static void open_objects(void)
{
    struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_FD };

    memset(&o, 0, sizeof(o));
    ncards = sent = 0;
    untaken = 0;
    silent = NULL;
    umfi_config.connect_ms = 1000;
    umfi_config.close_ms = 0;
    context_fd = eventfd(0, EFD_NONBLOCK);
    o.info = fi_allocinfo();
    assert_non_null(o.info);
    assert_int_equal(umfi_fabric_open(NULL, &o.fabric, NULL), 0);
    assert_int_equal(fi_eq_open(o.fabric, NULL, &o.eq, NULL), 0);
    assert_int_equal(fi_domain(o.fabric, o.info, &o.domain, NULL), 0);
    assert_int_equal(fi_cq_open(o.domain, &attr, &o.cq, NULL), 0);
}

/* The time of an ending endpoint's peer is over. */
static ssize_t close_endpoint(void)
{
    ssize_t ret;

    umfi_of(o.ep, struct umfi_ep, fid)->until_ms = 0;
    ret = fi_close(&o.ep->fid);
    o.closed = !ret;
    return ret;
}

static void close_all(void)
{
    if (o.ep && !o.closed) {
        assert_int_equal(close_endpoint(), 0);
    }
    if (o.pep) {
        assert_int_equal(fi_close(&o.pep->fid), 0);
    }
    assert_int_equal(fi_close(&o.cq->fid), 0);
    assert_int_equal(fi_close(&o.domain->fid), 0);
    assert_int_equal(fi_close(&o.eq->fid), 0);
    assert_int_equal(fi_close(&o.fabric->fid), 0);
    fi_freeinfo(o.request);
    fi_freeinfo(o.info);
    close(context_fd);
}

static void read_event(uint32_t expected)
{
    struct fi_eq_cm_entry entry;
    uint32_t type;

    assert_int_equal(fi_eq_read(o.eq, &type, &entry, sizeof(entry), 0), sizeof(entry));
    assert_int_equal(type, expected);
    o.request = type == FI_CONNREQ ? entry.info : o.request;
}

/* ---- States of an endpoint ----------------------------------------------------- */

static void state_opened(void)
{
    assert_int_equal(fi_endpoint(o.domain, o.request ? o.request : o.info, &o.ep, NULL),
                     0);
}

static void bind_all(void)
{
    assert_int_equal(fi_ep_bind(o.ep, &o.eq->fid, 0), 0);
    assert_int_equal(fi_ep_bind(o.ep, &o.cq->fid, FI_TRANSMIT | FI_RECV), 0);
}

static void state_enabled(void)
{
    state_opened();
    bind_all();
    o.data = &cards[ncards];
    assert_int_equal(fi_enable(o.ep), 0);
}

static void state_connecting(void)
{
    state_enabled();
    assert_int_equal(fi_connect(o.ep, &to, NULL, 0), 0);
}

static void state_new(void)
{
    assert_int_equal(fi_passive_ep(o.fabric, o.info, &o.pep, NULL), 0);
}

static void state_bound(void)
{
    state_new();
    assert_int_equal(fi_pep_bind(o.pep, &o.eq->fid, 0), 0);
}

static void state_listening(void)
{
    state_bound();
    o.cm = &cards[ncards];
    assert_int_equal(fi_listen(o.pep), 0);
}

static void state_asked(void)
{
    const uint8_t request[] = { 'u', 'm', 'f', 'i', 2, 0, CM_REQUEST, 0 };

    state_listening();
    o.cm->callers = 1;
    memset(o.cm->buffers[0], 0, CM_BYTES);
    memcpy(o.cm->buffers[0], request, sizeof(request));
    o.cm->pending[o.cm->npending++] = (struct unetmm_completion) {
        .type = UNETMM_CQE_RECEIVED, .len = CM_BYTES,
    };
    read_event(FI_CONNREQ);
}

static void state_requested(void)
{
    state_asked();
    state_enabled();
}

static void state_accepting(void)
{
    state_requested();
    assert_int_equal(fi_accept(o.ep, NULL, 0), 0);
}

static void state_connected(void)
{
    state_accepting();
    close_channel(o.cm, 0, UNETMM_ST_BAD_CHANNEL);
    read_event(FI_CONNECTED);
}

static void state_ending(void)
{
    state_connected();
    umfi_config.close_ms = 1000000;
    assert_int_equal(fi_inject(o.ep, o.memory, 1, 0), 0);
    assert_int_equal(fi_shutdown(o.ep, 0), 0);
    umfi_config.close_ms = 0;
}

static void state_ended(void)
{
    state_connected();
    close_channel(o.data, 0, UNETMM_ST_BAD_CHANNEL);
    read_event(FI_SHUTDOWN);
}

static void state_stopped(void)
{
    state_connected();
    o.data->stopped = true;
    read_event(FI_SHUTDOWN);
}

static void state_closed(void)
{
    state_connected();
    assert_int_equal(close_endpoint(), 0);
}

static void state_failed(void)
{
    struct fi_eq_err_entry error = { 0 };
    struct fi_eq_cm_entry entry;
    uint32_t type;

    state_listening();
    o.cm->stopped = true;
    assert_int_equal(fi_eq_read(o.eq, &type, &entry, sizeof(entry), 0), -FI_EAVAIL);
    assert_true(fi_eq_readerr(o.eq, &error, 0) > 0);
    assert_int_equal(error.err, FI_EIO);
}

/* ---- States of queues and other objects ----------------------------------------- */

static void state_empty(void)
{
}

static void push(int err)
{
    struct umfi_cq *cq = umfi_of(o.cq, struct umfi_cq, fid);
    const struct umfi_entry entry = { .err = err };

    umfi_lock(cq->domain);
    umfi_cq_push_entry(cq, &entry);
    umfi_unlock(cq->domain);
    umfi_eq_push_event(umfi_of(o.eq, struct umfi_eq, fid), err ? 0 : FI_SHUTDOWN, &o.cq->fid,
                       err, NULL, NULL, 0);
}

static void state_entry(void)
{
    push(0);
}

static void state_error(void)
{
    push(FI_EIO);
}

static void state_unused(void)
{
    assert_int_equal(fi_close(&o.cq->fid), 0);
}

static const struct state {
    const char *name;
    char kind;                  /* endpoint, passive, queue, domain */
    void (*enter)(void);
} states[] = {
    { "opened", 'e', state_opened },
    { "enabled", 'e', state_enabled },
    { "requested", 'e', state_requested },
    { "connecting", 'e', state_connecting },
    { "accepting", 'e', state_accepting },
    { "connected", 'e', state_connected },
    { "ending", 'e', state_ending },
    { "ended", 'e', state_ended },
    { "stopped", 'e', state_stopped },
    { "closed", 'e', state_closed },
    { "new", 'p', state_new },
    { "bound", 'p', state_bound },
    { "listening", 'p', state_listening },
    { "with a request", 'p', state_asked },
    { "failed", 'p', state_failed },
    { "empty", 'q', state_empty },
    { "with an entry", 'q', state_entry },
    { "with an error", 'q', state_error },
    { "with an endpoint", 'q', state_enabled },
    { "unused", 'd', state_unused },
    { "in use", 'd', state_empty },
};

/* ---- Calls ----------------------------------------------------------------------- */

#define IOV         (&(struct iovec) { o.memory, 1 })
#define RMA_IOV     (&(struct fi_rma_iov) { .addr = 64, .len = 1, .key = 5 })
#define MSG         (&(struct fi_msg) { .msg_iov = IOV, .iov_count = 1 })
#define MSG_RMA     (&(struct fi_msg_rma) { .msg_iov = IOV, .iov_count = 1, \
                     .rma_iov = RMA_IOV, .rma_iov_count = 1 })
#define MR_ATTR     (&(struct fi_mr_attr) { .mr_iov = IOV, .iov_count = 1 })

#define CALL(kind, name, expression) \
    static ssize_t kind##_##name(void) { return expression; }

CALL(e, fi_send, fi_send(o.ep, o.memory, 1, NULL, 0, NULL))
CALL(e, fi_sendv, fi_sendv(o.ep, IOV, NULL, 1, 0, NULL))
CALL(e, fi_sendmsg, fi_sendmsg(o.ep, MSG, 0))
CALL(e, fi_senddata, fi_senddata(o.ep, o.memory, 1, NULL, 7, 0, NULL))
CALL(e, fi_inject, fi_inject(o.ep, o.memory, 1, 0))
CALL(e, fi_injectdata, fi_injectdata(o.ep, o.memory, 1, 7, 0))
CALL(e, fi_recv, fi_recv(o.ep, o.memory, 1, NULL, 0, NULL))
CALL(e, fi_recvv, fi_recvv(o.ep, IOV, NULL, 1, 0, NULL))
CALL(e, fi_recvmsg, fi_recvmsg(o.ep, MSG, 0))
CALL(e, fi_read, fi_read(o.ep, o.memory, 1, NULL, 0, 64, 5, NULL))
CALL(e, fi_readv, fi_readv(o.ep, IOV, NULL, 1, 0, 64, 5, NULL))
CALL(e, fi_readmsg, fi_readmsg(o.ep, MSG_RMA, 0))
CALL(e, fi_write, fi_write(o.ep, o.memory, 1, NULL, 0, 64, 5, NULL))
CALL(e, fi_writev, fi_writev(o.ep, IOV, NULL, 1, 0, 64, 5, NULL))
CALL(e, fi_writemsg, fi_writemsg(o.ep, MSG_RMA, 0))
CALL(e, fi_writedata, fi_writedata(o.ep, o.memory, 1, NULL, 7, 0, 64, 5, NULL))
CALL(e, fi_inject_write, fi_inject_write(o.ep, o.memory, 1, 0, 64, 5))
CALL(e, fi_inject_writedata, fi_inject_writedata(o.ep, o.memory, 1, 7, 0, 64, 5))
CALL(e, fi_ep_bind, fi_ep_bind(o.ep, &o.eq->fid, 0))
CALL(e, fi_enable, fi_enable(o.ep))
CALL(e, fi_connect, fi_connect(o.ep, &to, NULL, 0))
CALL(e, fi_accept, fi_accept(o.ep, NULL, 0))
CALL(e, fi_shutdown, fi_shutdown(o.ep, 0))
CALL(e, fi_cancel, fi_cancel(&o.ep->fid, NULL))
CALL(e, fi_close, close_endpoint())

static ssize_t e_fi_getname(void)
{
    struct sockaddr_in address;
    size_t len = sizeof(address);

    return fi_getname(&o.ep->fid, &address, &len);
}

static ssize_t e_fi_getpeer(void)
{
    struct sockaddr_in address;
    size_t len = sizeof(address);

    return fi_getpeer(o.ep, &address, &len);
}

static ssize_t e_fi_getopt(void)
{
    size_t value, len = sizeof(value);

    assert_int_equal(fi_getopt(&o.ep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE + 1, &value,
                               &len), -FI_ENOPROTOOPT);
    len = sizeof(value) - 1;
    assert_int_equal(fi_getopt(&o.ep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &value,
                               &len), -FI_ETOOSMALL);
    len = sizeof(value) + 1;
    assert_int_equal(fi_getopt(&o.ep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &value,
                               &len), 0);
    assert_int_equal(value, 128);
    assert_int_equal(len, sizeof(value));
    return 0;
}

CALL(p, fi_pep_bind, fi_pep_bind(o.pep, &o.eq->fid, 0))
CALL(p, fi_listen, fi_listen(o.pep))
CALL(p, fi_setname, fi_setname(&o.pep->fid, (void *)(uintptr_t)&to, sizeof(to)))
CALL(p, fi_reject, fi_reject(o.pep, o.request ? o.request->handle : &o.cq->fid, NULL, 0))

static ssize_t p_fi_getname(void)
{
    struct sockaddr_in address;
    size_t len = sizeof(address);

    return fi_getname(&o.pep->fid, &address, &len);
}

static ssize_t p_fi_close(void)
{
    ssize_t ret = fi_close(&o.pep->fid);

    o.pep = NULL;
    return ret;
}

static ssize_t q_fi_eq_read(void)
{
    struct fi_eq_cm_entry entry;
    uint32_t type;

    return fi_eq_read(o.eq, &type, &entry, sizeof(entry), 0);
}

static ssize_t q_fi_eq_sread(void)
{
    struct fi_eq_cm_entry entry;
    uint32_t type;

    return fi_eq_sread(o.eq, &type, &entry, sizeof(entry), 0, 0);
}

static ssize_t q_fi_eq_readerr(void)
{
    struct fi_eq_err_entry error = { 0 };

    return fi_eq_readerr(o.eq, &error, 0);
}

static ssize_t q_fi_eq_write(void)
{
    const struct fi_eq_entry entry = { .fid = &o.cq->fid };

    return fi_eq_write(o.eq, FI_NOTIFY, &entry, sizeof(entry), 0);
}

static ssize_t q_fi_cq_readerr(void)
{
    struct fi_cq_err_entry error = { 0 };

    return fi_cq_readerr(o.cq, &error, 0);
}

static struct fi_cq_data_entry completion;

CALL(q, fi_cq_read, fi_cq_read(o.cq, &completion, 1))
CALL(q, fi_cq_readfrom, fi_cq_readfrom(o.cq, &completion, 1, NULL))
CALL(q, fi_cq_sread, fi_cq_sread(o.cq, &completion, 1, NULL, 0))
CALL(q, fi_cq_signal, fi_cq_signal(o.cq))

/* Those of both queues have one result. */
static ssize_t q_fi_trywait(void)
{
    struct fid *eq = &o.eq->fid, *cq = &o.cq->fid;
    ssize_t ret = umfi_trywait(o.fabric, &eq, 1);

    assert_int_equal(umfi_trywait(o.fabric, &cq, 1), ret);
    return ret;
}

static ssize_t q_fi_control(void)
{
    int fd = -1;
    ssize_t ret = fi_control(&o.eq->fid, FI_GETWAIT, &fd);

    assert_int_equal(fi_control(&o.cq->fid, FI_GETWAIT, &fd), ret);
    return ret;
}

/* That of a queue without users is the end of each test. */
static ssize_t q_fi_close(void)
{
    ssize_t ret = umfi_of(o.eq, struct umfi_eq, fid)->users ? fi_close(&o.eq->fid) : 0;

    assert_int_equal(umfi_of(o.cq, struct umfi_cq, fid)->users ?
                     fi_close(&o.cq->fid) : 0, ret);
    return ret;
}

static ssize_t d_fi_mr_reg(void)
{
    struct fid_mr *mr = NULL;
    int ret = fi_mr_reg(o.domain, o.memory, 1, FI_REMOTE_READ, 0, 0, 0, &mr, NULL);

    return ret ? ret : fi_close(&mr->fid);
}

static ssize_t d_fi_mr_regv(void)
{
    struct fid_mr *mr = NULL;
    int ret = fi_mr_regv(o.domain, IOV, 1, FI_RECV, 0, 0, 0, &mr, NULL);

    return ret ? ret : fi_close(&mr->fid);
}

static ssize_t d_fi_mr_regattr(void)
{
    struct fid_mr *mr = NULL;
    int ret = fi_mr_regattr(o.domain, MR_ATTR, 0, &mr);

    return ret ? ret : fi_close(&mr->fid);
}

static ssize_t d_fi_srx_context(void)
{
    struct fid_ep *srx = NULL;
    int ret = fi_srx_context(o.domain, o.info->rx_attr, &srx, NULL);

    return ret ? ret : fi_close(&srx->fid);
}

static ssize_t d_fi_endpoint(void)
{
    struct fid_ep *ep = NULL;
    int ret = fi_endpoint(o.domain, o.info, &ep, NULL);

    return ret ? ret : fi_close(&ep->fid);
}

static ssize_t d_fi_cq_open(void)
{
    struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_FD };
    struct fid_cq *cq = NULL;
    int ret = fi_cq_open(o.domain, &attr, &cq, NULL);

    return ret ? ret : fi_close(&cq->fid);
}

static ssize_t d_fi_eq_open(void)
{
    struct fid_eq *eq = NULL;
    int ret = fi_eq_open(o.fabric, NULL, &eq, NULL);

    return ret ? ret : fi_close(&eq->fid);
}

static ssize_t d_fi_passive_ep(void)
{
    struct fid_pep *pep = NULL;
    int ret = fi_passive_ep(o.fabric, o.info, &pep, NULL);

    return ret ? ret : fi_close(&pep->fid);
}

static ssize_t d_fi_domain(void)
{
    struct fid_domain *domain = NULL;
    int ret = fi_domain(o.fabric, o.info, &domain, NULL);

    return ret ? ret : fi_close(&domain->fid);
}

/* Of the domain; the fabric has it, and is in use. */
static ssize_t d_fi_close(void)
{
    ssize_t ret = fi_close(&o.domain->fid);

    assert_int_equal(fi_close(&o.fabric->fid), -FI_EBUSY);
    if (!ret) {
        assert_int_equal(fi_domain(o.fabric, o.info, &o.domain, NULL), 0);
    }
    return ret;
}

static const struct call {
    char kind;
    const char *name;
    ssize_t (*make)(void);
} calls[] = {
#define ENTRY(kind, name) { #kind[0], #name, kind##_##name }
    ENTRY(e, fi_send), ENTRY(e, fi_sendv), ENTRY(e, fi_sendmsg), ENTRY(e, fi_senddata),
    ENTRY(e, fi_inject), ENTRY(e, fi_injectdata), ENTRY(e, fi_recv), ENTRY(e, fi_recvv),
    ENTRY(e, fi_recvmsg), ENTRY(e, fi_read), ENTRY(e, fi_readv), ENTRY(e, fi_readmsg),
    ENTRY(e, fi_write), ENTRY(e, fi_writev), ENTRY(e, fi_writemsg),
    ENTRY(e, fi_writedata), ENTRY(e, fi_inject_write), ENTRY(e, fi_inject_writedata),
    ENTRY(e, fi_ep_bind), ENTRY(e, fi_enable), ENTRY(e, fi_connect),
    ENTRY(e, fi_accept), ENTRY(e, fi_shutdown), ENTRY(e, fi_cancel),
    ENTRY(e, fi_getname), ENTRY(e, fi_getpeer), ENTRY(e, fi_getopt), ENTRY(e, fi_close),
    ENTRY(p, fi_pep_bind), ENTRY(p, fi_listen), ENTRY(p, fi_setname),
    ENTRY(p, fi_getname), ENTRY(p, fi_reject), ENTRY(p, fi_close),
    ENTRY(q, fi_eq_read), ENTRY(q, fi_eq_sread), ENTRY(q, fi_eq_readerr),
    ENTRY(q, fi_eq_write), ENTRY(q, fi_cq_read), ENTRY(q, fi_cq_readfrom),
    ENTRY(q, fi_cq_sread), ENTRY(q, fi_cq_readerr), ENTRY(q, fi_cq_signal),
    ENTRY(q, fi_trywait), ENTRY(q, fi_control), ENTRY(q, fi_close),
    ENTRY(d, fi_mr_reg), ENTRY(d, fi_mr_regv), ENTRY(d, fi_mr_regattr),
    ENTRY(d, fi_srx_context), ENTRY(d, fi_endpoint), ENTRY(d, fi_cq_open),
    ENTRY(d, fi_eq_open), ENTRY(d, fi_passive_ep), ENTRY(d, fi_domain),
    ENTRY(d, fi_close),
};
#define NCALLS  (sizeof(calls) / sizeof(calls[0]))
/* Of the page, but not of an object in a state: test-info.c has it. */
static const char *const others[] = { "fi_getinfo" };

/* ---- The page --------------------------------------------------------------------- */

static const char *page;            /* its text */
static bool made[NCALLS];

static const struct { const char *name; int value; } results[] = {
    { "0", 0 }, { "> 0", POSITIVE }, { "", NOT_ALLOWED },
    { "-FI_EAGAIN", -FI_EAGAIN }, { "-FI_EAVAIL", -FI_EAVAIL },
    { "-FI_EBUSY", -FI_EBUSY }, { "-FI_ECONNABORTED", -FI_ECONNABORTED },
    { "-FI_EINVAL", -FI_EINVAL }, { "-FI_EISCONN", -FI_EISCONN },
    { "-FI_ENOEQ", -FI_ENOEQ }, { "-FI_ENOSYS", -FI_ENOSYS },
    { "-FI_ENOTCONN", -FI_ENOTCONN }, { "-FI_EOPBADSTATE", -FI_EOPBADSTATE },
};

static int result_of(const char *cell)
{
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
        if (!strcmp(results[i].name, cell)) {
            return results[i].value;
        }
    }
    fail_msg("docs/provider.rst: no result: \"%s\"", cell);
    return 0;
}

static const struct state *state_of(const char *cell)
{
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        if (!strcmp(states[i].name, cell)) {
            return &states[i];
        }
    }
    fail_msg("docs/provider.rst: no state: \"%s\"", cell);
    return NULL;
}

/* The next name of a call, with its parentheses; NULL: none before `end`. */
static const char *next_name(const char *from, const char *end, char name[NAME_BYTES])
{
    const char *begin = from;

    while ((from = strstr(from, "fi_")) != NULL && from < end) {
        size_t len = strspn(from, "abcdefghijklmnopqrstuvwxyz_");
        bool inside = from > begin && (isalnum(from[-1]) || from[-1] == '_');

        if (!inside && len < NAME_BYTES && !strncmp(from + len, "()", 2)) {
            memcpy(name, from, len);
            name[len] = '\0';
            return from + len;
        }
        from += len ? len : 1;
    }
    return NULL;
}

/* Cells of a row, the first of which begins with "   * - ".  Returns the next line. */
static const char *read_row(const char *at, char cells[CELLS][128], unsigned *n)
{
    for (*n = 0; !strncmp(at, *n ? "     - " : "   * - ", 7) ||
         (*n && !strncmp(at, "     -\n", 7));) {
        const char *end = strchr(at, '\n');
        size_t len = 0;

        assert_true(end && *n < CELLS);
        for (at += end - at < 7 ? end - at : 7; at < end; at++) {
            if (*at != '`' && len < sizeof(cells[0]) - 1) {
                cells[*n][len++] = *at;
            }
        }
        cells[(*n)++][len] = '\0';
        at = end + 1;
        /* A cell of several lines: the names of calls */
        while (*n == 1 && !strncmp(at, "       ", 7)) {
            end = strchr(at, '\n');
            assert_non_null(end);
            for (at += 6; at < end; at++) {
                if (*at != '`' && len < sizeof(cells[0]) - 1) {
                    cells[0][len++] = *at;
                }
            }
            cells[0][len] = '\0';
            at = end + 1;
        }
    }
    return at;
}

static unsigned run_cell(const char *name, const struct state *state, int expected)
{
    for (size_t i = 0; i < NCALLS; i++) {
        ssize_t ret;

        if (calls[i].kind != state->kind || strcmp(calls[i].name, name)) {
            continue;
        }
        made[i] = true;
        if (expected == NOT_ALLOWED) {
            return 0;
        }
        open_objects();
        state->enter();
        ret = calls[i].make();
        if (expected == POSITIVE ? ret <= 0 : ret != expected) {
            fail_msg("%s(), %s: %zd in place of %d", name, state->name, ret, expected);
        }
        if (state->kind == 'd' && !strcmp(state->name, "unused")) {
            struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_FD };

            assert_int_equal(fi_cq_open(o.domain, &attr, &o.cq, NULL), 0);
        }
        close_all();
        return 1;
    }
    fail_msg("docs/provider.rst: no test makes the call %s(), %s", name, state->name);
    return 0;
}

/* Each cell of the tables whose first word is "Call" */
static void cells_of_the_page(void **unused)
{
    char head[CELLS][128], row[CELLS][128], name[NAME_BYTES];
    unsigned columns, n, tables = 0, cells = 0;

    for (const char *at = page; (at = strstr(at, "   * - Call\n")) != NULL; tables++) {
        at = read_row(at, head, &columns);
        while (!strncmp(at, "   * - ", 7)) {
            at = read_row(at, row, &n);
            assert_int_equal(n, columns);
            for (unsigned i = 1; i < n; i++) {
                const char *names = row[0], *end = row[0] + strlen(row[0]);

                while ((names = next_name(names, end, name)) != NULL) {
                    cells += run_cell(name, state_of(head[i]), result_of(row[i]));
                }
            }
        }
    }
    print_message("# %u cells of %u tables\n", cells, tables);
    assert_true(tables && cells);
    for (size_t i = 0; i < NCALLS; i++) {
        if (!made[i]) {
            fail_msg("docs/provider.rst does not say when %s() can be called",
                     calls[i].name);
        }
    }
}

/* Calls that the text names are in the tables, too. */
static void names_of_the_page(void **unused)
{
    const char *end = page + strlen(page);
    char name[NAME_BYTES];

    for (const char *at = page; (at = next_name(at, end, name)) != NULL;) {
        bool known = false;

        for (size_t i = 0; i < NCALLS; i++) {
            known = known || !strcmp(calls[i].name, name);
        }
        for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
            known = known || !strcmp(others[i], name);
        }
        if (!known) {
            fail_msg("docs/provider.rst: no table has %s()", name);
        }
    }
}

static char *read_page(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = calloc(1, 1 << 20);

    if (!file || !text || !fread(text, 1, (1 << 20) - 1, file)) {
        perror(path);
        exit(1);
    }
    fclose(file);
    return text;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_of_the_page),
        cmocka_unit_test(names_of_the_page),
    };
    char *text;
    int ret;

    if (argc != 2) {
        fprintf(stderr, "usage: test-provider-calls docs/provider.rst\n");
        return 2;
    }
    page = text = read_page(argv[1]);
    ret = cmocka_run_group_tests_name("calls", tests, NULL, NULL);
    free(text);
    return ret;
}
