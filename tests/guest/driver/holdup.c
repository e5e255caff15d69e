/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A process that keeps its mmap_lock for as long as it likes, or a page fault asleep,
 * and uses the card meanwhile: resetting, unbinding or unplugging the card does not
 * wait for it.
 *
 * The lock is kept by a page fault of a file in FUSE: the file system fails the first
 * READ and leaves the second unanswered, which Linux waits for with mmap_lock held
 * for reading.  A mmap() behind that waits for the lock, and all others that want it
 * wait behind the mmap().
 *
 * A page that the card has written is kept locked by the same file system: asked to
 * invalidate it, Linux locks it, unmaps it, writes it back, and waits for the answer.
 */
#include "ask.h"
#include "card.h"
#include "fuse.h"
#include "guard.h"
#include "late.h"
#include "link.h"
#include "look.h"
#include "pair.h"
#include "process.h"
#include "raw.h"

#include <libunetmm/inline.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/fuse.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEPT_FILE       "/tmp/kept"

/* ---- The file system: a process of its own ------------------------------------ */

/* Shared by all. */
struct stage {
    atomic_bool mounted, keep, kept, let_go, keeps_ended;
    atomic_bool waits, behind, go, went;
    /* Of a page that is kept locked: */
    bool writes;                /* the file system answers READ; WRITEs are kept */
    pid_t parent;
    atomic_bool invalidate, over, first_kept, pinned, not_lent;
};

struct daemon {
    struct stage *stage;
    unsigned reads;
};

static void fuse_read(int fd, const struct fuse_in_header *in, void *argument)
{
    static const uint8_t zeros[4096];
    struct daemon *daemon = argument;
    struct stage *stage = daemon->stage;

    if (stage->writes) {
        fuse_answer(fd, in, 0, zeros, sizeof(zeros));
        return;
    }
    if (!daemon->reads++) {
        fuse_answer(fd, in, -EIO, NULL, 0);
        return;
    }
    atomic_store(&stage->kept, true);
    while (!atomic_load(&stage->let_go)) {
        breathe();
    }
    fuse_answer(fd, in, 0, zeros, sizeof(zeros));
}

/* The first page is kept until the card has the second again. */
static void fuse_write(int fd, const struct fuse_in_header *in, void *argument)
{
    struct stage *stage = ((struct daemon *)argument)->stage;
    const struct fuse_write_in *body = (const void *)(in + 1);
    struct fuse_write_out out = { .size = body->size };
    bool first = !body->offset;

    atomic_store(first ? &stage->first_kept : &stage->kept, true);
    while (!atomic_load(first ? &stage->pinned : &stage->let_go) &&
           getppid() == stage->parent) {
        breathe();
    }
    fuse_answer(fd, in, 0, &out, sizeof(out));
}

struct invalidation {
    struct stage *stage;
    int fd;
};

/* Linux does it before it returns: in a thread of its own. */
static void *invalidate_file(void *argument)
{
    struct invalidation *v = argument;
    struct {
        struct fuse_out_header head;
        struct fuse_notify_inval_inode_out body;
    } notice = {
        { sizeof(notice), FUSE_NOTIFY_INVAL_INODE, 0 }, { 1, 0, 0 },
    };

    while (!atomic_load(&v->stage->invalidate)) {
        if (atomic_load(&v->stage->over)) {
            return NULL;
        }
        breathe();
    }
    CHECK_EQ(write(v->fd, &notice, sizeof(notice)), sizeof(notice));
    return NULL;
}

/*
 * A process that invalidates a file waits for its own answer, and cannot be killed
 * meanwhile: it is not killed with a test that fails, and sees that it is alone.
 */
static bool fuse_wanted(int fd, const struct stage *stage)
{
    struct pollfd entry = { .fd = fd, .events = POLLIN };

    if (stage->writes) {
        while (!CHECK_SYS(poll(&entry, 1, 100))) {
            if (getppid() != stage->parent) {
                return false;
            }
        }
    }
    return true;
}

static void fuse_main(void *argument)
{
    struct stage *stage = argument;
    struct daemon daemon = { .stage = stage };
    struct fuse_hooks hooks = { fuse_read, fuse_write, &daemon };
    struct invalidation invalidation;
    int fd = fuse_mount(KEPT_FILE);
    pthread_t thread;

    invalidation = (struct invalidation) { stage, fd };
    if (stage->writes) {
        CHECK_SYS(prctl(PR_SET_PDEATHSIG, 0));
        CHECK_SYS(setsid());
        CHECK_EQ(pthread_create(&thread, NULL, invalidate_file,
                                &invalidation), 0);
    }
    atomic_store(&stage->mounted, true);
    /* It ends when it is unmounted. */
    while (fuse_wanted(fd, stage) && fuse_serve(fd, &hooks)) {
    }
    if (stage->writes) {
        /* The invalidation may never have been asked for. */
        atomic_store(&stage->over, true);
        CHECK_EQ(pthread_join(thread, NULL), 0);
    }
    close(fd);
}

/* ---- The process that keeps its mmap_lock -------------------------------------- */

struct keeper {
    struct stage *stage;
    pthread_t keeps, behind;
    const volatile uint8_t *at;
};

static void *keep_lock(void *argument)
{
    struct keeper *k = argument;

    while (!atomic_load(&k->stage->keep)) {
        sched_yield();
    }
    CHECK_EQ(k->at[0], 0);
    atomic_store(&k->stage->keeps_ended, true);
    return NULL;
}

static void *wait_behind(void *argument)
{
    struct keeper *k = argument;

    while (!atomic_load(&k->stage->kept)) {
        sched_yield();
    }
    atomic_store(&k->stage->waits, true);
    CHECK_SYS(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    atomic_store(&k->stage->behind, true);
    return NULL;
}

/* All that is needed later is there now: no page can come while the lock is kept. */
static void keeper_prepare(struct keeper *k, struct stage *stage)
{
    int fd;

    k->stage = stage;
    CHECK_SYS(mlockall(MCL_CURRENT));
    fd = CHECK_SYS(open(KEPT_FILE, O_RDONLY | O_CLOEXEC));
    /* Its length comes with its attributes. */
    CHECK_EQ(lseek(fd, 0, SEEK_END), 1 << 20);
    k->at = CHECK_SYS(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0));
    CHECK_EQ(pthread_create(&k->keeps, NULL, keep_lock, k), 0);
    CHECK_EQ(pthread_create(&k->behind, NULL, wait_behind, k), 0);
}

/* Returns when the lock is kept, somebody waits for it, and the conductor wants more. */
static void keeper_keep(struct keeper *k)
{
    atomic_store(&k->stage->keep, true);
    while (!atomic_load(&k->stage->go)) {
        sched_yield();
    }
}

static void keeper_end(struct keeper *k)
{
    CHECK_EQ(pthread_join(k->keeps, NULL), 0);
    CHECK_EQ(pthread_join(k->behind, NULL), 0);
}

/* The conductor's: the process goes on once its lock is kept. */
static void await_kept(struct stage *stage)
{
    EVENTUALLY(atomic_load(&stage->waits));
    /* The mmap() is on its way into the lock, and comes not back. */
    idle_ns(200 * NS_PER_MS * run.slow);
    CHECK(!atomic_load(&stage->keeps_ended));
    CHECK(!atomic_load(&stage->behind));
    atomic_store(&stage->go, true);
}

/* ---- Its uses of the card meanwhile ------------------------------------------ */

static void bind_main(void *argument)
{
    struct unetmm_space space = {
        .size = sizeof(space), .source = run.source,
    };
    struct stage *stage = argument;
    int fd = raw_open_file();
    struct keeper k;
    int ret;

    keeper_prepare(&k, stage);
    keeper_keep(&k);
    atomic_store(&stage->went, true);
    ret = raw_ioctl(fd, UNETMM_IOC_SPACE, &space);
    keeper_end(&k);
    CHECK_RET(ret, -ENODEV);
    close(fd);
}

static void post_main(void *argument)
{
    struct stage *stage = argument;
    struct unetmm_post post = { .size = sizeof(post) };
    uint8_t *page = pages(1);
    struct unetmm_fqe *fqe;
    struct keeper k;
    struct raw raw;
    int ret;

    raw_open(&raw);
    fqe = raw_fqe(&raw, 0);
    memset(fqe, 0, sizeof(*fqe));
    fqe->addr = (uintptr_t)page;
    fqe->len = PAGE;
    fqe->flags = UNETMM_FQE_F_ZERO;
    unetmm_write_index(&raw.index->user.fq_prod, 1);
    post.endpoint = raw.ep.id;
    keeper_prepare(&k, stage);
    keeper_keep(&k);
    atomic_store(&stage->went, true);
    ret = raw_ioctl(raw.fd, UNETMM_IOC_POST, &post);
    keeper_end(&k);
    CHECK_RET(ret, -ENODEV);
    raw_unmap(&raw);
    close(raw.fd);
}

/* Has the driver wait for a page of a userfaultfd. */
static void ask_for(struct raw *raw, struct late *late)
{
    struct unetmm_sqe *sqe = raw_sqe(raw, 0);
    unsigned out, in;

    raw_open(raw);
    raw_join_itself(raw, &out, &in);
    late_make(late, 1);
    sqe = raw_sqe(raw, raw->sq_prod++);
    memset(sqe, 0, sizeof(*sqe));
    sqe->opcode = UNETMM_OP_SEND;
    sqe->nsegs = 1;
    sqe->channel = (uint16_t)out;
    sqe->seg[0].addr = (uintptr_t)late->at;
    sqe->seg[0].len = 100;
    raw_submit(raw);
    CHECK_EQ(late_wanted(late), 0);
}

/* The page-in comes back from its fault, and wants the lock. */
static void page_in_main(void *argument)
{
    struct stage *stage = argument;
    struct uffdio_range range;
    struct keeper k;
    struct late late;
    struct raw raw;

    /* First: it has all memory there that the process has by then. */
    keeper_prepare(&k, stage);
    ask_for(&raw, &late);
    range = (struct uffdio_range) { (uintptr_t)late.at, PAGE };
    keeper_keep(&k);
    CHECK_SYS(ioctl(late.fd, UFFDIO_WAKE, &range));
    atomic_store(&stage->went, true);
    keeper_end(&k);
    raw_unmap(&raw);
    close(raw.fd);
    late_unmap(&late);
}

/* Nobody ever answers; nothing else is kept. */
static void asleep_main(void *argument)
{
    struct stage *stage = argument;
    struct late late;
    struct raw raw;

    ask_for(&raw, &late);
    atomic_store(&stage->behind, true);
    atomic_store(&stage->went, true);
    while (!atomic_load(&stage->let_go)) {
        breathe();
    }
    raw_unmap(&raw);
    close(raw.fd);
    late_unmap(&late);
}

/* ---- Page faults that the driver cannot look at ------------------------------- */

/* Since Linux 6.4 a page fault takes the lock of its VMA, and not mmap_lock. */
static void faults_without_lock_needed(void)
{
    unsigned major_version, minor_version;
    struct utsname name;

    CHECK_SYS(uname(&name));
    CHECK_EQ(sscanf(name.release, "%u.%u", &major_version, &minor_version), 2);
    if (major_version < 6 || (major_version == 6 && minor_version < 4)) {
        test_skip("a page fault of this kernel waits for the mmap_lock");
    }
}

/* The driver gives the page up while mmap_lock is kept, and enters it afterwards. */
static void noted_main(void *argument)
{
    struct stage *stage = argument;
    struct unetmm_ctx *ctx;
    struct look look;
    struct keeper k;
    uint64_t before;
    uint8_t *at;

    ctx = look_open(&look);
    keeper_prepare(&k, stage);
    /* Mapped now: mlockall() would have brought all of it.  Far apart: two places. */
    at = pages(64);
    touch(at, 1, true);
    EVENTUALLY(entry_at(&look, at));
    keeper_keep(&k);
    before = driver_counter(ctx, UNETMM_D_shadow_put_off);
    touch(at + 32 * PAGE, 1, true);
    EVENTUALLY(driver_counter(ctx, UNETMM_D_shadow_put_off) > before);
    CHECK_EQ(entry_at(&look, at + 32 * PAGE), 0);
    atomic_store(&stage->let_go, true);
    keeper_end(&k);
    EVENTUALLY(entry_at(&look, at + 32 * PAGE));
    look_close(&look);
    CHECK_RET(unetmm_close(ctx), 0);
}

TEST(noted, TEST_SHADOW | TEST_NO_CARD)
{
    struct stage *stage = shared_memory(sizeof(*stage));
    pid_t fuse, pid;

    faults_without_lock_needed();
    fuse_needed();
    fuse = start_process(fuse_main, stage);
    EVENTUALLY(atomic_load(&stage->mounted));
    pid = start_process(noted_main, stage);
    await_kept(stage);
    end_process(pid);
    CHECK_SYS(umount(KEPT_FILE));
    end_process(fuse);
}

/* ---- Ways to take the card away ---------------------------------------------- */

struct removal {
    void (*go)(void);
    void (*come)(void);
    unsigned seconds;           /* that it takes without holders, at most */
    void (*check)(void);        /* while all is kept still, or NULL */
    atomic_bool done;
    uint64_t took_ns;
};

static void do_reset(void)
{
    card_write("reset", "1");
}

static void do_unbind(void)
{
    CHECK_RET(card_unbind(), 0);
}

static void do_bind(void)
{
    CHECK_RET(card_bind(), 0);
}

/* Linux may wait for 5 s first, in case the button is pressed again. */
static void do_unplug(void)
{
    ask_host("unplug");
    EVENTUALLY(!card_present());
}

static void do_plug(void)
{
    ask_host("plug");
}

static void nothing(void)
{
}

static void *removal_thread(void *argument)
{
    struct removal *r = argument;
    uint64_t start = now_ns();

    r->go();
    r->took_ns = now_ns() - start;
    atomic_store(&r->done, true);
    return NULL;
}

/* Takes the card away; the process that holds it up is let go after that long. */
static void remove_card(struct stage *stage, struct removal *r)
{
    uint64_t end = deadline_in(r->seconds + 3);
    pthread_t thread;
    bool in_time;

    CHECK_EQ(pthread_create(&thread, NULL, removal_thread, r), 0);
    while (!atomic_load(&r->done) && now_ns() < end) {
        breathe();
    }
    in_time = atomic_load(&r->done);
    if (in_time && r->check) {
        r->check();
    }
    atomic_store(&stage->let_go, true);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    if (!in_time) {
        FAIL("the card's end waited for a process until it let go");
    }
    note("%llu ms", (unsigned long long)(r->took_ns / NS_PER_MS));
    CHECK(r->took_ns < r->seconds * NS_PER_S * run.slow);
}

static void hold_up_once(void (*victim)(void *argument), bool keeps,
                         struct removal *r)
{
    struct stage *stage = shared_memory(sizeof(*stage));
    pid_t fuse = 0, pid;

    card_find();
    if (keeps) {
        fuse = start_process(fuse_main, stage);
        EVENTUALLY(atomic_load(&stage->mounted));
    }
    pid = start_process(victim, stage);
    if (keeps) {
        await_kept(stage);
    }
    EVENTUALLY(atomic_load(&stage->went));
    /* So is the call, or the page-in. */
    idle_ns(100 * NS_PER_MS * run.slow);
    remove_card(stage, r);
    end_process(pid);
    if (keeps) {
        CHECK_SYS(umount(KEPT_FILE));
        end_process(fuse);
    }
    r->come();
    card_check_works();
}

static void hold_up(void (*victim)(void *argument), bool keeps)
{
    struct removal reset = { .go = do_reset, .come = nothing, .seconds = 15 };
    struct removal unbind = { .go = do_unbind, .come = do_bind, .seconds = 15 };

    if (keeps) {
        fuse_needed();
    }
    hold_up_once(victim, keeps, &reset);
    hold_up_once(victim, keeps, &unbind);
}

/* ---- A page that is kept locked -------------------------------------------------- */

#define LIMIT_PAGES     64

/* One message from `from`; the statuses of it and of the buffer, 0: none came back. */
struct fate {
    unsigned sent, buffer;
    bool received;
};

static struct fate send_from(struct raw *raw, unsigned channel,
                             const uint8_t *from)
{
    struct unetmm_sqe *sqe = raw_sqe(raw, raw->sq_prod++);
    struct fate fate = { .buffer = UNETMM_ST_OK };
    struct unetmm_cqe cqe;

    memset(sqe, 0, sizeof(*sqe));
    sqe->opcode = UNETMM_OP_SEND;
    sqe->nsegs = 1;
    sqe->channel = (uint16_t)channel;
    sqe->seg[0].addr = (uintptr_t)from;
    sqe->seg[0].len = 1000;
    raw_submit(raw);
    do {
        raw_await(raw, &cqe);
        if (cqe.opcode == UNETMM_CQE_SENT) {
            fate.sent = cqe.status;
        } else if (cqe.opcode == UNETMM_CQE_BUFFER) {
            fate.buffer = cqe.status;
        } else {
            CHECK_EQ(cqe.opcode, UNETMM_CQE_RECEIVED);
            fate.received = true;
        }
    } while (cqe.opcode != UNETMM_CQE_SENT);
    while (!fate.received && raw_take(raw, &cqe)) {
        CHECK(cqe.opcode != UNETMM_CQE_SENT);
        fate.received = cqe.opcode == UNETMM_CQE_RECEIVED;
        fate.buffer = fate.received ? UNETMM_ST_OK : cqe.status;
    }
    return fate;
}

/* The card writes to the page: it is pinned to be written. */
static bool have_written(struct raw *raw, unsigned channel, uint8_t *to,
                         uint8_t *from)
{
    struct unetmm_fqe *fqe = raw_fqe(raw, raw->fq_prod++);
    uint64_t end = deadline_in(10);
    struct fate fate;

    memset(fqe, 0, sizeof(*fqe));
    fqe->addr = (uintptr_t)to;
    fqe->len = PAGE;
    memset(from, 0x77, PAGE);
    do {
        fate = send_from(raw, channel, from);
        CHECK_EQ(fate.sent, UNETMM_ST_OK);
        if (fate.buffer == UNETMM_ST_UNSUPPORTED) {
            return false;
        }
        CHECK_EQ(fate.buffer, UNETMM_ST_OK);
        CHECK(now_ns() < end);
    } while (!fate.received);
    CHECK_BYTES(to, 1000, 0x77);
    return true;
}

/*
 * A process that makes pages of the file dirty must not wait until some have been
 * written: that would be for ever, since the test keeps a WRITE.  Linux gives a
 * file system its part of the memory for dirty pages by how much it has written
 * before, and FUSE at most 1 percent; a fresh one gets nothing when others have
 * written much.
 */
static void allow_dirty_pages(int fd)
{
    char path[80];
    struct stat st;

    CHECK_SYS(fstat(fd, &st));
    snprintf(path, sizeof(path), "/sys/class/bdi/%u:%u/max_ratio",
             major(st.st_dev), minor(st.st_dev));
    CHECK_RET(write_file(path, "100"), 0);
    snprintf(path, sizeof(path), "/sys/class/bdi/%u:%u/min_ratio",
             major(st.st_dev), minor(st.st_dev));
    CHECK_RET(write_file(path, "50"), 0);
}

/* Two pages of the file, of which the first is dirty, and invalidated. */
static uint8_t *kept_pages(void)
{
    int fd = CHECK_SYS(open(KEPT_FILE, O_RDWR | O_CLOEXEC));
    uint8_t *at;

    allow_dirty_pages(fd);
    /* Its length comes with its attributes. */
    CHECK_EQ(lseek(fd, 0, SEEK_END), 1 << 20);
    at = CHECK_SYS(mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED,
                        fd, 0));
    /* A later close() waits for the writeback. */
    close(fd);
    return at;
}

static void first_page_goes(struct stage *stage, uint8_t *at)
{
    at[0] = at[PAGE] = 1;
    atomic_store(&stage->invalidate, true);
    while (!atomic_load(&stage->first_kept)) {
        breathe();
    }
    /* All is unmapped; it is the first that is locked now. */
    at[PAGE] = 2;
}

static void await_end(struct stage *stage)
{
    atomic_store(&stage->went, true);
    while (!atomic_load(&stage->let_go)) {
        breathe();
    }
}

/* Pages make room at the limit, though one of them waits to be given back. */
static void keep_page_tlb(struct stage *stage)
{
    struct rlimit limit = { LIMIT_PAGES * PAGE, LIMIT_PAGES * PAGE };
    uint8_t *at = kept_pages(), *from = pages(2 * LIMIT_PAGES);
    unsigned i, out, in;
    struct fate fate = { 0 };
    struct raw raw;

    drop_capability(CAP_IPC_LOCK);
    CHECK_SYS(setrlimit(RLIMIT_MEMLOCK, &limit));
    raw_open(&raw);
    raw_join_itself(&raw, &out, &in);
    first_page_goes(stage, at);
    if (have_written(&raw, out, at + PAGE, from)) {
        atomic_store(&stage->pinned, true);
        while (!atomic_load(&stage->kept)) {
            breathe();
        }
        for (i = 0; i < 2 * LIMIT_PAGES; i++) {
            fate = send_from(&raw, out, from + i * PAGE);
            CHECK_EQ(fate.sent, UNETMM_ST_OK);
        }
    } else {
        atomic_store(&stage->not_lent, true);
        atomic_store(&stage->pinned, true);
    }
    await_end(stage);
    raw_unmap(&raw);
    close(raw.fd);
}

/* Deregistering the page does not wait for it. */
static void keep_page_pinned(struct stage *stage)
{
    uint8_t *at = kept_pages();
    struct unetmm_region region = {
        .size = sizeof(region), .flags = UNETMM_REGION_WRITE,
        .addr = (uintptr_t)at, .length = 2 * PAGE,
    };
    int fd = raw_open_space(), ret;

    ret = raw_ioctl(fd, UNETMM_IOC_REGISTER, &region);
    if (ret) {
        CHECK_RET(ret, -EOPNOTSUPP);
        atomic_store(&stage->not_lent, true);
        /* The attempt has made the page dirty: its WRITE is answered. */
        atomic_store(&stage->pinned, true);
    } else {
        first_page_goes(stage, at);
        atomic_store(&stage->pinned, true);
        while (!atomic_load(&stage->kept)) {
            breathe();
        }
        region.flags = 0;
        CHECK_RET(raw_ioctl(fd, UNETMM_IOC_DEREGISTER, &region), 0);
    }
    await_end(stage);
    close(fd);
}

static void keep_page_main(void *argument)
{
    if (run.source == UNETMM_SOURCE_PINNED) {
        keep_page_pinned(argument);
    } else {
        keep_page_tlb(argument);
    }
}

static uint64_t pinned_now(void)
{
    struct unetmm_ctx *ctx;
    uint64_t n;

    CHECK_RET(unetmm_open(NULL, UNETMM_OBSERVE, &ctx), 0);
    n = driver_counter(ctx, UNETMM_D_pinned_now);
    unetmm_close(ctx);
    return n;
}

static unsigned module_users(void)
{
    char text[16] = { 0 };
    int fd = CHECK_SYS(open("/sys/module/unetmm/refcnt", O_RDONLY | O_CLOEXEC));

    CHECK(read(fd, text, sizeof(text) - 1) > 0);
    close(fd);
    return (unsigned)strtoul(text, NULL, 10);
}

/* It has a page that is to be given back: the module cannot be had. */
static void check_module_stays(void)
{
    CHECK_RET(module_unload(), -EAGAIN);
}

static void check_still_pinned(void)
{
    CHECK_EQ(pinned_now(), 1);
}

static void kill_process(pid_t pid)
{
    CHECK_SYS(kill(pid, SIGKILL));
    CHECK_EQ(await_process(pid), SIGKILL);
}

/* Without the capability that limits of users are not for. */
static void open_as_user(void *result)
{
    struct unetmm_ctx *ctx;

    drop_capability(CAP_SYS_RESOURCE);
    *(int *)result = unetmm_open(NULL, run.source, &ctx);
}

static void check_opens(unsigned spaces, int expected)
{
    int *result = shared_memory(sizeof(*result));

    set_parameter("user_spaces", spaces);
    end_process(start_process(open_as_user, result));
    set_parameter("user_spaces", 0);
    CHECK_RET(*result, expected);
}

/* The process is killed before the card goes, or lives on without it. */
static void keep_page_once(struct removal *r, bool killed)
{
    struct stage *stage = shared_memory(sizeof(*stage));
    bool lent;
    pid_t fuse, pid;

    card_find();
    CHECK_EQ(pinned_now(), 0);
    stage->writes = true;
    stage->parent = getpid();
    fuse = start_process(fuse_main, stage);
    EVENTUALLY(atomic_load(&stage->mounted));
    pid = start_process(keep_page_main, stage);
    EVENTUALLY(atomic_load(&stage->went));
    lent = !atomic_load(&stage->not_lent);
    if (lent) {
        CHECK(atomic_load(&stage->kept));
        card_check_works();
        if (killed) {
            kill_process(pid);
            EVENTUALLY(pinned_now() == 1);
            /* Its place is its user's until the page is given back. */
            check_opens(1, -EDQUOT);
            check_opens(2, 0);
        }
        remove_card(stage, r);
    }
    atomic_store(&stage->let_go, true);
    if (!lent || !killed) {
        end_process(pid);
    }
    EVENTUALLY(!module_users());
    CHECK_SYS(umount(KEPT_FILE));
    end_process(fuse);
    if (lent) {
        r->come();
    }
    card_check_works();
    EVENTUALLY(pinned_now() == 0);
    if (!lent) {
        note("this kernel lends no page of such a file to be written");
    }
}

/*
 * Others, and the removal of the card, do not wait for a page's lock.  For its lost pins the driver
 * waits for the lock, but 4 s at most: the limit is below.
 */
TEST(page_lock, TEST_TLB | TEST_PINNED | TEST_NO_CARD)
{
    struct removal reset = { .go = do_reset, .come = nothing, .seconds = 3,
                             .check = check_still_pinned };
    struct removal unbind = { .go = do_unbind, .come = do_bind, .seconds = 3,
                              .check = check_module_stays };

    fuse_needed();
    keep_page_once(&reset, false);
    keep_page_once(&unbind, true);
}

/*
 * One kind of waiting each: a process's mmap_lock, a page that does not come, and one
 * that is kept locked.
 */
TEST(unplug, TEST_TLB | TEST_NO_CARD, 60)
{
    struct removal first = { .go = do_unplug, .come = do_plug, .seconds = 15 };
    struct removal second = { .go = do_unplug, .come = do_plug, .seconds = 15 };
    struct removal third = { .go = do_unplug, .come = do_plug, .seconds = 8,
                             .check = check_module_stays };

    fuse_needed();
    hold_up_once(bind_main, true, &first);
    hold_up_once(asleep_main, false, &second);
    keep_page_once(&third, false);
}

TEST(bind, TEST_TLB | TEST_PINNED | TEST_SHADOW | TEST_ODP | TEST_NO_CARD)
{
    hold_up(bind_main, true);
}

TEST_NAMED("post", posting, TEST_KTLB | TEST_NO_CARD)
{
    hold_up(post_main, true);
}

TEST(page_in, TEST_TLB | TEST_ODP | TEST_NO_CARD)
{
    hold_up(page_in_main, true);
}

TEST(asleep, TEST_TLB | TEST_ODP | TEST_NO_CARD)
{
    hold_up(asleep_main, false);
}
