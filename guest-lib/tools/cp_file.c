/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cp_file.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* UTF-8, as JSON is */
static bool is_text(const char *name, size_t length)
{
    json_t *text = json_stringn(name, length);

    json_decref(text);
    return text;
}

/* The byte at `i`, or the character that begins there, moves a cursor and more. */
static bool is_control(const char *name, size_t i, size_t length)
{
    unsigned char c = (unsigned char)name[i];

    /* U+0080 to U+009F: to a terminal they are ESC and a letter. */
    return c < 0x20 || c == 0x7f ||
        (c == 0xc2 && i + 1 < length && (unsigned char)name[i + 1] < 0xa0);
}

bool cp_name_good(const char *name, size_t length)
{
    size_t i;

    if (!length || length > CP_NAME_MOST || name[0] == '.') {
        return false;
    }
    for (i = 0; i < length; i++) {
        if (name[i] == '/' || is_control(name, i, length)) {
            return false;
        }
    }
    return is_text(name, length);
}

bool cp_path_good(const char *path, size_t length)
{
    unsigned depth;
    size_t part;

    if (length > CP_PATH_MOST) {
        return false;
    }
    for (depth = 0; depth < CP_DEPTH_MOST; depth++) {
        const char *slash = memchr(path, '/', length);

        if (!slash) {
            return cp_name_good(path, length);
        }
        part = (size_t)(slash - path);
        if (!cp_name_good(path, part)) {
            return false;
        }
        path += part + 1;
        length -= part + 1;
    }
    return false;
}

/* The directory `name` in `at`, made if it is not there. */
static int enter(int at, const char *name)
{
    int fd;

    if (mkdirat(at, name, 0777) && errno != EEXIST) {
        return -errno;
    }
    fd = openat(at, name, O_DIRECTORY | O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int cp_path_open(int directory, const char *path, const char **name)
{
    int at = fcntl(directory, F_DUPFD_CLOEXEC, 0);
    const char *slash;

    if (at < 0) {
        return -errno;
    }
    while ((slash = strchr(path, '/'))) {
        char part[CP_NAME_MOST + 1];
        int next;

        snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
        next = enter(at, part);
        close(at);
        if (next < 0) {
            return next;
        }
        at = next;
        path = slash + 1;
    }
    *name = path;
    return at;
}

static void temporary_name(struct cp_file *file)
{
    static atomic_uint count;

    snprintf(file->temporary, sizeof(file->temporary), ".unetmm-cp-%ld-%u",
             (long)getpid(), atomic_fetch_add(&count, 1));
}

/* Best without a name: then the kernel removes it, however we end. */
int cp_file_create(struct cp_file *file, int directory)
{
    file->directory = directory;
    file->temporary[0] = '\0';
    file->fd = openat(directory, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (file->fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) {
        return file->fd < 0 ? -errno : 0;
    }
    temporary_name(file);
    file->fd = openat(directory, file->temporary, O_CREAT | O_EXCL |
                      O_NOFOLLOW | O_WRONLY | O_CLOEXEC, 0600);
    if (file->fd < 0) {
        file->temporary[0] = '\0';
        return -errno;
    }
    return 0;
}

int cp_file_write(struct cp_file *file, const void *bytes, size_t length)
{
    const char *at = bytes;

    while (length) {
        ssize_t n = write(file->fd, at, length);

        if (n < 0 && errno != EINTR) {
            return -errno;
        }
        if (n > 0) {
            at += n;
            length -= (size_t)n;
        }
    }
    return 0;
}

static int link_as(const struct cp_file *file, const char *name)
{
    char self[40];

    snprintf(self, sizeof(self), "/proc/self/fd/%d", file->fd);
    return linkat(AT_FDCWD, self, file->directory, name, AT_SYMLINK_FOLLOW) ?
        -errno : 0;
}

/* The rights that no file of this process gets */
static mode_t mask;

/* The umask is read by setting it, which no other thread may see. */
void cp_file_init(void)
{
    mask = umask(0777);
    umask(mask);
}

/* Neither follows a link that is there: it fails, or replaces that. */
int cp_file_finish(struct cp_file *file, const char *name, mode_t mode,
                   bool replace)
{
    int ret;

    if (fchmod(file->fd, mode & 0755 & ~mask) || fsync(file->fd)) {
        return -errno;
    }
    if (!replace && !file->temporary[0]) {
        return link_as(file, name);
    }
    if (!replace) {
        return linkat(file->directory, file->temporary, file->directory, name,
                      0) ? -errno : 0;
    }
    if (!file->temporary[0]) {
        temporary_name(file);
        ret = link_as(file, file->temporary);
        if (ret) {
            file->temporary[0] = '\0';
            return ret;
        }
    }
    if (renameat(file->directory, file->temporary, file->directory, name)) {
        return -errno;
    }
    file->temporary[0] = '\0';
    return 0;
}

void cp_file_drop(struct cp_file *file)
{
    if (file->temporary[0]) {
        unlinkat(file->directory, file->temporary, 0);
        file->temporary[0] = '\0';
    }
    if (file->fd >= 0) {
        close(file->fd);
        file->fd = -1;
    }
}
