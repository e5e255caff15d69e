/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm-kv: options.
 */
#include "kv.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/random.h>

static const char doc[] =
"A key-value server that memcached's clients can talk to (text protocol:\n"
"get, set, add, replace, delete, flush_all, stats, version, quit). Its TCP is\n"
"lwIP, in the process itself, over a raw Ethernet endpoint of the card: it is\n"
"a station of its own on the wire, beside the kernel's interface.\v"
"Numbers of bytes may end in k, M or G. SIGTERM and SIGINT end it; it then\n"
"says how much it has served, and prints the card's counters for it.\n"
"\n"
"Example, in a guest of QEMU with -netdev user,hostfwd=tcp:127.0.0.1:11211-\n"
"10.0.2.100:11211, and then on the host:\n"
"    unetmm-kv --ring 256 --memory 16M\n"
"    printf 'set a 0 0 5\\r\\nhello\\r\\nget a\\r\\nquit\\r\\n' | nc 127.0.0.1 11211";

enum {
    OPT_BACKUP = 256, OPT_CONNECTIONS, OPT_GATEWAY, OPT_JSON, OPT_MEMORY,
    OPT_POLICY, OPT_RING, OPT_SPIN,
};

enum { GROUP_STATION = 1, GROUP_STORE, GROUP_OTHER, GROUP_POLICIES };

static const struct argp_option options[] = {
    { NULL, 0, NULL, 0, "The station:", GROUP_STATION },
    { "address", 'a', "IP/BITS", 0, "its address (10.0.2.100/24)", GROUP_STATION },
    { "gateway", OPT_GATEWAY, "IP", 0, "its way to other networks (10.0.2.2)",
      GROUP_STATION },
    { "mac", 'm', "ADDRESS", 0,
      "its MAC address, which is not the card's (made up)", GROUP_STATION },
    { "port", 'p', "N", 0, "TCP port (11211)", GROUP_STATION },
    { "connections", OPT_CONNECTIONS, "N", 0, "at a time, 1 to 4096 (64)",
      GROUP_STATION },
    { NULL, 0, NULL, 0, "Memory:", GROUP_STORE },
    { "policy", OPT_POLICY, "NAME", 0,
      "action for a frame whose buffer is not in memory, see below (backup)",
      GROUP_STORE },
    { "ring", OPT_RING, "N", 0, "receive buffers, a page each, 1 to 32768 (64); not "
      "one of them is touched before the first frame", GROUP_STORE },
    { "backup", OPT_BACKUP, "N", 0,
      "policy backup: frames that may wait (the driver's 256)", GROUP_STORE },
    { "memory", OPT_MEMORY, "BYTES", 0, "of the store (64M); the least recently used "
      "value makes room for a new one", GROUP_STORE },
    { NULL, 0, NULL, 0, "Others:", GROUP_OTHER },
    { "spin", OPT_SPIN, "US", 0, "wait so long without sleeping (0)", GROUP_OTHER },
    { "device", 'd', "FILE", 0, "card (" UNETMM_DEFAULT_DEVICE ")", GROUP_OTHER },
    { "json", OPT_JSON, NULL, 0, "first and last words as JSON objects",
      GROUP_OTHER },
    { NULL, 0, NULL, 0, "Policies, for --policy:", GROUP_POLICIES },
    OPTION_WORD("drop", "the frame is lost, and the sender has to repeat it",
                GROUP_POLICIES),
    OPTION_WORD("backup", "the frame waits until the buffer is there", GROUP_POLICIES),
    OPTION_WORD("pinned", "no buffer is absent: ring, sending slots and store are "
                "pinned before the server starts", GROUP_POLICIES),
    { 0 }
};

static uint32_t parse_address(const char *name, const char *text)
{
    struct in_addr address;

    if (inet_pton(AF_INET, text, &address) != 1) {
        usage_error("--%s is an address such as 10.0.2.100, not '%s'", name,
                    text);
    }
    return address.s_addr;
}

/* "10.0.2.100/24"; without the bits: 24. */
static void set_address(struct kv_options *opt, const char *text)
{
    const char *slash = strchr(text, '/');
    uint64_t bits = 24;
    char address[INET_ADDRSTRLEN] = "";
    size_t length = slash ? (size_t)(slash - text) : strlen(text);

    if (length < sizeof(address)) {
        memcpy(address, text, length);
    }
    if (slash) {
        bits = number_option("address", slash + 1, 1, 30);
    }
    opt->address = parse_address("address", address);
    opt->mask = htonl((uint32_t)(UINT32_MAX << (32 - bits)));
}

static enum kv_policy parse_policy(const char *text)
{
    if (!strcmp(text, "drop")) {
        return KV_DROP;
    }
    if (!strcmp(text, "backup")) {
        return KV_BACKUP;
    }
    if (!strcmp(text, "pinned")) {
        return KV_PINNED;
    }
    usage_error("--policy is drop, backup or pinned, not '%s'", text);
}

static void set_mac(struct kv_options *opt, const char *text)
{
    if (unetmm_resolve(text, opt->mac) || opt->mac[0] & 1) {
        usage_error("--mac is a station's address, such as "
                    "02:00:00:12:34:56, not '%s'", text);
    }
}

static void set_option(void *opaque, int key, const char *text)
{
    struct kv_options *opt = opaque;

    switch (key) {
    case 'a': set_address(opt, text); break;
    case 'd': opt->device = text; break;
    case 'm': set_mac(opt, text); break;
    case 'p':
        opt->port = (uint16_t)number_option("port", text, 1, UINT16_MAX);
        break;
    case OPT_BACKUP:
        opt->backup = (uint32_t)number_option("backup", text, 1, 65535);
        break;
    case OPT_CONNECTIONS:
        opt->connections = (uint32_t)number_option("connections", text, 1,
                                                   4096);
        break;
    case OPT_GATEWAY: opt->gateway = parse_address("gateway", text); break;
    case OPT_JSON: opt->json = true; break;
    case OPT_MEMORY:
        opt->memory = number_option("memory", text, UNETMM_PAGE_BYTES,
                                    1ull << 36);
        break;
    case OPT_POLICY: opt->policy = parse_policy(text); break;
    case OPT_RING:
        opt->ring = (uint32_t)number_option("ring", text, 1, KV_MAX_RING);
        break;
    case OPT_SPIN:
        opt->spin_ns = 1000u * (uint32_t)number_option("spin", text, 0,
                                                       1000000);
        break;
    }
}

/* One that nobody has been given: locally administered, not of a group. */
static void make_mac(uint8_t mac[6])
{
    if (getrandom(mac, 6, 0) != 6) {
        fail("no random bytes for a MAC address: use --mac");
    }
    mac[0] = 0x02;
}

int main(int argc, char **argv)
{
    static const uint8_t none[6];
    struct kv_options opt = {
        .policy = KV_BACKUP,
        .ring = 64,
        .memory = 64u << 20,
        .connections = 64,
        .port = KV_PORT,
    };
    static const struct command_line line = {
        .name = "unetmm-kv", .doc = doc, .options = options,
        .set = set_option,
    };
    int next;

    set_address(&opt, "10.0.2.100/24");
    opt.gateway = parse_address("gateway", "10.0.2.2");
    next = parse_words(&line, &opt, argc, argv);
    if (next != argc) {
        usage_error("there are only options, not '%s'", argv[next]);
    }
    if (!memcmp(opt.mac, none, sizeof(none))) {
        make_mac(opt.mac);
    }
    return kv_serve(&opt);
}
