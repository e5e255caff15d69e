/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The card's files in sysfs, debugfs and /proc, and the driver's module. */
#include "card.h"
#include "guard.h"
#include "link.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

/* ---- The card in sysfs ----------------------------------------------------------------- */

static char card[64];           /* 0000:00:01.0 */

int write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    int ret = 0;

    if (fd < 0) {
        return -errno;
    }
    if (write(fd, text, strlen(text)) < 0) {
        ret = -errno;
    }
    close(fd);
    return ret;
}

void user_probes(bool allowed)
{
    CHECK_RET(write_file("/sys/module/unetmm/parameters/user_probes",
                         allowed ? "1" : "0"), 0);
}

bool card_present(void)
{
    return access(UNETMM_DEFAULT_DEVICE, F_OK) == 0;
}

static bool has_word(const char *path, const char *word)
{
    char text[16] = { 0 };
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool same = fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 &&
                !strncmp(text, word, strlen(word));

    if (fd >= 0) {
        close(fd);
    }
    return same;
}

/* A test that failed may have left it without a driver, or off the bus. */
static void revive_card(void)
{
    DIR *devices = opendir("/sys/bus/pci/devices");
    struct dirent *entry;
    char path[PATH_MAX];

    write_file("/sys/bus/pci/rescan", "1");
    while (devices && (entry = readdir(devices))) {
        snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/device",
                 entry->d_name);
        if (has_word(path, "0x10f0")) {
            write_file("/sys/bus/pci/drivers/unetmm/bind", entry->d_name);
        }
    }
    if (devices) {
        closedir(devices);
    }
}

void card_find(void)
{
    char path[PATH_MAX];
    ssize_t n;

    if (!card_present()) {
        revive_card();
    }
    n = CHECK_SYS(readlink("/sys/class/misc/unetmm0/device", path,
                           sizeof(path) - 1));
    path[n] = '\0';
    snprintf(card, sizeof(card), "%s", basename(path));
}

void card_write(const char *file, const char *text)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s", card, file);
    CHECK_RET(write_file(path, text), 0);
}

unsigned card_value(const char *path, const char *word)
{
    FILE *file = fopen(path, "r");
    char found[50];
    unsigned value = 0;
    bool there = false;

    CHECK(file);
    while (!there && fscanf(file, "%49s %u\n", found, &value) == 2) {
        there = !strcmp(found, word);
    }
    fclose(file);
    CHECK(there);
    return value;
}

int card_config(void)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/config", card);
    return (int)CHECK_SYS(open(path, O_RDWR | O_CLOEXEC));
}

bool card_opens(void)
{
    struct unetmm_ctx *ctx;

    if (unetmm_open(NULL, UNETMM_OBSERVE, &ctx)) {
        return false;
    }
    unetmm_close(ctx);
    return true;
}

int card_unbind(void)
{
    return write_file("/sys/bus/pci/drivers/unetmm/unbind", card);
}

int card_bind(void)
{
    return write_file("/sys/bus/pci/drivers/unetmm/bind", card);
}

/* Some messages, in a process: nothing of it stays. */
static void talk_main(void *argument)
{
    uint8_t *at = pages(4);
    struct link link;
    unsigned i;

    (void)argument;
    link_open(&link, NULL, NULL);
    reach(link.ctx, at, 4 * PAGE, true);
    for (i = 0; i < 5; i++) {
        exchange_pattern(&link, at, at + 2 * PAGE, 2 * PAGE, i);
    }
    link_close(&link);
}

void card_check_works(void)
{
    EVENTUALLY(card_opens());
    end_process(start_process(talk_main, NULL));
}

/* ---- The module --------------------------------------------------------------------------- */

int module_unload(void)
{
    return syscall(SYS_delete_module, "unetmm", O_NONBLOCK) ? -errno : 0;
}

int module_file(void)
{
    struct utsname name;
    char path[PATH_MAX];

    CHECK_SYS(uname(&name));
    snprintf(path, sizeof(path), "/lib/modules/%s/extra/unetmm.ko",
             name.release);
    return (int)CHECK_SYS(open(path, O_RDONLY | O_CLOEXEC));
}

int module_load_from(int fd)
{
    return syscall(SYS_finit_module, fd, "", 0) ? -errno : 0;
}

int module_load(void)
{
    int fd = module_file(), ret = module_load_from(fd);

    close(fd);
    return ret;
}

#define PCI_COMMAND         4
#define PCI_COMMAND_MEMORY  2u

void card_memory_space(bool on)
{
    uint16_t command;
    int fd = card_config();

    CHECK_EQ(pread(fd, &command, 2, PCI_COMMAND), 2);
    command = (uint16_t)(on ? command | PCI_COMMAND_MEMORY :
                         command & ~PCI_COMMAND_MEMORY);
    CHECK_EQ(pwrite(fd, &command, 2, PCI_COMMAND), 2);
    close(fd);
}

void expect_complaint(const char *text)
{
    char line[128];

    snprintf(line, sizeof(line), "<4>unetmm-test expects: %s", text);
    CHECK_RET(write_file("/dev/kmsg", line), 0);
}
