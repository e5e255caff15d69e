/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See options.h. */
#include "common.h"
#include "unetmm_lists.h"

#include <stdarg.h>
#include <stdlib.h>

#define MOST_OPTIONS    80
#define KEY_USAGE       0x7001
/* Groups below 0 come behind the others. */
#define LAST_GROUP      (-1)
#define SECONDS_MOST    86400u

static const struct argp_option standard[] = {
    { "help", 'h', NULL, 0, "this text", LAST_GROUP },
    { "usage", KEY_USAGE, NULL, 0, "the options in short", LAST_GROUP },
    { "version", 'V', NULL, 0, "the version", LAST_GROUP },
    { 0 }
};

struct parser {
    const struct command_line *line;
    void *opt;
};

static void print_version(void) __attribute__((noreturn));

static void print_version(void)
{
    printf("%s (unetmm) %s\n", tool_name, UNETMM_VERSION);
    exit(EXIT_SUCCESS);
}

static error_t take_key(int key, char *text, struct argp_state *state)
{
    const struct parser *parser = state->input;

    switch (key) {
    case 'h':
        argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
        break;
    case KEY_USAGE:
        argp_state_help(state, stdout, ARGP_HELP_USAGE | ARGP_HELP_EXIT_OK);
        break;
    case 'V':
        print_version();
    default:
        /* argp's own keys, words among them */
        if (key <= 0 || key > KEY_USAGE) {
            return ARGP_ERR_UNKNOWN;
        }
        parser->line->set(parser->opt, key, text);
    }
    return 0;
}

static unsigned append(struct argp_option all[MOST_OPTIONS], unsigned n,
                       const struct argp_option *more)
{
    /* A header has no name, but a text. */
    while (more && (more->name || more->key || more->doc) &&
           n < MOST_OPTIONS - 1) {
        all[n++] = *more++;
    }
    return n;
}

int parse_words(const struct command_line *line, void *opt, int argc, char **argv)
{
    struct argp_option all[MOST_OPTIONS] = { 0 };
    const struct argp argp = {
        .options = all, .parser = take_key, .args_doc = line->words,
        .doc = line->doc,
    };
    struct parser parser = { .line = line, .opt = opt };
    unsigned n;
    int next = argc;

    tool_name = line->name;
    n = append(all, 0, line->options);
    n = append(all, n, line->shared);
    append(all, n, standard);
    argp_err_exit_status = EXIT_USAGE;
    /* argp's own complaints name the program. */
    argv[0] = (char *)(uintptr_t)tool_name;
    argp_parse(&argp, argc, argv, ARGP_NO_HELP, &next, &parser);
    return next;
}

void usage_error(const char *format, ...)
{
    va_list args;

    fprintf(stderr, "%s: ", tool_name);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "; see %s --help\n", tool_name);
    exit(EXIT_USAGE);
}

bool parse_number(const char *text, uint64_t most, uint64_t *value)
{
    unsigned shift = 0;
    char *end;

    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    errno = 0;
    *value = strtoull(text, &end, 0);
    if (errno) {
        return false;
    }
    switch (*end) {
    case 'k': case 'K': shift = 10; end++; break;
    case 'm': case 'M': shift = 20; end++; break;
    case 'g': case 'G': shift = 30; end++; break;
    }
    if (*end || *value > most >> shift) {
        return false;
    }
    *value <<= shift;
    return true;
}

uint64_t number_option(const char *name, const char *text, uint64_t least,
                       uint64_t most)
{
    uint64_t value;

    if (!parse_number(text, most, &value) || value < least) {
        usage_error("--%s takes a number from %llu to %llu, not '%s'", name,
                    (unsigned long long)least, (unsigned long long)most, text);
    }
    return value;
}

uint32_t number32_option(const char *name, const char *text, uint32_t least,
                         uint32_t most)
{
    return (uint32_t)number_option(name, text, least, most);
}

uint64_t seconds_option(const char *name, const char *text)
{
    return NS_PER_S * number_option(name, text, 1, SECONDS_MOST);
}

/* ---- Names ------------------------------------------------------------- */

struct name {
    const char *name;
    unsigned value;
};

#define SOURCE(number, upper, name, ...) { #name, number },
#define NO_SOURCE(number, upper, name, ...)
#define POLICY(number, upper, name, ...) { #name, number },
static const struct name sources[] = { UNETMM_SOURCES(NO_SOURCE, SOURCE) { NULL, 0 } };
static const struct name policies[] = { UNETMM_POLICIES(POLICY) { NULL, 0 } };

/* "tlb, pinned or odp", of those that are allowed */
static void list_names(const struct name *names, unsigned allowed,
                       char list[128])
{
    size_t length = 0;

    for (; names->name; names++) {
        const unsigned bit = OPTION_BIT(names->value);

        if (allowed & bit) {
            allowed &= ~bit;
            length += (size_t)snprintf(list + length, 128 - length, "%s%s",
                                       !length ? "" : allowed ? ", " : " or ",
                                       names->name);
        }
    }
}

static unsigned name_option(const char *option, const char *text,
                            const struct name *names, unsigned allowed)
{
    const struct name *at;
    char list[128] = "";

    for (at = names; at->name; at++) {
        if (allowed & OPTION_BIT(at->value) && !strcmp(at->name, text)) {
            return at->value;
        }
    }
    list_names(names, allowed, list);
    usage_error("--%s is %s, not '%s'", option, list, text);
}

unsigned source_option(const char *text, unsigned allowed)
{
    return name_option("source", text, sources, allowed);
}

unsigned policy_option(const char *text, unsigned allowed)
{
    return name_option("policy", text, policies, allowed);
}

static const char *name_of(const struct name *names, unsigned value)
{
    while (names->name && names->value != value) {
        names++;
    }
    return names->name ? names->name : "of a newer version";
}

const char *source_name(unsigned source)
{
    return name_of(sources, source);
}

const char *policy_name(unsigned policy)
{
    return name_of(policies, policy);
}

void card_word(const char *text, uint8_t mac[6])
{
    if (unetmm_resolve(text, mac)) {
        usage_error("'%s' is neither the MAC address of a card, such as "
                    "52:54:00:12:34:56, nor a name of ethers(5)", text);
    }
}
