/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The server: lwIP's callbacks on one side, a talk for each connection on the
 * other, and the loop that all of it runs in.
 */
#include "kv_port.h"
#include "kv_protocol.h"
#include "row.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include <lwip/init.h>
#include <lwip/tcp.h>
#include <lwip/timeouts.h>
#include <netif/ethernet.h>

#define IDLE_POLL       4               /* of TCP's slow ticks: two seconds */
/* Without a request for so long a connection makes room for another one. */
#define IDLE_NS         (10 * NS_PER_S)
/* Without a timer of lwIP: a signal is seen in this time at the latest. */
#define MAX_WAIT_NS     ((int64_t)NS_PER_S)

struct session {
    struct session *next, *previous;    /* in a circle with server.all */
    struct tcp_pcb *pcb;
    uint64_t heard_ns;
    struct pbuf *waiting;               /* received, not taken yet */
    bool heard;                         /* the client has said all it will say */
    struct kv_talk talk;
};

static struct {
    struct kv_server kv;
    struct netif netif;
    struct session all;                 /* head of the circle */
    uint32_t sessions, most_sessions;
    uint64_t accepted, refused;
} server;

static volatile sig_atomic_t stopping;

static void on_signal(int signal)
{
    (void)signal;
    stopping = 1;
}

/* ---- Connections --------------------------------------------------------- */

static void session_free(struct session *s)
{
    kv_talk_stop(&s->talk);
    if (s->waiting) {
        pbuf_free(s->waiting);
    }
    s->next->previous = s->previous;
    s->previous->next = s->next;
    server.sessions--;
    free(s);
}

/* As much as lwIP has room for. */
static size_t session_write(void *arg, const void *data, size_t length)
{
    struct session *s = arg;
    size_t room = tcp_sndbuf(s->pcb);
    size_t n = length < room ? length : room;

    if (!n || tcp_sndqueuelen(s->pcb) >= TCP_SND_QUEUELEN - 2) {
        return 0;
    }
    return tcp_write(s->pcb, data, (u16_t)n, TCP_WRITE_FLAG_COPY |
                     TCP_WRITE_FLAG_MORE) == ERR_OK ? n : 0;
}

static void session_take(struct session *s)
{
    while (s->waiting) {
        struct pbuf *p = s->waiting;
        size_t n = kv_talk_input(&s->talk, p->payload, p->len);

        if (n) {
            tcp_recved(s->pcb, (u16_t)n);
        }
        if (n < p->len) {
            pbuf_remove_header(p, n);
            return;
        }
        s->waiting = p->next;
        if (p->next) {
            /* pbuf_dechain() gives p's own reference to it back. */
            pbuf_ref(p->next);
            pbuf_dechain(p);
        }
        pbuf_free(p);
    }
}

/* ERR_ABRT: the connection is gone, and lwIP must not look at it. */
static err_t session_close(struct session *s)
{
    struct tcp_pcb *pcb = s->pcb;

    tcp_arg(pcb, NULL);
    tcp_recv(pcb, NULL);
    tcp_sent(pcb, NULL);
    tcp_err(pcb, NULL);
    tcp_poll(pcb, NULL, 0);
    session_free(s);
    if (tcp_close(pcb) == ERR_OK) {
        return ERR_OK;
    }
    tcp_abort(pcb);
    return ERR_ABRT;
}

static err_t session_run(struct session *s)
{
    bool done;

    kv_talk_run(&s->talk);
    session_take(s);
    tcp_output(s->pcb);
    done = s->heard && !s->waiting && kv_talk_run(&s->talk);
    return done || kv_talk_ended(&s->talk) ? session_close(s) : ERR_OK;
}

static err_t on_received(void *arg, struct tcp_pcb *pcb, struct pbuf *p,
                         err_t error)
{
    struct session *s = arg;

    (void)pcb;
    (void)error;
    s->heard_ns = now_ns();
    if (!p) {
        s->heard = true;
        return session_run(s);
    }
    if (s->waiting) {
        pbuf_cat(s->waiting, p);
    } else {
        s->waiting = p;
    }
    return session_run(s);
}

static err_t on_sent(void *arg, struct tcp_pcb *pcb, u16_t length)
{
    (void)pcb;
    (void)length;
    return session_run(arg);
}

/* For answers that found no memory when they had room. */
static err_t on_poll(void *arg, struct tcp_pcb *pcb)
{
    (void)pcb;
    return session_run(arg);
}

/* lwIP has freed the pcb. */
static void on_error(void *arg, err_t error)
{
    (void)error;
    session_free(arg);
}

/* True: there is room for one connection more, perhaps in the place of an idle one. */
static bool has_room(void)
{
    struct session *s, *idle = server.all.next;

    if (server.sessions < server.most_sessions) {
        return true;
    }
    for (s = idle; s != &server.all; s = s->next) {
        idle = s->heard_ns < idle->heard_ns ? s : idle;
    }
    if (now_ns() - idle->heard_ns < IDLE_NS) {
        return false;
    }
    /* on_error() forgets it. */
    tcp_abort(idle->pcb);
    return true;
}

static err_t on_accept(void *arg, struct tcp_pcb *pcb, err_t error)
{
    struct session *s;

    (void)arg;
    if (error != ERR_OK || !pcb) {
        return ERR_VAL;
    }
    s = has_room() ? malloc(sizeof(*s)) : NULL;
    if (!s) {
        /* lwIP aborts the connection. */
        server.refused++;
        return ERR_MEM;
    }
    server.sessions++;
    server.accepted++;
    s->next = server.all.next;
    s->previous = &server.all;
    s->next->previous = server.all.next = s;
    s->pcb = pcb;
    s->heard_ns = now_ns();
    s->waiting = NULL;
    s->heard = false;
    kv_talk_start(&s->talk, &server.kv, session_write, s);
    tcp_nagle_disable(pcb);
    ip_set_option(pcb, SOF_KEEPALIVE);
    tcp_arg(pcb, s);
    tcp_recv(pcb, on_received);
    tcp_sent(pcb, on_sent);
    tcp_err(pcb, on_error);
    tcp_poll(pcb, on_poll, IDLE_POLL);
    return ERR_OK;
}

static void start_tcp(const struct kv_options *opt)
{
    const ip4_addr_t address = { opt->address }, mask = { opt->mask },
                     gateway = { opt->gateway };
    struct tcp_pcb *pcb;

    lwip_init();
    if (!netif_add(&server.netif, &address, &mask, &gateway, NULL,
                   kv_port_netif, ethernet_input)) {
        fail("lwIP cannot add the interface");
    }
    netif_set_default(&server.netif);
    pcb = tcp_new();
    if (!pcb || tcp_bind(pcb, IP4_ADDR_ANY, opt->port) != ERR_OK) {
        fail("lwIP cannot bind port %u", opt->port);
    }
    pcb = tcp_listen(pcb);
    if (!pcb) {
        fail("lwIP cannot listen");
    }
    tcp_accept(pcb, on_accept);
    /* Tells the others, by ARP, that it is there. */
    netif_set_up(&server.netif);
}

/* ---- Words --------------------------------------------------------------- */

static size_t more_stats(void *arg, unsigned n, char *line, size_t size)
{
    const char *name;
    uint64_t value;

    (void)arg;
    if (!n) {
        return (size_t)snprintf(line, size, "curr_connections %" PRIu32,
                                server.sessions);
    }
    name = kv_port_counter(n - 1, &value);
    return name ? (size_t)snprintf(line, size, "%s %" PRIu64, name, value) : 0;
}

static void say_ready(const struct kv_options *opt)
{
    static const char *const names[] = { "drop", "backup", "pinned" };
    const uint8_t *byte = (const uint8_t *)&opt->address;
    char address[16];
    json_t *row;

    snprintf(address, sizeof(address), "%u.%u.%u.%u", byte[0], byte[1], byte[2],
             byte[3]);
    if (!opt->json) {
        printf("%s port %u: %s, a ring of %u buffers, %" PRIu64
               " bytes of store\n", address, opt->port, names[opt->policy],
               opt->ring, opt->memory);
        fflush(stdout);
        return;
    }
    row = row_new();
    row_flag(row, "ready", true);
    row_text(row, "policy", names[opt->policy]);
    row_count(row, "ring", opt->ring);
    row_count(row, "memory", opt->memory);
    row_text(row, "address", address);
    row_count(row, "port", opt->port);
    row_print(row);
}

static void end_json(const struct kv_server *kv)
{
    json_t *row = row_new();
    const char *name;
    uint64_t value;
    unsigned n;

    row_flag(row, "ready", false);
    row_count(row, "accepted", server.accepted);
    row_count(row, "refused", server.refused);
    row_count(row, "gets", kv->gets);
    row_count(row, "hits", kv->hits);
    row_count(row, "sets", kv->sets);
    row_count(row, "evictions", kv->store.stats.evicted);
    for (n = 0; (name = kv_port_counter(n, &value)); n++) {
        row_count(row, name, value);
    }
    row_print(row);
}

static void say_end(bool json)
{
    const struct kv_server *kv = &server.kv;
    const char *name;
    uint64_t value;
    unsigned n;

    if (json) {
        end_json(kv);
        return;
    }
    printf("%" PRIu64 " connections, %" PRIu64 " gets, %" PRIu64 " hits, %" PRIu64
           " sets\n", server.accepted, kv->gets, kv->hits, kv->sets);
    for (n = 0; (name = kv_port_counter(n, &value)); n++) {
        printf("  %s %" PRIu64 "\n", name, value);
    }
    fflush(stdout);
}

/* ---- The loop ------------------------------------------------------------ */

static void run(void)
{
    while (!stopping) {
        uint32_t ms = sys_timeouts_sleeptime();
        int64_t ns = (int64_t)ms * (int64_t)NS_PER_MS;
        int ret;

        ret = kv_port_wait(ns < MAX_WAIT_NS ? ns : MAX_WAIT_NS);
        if (ret) {
            fail_call(ret, UNETMM_CALL_POLL, "the card has stopped");
        }
        server.kv.now = (uint64_t)time(NULL);
        sys_check_timeouts();
    }
}

int kv_serve(const struct kv_options *opt)
{
    struct sigaction action = { .sa_handler = on_signal };
    void *memory = mmap(NULL, opt->memory, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED ||
        !kv_store_make(&server.kv.store, memory, opt->memory)) {
        fail("no memory for a store of %" PRIu64 " bytes: use a smaller "
             "--memory", opt->memory);
    }
    /* A huge page would be in memory for one value's sake. */
    (void)madvise(memory, opt->memory, MADV_NOHUGEPAGE);
    server.all.next = server.all.previous = &server.all;
    server.kv.more_stats = more_stats;
    server.kv.now = (uint64_t)time(NULL);
    server.most_sessions = opt->connections;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    kv_port_open(opt, memory, opt->memory);
    start_tcp(opt);
    say_ready(opt);
    run();
    say_end(opt->json);
    kv_port_close();
    kv_store_free(&server.kv.store);
    munmap(memory, opt->memory);
    return EXIT_SUCCESS;
}
