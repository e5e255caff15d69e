/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm-cp: copies files from one host to another through a stream.
 *
 *   cp.c           options
 *   cp_transfer.c  common to both sides
 *   cp_send.c      files, and their way into the stream
 *   cp_receive.c   streams, and the files that come by them
 *   cp_file.c      a file that is being received
 *   cp_stream.c    all bytes of a part of the stream
 *
 * Of each file the sender says name and length, the receiver whether it takes it;
 * then come the bytes and their XXH64, then the receiver reports the outcome.  The
 * length is for the progress alone, since that of a file of /proc is 0: the bytes come
 * in pieces of CP_PIECE, each behind its length, and a shorter one is the last.
 */
#ifndef UNETMM_TOOLS_CP_H
#define UNETMM_TOOLS_CP_H

#include "common.h"

#include <xxhash.h>

#include <libunetmm/byteorder.h>
#include <libunetmm/stream.h>

#define CP_MAGIC        0x33632d6d6d74656eull   /* "netmm-c3" */
#define CP_PIECE        ((size_t)4 << 20)

struct cp_options {
    const char *device;
    const char *directory;
    char **files;
    int nfiles;
    const char *path;           /* of the copies; NULL: their own names */
    bool is_directory;          /* `path` is one */
    uint8_t mac[6];
    uint64_t service;
    uint64_t timeout_ns;
    unsigned source;
    bool listen, forever, replace, copy, json, recursive;
};

/* The header before a file, little-endian; then its name. */
struct header {
    uint64_t magic;
    uint64_t length;
    uint32_t name_length;
    uint32_t mode;
};

enum answer { ANSWER_GO = 1, ANSWER_DONE, ANSWER_NAME, ANSWER_EXISTS,
              ANSWER_STORE, ANSWER_SUM };

/* The files of one stream; one thread's. */
struct transfer {
    const struct cp_options *opt;
    struct unetmm_stream *stream;
    uint8_t *buffer;
    XXH64_state_t *sum;         /* of the bytes so far */
    const char *name;
    uint64_t length, done;
    bool skipped;               /* something that is no file */
    uint64_t start_ns, shown_ns;
};

/* False: after a sentence; not all was copied. */
bool cp_send(const struct cp_options *opt);
bool cp_receive(const struct cp_options *opt);

/* ---- cp_transfer.c ----------------------------------------------------- */

/* A context and the attributes of its streams; ends the program on failure. */
struct unetmm_ctx *cp_open(const struct cp_options *opt, struct unetmm_stream_attr *attr);

/* Ends the program if there is no memory. */
void transfer_make(struct transfer *t, const struct cp_options *opt);
void transfer_free(struct transfer *t);

/* Complains about the stream; false. */
bool transfer_lost(const struct transfer *t, int error);

/* False: said why not. */
bool transfer_put(const struct transfer *t, const void *bytes, size_t length);

/* 1, or 0: the stream ends here; -1: said why not.  `patient`: cp_stream_take(). */
int transfer_take(const struct transfer *t, void *bytes, size_t length, bool patient);

/* A file begins; its bytes come; it has ended well. */
void transfer_begin(struct transfer *t, const char *name, uint64_t length);
void transfer_add(struct transfer *t, size_t length);
void transfer_end(const struct transfer *t);

#endif /* UNETMM_TOOLS_CP_H */
