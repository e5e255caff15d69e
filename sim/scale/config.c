/*
 * unetmm: hosts with cards in a simulated network: the description of a run
 *
 * Lines of words, which scripts/scale writes:
 *
 *   nodes HOSTS SWITCHES
 *   workload NAME
 *   set NAME VALUE             a parameter: SCALE_PARAMS; a source by its name
 *   cost NAME VALUE            UNETMM_COSTS and NODE_COSTS
 *   link END END FS_A_BYTE DELAY_PS QUEUE_BYTES LOST_OF_A_MILLION
 *   route SWITCH HOST LINK...  links by which the switch reaches the host
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <errno.h>
#include "scale.h"
#include "abi/unetmm_lists.h"

#define MOST_LINKS      8192
#define MOST_WORDS      80
#define MOST_WAYS       (1u << 24)
#define MOST_PAGES      (1u << 18)      /* of a host: its tables fit into the fake host */

static const Workload *const workloads[] = {
    &workload_kv, &workload_incast, &workload_alltoall, &workload_ring,
    &workload_replay,
};

typedef struct Value {
    const char *name;
    size_t offset;
    int64_t first, least, most;
    const char *text;
} Value;

static const Value params[] = {
#define SCALE_PARAM(name, first, least, most, text) \
    { #name, offsetof(Config, name), first, least, most, text },
    SCALE_PARAMS(SCALE_PARAM)
#undef SCALE_PARAM
};

static const Value costs[] = {
#define NODE_COST(name) \
    { #name, offsetof(Config, costs.name), 0, 0, PS_PER_S, "" },
#define CARD_COST(name) \
    { #name, offsetof(Config, costs.card.name), 0, 0, PS_PER_S, "" },
    UNETMM_COSTS(CARD_COST)
    NODE_COSTS(NODE_COST)
#undef CARD_COST
#undef NODE_COST
};

/* Values of the parameters `source`, `policy` and `congestion`. */
static const struct {
    const char *param, *name;
    int64_t value;
} names[] = {
#define SOURCE_NAME(number, upper, name, text) { "source", #name, number },
#define POLICY_NAME(number, upper, name, ...) { "policy", #name, number },
#define CONTROL_NAME(number, upper, name, text) { "congestion", #name, number },
    UNETMM_SOURCES(SOURCE_NAME, SOURCE_NAME)
    UNETMM_POLICIES(POLICY_NAME)
    UNETMM_CONGESTIONS(CONTROL_NAME)
#undef SOURCE_NAME
#undef POLICY_NAME
#undef CONTROL_NAME
};

static int64_t *value_of(Config *c, const Value *v)
{
    return (int64_t *)((char *)c + v->offset);
}

/* ---- Reading ---------------------------------------------------------------- */

static bool number(const char *word, int64_t least, int64_t most, int64_t *out)
{
    char *end;

    errno = 0;
    *out = g_ascii_strtoll(word, &end, 10);
    return !errno && end != word && !*end && *out >= least && *out <= most;
}

/* A number, or the name of a source, policy or congestion control. */
static bool value_in(const Value *v, const char *word, int64_t *out)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
        if (!strcmp(v->name, names[i].param) && !strcmp(names[i].name, word)) {
            *out = names[i].value;
            return true;
        }
    }
    return number(word, v->least, v->most, out);
}

static char *set_value(Config *c, const Value *values, unsigned n, char **words)
{
    for (unsigned i = 0; i < n; i++) {
        const Value *v = &values[i];

        if (strcmp(v->name, words[1])) {
            continue;
        }
        if (!value_in(v, words[2], value_of(c, v))) {
            return g_strdup_printf("%s is from %" PRId64 " to %" PRId64
                                   ", not %s", v->name, v->least, v->most,
                                   words[2]);
        }
        return NULL;
    }
    return g_strdup_printf("there is no %s %s", words[0], words[1]);
}

static char *read_nodes(Config *c, char **words, unsigned n)
{
    int64_t hosts, switches;

    if (c->routes || n != 3 || !number(words[1], 2, SCALE_HOSTS, &hosts) ||
        !number(words[2], 0, SCALE_HOSTS, &switches)) {
        return g_strdup_printf("nodes needs 2 to %u hosts and up to as many "
                               "switches", SCALE_HOSTS);
    }
    c->hosts = hosts;
    c->switches = switches;
    c->routes = g_new0(Route, MAX(1, hosts * switches));
    return NULL;
}

static char *read_link(Config *c, char **words, unsigned n)
{
    int64_t v[6], most[6] = { c->hosts + c->switches - 1,
                              c->hosts + c->switches - 1, PS_PER_S, PS_PER_S,
                              1ll << 40, 1000000 };
    Link link;

    if (n != 7 || !c->routes || c->links->len == MOST_LINKS) {
        return g_strdup("a link needs nodes before it and six values");
    }
    for (unsigned i = 0; i < 6; i++) {
        if (!number(words[i + 1], 0, most[i], &v[i])) {
            return g_strdup_printf("%s is no value of a link", words[i + 1]);
        }
    }
    link = (Link) { .end = { v[0], v[1] }, .byte = v[2], .delay = v[3],
                    .queue = v[4], .loss = v[5] };
    if (link.end[0] == link.end[1]) {
        return g_strdup("a link has the same end twice");
    }
    g_array_append_val(c->links, link);
    return NULL;
}

static char *read_route(Config *c, char **words, unsigned n)
{
    int64_t which, host;
    Route *route;

    if (n < 4 || !c->routes || !number(words[1], 0, (int64_t)c->switches - 1,
                                       &which) ||
        !number(words[2], 0, c->hosts - 1, &host)) {
        return g_strdup("a route needs a switch, a host and links");
    }
    if (c->ways->len > MOST_WAYS - MOST_WORDS) {
        return g_strdup_printf("routes have more than %u links", MOST_WAYS);
    }
    route = &c->routes[which * c->hosts + host];
    if (route->used) {
        return g_strdup("a switch has two routes to a host");
    }
    route->first = c->ways->len;
    for (unsigned i = 3; i < n; i++) {
        int64_t at;
        uint32_t way;
        const Link *link;

        if (!number(words[i], 0, (int64_t)c->links->len - 1, &at)) {
            return g_strdup_printf("there is no link %s", words[i]);
        }
        link = &g_array_index(c->links, Link, at);
        if (link->end[0] != c->hosts + which &&
            link->end[1] != c->hosts + which) {
            return g_strdup_printf("link %s is not at that switch", words[i]);
        }
        way = at;
        g_array_append_val(c->ways, way);
        route->used++;
    }
    return NULL;
}

static char *read_workload(Config *c, const char *name)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(workloads); i++) {
        if (!strcmp(workloads[i]->name, name)) {
            c->workload = workloads[i];
            return NULL;
        }
    }
    return g_strdup_printf("there is no workload %s", name);
}

static char *read_words(Config *c, char **words, unsigned n)
{
    if (!strcmp(words[0], "nodes")) {
        return read_nodes(c, words, n);
    } else if (!strcmp(words[0], "link")) {
        return read_link(c, words, n);
    } else if (!strcmp(words[0], "route")) {
        return read_route(c, words, n);
    } else if (!strcmp(words[0], "workload") && n == 2) {
        return read_workload(c, words[1]);
    } else if (!strcmp(words[0], "set") && n == 3) {
        return set_value(c, params, G_N_ELEMENTS(params), words);
    } else if (!strcmp(words[0], "cost") && n == 3) {
        return set_value(c, costs, G_N_ELEMENTS(costs), words);
    }
    return g_strdup_printf("there is no line %s of %u words", words[0], n);
}

/* ---- The whole --------------------------------------------------------------- */

static char *check_links(const Config *c)
{
    g_autofree unsigned *links = g_new0(unsigned, c->hosts + c->switches);

    for (unsigned i = 0; i < c->links->len; i++) {
        const Link *link = &g_array_index(c->links, Link, i);

        for (unsigned side = 0; side < 2; side++) {
            links[link->end[side]]++;
        }
    }
    for (unsigned i = 0; i < c->hosts; i++) {
        if (links[i] != 1) {
            return g_strdup_printf("host %u has %u links, not one", i, links[i]);
        }
    }
    for (unsigned i = 0; i < c->switches; i++) {
        if (links[c->hosts + i] > SCALE_PORTS) {
            return g_strdup_printf("a switch has more than %u links: use a network of several switches", SCALE_PORTS);
        }
    }
    return NULL;
}

static char *check(const Config *c)
{
    if (!c->routes || !c->workload) {
        return g_strdup("nodes or workload is missing");
    }
    if (c->servers >= c->hosts) {
        return g_strdup("servers must be fewer than the hosts");
    }
    if (!source_model(c->source)) {
        return g_strdup("source must be pinned, tlb, ktlb, utlb, shadow or odp");
    }
    if (c->policy > UNETMM_POLICY_BACKUP) {
        return g_strdup("there is no such policy");
    }
    if (c->writes && c->bytes <= UNETMM_CQE_INLINE) {
        return g_strdup_printf("writes need values of more than %u bytes",
                               UNETMM_CQE_INLINE);
    }
    if (c->bytes > c->pages * FAKE_PAGE) {
        return g_strdup("bytes must fit into the pages");
    }
    if ((c->buffers + c->depth) * pages_of(c->bytes) + c->pages > MOST_PAGES) {
        return g_strdup_printf("pages, and buffers and depth times the pages of bytes, are %u at most",
                               MOST_PAGES);
    }
    if (trace_refuses(c)) {
        return g_strdup(trace_refuses(c));
    }
    for (unsigned i = 0; i < c->hosts; i++) {
        const char *why = aside_refuses(c, i);

        if (why) {
            return g_strdup(why);
        }
    }
    return check_links(c);
}

static void printable(char *text)
{
    for (; *text; text++) {
        if (!g_ascii_isprint(*text)) {
            *text = '?';
        }
    }
}

/* The sentence with its line's number, in printable characters alone. */
static char *sentence(const char *why, unsigned line)
{
    char *text = g_strdup_printf("line %u: %.200s", line, why);

    printable(text);
    return text;
}

Config *config_read(FILE *from, FILE *trace, char **why)
{
    Config *c = g_new0(Config, 1);
    char line[4096];
    unsigned lines = 0;

    c->links = g_array_new(false, false, sizeof(Link));
    c->ways = g_array_new(false, false, sizeof(uint32_t));
    for (unsigned i = 0; i < G_N_ELEMENTS(params); i++) {
        *value_of(c, &params[i]) = params[i].first;
    }
    *why = NULL;
    while (!*why && fgets(line, sizeof(line), from)) {
        g_auto(GStrv) words = g_strsplit_set(g_strstrip(line), " ", MOST_WORDS);

        lines++;
        if (words[0]) {
            *why = read_words(c, words, g_strv_length(words));
        }
        if (*why) {
            char *text = sentence(*why, lines);

            g_free(*why);
            *why = text;
        }
    }
    if (!*why && trace) {
        *why = trace_read(&c->trace, trace);
    }
    *why = *why ?: check(c);
    if (*why) {
        config_free(c);
        return NULL;
    }
    return c;
}

void config_free(Config *c)
{
    g_array_unref(c->links);
    g_array_unref(c->ways);
    g_free(c->routes);
    trace_free(c->trace);
    g_free(c);
}

void config_list(FILE *to)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(workloads); i++) {
        fprintf(to, "{\"workload\": \"%s\", \"text\": \"%s\"}\n",
                workloads[i]->name, workloads[i]->text);
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(params); i++) {
        const Value *v = &params[i];

        fprintf(to, "{\"param\": \"%s\", \"default\": %" PRId64 ", \"least\": %"
                PRId64 ", \"most\": %" PRId64 ", \"text\": \"%s\"}\n", v->name,
                v->first, v->least, v->most, v->text);
    }
}

/* ---- For the network ----------------------------------------------------------- */

unsigned config_hosts(const Config *c)
{
    return c->hosts;
}

unsigned config_switches(const Config *c)
{
    return c->switches;
}

unsigned config_links(const Config *c)
{
    return c->links->len;
}

unsigned config_end(const Config *c, unsigned link, unsigned side)
{
    return g_array_index(c->links, Link, link).end[side];
}

int64_t config_delay(const Config *c, unsigned link)
{
    return g_array_index(c->links, Link, link).delay;
}

int64_t config_until(const Config *c)
{
    return c->until;
}

int64_t config_switch_delay(const Config *c)
{
    return c->costs.switch_delay;
}

/* The host that has this address; `hosts`: none. */
static unsigned host_by_mac(const Config *c, const uint8_t *mac)
{
    unsigned host = (mac[4] - 0x4d) * 256 + mac[5] - 1;

    return host < c->hosts && !memcmp(mac, node_mac(host), 6) ? host : c->hosts;
}

int config_next(const Config *c, unsigned which, const uint8_t *frame,
                size_t bytes)
{
    const struct unetmm_frame *head = (const void *)frame;
    uint32_t hash = 2166136261u;
    unsigned host;
    const Route *route;

    if (bytes < sizeof(*head)) {
        return -1;
    }
    host = host_by_mac(c, head->dst);
    if (host == c->hosts) {
        return -1;
    }
    route = &c->routes[which * c->hosts + host];
    if (!route->used) {
        return -1;
    }
    /* Frames of one direction of a channel stay on one way, in their order. */
    for (unsigned i = 0; i < 12; i++) {
        hash = (hash ^ frame[i]) * 16777619u;
    }
    hash ^= hash >> 15 ^ which * 0x9e3779b9u;
    return g_array_index(c->ways, uint32_t, route->first + hash % route->used);
}
