/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm lab `mailbox`: the test, in a guest.  Two threads, an endpoint each; the
 * consumer pauses now and then, so that all slots fill.
 */
#include "mailbox.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT       3000u
#define SECOND      1000000000ll
#define SLOTS_ID    21
#define CREDIT_ID   22

static struct slot slots[SLOTS] __attribute__((aligned(4096)));
static volatile uint64_t credit __attribute__((aligned(4096)));
static struct producer producer;
static struct consumer consumer;

static int check(int ret, enum unetmm_call call)
{
    if (ret < 0) {
        printf("not ok 1 - the scene: %s\n", unetmm_strerror(ret, call));
        exit(EXIT_FAILURE);
    }
    return ret;
}

static uint32_t length_of(uint32_t n)
{
    return 4 + n * 7 % (MESSAGE_MAX - 3);
}

static void fill(uint8_t *message, uint32_t n)
{
    uint32_t i;

    memset(message, 0, MESSAGE_MAX);
    for (i = 0; i < length_of(n); i++) {
        message[i] = (uint8_t)(n * 31 + i);
    }
    memcpy(message, &n, sizeof(n));
}

static void *produce(void *result)
{
    uint8_t message[MESSAGE_MAX];
    uint32_t n;

    for (n = 0; n < COUNT; n++) {
        fill(message, n);
        *(int *)result = mailbox_put(&producer, message, length_of(n));
        if (*(int *)result) {
            break;
        }
    }
    return NULL;
}

/* The number of messages that came whole and in order. */
static uint32_t consume(void)
{
    uint8_t message[MESSAGE_MAX], wanted[MESSAGE_MAX];
    uint32_t n;

    for (n = 0; n < COUNT; n++) {
        int length = mailbox_get(&consumer, message);

        fill(wanted, n);
        if (length != (int)length_of(n) || memcmp(message, wanted, length_of(n))) {
            printf("# message %u: %s\n", n, length < 0 ? strerror(-length) :
                   "not the one that was put");
            break;
        }
        if (n % 100 == 99) {
            struct timespec pause = { .tv_nsec = 2000000 };

            nanosleep(&pause, NULL);
        }
    }
    return n;
}

static void open_scene(void)
{
    struct unetmm_info info = { .size = sizeof(info) };
    struct unetmm_ctx *ctx;
    unsigned there, back;

    check(unetmm_open(NULL, UNETMM_SOURCE_TLB, &ctx), UNETMM_CALL_OPEN);
    check(unetmm_info(ctx, &info), UNETMM_CALL_ANY);
    check(unetmm_ep_create(ctx, NULL, &producer.ep), UNETMM_CALL_EP_CREATE);
    check(unetmm_ep_create(ctx, NULL, &consumer.ep), UNETMM_CALL_EP_CREATE);
    check(unetmm_export(ctx, SLOTS_ID, slots, sizeof(slots), UNETMM_RIGHT_WRITE,
                        UNETMM_EXPORT_NOTIFY, 0), UNETMM_CALL_EXPORT);
    check(unetmm_export(ctx, CREDIT_ID, (void *)(uintptr_t)&credit, sizeof(credit),
                        UNETMM_RIGHT_WRITE, 0, 0), UNETMM_CALL_EXPORT);
    /* One channel each way, so that both sides know their own number. */
    check(unetmm_listen_ex(consumer.ep, 121, 1, NULL), UNETMM_CALL_LISTEN);
    there = (unsigned)check(unetmm_connect_ex(producer.ep, info.mac, 121, 5 * SECOND, NULL,
                                              NULL), UNETMM_CALL_CONNECT);
    check(unetmm_listen_ex(producer.ep, 122, 1, NULL), UNETMM_CALL_LISTEN);
    back = (unsigned)check(unetmm_connect_ex(consumer.ep, info.mac, 122, 5 * SECOND, NULL,
                                             NULL), UNETMM_CALL_CONNECT);
    producer.import = (unsigned)check(unetmm_import(producer.ep, there, SLOTS_ID,
                                                    UNETMM_RIGHT_WRITE, 5 * SECOND, NULL),
                                      UNETMM_CALL_IMPORT);
    consumer.import = (unsigned)check(unetmm_import(consumer.ep, back, CREDIT_ID,
                                                    UNETMM_RIGHT_WRITE, 5 * SECOND, NULL),
                                      UNETMM_CALL_IMPORT);
    producer.credit = &credit;
    consumer.slots = slots;
}

int main(void)
{
    pthread_t thread;
    int result = 0;
    uint32_t n;

    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("1..1\n");
    open_scene();
    if (pthread_create(&thread, NULL, produce, &result)) {
        printf("not ok 1 - a thread\n");
        return EXIT_FAILURE;
    }
    n = consume();
    if (n == COUNT) {
        pthread_join(thread, NULL);
    }
    printf("%sok 1 - %u messages through %u slots arrive whole and in order\n",
           n == COUNT && !result ? "" : "not ", COUNT, SLOTS);
    return n == COUNT && !result ? EXIT_SUCCESS : EXIT_FAILURE;
}
