/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm-kv: options.
 */
#include "kv.h"

#include <arpa/inet.h>
#include <getopt.h>
#include <stdlib.h>
#include <sys/random.h>

static const char usage[] =
"usage: unetmm-kv [options]\n"
"\n"
"A key-value server that memcached's clients can talk to (text protocol: get,\n"
"set, add, replace, delete, flush_all, stats, version, quit). Its TCP is lwIP, in\n"
"the process itself, over a raw Ethernet endpoint of the card: it is a station of\n"
"its own on the wire, beside the kernel's interface.\n"
"\n"
"  -a, --address IP/BITS  the station's address (10.0.2.100/24)\n"
"      --gateway IP       its way to other networks (10.0.2.2)\n"
"  -m, --mac ADDRESS      its MAC address, which is not the card's (made up)\n"
"  -p, --port N           TCP port (11211)\n"
"      --policy NAME      action for a frame whose buffer is not in memory:\n"
"                           drop    it is lost, and the sender has to repeat it\n"
"                           backup  it waits until the buffer is there (default)\n"
"                           pinned  that cannot be: ring, sending slots and store\n"
"                                   are pinned before the server starts\n"
"      --ring N           receive buffers, a page each, 1 to 32768 (64); not one\n"
"                         of them is touched before the first frame\n"
"      --backup N         policy backup: frames that may wait (the driver's 256)\n"
"      --memory BYTES     of the store (64M); the least recently used value\n"
"                         makes room for a new one\n"
"      --connections N    at a time, 1 to 4096 (64)\n"
"      --spin US          wait so long without sleeping (0)\n"
"  -d, --device FILE      card (" UNETMM_DEFAULT_DEVICE ")\n"
"      --json             first and last words as JSON objects\n"
"  -V, --version          the version\n"
"  -h, --help             this text\n"
"\n"
"Numbers of bytes may end in k, M or G. SIGTERM and SIGINT end it; it then says\n"
"how much it has served, and prints the card's counters for it.\n"
"\n"
"Example, in a guest of QEMU with -netdev user,hostfwd=tcp:127.0.0.1:11211-\n"
"10.0.2.100:11211, and then on the host:\n"
"    unetmm-kv --ring 256 --memory 16M\n"
"    printf 'set a 0 0 5\\r\\nhello\\r\\nget a\\r\\nquit\\r\\n' | nc 127.0.0.1 11211\n";

enum {
    OPT_BACKUP = 256, OPT_CONNECTIONS, OPT_GATEWAY, OPT_JSON, OPT_MEMORY,
    OPT_POLICY, OPT_RING, OPT_SPIN,
};

static const struct option long_options[] = {
    { "address", required_argument, NULL, 'a' },
    { "backup", required_argument, NULL, OPT_BACKUP },
    { "connections", required_argument, NULL, OPT_CONNECTIONS },
    { "device", required_argument, NULL, 'd' },
    { "gateway", required_argument, NULL, OPT_GATEWAY },
    { "help", no_argument, NULL, 'h' },
    { "json", no_argument, NULL, OPT_JSON },
    { "mac", required_argument, NULL, 'm' },
    { "memory", required_argument, NULL, OPT_MEMORY },
    { "policy", required_argument, NULL, OPT_POLICY },
    { "port", required_argument, NULL, 'p' },
    { "ring", required_argument, NULL, OPT_RING },
    { "spin", required_argument, NULL, OPT_SPIN },
    { "version", no_argument, NULL, 'V' },
    { NULL, 0, NULL, 0 }
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

static void set_option(struct kv_options *opt, int c, const char *text)
{
    switch (c) {
    case 'h':
        fputs(usage, stdout);
        exit(EXIT_SUCCESS);
    case 'V': print_version();
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
    int c;

    tool_name = "unetmm-kv";
    /* getopt's own complaint is one sentence and names the program. */
    argv[0] = (char *)(uintptr_t)tool_name;
    set_address(&opt, "10.0.2.100/24");
    opt.gateway = parse_address("gateway", "10.0.2.2");
    while ((c = getopt_long(argc, argv, "Va:d:hm:p:", long_options,
                            NULL)) != -1) {
        if (c == '?') {
            fprintf(stderr, "%s: see %s --help\n", tool_name, tool_name);
            return EXIT_USAGE;
        }
        set_option(&opt, c, optarg);
    }
    if (optind != argc) {
        usage_error("'%s' is not an option", argv[optind]);
    }
    if (!memcmp(opt.mac, none, sizeof(none))) {
        make_mac(opt.mac);
    }
    return kv_serve(&opt);
}
