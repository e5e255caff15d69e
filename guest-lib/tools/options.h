/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The command lines of all tools, by argp.
 *
 * A mistake ends the program with one sentence and EXIT_USAGE.
 */
#ifndef UNETMM_TOOLS_OPTIONS_H
#define UNETMM_TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include <argp.h>

#define EXIT_USAGE      2

struct command_line {
    const char *name;
    const char *words;          /* behind the options, a line for each way; or NULL */
    const char *doc;            /* before the options; \v; behind them */
    const struct argp_option *options;
    const struct argp_option *shared;   /* more of them, or NULL */
    /* Takes an option that is in one of the tables. */
    void (*set)(void *opt, int key, const char *text);
};

/* A line of --help about a word that an option takes */
#define OPTION_WORD(word, text, group) \
    { word, 0, NULL, OPTION_DOC | OPTION_NO_USAGE, text, group }

/* Sets tool_name.  Returns the index of the first word that is no option. */
int parse_words(const struct command_line *line, void *opt, int argc, char **argv);

/* One sentence on stderr, then the end with EXIT_USAGE. */
void usage_error(const char *format, ...)
    __attribute__((noreturn, format(printf, 1, 2)));

/* "12", "64k", "1M" (powers of 1024). */
bool parse_number(const char *text, uint64_t most, uint64_t *value);

/* The same of option --name. */
uint64_t number_option(const char *name, const char *text, uint64_t least,
                       uint64_t most);
uint32_t number32_option(const char *name, const char *text, uint32_t least,
                         uint32_t most);
/* Nanoseconds of --timeout or --duration: 1 to 86400 seconds. */
uint64_t seconds_option(const char *name, const char *text);

/* Sets of sources and policies, for the tools that take some of them */
#define OPTION_BIT(value)       (1u << (value))
/* The sources that need neither a call of the driver nor one of the library for each use */
#define OPTION_DEVICE_SOURCES \
    (OPTION_BIT(UNETMM_SOURCE_TLB) | OPTION_BIT(UNETMM_SOURCE_SHADOW) | \
     OPTION_BIT(UNETMM_SOURCE_ODP) | OPTION_BIT(UNETMM_SOURCE_PINNED))

/* UNETMM_SOURCE_*, UNETMM_POLICY_*, of the names of those in `allowed` */
unsigned source_option(const char *text, unsigned allowed);
unsigned policy_option(const char *text, unsigned allowed);
const char *source_name(unsigned source);
const char *policy_name(unsigned policy);

/* The address of a card: a MAC address or a name of ethers(5). */
void card_word(const char *text, uint8_t mac[6]);

#endif /* UNETMM_TOOLS_OPTIONS_H */
