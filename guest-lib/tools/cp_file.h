/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A file that is being received: it has its name when all of it is there, and is
 * gone if that never comes.  The peer chooses the name, so it is checked.
 */
#ifndef UNETMM_TOOLS_CP_FILE_H
#define UNETMM_TOOLS_CP_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CP_NAME_MOST    200u
#define CP_PATH_MOST    1024u
#define CP_DEPTH_MOST   32u     /* directories on the way, and the file */

struct cp_file {
    int directory;              /* the caller's */
    int fd;
    char temporary[64];         /* "": it has no name yet */
};

/*
 * A name in a directory and nothing else: no separator, no "." or "..", nothing
 * hidden, UTF-8 without a character that a terminal would obey.
 */
bool cp_name_good(const char *name, size_t length);

/* Such names with one slash between each two of them, at most CP_DEPTH_MOST. */
bool cp_path_good(const char *path, size_t length);

/*
 * The directory of a good path below `directory`: it makes directories that are not
 * there, and follows no symbolic link.  `name` gets the last part of the path.
 * Returns a descriptor that is the caller's, or -errno.
 */
int cp_path_open(int directory, const char *path, const char **name);

/* Before there are threads; the umask must not change afterwards. */
void cp_file_init(void);

/* 0 or -errno */
int cp_file_create(struct cp_file *file, int directory);
int cp_file_write(struct cp_file *file, const void *bytes, size_t length);
/*
 * Gives it its name, and of `mode` the rights that a copy has: no write access but the
 * owner's, and none that the umask takes away.  -EEXIST: there is a file of that name,
 * and it is not to be replaced.
 */
int cp_file_finish(struct cp_file *file, const char *name, mode_t mode,
                   bool replace);
/* Whatever became of it. */
void cp_file_drop(struct cp_file *file);

#endif /* UNETMM_TOOLS_CP_FILE_H */
