/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Words for people: one sentence for the error, and one for the remedy.
 */
#include "base.h"
#include "unetmm_lists.h"

#include <netinet/ether.h>

struct advice {
    enum unetmm_call call;
    int error;
    const char *sentence;
};

/* The first match counts; UNETMM_CALL_ANY matches every call. */
static const struct advice advice_rows[] = {
    { UNETMM_CALL_OPEN, ENOENT,
      "there is no such device: load the driver (modprobe unetmm) and check "
      "with lspci -d 1af4:10f0 that the machine has the card" },
    { UNETMM_CALL_OPEN, ENXIO,
      "the driver has no card under this name: check with "
      "lspci -d 1af4:10f0 that the machine has it" },
    { UNETMM_CALL_OPEN, EACCES,
      "this user may not open the device: change the owner or mode of the "
      "device file, or become root" },
    { UNETMM_CALL_OPEN, ENOTTY,
      "this is not a unetmm device: name the right file" },
    { UNETMM_CALL_OPEN, ENOSPC,
      "the card has no address space left: end another program that uses the "
      "card, or give the card more address spaces" },
    { UNETMM_CALL_OPEN, EDQUOT,
      "this user's quota of address spaces is used up: end another program of "
      "this user, or raise the driver's parameter user_spaces" },
    { UNETMM_CALL_OPEN, EINVAL,
      "the card does not know this source of translations: use tlb, ktlb, "
      "shadow, odp, utlb or pinned" },
    { UNETMM_CALL_OPEN, EOPNOTSUPP,
      "the card does not have this source of translations: use another one" },
    { UNETMM_CALL_EP_CREATE, EINVAL,
      "an attribute of the endpoint is out of range: depths are powers of two "
      "up to the card's limit, a send queue has 8 slots or more" },
    { UNETMM_CALL_EP_CREATE, ENOSPC,
      "the card has no endpoint left: end another program that uses the card, "
      "or give the card more endpoints" },
    { UNETMM_CALL_EP_CREATE, EOPNOTSUPP,
      "the card does not have this policy, or does not allow it with this "
      "source of translations: redirect, rnr and backup need the source tlb, "
      "shadow or odp; a raw endpoint takes drop or backup, and any source "
      "but ktlb" },
    { UNETMM_CALL_EP_CREATE, EPERM,
      "a raw endpoint sends and receives frames of any kind: that needs "
      "CAP_NET_RAW, which root has" },
    { UNETMM_CALL_EP_CREATE, EDQUOT,
      "the queues exceed this user's quota: make them smaller or raise "
      "ulimit -l, end endpoints of this user, or raise the driver's parameter "
      "user_endpoints (for policy backup also user_backup_buffers)" },
    { UNETMM_CALL_EP_CREATE, ENOMEM,
      "there is no memory for the queues: make them smaller or raise "
      "ulimit -l" },
    { UNETMM_CALL_LISTEN, EADDRINUSE,
      "another endpoint of this card listens on that service: choose another "
      "number, or end that listener" },
    { UNETMM_CALL_LISTEN, EDQUOT,
      "this user may have no more endpoints that are announced: listen without "
      "that" },
    { UNETMM_CALL_LISTEN, EINVAL,
      "the service or the backlog is out of range: use a service above 0 and a "
      "backlog of 1 to 64" },
    { UNETMM_CALL_LISTEN, EOPNOTSUPP,
      "this card has no reliable channels, or not with the source ktlb: use "
      "another source, or datagrams" },
    { UNETMM_CALL_CONNECT, EOPNOTSUPP,
      "this card has no reliable channels, or not with the source ktlb: use "
      "another source, or datagrams" },
    { UNETMM_CALL_LISTEN, EPROTOTYPE,
      "this endpoint does not take channels of that type: with policy redirect "
      "or rnr they must be reliable, with backup datagram channels; a raw "
      "endpoint has no channels" },
    { UNETMM_CALL_CONNECT, EPROTOTYPE,
      "the listener does not take channels of this type: use reliable channels "
      "on both sides or datagrams on both; policies redirect and rnr need "
      "reliable channels" },
    { UNETMM_CALL_ACCEPT, ETIMEDOUT,
      "nobody connected in time: start the peer, or wait longer" },
    { UNETMM_CALL_CONNECT, ETIMEDOUT,
      "the peer's driver answers, but no endpoint listens on that service: "
      "start the listening side first and compare the service numbers" },
    { UNETMM_CALL_CONNECT, ECONNRESET,
      "the peer accepted the connection and closed it at once: try again, or "
      "look at the peer" },
    { UNETMM_CALL_CONNECT, EHOSTUNREACH,
      "no unetmm driver answers at that MAC address: check the address, that "
      "the peer's driver is loaded and that the two cards share a network" },
    { UNETMM_CALL_CONNECT, EINVAL,
      "the address or the service is not valid: name the MAC address of the "
      "peer's card, such as 52:54:00:12:34:56, and a service above 0" },
    { UNETMM_CALL_PROBE, EHOSTUNREACH,
      "no unetmm driver answers at that MAC address: check the address, that "
      "the peer's driver is loaded and that the two cards share a network" },
    { UNETMM_CALL_PEERS, EAGAIN,
      "this user has asked for listeners too often in this second: try again "
      "later" },
    { UNETMM_CALL_PEERS, EINVAL,
      "the address is not that of a card, or the array does not have 1 to 256 "
      "elements" },
    { UNETMM_CALL_PROBE, EAGAIN,
      "this user has sent too many probes in this second: try again later" },
    { UNETMM_CALL_CONNECT, ENOSPC,
      "no channel is left: the endpoint's channels, the card's reliable "
      "channels or the slots of policy redirect are used up, or this user's "
      "share of them: disconnect a channel" },
    { UNETMM_CALL_ACCEPT, ENOSPC,
      "the channels of the endpoint are used up: disconnect a channel" },
    { UNETMM_CALL_REGISTER, ENOMEM,
      "the limit of pinned memory is reached: raise ulimit -l or register "
      "less" },
    { UNETMM_CALL_REGISTER, EEXIST,
      "part of this memory is registered already: deregister it first" },
    { UNETMM_CALL_REGISTER, EOPNOTSUPP,
      "this memory cannot be registered: registration needs the source pinned, "
      "and Linux pins neither device memory nor file mappings under dirty "
      "tracking" },
    { UNETMM_CALL_REGISTER, EFAULT,
      "part of this memory is not mapped, or lacks the rights asked for" },
    { UNETMM_CALL_PREFETCH, EOPNOTSUPP,
      "this memory cannot be prefetched: prefetching needs the source shadow "
      "or odp, and device memory cannot be prefetched" },
    { UNETMM_CALL_PREFETCH, EFAULT,
      "the memory is not mapped, or lacks the rights asked for" },
    { UNETMM_CALL_PREFETCH, EINVAL,
      "the range is not valid: its length must be above 0, and it must lie in "
      "user memory" },
    { UNETMM_CALL_SEND, EAGAIN,
      "the send queue is full: take completions and try again" },
    { UNETMM_CALL_SEND, EMSGSIZE,
      "the message is longer than unetmm_channel_mtu() allows, or an inline "
      "message is longer than 224 bytes: split it" },
    { UNETMM_CALL_SEND, EINVAL,
      "the message is not valid: it may have at most 16 segments, and only the "
      "flags of unetmm_send(3)" },
    { UNETMM_CALL_POST, EAGAIN,
      "the free queue is full: wait until the card has returned buffers" },
    { UNETMM_CALL_POST, EMSGSIZE,
      "the buffer has more pages than the card can hold translations of: post "
      "smaller buffers" },
    { UNETMM_CALL_POST, EINVAL,
      "the buffer is not valid: its length must be above 0, its flags may be "
      "UNETMM_MORE and UNETMM_ZERO; UNETMM_ZERO needs a buffer and a source "
      "that allow it: see unetmm_post_recv(3)" },
    { UNETMM_CALL_STATS, EPERM,
      "the endpoint belongs to another process: reading its counters needs "
      "CAP_NET_ADMIN, so try as root" },
    { UNETMM_CALL_STATS, ENOENT,
      "there is no such endpoint now: read the counters of the card instead" },
    { UNETMM_CALL_HANDLERS, ENOENT,
      "the endpoint has no such channel, or no handler: set a handler with "
      "UNETMM_EVERY_CHANNEL first" },
    { UNETMM_CALL_HANDLERS, EDEADLK,
      "the call would wait for itself: handlers are blocked, or the caller is "
      "a handler" },
    { UNETMM_CALL_HANDLERS, EBUSY,
      "a thread of the library calls the handlers: stop it first" },
    { UNETMM_CALL_HANDLERS, EPERM,
      "there is nothing to unblock: handlers are not blocked, or they are "
      "blocked only until the calling handler returns" },
    { UNETMM_CALL_HANDLERS, ESRCH,
      "no thread of the library calls the handlers: start it first" },
    { UNETMM_CALL_HANDLERS, EAGAIN,
      "the system cannot create another thread: raise ulimit -u, or call "
      "unetmm_dispatch() instead" },
    { UNETMM_CALL_HANDLERS, ESHUTDOWN,
      "a handler has destroyed the endpoint: it must not be used any more" },
    { UNETMM_CALL_REDIRECT, EEXIST,
      "part of the range is redirected already, or the new place overlaps an "
      "export or another redirection: end that one first" },
    { UNETMM_CALL_REDIRECT, ENOSPC,
      "the export has as many redirections as the card allows: end one first" },
    { UNETMM_CALL_REDIRECT, EFAULT,
      "the new place is not mapped, or lacks the rights of the export" },
    { UNETMM_CALL_REDIRECT, ENOMEM,
      "the limit of pinned memory is reached: raise ulimit -l" },
    { UNETMM_CALL_REDIRECT, EINVAL,
      "the range is not valid: the redirected range must lie in the export, "
      "and the range to keep in the redirected range" },
    { UNETMM_CALL_REDIRECT, EOPNOTSUPP,
      "this export cannot be redirected: export it with "
      "UNETMM_EXPORT_REDIRECT and a source other than ktlb, and name a new "
      "place that Linux can pin" },
    { UNETMM_CALL_REDIRECT, ENOENT,
      "there is no such export, or no redirection that starts there" },
    { UNETMM_CALL_EXPORT, EEXIST,
      "the number is in use, or the memory overlaps a registration, or it "
      "overlaps another export and one of the two can be redirected: choose "
      "another number, or end the other one first" },
    { UNETMM_CALL_EXPORT, ENOSPC,
      "the exports of the card are used up: end an export" },
    { UNETMM_CALL_EXPORT, EDQUOT,
      "this user has all exports that it may have: end an export, or raise the "
      "driver's parameter user_exports" },
    { UNETMM_CALL_EXPORT, EFAULT,
      "part of this memory is not mapped, or lacks the rights asked for" },
    { UNETMM_CALL_EXPORT, ENOMEM,
      "the limit of pinned memory is reached: raise ulimit -l or export less" },
    { UNETMM_CALL_EXPORT, EAGAIN,
      "the mapping changed during each attempt, or messages in progress use "
      "all pages that may be pinned: take completions and try again" },
    { UNETMM_CALL_EXPORT, EINVAL,
      "the export is not valid: it needs a length and at least one right, and "
      "only the flags of unetmm_export(3)" },
    { UNETMM_CALL_EXPORT, EOPNOTSUPP,
      "this memory cannot be exported: the card, the source of translations or "
      "this kind of memory does not allow it" },
    { UNETMM_CALL_EXPORT, ENOENT, "there is no export with this number" },
    { UNETMM_CALL_IMPORT, ETIMEDOUT,
      "the peer did not export this number in time: compare the export numbers "
      "of both sides" },
    { UNETMM_CALL_IMPORT, EHOSTUNREACH,
      "the peer's driver does not answer: check the network and the peer" },
    { UNETMM_CALL_IMPORT, EACCES,
      "the peer's export does not grant these rights: ask for fewer rights" },
    { UNETMM_CALL_IMPORT, EPROTOTYPE,
      "the channel carries datagrams: imports need a reliable channel" },
    { UNETMM_CALL_IMPORT, ENOTCONN,
      "the channel has ended: disconnect it and connect again" },
    { UNETMM_CALL_IMPORT, ENOSPC,
      "the imports of the endpoint are used up: end an import" },
    { UNETMM_CALL_IMPORT, EOPNOTSUPP, "this card has no imports" },
    { UNETMM_CALL_ONE_SIDED, EAGAIN,
      "the send queue is full: take completions and try again" },
    { UNETMM_CALL_ONE_SIDED, ENOENT, "the endpoint has no such import" },
    { UNETMM_CALL_ONE_SIDED, EACCES,
      "the import lacks the right for this operation: import with that right" },
    { UNETMM_CALL_ONE_SIDED, ERANGE, "access beyond the end of the import" },
    { UNETMM_CALL_ONE_SIDED, EMSGSIZE,
      "the operation is longer than 4 MiB, or inline data is longer than 224 "
      "bytes: split it" },
    { UNETMM_CALL_ONE_SIDED, EINVAL,
      "the operation is not valid: it may have at most 16 segments, and only "
      "the flags of its manual page" },
    { UNETMM_CALL_ONE_SIDED, ETIMEDOUT,
      "the operation did not complete in time; the card may use its memory "
      "until the endpoint is destroyed: wait longer" },
    { UNETMM_CALL_ONE_SIDED, EHOSTUNREACH, "the peer does not answer" },
    { UNETMM_CALL_ONE_SIDED, ESTALE, "the peer has ended this export" },
    { UNETMM_CALL_ONE_SIDED, EREMOTEIO,
      "the peer's memory cannot be used: it is no longer mapped there, or "
      "cannot be paged in" },
    { UNETMM_CALL_ONE_SIDED, ENXIO,
      "the peer's export has no such event counter" },
    { UNETMM_CALL_ONE_SIDED, ECANCELED,
      "the channel had failed before: disconnect it and connect again" },
    { UNETMM_CALL_ONE_SIDED, ECONNRESET,
      "the channel has failed at the peer: disconnect it and connect again" },
    { UNETMM_CALL_ONE_SIDED, ENOTCONN,
      "the channel has ended: disconnect it and connect again" },
    { UNETMM_CALL_EVENT, ENOSPC,
      "there are not enough consecutive event counters left: destroy some" },
    { UNETMM_CALL_EVENT, EDQUOT,
      "the page of the counters exceeds this user's quota: raise ulimit -l" },
    { UNETMM_CALL_EVENT, EINVAL,
      "an argument is not valid: create 1 to 512 counters; wait by spinning, "
      "blocking or both; set a handler on an endpoint of the same context" },
    { UNETMM_CALL_EVENT, EOPNOTSUPP, "this card has no event counters" },
    { UNETMM_CALL_EVENT, EBUSY,
      "an export uses the counter, or an endpoint has a handler for it: end "
      "that first" },
    { UNETMM_CALL_EVENT, ENOENT, "the counter has been destroyed" },
    { UNETMM_CALL_SYNC, ENOTCONN,
      "the home of this object has closed, or cannot be reached: open the "
      "object again" },
    { UNETMM_CALL_SYNC, EPERM,
      "this process holds no unit of the semaphore that it could release" },
    { UNETMM_CALL_SYNC, EPROTOTYPE,
      "the object is a wait-queue and not a semaphore, or the other way round: "
      "use the calls of its kind" },
    { UNETMM_CALL_SYNC, ENOSPC,
      "the object has as many members as it can have: close one of them" },
    { UNETMM_CALL_FLOW, EADDRINUSE,
      "another endpoint has this flow: remove it there first, or choose "
      "another address, EtherType or port" },
    { UNETMM_CALL_FLOW, EPERM,
      "a flow that takes frames for other stations needs CAP_NET_ADMIN, and no "
      "flow may take the EtherType of the card's own frames" },
    { UNETMM_CALL_FLOW, EPROTOTYPE,
      "only raw endpoints have flows: create the endpoint with UNETMM_EP_RAW" },
    { UNETMM_CALL_FLOW, ENOSPC,
      "the flows of the card are used up: remove one, or give the card more "
      "flows" },
    { UNETMM_CALL_FLOW, EDQUOT,
      "this user has all flows that it may have: remove a flow" },
    { UNETMM_CALL_FLOW, EINVAL,
      "the flow is not valid: its kind does not exist, or does not have this "
      "value, address or flag" },
    { UNETMM_CALL_FLOW, EOPNOTSUPP, "this card has no raw endpoints" },
    { UNETMM_CALL_FLOW, ENOENT, "the endpoint does not have this flow" },
    { UNETMM_CALL_ANY, ENOENT, "there is no such channel or registration" },
    { UNETMM_CALL_ANY, EOWNERDEAD,
      "this handle belongs to the parent process: open the card again after "
      "fork()" },
    { UNETMM_CALL_ANY, EIO,
      "the card has stopped the endpoint: destroy it, and look for the reason "
      "in its last completion and in its counters" },
    { UNETMM_CALL_ANY, ENETDOWN,
      "the card has no link: connect its network (set_link in the QEMU "
      "monitor, or the -netdev option)" },
    { UNETMM_CALL_ANY, ENODEV,
      "the card is gone or was reset: close it and open it again" },
    { UNETMM_CALL_ANY, EPERM,
      "another process opened the card: open it in this process" },
    { UNETMM_CALL_ANY, EBUSY,
      "the context is in use: destroy its endpoints and event counters first" },
    { UNETMM_CALL_ANY, EINTR, "a signal came: call again" },
    { UNETMM_CALL_ANY, E2BIG,
      "the library is newer than the driver: load the driver of the same "
      "version" },
    { UNETMM_CALL_ANY, EPROTO,
      "the driver's answer is not valid: load the driver of the same version" },
};

const char *unetmm_strerror(int error, enum unetmm_call call)
{
    const char *name;
    size_t i;

    /* The one that has no opposite is not an error's number anyway. */
    if (error < 0 && error != INT32_MIN) {
        error = -error;
    }
    if (!error) {
        return "no error";
    }
    for (i = 0; i < sizeof(advice_rows) / sizeof(advice_rows[0]); i++) {
        const struct advice *row = &advice_rows[i];

        if (row->error == error &&
            (row->call == call || row->call == UNETMM_CALL_ANY)) {
            return row->sentence;
        }
    }
    /* Unlike strerror(), this returns constants. */
    name = strerrordesc_np(error);
    return name ? name : "unknown error";
}

const char *unetmm_status_str(unsigned status)
{
#define SENTENCE(number, name, error, meaning, sentence) [number] = sentence,
    static const char *const sentences[UNETMM_NUM_ST] = { UNETMM_STATUSES(SENTENCE) };

    return status < UNETMM_NUM_ST ? sentences[status] : "unknown status";
}

int unetmm_status_errno(unsigned status)
{
#define ERRNO(number, name, error, meaning, sentence) [number] = error,
    static const int errors[UNETMM_NUM_ST] = { UNETMM_STATUSES(ERRNO) };

    return status < UNETMM_NUM_ST ? -errors[status] : -EIO;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int unetmm_parse_mac(const char *text, uint8_t mac[6])
{
    uint8_t bytes[6];
    uint8_t any = 0;
    int i;

    for (i = 0; i < 6; i++, text += 3) {
        int high = hex_digit(text[0]);
        int low = high < 0 ? -1 : hex_digit(text[1]);

        if (low < 0) {
            return -EINVAL;
        }
        if (i < 5 ? text[2] != ':' && text[2] != '-' : text[2] != '\0') {
            return -EINVAL;
        }
        bytes[i] = (uint8_t)(high << 4 | low);
        any |= bytes[i];
    }
    /* A group address, and the address of nobody */
    if (bytes[0] & 1 || !any) {
        return -EINVAL;
    }
    memcpy(mac, bytes, sizeof(bytes));
    return 0;
}

int unetmm_resolve(const char *name, uint8_t mac[6])
{
    static const uint8_t none[6];
    int saved = errno, state, missing;
    struct ether_addr address;

    if (!unetmm_parse_mac(name, mac)) {
        return 0;
    }
    state = sys_cancel_disable();
    missing = ether_hostton(name, &address);
    sys_cancel_restore(state);
    errno = saved;
    if (missing) {
        return -ENOENT;
    }
    if (address.ether_addr_octet[0] & 1 ||
        !memcmp(address.ether_addr_octet, none, sizeof(none))) {
        return -EINVAL;
    }
    memcpy(mac, address.ether_addr_octet, sizeof(none));
    return 0;
}

char *unetmm_format_mac(const uint8_t mac[6], char text[UNETMM_MAC_CHARS])
{
    static const char digits[] = "0123456789abcdef";
    int i;

    for (i = 0; i < 6; i++) {
        text[3 * i] = digits[mac[i] >> 4];
        text[3 * i + 1] = digits[mac[i] & 15];
        text[3 * i + 2] = i < 5 ? ':' : '\0';
    }
    return text;
}
