/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The provider, its variables, the addresses of cards.
 */
#ifndef UMFI_CONFIG_H
#define UMFI_CONFIG_H

#include "base.h"

/* ---- Configuration (config.c) -------------------------------------------- */

struct umfi_config {
    char *device;
    unsigned source;            /* UNETMM_SOURCE_* */
    bool unknown_source;        /* the user wants another one: there is nothing */
    unsigned policy;            /* UNETMM_POLICY_* of endpoints, with that source */
    bool whole;                 /* all regions of a domain have the key of one export */
    int connect_ms;
    int close_ms;
    int timeout_us;             /* of channels, before the first repetition */
};

struct fi_provider *fi_prov_ini(void);  /* newer headers do not declare it */
extern struct fi_provider umfi_provider;
extern struct umfi_config umfi_config;

/* Reads the variables.  0, or -FI_ENOMEM. */
int umfi_config_read(void);
void umfi_config_free(void);

static inline struct unetmm_channel_attr umfi_channel_attr(void)
{
    return (struct unetmm_channel_attr) {
        .size = sizeof(struct unetmm_channel_attr),
        .flags = UNETMM_RELIABLE | UNETMM_NOTIFY_CLOSE,
        .timeout_us = (uint32_t)umfi_config.timeout_us,
    };
}

/* ---- Addresses (address.c) ----------------------------------------------- */

struct umfi_netdev {
    char name[16];
    unsigned index;
    struct in_addr address;
    struct in_addr mask;
    uint8_t mac[6];
    struct unetmm_info limits;
};

/* The card's network interface.  -FI_ENODATA: no card, or no IPv4 address. */
int umfi_netdev_find(struct umfi_netdev *dev);
bool umfi_netdev_reaches(const struct umfi_netdev *dev, struct in_addr to);
/* The address of the card of `to`, by ARP.  -FI_EHOSTUNREACH. */
int umfi_resolve(const struct umfi_netdev *dev, struct in_addr to, uint8_t mac[6]);
/*
 * The card that has the address.  -FI_EACCES: none in the subnet.  -FI_EAGAIN: the kernel asks for
 * the card, and its answer is a change of the neighbour table.
 */
int umfi_find_card(const struct umfi_netdev *dev, struct in_addr address, uint8_t mac[6]);
/* A descriptor that is readable when the neighbour table has changed; -1: see errno. */
int umfi_neighbours_open(void);
typedef void umfi_neighbour_fn(void *arg, struct in_addr address, const uint8_t *mac);
/*
 * Empties the descriptor, but for a limited number of messages at a time, and calls `found` for each
 * entry of the table that is new or has changed.  `mac` is NULL if the peer did not answer the kernel.
 * If changes were lost, a last call has INADDR_ANY: each entry may have changed.
 */
void umfi_neighbours_read(int fd, const struct umfi_netdev *dev, umfi_neighbour_fn *found,
                          void *arg);

/* ---- Descriptions for fi_getinfo() (info.c) ------------------------------ */

int umfi_getinfo(uint32_t version, const char *node, const char *service,
                 uint64_t flags, const struct fi_info *hints,
                 struct fi_info **info);
/* One description, without any hints; NULL: no memory. */
struct fi_info *umfi_info_alloc(const struct umfi_netdev *dev,
                                const struct sockaddr_in *src,
                                const struct sockaddr_in *dst);
/* The description of a listener that was opened by `wanted`, without addresses; NULL: no memory */
struct fi_info *umfi_info_of_listener(const struct umfi_fabric *fabric,
                                      const struct fi_info *wanted);
/* The description of an endpoint that accepts a request to the listener; NULL: no memory */
struct fi_info *umfi_info_of_request(const struct fi_info *listener,
                                     const struct sockaddr_in *own,
                                     const struct sockaddr_in *peer);

#endif /* UMFI_CONFIG_H */
