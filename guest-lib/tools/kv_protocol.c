/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands, and their answers.  All of it comes from the network: a line has a
 * longest length, numbers have bounds, and a client that gets out of step is
 * disconnected.
 */
#include "kv_protocol.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Times up to this are from now on, later ones since 1970. */
#define MONTH_SECONDS   (60u * 60 * 24 * 30)
#define MAX_WORDS       6

struct word {
    const char *text;
    size_t length;
};

static void say(struct kv_talk *t, const char *text)
{
    size_t length = strlen(text);

    if (!t->quiet && length <= KV_OUT - t->out_end) {
        memcpy(t->out + t->out_end, text, length);
        t->out_end += (uint16_t)length;
    }
}

static void say_error(struct kv_talk *t, const char *text)
{
    t->server->errors++;
    t->quiet = false;
    say(t, text);
}

/* ---- Words and numbers --------------------------------------------------- */

/* The word at *at, which goes behind it; length 0: there is none. */
static struct word next_word(const struct kv_talk *t, size_t *at)
{
    struct word word;

    while (*at < t->line_length && t->line[*at] == ' ') {
        ++*at;
    }
    word.text = t->line + *at;
    while (*at < t->line_length && t->line[*at] != ' ') {
        ++*at;
    }
    word.length = (size_t)(t->line + *at - word.text);
    return word;
}

static bool is(const struct word *word, const char *text)
{
    return word->length == strlen(text) &&
           !memcmp(word->text, text, word->length);
}

static bool read_number(const struct word *word, uint64_t most, uint64_t *value)
{
    size_t i;

    *value = 0;
    for (i = 0; i < word->length; i++) {
        unsigned digit = (unsigned char)word->text[i] - '0';

        if (digit > 9 || *value > (most - digit) / 10) {
            return false;
        }
        *value = *value * 10 + digit;
    }
    return word->length > 0;
}

/* A key has no control characters; spaces it cannot have. */
static bool is_key(const struct word *word)
{
    size_t i;

    if (!word->length || word->length > KV_MAX_KEY) {
        return false;
    }
    for (i = 0; i < word->length; i++) {
        if ((unsigned char)word->text[i] <= ' ' || word->text[i] == 0x7f) {
            return false;
        }
    }
    return true;
}

/* ---- Commands ------------------------------------------------------------ */

static void on_get(struct kv_talk *t, size_t at)
{
    size_t first = at;

    if (!next_word(t, &first).length) {
        say_error(t, "ERROR\r\n");
        return;
    }
    t->keys = (uint16_t)at;
}

/* The value that follows is read, and forgotten. */
static void pass_value(struct kv_talk *t, uint64_t length, const char *why)
{
    say_error(t, why);
    t->pass = length + 2;
    t->state = KV_TALK_PASS;
}

static bool may_store(struct kv_talk *t, const struct word *command,
                      const struct word *key)
{
    struct kv_server *server = t->server;
    struct kv_item *old;

    if (is(command, "set")) {
        return true;
    }
    old = kv_find(&server->store, key->text, key->length, server->now);
    if (old) {
        kv_release(&server->store, old);
    }
    return !old == is(command, "add");
}

static uint64_t expiry(const struct kv_server *server, uint64_t seconds,
                       bool past)
{
    if (past) {
        return 1;
    }
    return seconds && seconds <= MONTH_SECONDS ? server->now + seconds :
                                                 seconds;
}

/* KEY FLAGS SECONDS BYTES [noreply] */
static void on_store(struct kv_talk *t, const struct word *command, size_t at)
{
    struct word key = next_word(t, &at), flags_word = next_word(t, &at),
                seconds_word = next_word(t, &at), bytes_word = next_word(t, &at),
                last = next_word(t, &at);
    bool past = seconds_word.length > 1 && seconds_word.text[0] == '-';
    uint64_t flags, seconds, bytes;

    if (past) {
        seconds_word.text++;
        seconds_word.length--;
    }
    if (!is_key(&key) || !read_number(&flags_word, UINT32_MAX, &flags) ||
        !read_number(&seconds_word, INT64_MAX / 2, &seconds) ||
        !read_number(&bytes_word, INT32_MAX, &bytes) ||
        (last.length && !is(&last, "noreply"))) {
        /* Nobody knows how long the value is that may follow. */
        say_error(t, "CLIENT_ERROR bad command line format\r\n");
        t->state = KV_TALK_END;
        return;
    }
    t->server->sets++;
    if (bytes > KV_MAX_VALUE) {
        pass_value(t, bytes, "SERVER_ERROR object too large for cache\r\n");
        return;
    }
    t->quiet = last.length > 0;
    if (!may_store(t, command, &key)) {
        say(t, "NOT_STORED\r\n");
        t->pass = bytes + 2;
        t->state = KV_TALK_PASS;
        return;
    }
    t->filling = kv_begin(&t->server->store, key.text, key.length,
                          (uint32_t)bytes);
    if (!t->filling) {
        pass_value(t, bytes, "SERVER_ERROR out of memory storing object\r\n");
        return;
    }
    t->filling->flags = (uint32_t)flags;
    t->filling->expires = expiry(t->server, seconds, past);
    kv_start(&t->server->store, t->filling, &t->at);
    t->tail = 0;
    t->state = KV_TALK_VALUE;
}

static void on_delete(struct kv_talk *t, size_t at)
{
    struct word key = next_word(t, &at), last = next_word(t, &at);

    /* Old clients say 0, a time. */
    if (is(&last, "0")) {
        last = next_word(t, &at);
    }
    if (!is_key(&key) || (last.length && !is(&last, "noreply"))) {
        say_error(t, "CLIENT_ERROR bad command line format\r\n");
        return;
    }
    t->server->deletes++;
    t->quiet = last.length > 0;
    say(t, kv_delete(&t->server->store, key.text, key.length, t->server->now) ?
        "DELETED\r\n" : "NOT_FOUND\r\n");
}

static void on_flush(struct kv_talk *t, size_t at)
{
    struct word word = next_word(t, &at);

    if (is(&word, "0")) {
        word = next_word(t, &at);
    }
    if (word.length && !is(&word, "noreply")) {
        say_error(t, "CLIENT_ERROR only now\r\n");
        return;
    }
    t->quiet = word.length > 0;
    kv_delete_all(&t->server->store);
    say(t, "OK\r\n");
}

static void on_command(struct kv_talk *t)
{
    size_t at = 0;
    struct word word = next_word(t, &at);

    t->quiet = false;
    if (is(&word, "get")) {
        on_get(t, at);
    } else if (is(&word, "set") || is(&word, "add") || is(&word, "replace")) {
        on_store(t, &word, at);
    } else if (is(&word, "delete")) {
        on_delete(t, at);
    } else if (is(&word, "flush_all")) {
        on_flush(t, at);
    } else if (is(&word, "stats")) {
        t->stats = 1;
    } else if (is(&word, "version")) {
        say(t, "VERSION unetmm-kv\r\n");
    } else if (is(&word, "quit")) {
        t->state = KV_TALK_END;
    } else {
        say_error(t, "ERROR\r\n");
    }
}

/* ---- Input --------------------------------------------------------------- */

static size_t take_line(struct kv_talk *t, const char *data, size_t length)
{
    const char *end = memchr(data, '\n', length);
    size_t n = end ? (size_t)(end - data) : length;

    if (n > (size_t)KV_LINE - t->line_length) {
        say_error(t, "CLIENT_ERROR line too long\r\n");
        t->state = KV_TALK_END;
        return length;
    }
    memcpy(t->line + t->line_length, data, n);
    t->line_length += (uint16_t)n;
    if (!end) {
        return n;
    }
    if (t->line_length && t->line[t->line_length - 1] == '\r') {
        t->line_length--;
    }
    on_command(t);
    if (!t->keys) {
        t->line_length = 0;
    }
    return n + 1;
}

static void value_done(struct kv_talk *t)
{
    kv_publish(&t->server->store, t->filling);
    kv_release(&t->server->store, t->filling);
    t->filling = NULL;
    t->state = KV_TALK_LINE;
    say(t, "STORED\r\n");
}

static size_t take_value(struct kv_talk *t, const char *data, size_t length)
{
    size_t n;
    uint8_t *to;

    if (t->at.left) {
        to = kv_next(&t->server->store, &t->at, &n);
        n = n < length ? n : length;
        memcpy(to, data, n);
        kv_skip(&t->server->store, &t->at, n);
        return n;
    }
    if (data[0] != "\r\n"[t->tail]) {
        /* The next bytes may be the rest of a value, or commands: unknown. */
        kv_release(&t->server->store, t->filling);
        t->filling = NULL;
        say_error(t, "CLIENT_ERROR bad data chunk\r\n");
        t->state = KV_TALK_END;
        return length;
    }
    if (++t->tail == 2) {
        value_done(t);
    }
    return 1;
}

static size_t take_unwanted(struct kv_talk *t, size_t length)
{
    size_t n = length < t->pass ? length : (size_t)t->pass;

    t->pass -= n;
    if (!t->pass) {
        t->state = KV_TALK_LINE;
    }
    return n;
}

size_t kv_talk_input(struct kv_talk *t, const void *data, size_t length)
{
    const char *bytes = data;
    size_t done = 0;

    while (done < length && kv_talk_run(t)) {
        switch (t->state) {
        case KV_TALK_LINE:
            done += take_line(t, bytes + done, length - done);
            break;
        case KV_TALK_VALUE:
            done += take_value(t, bytes + done, length - done);
            break;
        case KV_TALK_PASS:
            done += take_unwanted(t, length - done);
            break;
        case KV_TALK_END:
            done = length;
            break;
        }
    }
    kv_talk_run(t);
    return done;
}

/* ---- Output -------------------------------------------------------------- */

/* true: out[] is empty. */
static bool flush(struct kv_talk *t)
{
    if (t->out_start < t->out_end) {
        t->out_start += (uint16_t)t->write(t->arg, t->out + t->out_start,
                                           (size_t)t->out_end - t->out_start);
    }
    if (t->out_start < t->out_end) {
        return false;
    }
    t->out_start = 0;
    t->out_end = 0;
    return true;
}

/* true: the value has gone. */
static bool send_value(struct kv_talk *t)
{
    struct kv_store *store = &t->server->store;

    while (t->at.left) {
        size_t length, n;
        const uint8_t *from = kv_next(store, &t->at, &length);

        n = t->write(t->arg, from, length);
        kv_skip(store, &t->at, n);
        if (n < length) {
            return false;
        }
    }
    kv_release(store, t->sending);
    t->sending = NULL;
    say(t, "\r\n");
    return true;
}

static void next_key(struct kv_talk *t)
{
    struct kv_server *server = t->server;
    size_t at = t->keys;
    struct word key = next_word(t, &at);
    char head[KV_MAX_KEY + 64];

    t->keys = (uint16_t)at;
    if (!key.length || !is_key(&key)) {
        if (key.length) {
            say_error(t, "CLIENT_ERROR bad command line format\r\n");
        } else {
            say(t, "END\r\n");
        }
        t->keys = 0;
        t->line_length = 0;
        return;
    }
    server->gets++;
    t->sending = kv_find(&server->store, key.text, key.length, server->now);
    if (!t->sending) {
        return;
    }
    server->hits++;
    snprintf(head, sizeof(head), "VALUE %.*s %" PRIu32 " %" PRIu32 "\r\n",
             (int)key.length, key.text, t->sending->flags, t->sending->length);
    say(t, head);
    kv_start(&server->store, t->sending, &t->at);
}

static void next_stat(struct kv_talk *t)
{
    const struct kv_server *server = t->server;
    const struct kv_stats *s = &server->store.stats;
    const struct {
        const char *name;
        uint64_t value;
    } own[] = {
        { "cmd_get", server->gets },
        { "get_hits", server->hits },
        { "get_misses", server->gets - server->hits },
        { "cmd_set", server->sets },
        { "cmd_delete", server->deletes },
        { "errors", server->errors },
        { "curr_items", s->items },
        { "evictions", s->evicted },
        { "bytes", s->chunks_used * KV_CHUNK },
        { "limit_maxbytes", (uint64_t)server->store.chunks * KV_CHUNK },
    };
    const unsigned n = t->stats - 1u, count = sizeof(own) / sizeof(own[0]);
    char line[160] = "", text[192];

    t->stats++;
    if (n < count) {
        snprintf(line, sizeof(line), "%s %" PRIu64, own[n].name, own[n].value);
    } else if (!server->more_stats ||
               !server->more_stats(server->arg, n - count, line,
                                   sizeof(line))) {
        say(t, "END\r\n");
        t->stats = 0;
        return;
    }
    snprintf(text, sizeof(text), "STAT %s\r\n", line);
    say(t, text);
}

bool kv_talk_run(struct kv_talk *t)
{
    while (flush(t)) {
        if (t->sending) {
            if (!send_value(t)) {
                return false;
            }
        } else if (t->keys) {
            next_key(t);
        } else if (t->stats) {
            next_stat(t);
        } else {
            return true;
        }
    }
    return false;
}

bool kv_talk_ended(const struct kv_talk *t)
{
    return t->state == KV_TALK_END && t->out_start == t->out_end &&
           !t->sending && !t->keys && !t->stats;
}

void kv_talk_start(struct kv_talk *t, struct kv_server *server,
                   size_t (*write)(void *, const void *, size_t), void *arg)
{
    memset(t, 0, offsetof(struct kv_talk, line));
    t->server = server;
    t->write = write;
    t->arg = arg;
    t->state = KV_TALK_LINE;
}

void kv_talk_stop(struct kv_talk *t)
{
    if (t->filling) {
        kv_release(&t->server->store, t->filling);
    }
    if (t->sending) {
        kv_release(&t->server->store, t->sending);
    }
    t->filling = NULL;
    t->sending = NULL;
    t->state = KV_TALK_END;
}
