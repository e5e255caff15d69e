/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Runs programs, also as another user, and collects their output. */
#include "process.h"
#include "link.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_WORDS      32

static int nameless_file(void)
{
    return CHECK_SYS(open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
}

void start(struct tool *tool, const char *command)
{
    char line[512], *words[MOST_WORDS], *save = NULL;
    unsigned n = 0;

    CHECK(strlen(command) < sizeof(line));
    strcpy(line, command);
    for (words[n] = strtok_r(line, " ", &save); words[n];
         words[n] = strtok_r(NULL, " ", &save)) {
        CHECK(++n < MOST_WORDS);
    }
    tool->out = nameless_file();
    tool->err = nameless_file();
    fflush(stdout);
    tool->pid = CHECK_SYS(fork());
    if (!tool->pid) {
        CHECK_SYS(dup2(tool->out, STDOUT_FILENO));
        CHECK_SYS(dup2(tool->err, STDERR_FILENO));
        execv(words[0], words);
        _exit(127);
    }
}

bool has_ended(pid_t pid)
{
    siginfo_t info = { .si_pid = 0 };

    CHECK_SYS(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT));
    return info.si_pid == pid;
}

static void read_back(int fd, char *text)
{
    ssize_t n = CHECK_SYS(pread(fd, text, TEXT_BYTES - 1, 0));

    text[n] = '\0';
    CHECK_SYS(close(fd));
}

int await(struct tool *tool)
{
    int status = await_process(tool->pid);

    read_back(tool->out, tool->text);
    read_back(tool->err, tool->errors);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int run_tool(struct tool *tool, const char *command)
{
    start(tool, command);
    return await(tool);
}

void expect(const struct tool *tool, int status, int wanted)
{
    if (status != wanted) {
        FAIL("it ended with %d, not %d, and said: %s%s", status, wanted,
             tool->text, tool->errors);
    }
}

void expect_word(const char *text, const char *word)
{
    if (!strstr(text, word)) {
        FAIL("no '%s' in: %s", word, text);
    }
}

unsigned occurrences(const char *text, const char *word)
{
    unsigned n = 0;

    for (; (text = strstr(text, word)); text += strlen(word)) {
        n++;
    }
    return n;
}

const char *own_mac(void)
{
    static char text[UNETMM_MAC_CHARS];
    uint8_t mac[6];

    card_mac(mac);
    return unetmm_format_mac(mac, text);
}

const char *source_word(void)
{
    return run.source == UNETMM_SOURCE_TLB ? "tlb" :
           run.source == UNETMM_SOURCE_KTLB ? "ktlb" :
           run.source == UNETMM_SOURCE_UTLB ? "utlb" :
           run.source == UNETMM_SOURCE_SHADOW ? "shadow" :
           run.source == UNETMM_SOURCE_ODP ? "odp" : "pinned";
}

void drop_capability(unsigned number)
{
    struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct data[2];

    CHECK_SYS(prctl(PR_CAPBSET_DROP, number, 0, 0, 0));
    CHECK_SYS(syscall(SYS_capget, &head, data));
    data[number / 32].effective &= ~(1u << number % 32);
    data[number / 32].permitted &= ~(1u << number % 32);
    CHECK_SYS(syscall(SYS_capset, &head, data));
}

void be_user(unsigned uid)
{
    CHECK_SYS(setresgid(uid, uid, uid));
    CHECK_SYS(setresuid(uid, uid, uid));
}
