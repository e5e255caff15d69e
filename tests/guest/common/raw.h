/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The driver's interface without the library: for those who do not keep to
 * its rules.
 */
#ifndef TEST_RAW_H
#define TEST_RAW_H

#include "guard.h"
#include "tap.h"

/* A file, its space, and one endpoint of it. */
struct raw {
    int fd;
    struct unetmm_endpoint ep;
    uint8_t *queues;
    struct unetmm_ep_index *index;
    uint8_t *sq;
    struct unetmm_fqe *fq;
    struct unetmm_cqe *cq;
    volatile uint8_t *doorbell;
    uint32_t sq_prod, fq_prod, cq_cons;
};

/* 0 or more, or -errno */
int raw_ioctl(int fd, unsigned long request, void *argument);

int raw_open_file(void);
/* The same, bound to our memory with the variant's source. */
int raw_open_space(void);

/* The request for ENDPOINT: queues of 64, 64 and 128 entries. */
struct unetmm_endpoint raw_request(void);
void raw_endpoint(struct raw *raw, int fd);
void raw_map(struct raw *raw);
/* Ends an object, or one event counter: 0 or -errno. */
int raw_destroy(int fd, uint32_t type, uint32_t endpoint, uint64_t id);
/* The mappings stay. */
void raw_close_endpoint(struct raw *raw);
void raw_unmap(struct raw *raw);

/* File, space, endpoint, mappings. */
void raw_open(struct raw *raw);
void raw_close(struct raw *raw);

/* Connects the endpoint to itself; returns both channel numbers. */
void raw_join_itself(struct raw *raw, unsigned *out, unsigned *in);

void raw_ring(struct raw *raw);
uint32_t raw_state(const struct raw *raw);
/* Copies the next completion, if there is one. */
bool raw_take(struct raw *raw, struct unetmm_cqe *cqe);
/* The same, waiting for it. */
void raw_await(struct raw *raw, struct unetmm_cqe *cqe);

/* A slot of the send queue and an entry of the free queue, by index. */
struct unetmm_sqe *raw_sqe(const struct raw *raw, uint32_t index);
struct unetmm_fqe *raw_fqe(const struct raw *raw, uint32_t index);
/* Publishes sq_prod and fq_prod, and rings. */
void raw_submit(struct raw *raw);

uint64_t raw_ep_counter(int fd, uint32_t ep, enum unetmm_counter n);

#endif /* TEST_RAW_H */
