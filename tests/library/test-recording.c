/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * UNETMM_RECORD: the lines of a run, and runs whose file cannot be written.  A recording is
 * of a process, so each test has a process of its own, whose card's endpoints talk to each
 * other.
 */
#include "../one_test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fake_loop.h"
#include "queue/queue.h"
#include "recording/recording.h"
#include "wiped.h"

#define scene_test(fn) cmocka_unit_test_setup_teardown(fn, start, end)

#define SECOND      1000000000ll
#define SERVICE     7
#define EXPORT      5
#define RIGHTS      (UNETMM_RIGHT_WRITE | UNETMM_RIGHT_READ | UNETMM_RIGHT_ATOMIC)
#define BUFFER      16384u          /* of the library */
#define PEER        "52:54:00:00:00:01"

static char directory[32], path[64];
static char text[1 << 20], said[4096];      /* the recording, and standard error */
static uint8_t memory[64 * 4096] __attribute__((aligned(4096)));

/* In the process of a test: no assertion of the framework can be used there. */
static struct unetmm_ctx *ctx;
static struct unetmm_ep *server, *client;
static int channel;
static int imports[2];              /* of the memory, by server and client */

/* The leak sanitizer's look: a process that exits amid its work gives nothing back. */
static int leaves_all;
int __lsan_is_turned_off(void);

int __lsan_is_turned_off(void)
{
    return leaves_all;
}

static void child_expects(bool is_so, const char *what)
{
    if (!is_so) {
        fprintf(stderr, "not so: %s\n", what);
        _exit(99);
    }
}

#define EXPECT(what) child_expects(what, #what)

static void open_both(void)
{
    static const uint8_t mac[6] = { 0x52, 0x54, 0, 0, 0, 1 };
    uint64_t length;
    int ret;

    EXPECT(!unetmm_open("/loop", UNETMM_SOURCE_TLB, &ctx));
    EXPECT(!unetmm_ep_create(ctx, NULL, &server));
    EXPECT(!unetmm_ep_create(ctx, NULL, &client));
    EXPECT(!unetmm_listen(server, SERVICE, 4));
    channel = unetmm_connect(client, mac, SERVICE, 5 * SECOND, NULL);
    EXPECT(channel >= 0);
    ret = unetmm_accept(server, NULL, 5 * SECOND);
    EXPECT(ret >= 0);
    EXPECT(!unetmm_export(ctx, EXPORT, memory, sizeof(memory), RIGHTS, 0, 0));
    imports[0] = unetmm_import(server, ret, EXPORT, RIGHTS, 5 * SECOND, &length);
    imports[1] = unetmm_import(client, channel, EXPORT, RIGHTS, 5 * SECOND, &length);
    EXPECT(imports[0] >= 0 && imports[1] >= 0);
}

static void close_both(void)
{
    EXPECT(!unetmm_unexport(ctx, EXPORT));
    EXPECT(!unetmm_ep_destroy(client));
    EXPECT(!unetmm_ep_destroy(server));
    EXPECT(!unetmm_close(ctx));
    EXPECT(!loop_leaks());
}

/* Writes, which need no buffer, as far as the queue takes them; each completion is taken. */
static void write_many(struct unetmm_ep *ep, unsigned count)
{
    struct unetmm_completion c;

    while (count) {
        int ret = unetmm_write(ep, imports[ep == client], 0, memory, 100, 0, 0, 0);

        EXPECT(!ret || ret == -EAGAIN);
        count -= !ret;
        while (unetmm_poll(ep, &c, 1) > 0) {
        }
    }
}

/* ---- The parent's side ------------------------------------------------------ */

static int start(void **state)
{
    (void)state;
    snprintf(directory, sizeof(directory), "recording-XXXXXX");
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/run", directory);
    setenv("UNETMM_RECORD", path, 1);
    return 0;
}

static int end(void **state)
{
    char command[64];

    (void)state;
    unsetenv("UNETMM_RECORD");
    snprintf(command, sizeof(command), "rm -r %s", directory);
    return system(command);
}

/* A file's text; "" if there is none. */
static void read_text(const char *from, char *to, size_t room)
{
    FILE *file = fopen(from, "r");
    size_t n = file ? fread(to, 1, room - 1, file) : 0;

    to[n] = 0;
    if (file) {
        fclose(file);
    }
}

/* Runs it in a process of its own, which exits behind it; returns the status of wait(2). */
static int run(void (*body)(void))
{
    char err[64];
    int status;
    pid_t pid;

    snprintf(err, sizeof(err), "%s/said", directory);
    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        int fd = open(err, O_WRONLY | O_CREAT | O_TRUNC, 0600);

        dup2(fd, STDERR_FILENO);
        body();
        exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    read_text(path, text, sizeof(text));
    read_text(err, said, sizeof(said));
    if (status) {
        fprintf(stderr, "%s\n", said);
    }
    return status;
}

static unsigned lines_in(const char *in)
{
    unsigned n = 0;

    for (; *in; in++) {
        n += *in == '\n';
    }
    return n;
}

static unsigned count_of(const char *words)
{
    unsigned n = 0;
    const char *at;

    for (at = strstr(text, words); at; at = strstr(at + 1, words)) {
        n++;
    }
    return n;
}

/* ---- Lines ------------------------------------------------------------------ */

static void post_each(void)
{
    const struct iovec two[] = { { memory + 100, 60 }, { memory + 8000, 400 } };
    struct unetmm_completion c;
    int import;

    open_both();
    import = imports[1];
    EXPECT(!unetmm_post_recv(server, memory + 4096, 4096, 1, 0));
    EXPECT(!unetmm_post_recvv(server, two, 2, 2, 0));
    EXPECT(!unetmm_send(client, channel, memory + 8, 3000, 3, 0));
    EXPECT(!unetmm_send(client, channel, memory + 8, 16, 4, 0));
    EXPECT(!unetmm_sendv(client, channel, two, 2, 5, UNETMM_MORE));
    EXPECT(!unetmm_write(client, import, 0, memory + 4096, 500, 0, 6, 0));
    EXPECT(!unetmm_read(client, import, 0, memory + 4096, 600, 7, 0));
    EXPECT(!unetmm_fetch_add(client, import, 0, 1, 8, 0));
    EXPECT(!unetmm_cmp_swap(client, import, 8, 1, 2, 9, 0));
    EXPECT(!unetmm_fence(client, channel, 10, 0));
    EXPECT(unetmm_send(client, channel + 1, memory, 8, 0, 0) == -ENOENT);
    /* Each is done, and completions come through. */
    for (unsigned sent = 0; sent < 8; sent++) {
        EXPECT(unetmm_wait(client, &c, 1, 5 * SECOND) == 1);
        EXPECT(c.type == UNETMM_CQE_SENT && !c.status && c.user_data >= 3);
    }
    EXPECT(unetmm_wait(server, &c, 1, 5 * SECOND) == 1);
    EXPECT(c.type == UNETMM_CQE_RECEIVED && c.len == 3000 && c.user_data == 1);
    close_both();
}

/* The next line's time, and its other words */
static char *next_line(char **at, uint64_t *ns)
{
    char *line = *at, *newline = strchr(line, '\n');
    char *behind;

    assert_non_null(newline);
    *newline = 0;
    *at = newline + 1;
    *ns = strtoull(line, &behind, 10);
    assert_int_equal(*behind, ' ');
    return behind + 1;
}

TEST(each_operation_has_a_line, scene_test)
{
    uint64_t from = (uintptr_t)memory, ns, before = 0;
    char expected[11][160], *at;
    unsigned pid, i;
    unsigned long long real;

    struct stat about;

    assert_int_equal(run(post_each), 0);
    assert_string_equal(said, "");
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 07777, 0600);
    assert_int_equal(sscanf(text, "unetmm-recording 1 %u %llu\n", &pid, &real), 2);
    assert_true(real > 1600000000ull * SECOND);
#define LINE(n, ...) snprintf(expected[n], sizeof(expected[n]), __VA_ARGS__)
    LINE(0, "endpoint 0 " PEER " 0 -");
    LINE(1, "endpoint 1 " PEER " 0 -");
    LINE(2, "buffer 0 - 4096 0x%lx+4096", from + 4096);
    LINE(3, "buffer 0 - 460 0x%lx+60,0x%lx+400", from + 100, from + 8000);
    LINE(4, "send 1 " PEER " 3000 0x%lx+3000", from + 8);
    LINE(5, "send 1 " PEER " 16 -");
    LINE(6, "send 1 " PEER " 460 0x%lx+60,0x%lx+400", from + 100, from + 8000);
    LINE(7, "write 1 " PEER " 500 0x%lx+500", from + 4096);
    LINE(8, "read 1 " PEER " 600 0x%lx+600", from + 4096);
    LINE(9, "fetch-add 1 " PEER " 8 -");
    LINE(10, "cmp-swap 1 " PEER " 8 -");
    at = strchr(text, '\n') + 1;
    for (i = 0; i < 11; i++) {
        assert_string_equal(next_line(&at, &ns), expected[i]);
        assert_true(ns >= before);
        before = ns;
    }
    assert_string_equal(at, "");
}

static void look_at_endpoint(void)
{
    open_both();
    EXPECT(!client->source && client->direct);
    write_many(client, 5);
    close_both();
}

TEST(without_the_variable_nothing_is_done, scene_test)
{
    unsetenv("UNETMM_RECORD");
    assert_int_equal(run(look_at_endpoint), 0);
    setenv("UNETMM_RECORD", "", 1);
    assert_int_equal(run(look_at_endpoint), 0);
    assert_string_equal(said, "");
    assert_string_equal(text, "");
}

/* ---- Ends of a run ------------------------------------------------------------- */

#define MANY    2000u

static void exit_amid(void)
{
    open_both();
    write_many(client, MANY);
    leaves_all = 1;
    exit(0);
}

TEST(an_exit_writes_all, scene_test)
{
    assert_int_equal(run(exit_amid), 0);
    assert_int_equal(count_of(" write 1 "), MANY);
    assert_int_equal(lines_in(text), MANY + 3);
}

static void die_amid(void)
{
    open_both();
    write_many(client, MANY);
    raise(SIGKILL);
}

/* The buffer is lost, and no line is cut. */
TEST(a_kill_loses_a_buffer, scene_test)
{
    int status = run(die_amid);
    unsigned lines;
    size_t bytes = strlen(text);

    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    lines = lines_in(text);
    assert_true(bytes && text[bytes - 1] == '\n');
    /* A line has 40 characters at least. */
    assert_true(lines < MANY + 3 && lines > MANY - BUFFER / 40);
}

/* ---- Files that cannot be ---------------------------------------------------- */

static void post_some(void)
{
    open_both();
    write_many(client, 50);
    close_both();
}

static void refused_with(const char *words)
{
    assert_int_equal(run(post_some), 0);
    assert_int_equal(lines_in(said), 1);
    assert_non_null(strstr(said, "unetmm: the recording of process "));
    assert_non_null(strstr(said, words));
}

TEST(a_program_goes_on_without_its_file, scene_test)
{
    char bad[5000];

    setenv("UNETMM_RECORD", "/no/such/folder/run", 1);
    refused_with("No such file or directory");
    setenv("UNETMM_RECORD", "run-%d", 1);
    refused_with("is a path, where %p stands for");
    setenv("UNETMM_RECORD", "run-%", 1);
    refused_with("is a path, where %p stands for");
    memset(bad, 'x', sizeof(bad) - 1);
    bad[sizeof(bad) - 1] = 0;
    setenv("UNETMM_RECORD", bad, 1);
    refused_with("is a path, where %p stands for");
}

/* A link, which another user may have put there, leads to a file. */
TEST(no_file_is_overwritten, scene_test)
{
    char victim[64];
    FILE *file;

    snprintf(victim, sizeof(victim), "%s/victim", directory);
    file = fopen(victim, "w");
    fputs("precious\n", file);
    fclose(file);
    assert_int_equal(symlink("victim", path), 0);
    refused_with("is there already");
    assert_string_equal(text, "precious\n");
}

static void fill_disk(void)
{
    const struct rlimit limit = { 3 * BUFFER + 100, 3 * BUFFER + 100 };

    setrlimit(RLIMIT_FSIZE, &limit);
    open_both();
    write_many(client, MANY);
    close_both();
}

/* As on a full disk: the file ends with a whole line, and the program does not. */
TEST(a_full_disk_ends_the_recording, scene_test)
{
    size_t bytes;

    assert_int_equal(run(fill_disk), 0);
    assert_int_equal(lines_in(said), 1);
    assert_non_null(strstr(said, " ends here: File too large"));
    bytes = strlen(text);
    assert_true(bytes > 2 * BUFFER && bytes <= 3 * BUFFER && text[bytes - 1] == '\n');
}

/* ---- Processes, threads and signals -------------------------------------------- */

static void fork_amid(void)
{
    int status;
    pid_t pid;

    open_both();
    write_many(client, 10);
    pid = fork();
    EXPECT(pid >= 0);
    if (!pid) {
        /* The parent's buffer is not written twice. */
        EXPECT(unetmm_send(client, channel, memory, 8, 0, 0) == -EOWNERDEAD);
        leaves_all = 1;
        exit(0);
    }
    EXPECT(waitpid(pid, &status, 0) == pid && !status);
    write_many(client, 10);
    close_both();
}

TEST(a_child_writes_nothing_of_its_parents, scene_test)
{
    if (!wipes_on_fork()) {
        return;
    }
    assert_int_equal(run(fork_amid), 0);
    assert_string_equal(said, "");
    assert_int_equal(count_of(" write 1 "), 20);
    assert_int_equal(count_of("unetmm-recording"), 1);
}

/* The recorder alone: the test's driver has threads, which a child does not have. */
static void fork_and_record(void)
{
    struct unetmm_ep_private ep = { .pub.alive = 1, .ctx = &(struct unetmm_ctx) { .fd = -1 } };
    char name[80];
    int status;
    pid_t pid;

    unetmm_recording_open(&ep);
    EXPECT(ep.recorded == 1 && ep.pub.source);
    pid = fork();
    if (!pid) {
        ep.recorded = 0;
        unetmm_recording_open(&ep);
        EXPECT(ep.recorded == 1);
        unetmm_recording_close(&ep);
        snprintf(name, sizeof(name), "%s/run-%d%%", directory, getpid());
        read_text(name, text, sizeof(text));
        EXPECT(count_of("unetmm-recording") == 1 && count_of(" endpoint 0 ") == 1);
        exit(0);
    }
    EXPECT(waitpid(pid, &status, 0) == pid && !status);
    snprintf(name, sizeof(name), "%s/run-%d%%", directory, getpid());
    unetmm_recording_close(&ep);
    read_text(name, text, sizeof(text));
    EXPECT(count_of("unetmm-recording") == 1 && count_of(" endpoint 0 ") == 1);
}

TEST(a_child_has_a_file_of_its_own, scene_test)
{
    char pattern[80];

    snprintf(pattern, sizeof(pattern), "%s/run-%%p%%%%", directory);
    setenv("UNETMM_RECORD", pattern, 1);
    assert_int_equal(run(fork_and_record), 0);
    assert_string_equal(said, "");
}

static struct unetmm_ep_private forked_ep = {
    .pub.alive = 1, .ctx = &(struct unetmm_ctx) { .fd = -1 },
};

static void offer_in_handler(int number)
{
    const struct iovec iov = { memory, 64 };

    (void)number;
    unetmm_recording_offers(&forked_ep, &iov, 1);
}

static void fork_beside_signals(void)
{
    const struct itimerval often = { { 0, 100 }, { 0, 100 } }, never = { 0 };
    unsigned i;
    pid_t pid;

    unetmm_recording_open(&forked_ep);
    EXPECT(forked_ep.recorded == 1);
    signal(SIGALRM, offer_in_handler);
    EXPECT(!setitimer(ITIMER_REAL, &often, NULL));
    for (i = 0; i < 100; i++) {
        pid = fork();
        if (!pid) {
            _exit(0);
        }
        while (waitpid(pid, NULL, 0) != pid) {
            EXPECT(errno == EINTR);
        }
    }
    EXPECT(!setitimer(ITIMER_REAL, &never, NULL));
    unetmm_recording_close(&forked_ep);
}

/* A signal during fork() finds no lock that its own thread has. */
TEST(a_handler_posts_during_a_fork, scene_test)
{
    assert_int_equal(run(fork_beside_signals), 0);
    assert_string_equal(said, "");
    assert_true(count_of(" buffer 0 ") > 0);
}

static void *write_in_thread(void *arg)
{
    (void)arg;
    write_many(server, MANY);
    return NULL;
}

static void post_from_two_threads(void)
{
    pthread_t thread;

    open_both();
    EXPECT(!pthread_create(&thread, NULL, write_in_thread, NULL));
    write_many(client, MANY);
    pthread_join(thread, NULL);
    close_both();
}

TEST(threads_write_whole_lines, scene_test)
{
    unsigned i, from[2] = { 0 };
    uint64_t ns;
    char *at;

    assert_int_equal(run(post_from_two_threads), 0);
    assert_string_equal(said, "");
    at = strchr(text, '\n') + 1;
    for (i = 0; i < 2 * MANY + 2; i++) {
        const char *line = next_line(&at, &ns);
        unsigned endpoint;

        if (sscanf(line, "write %u " PEER " 100 0x", &endpoint) == 1) {
            from[endpoint & 1]++;
        } else {
            assert_int_equal(strncmp(line, "endpoint ", 9), 0);
        }
    }
    assert_string_equal(at, "");
    assert_int_equal(from[0], MANY);
    assert_int_equal(from[1], MANY);
}

static unsigned handled;
static _Thread_local unsigned clocks;   /* the last of so many looks at the clock is a signal */

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
    if (clocks && !--clocks) {
        raise(SIGUSR1);
    }
    return __real_clock_gettime(clock, time);
}

/* The endpoint is no thread's. */
static void post_in_handler(int number)
{
    (void)number;
    handled += !unetmm_write(server, imports[0], 0, memory, 8, 0, 0, UNETMM_UNSIGNALED);
}

/* The first look at the clock is for the line, the second one under the recorder's lock. */
static void post_from_signals(void)
{
    unsigned looks;

    open_both();
    signal(SIGUSR1, post_in_handler);
    for (looks = 1; looks <= 2; looks++) {
        clocks = looks;
        EXPECT(!unetmm_write(client, imports[1], 0, memory, 8, 0, 0, 0));
        EXPECT(handled == looks && !clocks);
    }
    close_both();
}

/* A handler that interrupts the recorder does not wait for it: its post is counted. */
TEST(posts_of_handlers_are_recorded_or_counted, scene_test)
{
    assert_int_equal(run(post_from_signals), 0);
    assert_string_equal(said, "");
    assert_int_equal(count_of(" write 1 "), 2);
    assert_int_equal(count_of(" write 0 "), 1);
    assert_int_equal(count_of(" lost 0 - 1 -\n"), 1);
}
