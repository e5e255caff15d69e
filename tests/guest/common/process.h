/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Programs that a test runs, as a person would: their output and exit status.
 */
#ifndef TEST_PROCESS_H
#define TEST_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#define TEXT_BYTES      16384

/* A program with its output and complaints in files without names. */
struct tool {
    pid_t pid;
    int out, err;
    char text[TEXT_BYTES];
    char errors[TEXT_BYTES];
};

/* Words, as a shell would split them. */
void start(struct tool *tool, const char *command);
/* Its exit status, or minus the signal that has ended it. */
int await(struct tool *tool);
int run_tool(struct tool *tool, const char *command);
/* True if a child has ended for which nobody has waited yet. */
bool has_ended(pid_t pid);

void expect(const struct tool *tool, int status, int wanted);
void expect_word(const char *text, const char *word);
unsigned occurrences(const char *text, const char *word);

/* The card's own address, as programs take it. */
const char *own_mac(void);
/* The variant's source, as programs take it. */
const char *source_word(void);

/*
 * Takes the capability from the calling process, and from programs that it runs from
 * here on, though both are root's.
 */
void drop_capability(unsigned number);

/* The calling process is that user's from here on. */
void be_user(unsigned uid);

#endif /* TEST_PROCESS_H */
