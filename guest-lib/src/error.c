/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Words for people: one sentence for the error, and one for the remedy.
 */
#include "internal.h"
#include "sys.h"

#include <netinet/ether.h>

struct advice {
    enum unetmm_call call;
    int error;
    const char *sentence;
};

/* The first match counts; UNETMM_CALL_ANY matches every call. */
static const struct advice advices[] = {
    { UNETMM_CALL_OPEN, ENOENT,
      "there is no such device: load the driver (modprobe unetmm) and check "
      "with lspci -d 1af4:10f0 that the machine has the card" },
    { UNETMM_CALL_OPEN, ENXIO,
      "the driver has no card under this name: check with "
      "lspci -d 1af4:10f0 that the machine has it" },
    { UNETMM_CALL_OPEN, EACCES,
      "the device may not be opened by this user: change the owner or mode "
      "of the device file, or become root" },
    { UNETMM_CALL_OPEN, ENOTTY,
      "this is not a unetmm device: name the right file" },
    { UNETMM_CALL_OPEN, ENOSPC,
      "the card has no address space left: end another program that uses it, "
      "or give the card more of them" },
    { UNETMM_CALL_OPEN, EDQUOT,
      "this user has all address spaces of the card that it may have: end "
      "another program of this user, or raise the driver's user_spaces" },
    { UNETMM_CALL_OPEN, EINVAL,
      "the card does not know this source of translations: use tlb, ktlb, "
      "shadow, odp, utlb or pinned" },
    { UNETMM_CALL_OPEN, EOPNOTSUPP,
      "the card does not have this source of translations: use another one" },
    { UNETMM_CALL_EP_CREATE, EINVAL,
      "an attribute of the endpoint is out of range: depths are powers of two "
      "up to the card's limit, a send queue has 8 slots or more" },
    { UNETMM_CALL_EP_CREATE, ENOSPC,
      "the card has no endpoint left: end another program that uses it, or "
      "give the card more of them" },
    { UNETMM_CALL_EP_CREATE, EOPNOTSUPP,
      "the card does not have this policy, or not with this source of "
      "translations: redirect, rnr and backup need tlb, shadow or odp; raw "
      "endpoints have drop or backup, and not ktlb" },
    { UNETMM_CALL_EP_CREATE, EPERM,
      "a raw endpoint sends and receives frames of any kind: that needs "
      "CAP_NET_RAW, which root has" },
    { UNETMM_CALL_EP_CREATE, EDQUOT,
      "the queues exceed this user's quota: make them smaller or raise "
      "ulimit -l; or end endpoints of this user, or raise the driver's "
      "user_endpoints, and for policy backup also user_backup_buffers" },
    { UNETMM_CALL_EP_CREATE, ENOMEM,
      "there is no memory for the queues: make them smaller or raise "
      "ulimit -l" },
    { UNETMM_CALL_LISTEN, EADDRINUSE,
      "another endpoint of this card listens on that service: choose another "
      "number, or end that" },
    { UNETMM_CALL_LISTEN, EINVAL,
      "the service or the backlog is out of range: the service is not 0, the "
      "backlog 1 to 64" },
    { UNETMM_CALL_LISTEN, EOPNOTSUPP,
      "this card has no reliable channels, or not with the source ktlb: use "
      "another source, or datagrams" },
    { UNETMM_CALL_CONNECT, EOPNOTSUPP,
      "this card has no reliable channels, or not with the source ktlb: use "
      "another source, or datagrams" },
    { UNETMM_CALL_LISTEN, EPROTOTYPE,
      "an endpoint with policy redirect or rnr takes reliable channels only, "
      "one with backup datagrams only, a raw one none" },
    { UNETMM_CALL_CONNECT, EPROTOTYPE,
      "the listener takes no channels of this type: ask for reliable ones "
      "on both sides or on none, and on both with policy redirect or rnr" },
    { UNETMM_CALL_ACCEPT, ETIMEDOUT,
      "nobody connected in time: start the peer, or wait longer" },
    { UNETMM_CALL_CONNECT, ETIMEDOUT,
      "the peer's card answers but nobody listens on that service: start the "
      "listening side first and compare the service numbers" },
    { UNETMM_CALL_CONNECT, ECONNRESET,
      "the peer accepted the connection and closed it at once: try again, or "
      "look at the peer" },
    { UNETMM_CALL_CONNECT, EHOSTUNREACH,
      "no unetmm driver answers at that MAC address: check the address, that "
      "the peer's driver is loaded and that the two cards share a network" },
    { UNETMM_CALL_CONNECT, EINVAL,
      "the peer is named by the MAC address of its card, such as "
      "52:54:00:12:34:56, and a service above 0" },
    { UNETMM_CALL_PROBE, EHOSTUNREACH,
      "no unetmm driver answers at that MAC address: check the address, that "
      "the peer's driver is loaded and that the two cards share a network" },
    { UNETMM_CALL_PROBE, EAGAIN,
      "this user has asked too many cards in this second: try again in the next" },
    { UNETMM_CALL_CONNECT, ENOSPC,
      "the channels of the endpoint, or the card's reliable ones, or the slots "
      "for policy redirect, are used up: disconnect one" },
    { UNETMM_CALL_ACCEPT, ENOSPC,
      "the channels of the endpoint are used up: disconnect one" },
    { UNETMM_CALL_REGISTER, ENOMEM,
      "so much memory may not be pinned: raise ulimit -l or register less" },
    { UNETMM_CALL_REGISTER, EEXIST,
      "part of this memory is registered already: deregister it first" },
    { UNETMM_CALL_REGISTER, EOPNOTSUPP,
      "this memory cannot be registered: only the source pinned registers, "
      "and Linux does not pin files under dirty tracking or device memory" },
    { UNETMM_CALL_REGISTER, EFAULT,
      "part of this memory is not mapped, or not with the rights asked for" },
    { UNETMM_CALL_PREFETCH, EOPNOTSUPP,
      "this memory cannot be prefetched: only the sources shadow and odp can, "
      "and Linux does not lend device memory" },
    { UNETMM_CALL_PREFETCH, EFAULT,
      "the memory is not mapped, or not with the rights asked for" },
    { UNETMM_CALL_PREFETCH, EINVAL,
      "a range to prefetch has a length above 0 and ends in user memory" },
    { UNETMM_CALL_SEND, EAGAIN,
      "the send queue is full: take completions and try again" },
    { UNETMM_CALL_SEND, EMSGSIZE,
      "the message is longer than the channel's frame, or than 224 bytes if "
      "it has to be copied: split it" },
    { UNETMM_CALL_SEND, EINVAL,
      "a message has at most 16 pieces, and only the flags of "
      "unetmm_send(3)" },
    { UNETMM_CALL_POST, EAGAIN,
      "the free queue is full: wait until buffers come back" },
    { UNETMM_CALL_POST, EMSGSIZE,
      "the card can never hold the translations of so large a buffer: post "
      "smaller ones" },
    { UNETMM_CALL_POST, EINVAL,
      "a buffer has a length above 0, and only the flags UNETMM_MORE and "
      "UNETMM_ZERO, which needs a page and a source that can: see "
      "unetmm_post_recv(3)" },
    { UNETMM_CALL_STATS, EPERM,
      "the endpoint is another process's: its counters need CAP_NET_ADMIN, so "
      "ask as root" },
    { UNETMM_CALL_STATS, ENOENT,
      "there is no such endpoint now: ask for the counters of the card" },
    { UNETMM_CALL_HANDLERS, ENOENT,
      "the endpoint has no handler, or no such channel: set one with "
      "UNETMM_EVERY_CHANNEL first" },
    { UNETMM_CALL_HANDLERS, EDEADLK,
      "handlers are blocked, or this is one: it would wait for itself" },
    { UNETMM_CALL_HANDLERS, EBUSY,
      "a thread of the library calls the handlers: stop it first" },
    { UNETMM_CALL_HANDLERS, EPERM,
      "handlers are not blocked, or only because this is one: that ends when "
      "it returns" },
    { UNETMM_CALL_HANDLERS, ESRCH,
      "no thread of the library calls the handlers: start it first" },
    { UNETMM_CALL_HANDLERS, EAGAIN,
      "the system has no thread left: raise ulimit -u, or dispatch instead" },
    { UNETMM_CALL_HANDLERS, ESHUTDOWN,
      "a handler has destroyed the endpoint: it must not be used any more" },
    { UNETMM_CALL_REDIRECT, EEXIST,
      "part of it has moved already, or the new place is exported, or was one "
      "before: end that first" },
    { UNETMM_CALL_REDIRECT, ENOSPC,
      "so many parts of the export have moved: end one first" },
    { UNETMM_CALL_REDIRECT, EFAULT,
      "the new place is not mapped, or not with the export's rights" },
    { UNETMM_CALL_REDIRECT, ENOMEM,
      "so much memory may not be pinned: raise ulimit -l" },
    { UNETMM_CALL_REDIRECT, EINVAL,
      "the part must lie in the export, and the kept range in the part" },
    { UNETMM_CALL_REDIRECT, EOPNOTSUPP,
      "export it with UNETMM_EXPORT_REDIRECT, with another source than ktlb, "
      "and give a new place that Linux pins" },
    { UNETMM_CALL_REDIRECT, ENOENT,
      "there is no such export, or no part that has moved from there" },
    { UNETMM_CALL_EXPORT, EEXIST,
      "the number is in use, or part of this memory is exported, and one of "
      "the two can be redirected, or is registered: choose another number, or "
      "end the other export" },
    { UNETMM_CALL_EXPORT, ENOSPC,
      "the card or this process has no more exports: end one" },
    { UNETMM_CALL_EXPORT, EFAULT,
      "part of this memory is not mapped, or not with the rights asked for" },
    { UNETMM_CALL_EXPORT, ENOMEM,
      "so much memory may not be pinned: raise ulimit -l or export less" },
    { UNETMM_CALL_EXPORT, EAGAIN,
      "this memory changes all the time, or messages on their way have all "
      "pages that may be pinned: take completions and try again" },
    { UNETMM_CALL_EXPORT, EINVAL,
      "an export has a length and one right at least, and only the flag "
      "UNETMM_EXPORT_NOTIFY and _REDIRECT" },
    { UNETMM_CALL_EXPORT, EOPNOTSUPP,
      "this memory cannot be exported: the card, its source of translations "
      "or this kind of memory does not allow it" },
    { UNETMM_CALL_EXPORT, ENOENT, "there is no export with this number" },
    { UNETMM_CALL_IMPORT, ETIMEDOUT,
      "the peer has not exported it in time: compare the numbers" },
    { UNETMM_CALL_IMPORT, EHOSTUNREACH,
      "the peer's driver does not answer: see whether the network works" },
    { UNETMM_CALL_IMPORT, EACCES,
      "the peer has not exported it for that: ask for fewer rights" },
    { UNETMM_CALL_IMPORT, EPROTOTYPE,
      "the channel is for datagrams: connect with unetmm_connect()" },
    { UNETMM_CALL_IMPORT, ENOTCONN,
      "the channel has ended: disconnect it and connect again" },
    { UNETMM_CALL_IMPORT, ENOSPC,
      "the imports of the endpoint are used up: give one up" },
    { UNETMM_CALL_IMPORT, EOPNOTSUPP, "this card has no imports" },
    { UNETMM_CALL_ONE_SIDED, EAGAIN,
      "the send queue is full: take completions and try again" },
    { UNETMM_CALL_ONE_SIDED, ENOENT, "the endpoint has no such import" },
    { UNETMM_CALL_ONE_SIDED, EACCES,
      "it was not imported with the right to do this" },
    { UNETMM_CALL_ONE_SIDED, ERANGE, "the import ends before" },
    { UNETMM_CALL_ONE_SIDED, EMSGSIZE,
      "an operation has at most 4 MiB, or 224 bytes if they have to be "
      "copied: split it" },
    { UNETMM_CALL_ONE_SIDED, EINVAL,
      "an operation has at most 16 pieces, and only the flags of its page" },
    { UNETMM_CALL_ONE_SIDED, ETIMEDOUT,
      "it has not completed in time; the memory is in use until the endpoint is "
      "destroyed: wait longer" },
    { UNETMM_CALL_ONE_SIDED, EHOSTUNREACH, "the peer does not answer" },
    { UNETMM_CALL_ONE_SIDED, ESTALE, "the peer exports this memory no more" },
    { UNETMM_CALL_ONE_SIDED, EREMOTEIO, "the peer's memory cannot be used" },
    { UNETMM_CALL_ONE_SIDED, ENXIO, "the peer gives no such event counter" },
    { UNETMM_CALL_ONE_SIDED, ECANCELED,
      "the channel had failed before: disconnect it and connect again" },
    { UNETMM_CALL_ONE_SIDED, ECONNRESET,
      "the channel has failed at the peer: disconnect it and connect again" },
    { UNETMM_CALL_ONE_SIDED, ENOTCONN,
      "the channel has ended: disconnect it and connect again" },
    { UNETMM_CALL_EVENT, ENOSPC,
      "there are not so many counters left in a row: destroy some" },
    { UNETMM_CALL_EVENT, EDQUOT,
      "the page of the counters exceeds this user's quota: raise ulimit -l" },
    { UNETMM_CALL_EVENT, EINVAL,
      "make 1 to 512 counters, wait by spinning, blocking or both, and give "
      "handlers to endpoints of the same context" },
    { UNETMM_CALL_EVENT, EOPNOTSUPP, "this card has no event counters" },
    { UNETMM_CALL_EVENT, EBUSY,
      "an export gives the counter, or an endpoint has its handler: end that "
      "first" },
    { UNETMM_CALL_EVENT, ENOENT, "the counter has been destroyed" },
    { UNETMM_CALL_SYNC, ENOTCONN,
      "the home has gone, or cannot be reached: open it again" },
    { UNETMM_CALL_SYNC, EPERM,
      "only a holder of a unit can give one back" },
    { UNETMM_CALL_SYNC, EPROTOTYPE,
      "the home is one of a wait-queue, or of a semaphore: use its calls" },
    { UNETMM_CALL_SYNC, ENOSPC,
      "the home has as many members as it can have: close one" },
    { UNETMM_CALL_FLOW, EADDRINUSE,
      "another endpoint has the flow: end that first, or choose another "
      "address, EtherType or port" },
    { UNETMM_CALL_FLOW, EPERM,
      "the flow takes frames of others: that needs CAP_NET_ADMIN; and the "
      "EtherType of the card's own frames is nobody's" },
    { UNETMM_CALL_FLOW, EPROTOTYPE,
      "only raw endpoints have flows: create it with UNETMM_EP_RAW" },
    { UNETMM_CALL_FLOW, ENOSPC,
      "the card has no more flows: remove one, or give the card more of them" },
    { UNETMM_CALL_FLOW, EINVAL,
      "there is no such kind of flow, or it has no such value, address or "
      "flag" },
    { UNETMM_CALL_FLOW, EOPNOTSUPP, "this card has no raw endpoints" },
    { UNETMM_CALL_FLOW, ENOENT, "the endpoint does not have this flow" },
    { UNETMM_CALL_ANY, ENOENT, "there is no such channel or registration" },
    { UNETMM_CALL_ANY, EOWNERDEAD,
      "this handle belongs to the process that forked this one: open the card "
      "again here" },
    { UNETMM_CALL_ANY, EIO,
      "the card has stopped the endpoint: destroy it, and look for the reason "
      "in its last completion and in its counters" },
    { UNETMM_CALL_ANY, ENETDOWN,
      "the card has no link: connect its network (set_link in the QEMU "
      "monitor, or the -netdev option)" },
    { UNETMM_CALL_ANY, ENODEV,
      "the card is gone or was reset: close it and open it again" },
    { UNETMM_CALL_ANY, EPERM,
      "the card was opened by another process: open it here" },
    { UNETMM_CALL_ANY, EBUSY,
      "there are still endpoints: destroy them first" },
    { UNETMM_CALL_ANY, EINTR, "a signal came: call again" },
    { UNETMM_CALL_ANY, E2BIG,
      "the library is newer than the driver: load the driver of the same "
      "version" },
    { UNETMM_CALL_ANY, EPROTO,
      "the driver gave an answer out of range: load the driver of the same "
      "version" },
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
    for (i = 0; i < sizeof(advices) / sizeof(advices[0]); i++) {
        if (advices[i].error == error && (advices[i].call == call ||
                                          advices[i].call ==
                                          UNETMM_CALL_ANY)) {
            return advices[i].sentence;
        }
    }
    /* Unlike strerror(), this returns constants. */
    name = strerrordesc_np(error);
    return name ? name : "unknown error";
}

const char *unetmm_status_str(unsigned status)
{
    static const char *const sentences[UNETMM_NUM_ST] = {
        [UNETMM_ST_OK] = "done",
        [UNETMM_ST_PROTECTION] =
            "the memory may not be used so: it is not mapped, not writable or "
            "not registered",
        [UNETMM_ST_BAD_DESC] = "the descriptor is malformed",
        [UNETMM_ST_BAD_CHANNEL] =
            "the channel is closed, here or by the peer",
        [UNETMM_ST_TOO_LONG] = "the message is longer than the channel's MTU",
        [UNETMM_ST_SKIPPED] = "the buffer was not resident in time",
        [UNETMM_ST_TOO_LARGE] =
            "the buffer has more pages than the card's TLB can hold",
        [UNETMM_ST_LIMIT] =
            "the limit of pinned pages is reached: raise ulimit -l or use "
            "less memory",
        [UNETMM_ST_UNSUPPORTED] = "Linux does not pin this kind of memory",
        [UNETMM_ST_LINK_DOWN] = "the card has no link",
        [UNETMM_ST_BAD_INDEX] = "a ring index was forged",
        [UNETMM_ST_DMA] = "the bus refused an access",
        [UNETMM_ST_REFUSED] = "the network refused the frame",
        [UNETMM_ST_TIMEOUT] = "the peer does not answer",
        [UNETMM_ST_NOT_READY] = "the peer had no buffer for too long",
        [UNETMM_ST_PEER_BUFFER] =
            "the message is longer than the peer's buffer",
        [UNETMM_ST_PEER_FAILED] = "the channel has failed at the peer",
        [UNETMM_ST_FLUSHED] = "the channel had failed before",
        [UNETMM_ST_BAD_IMPORT] =
            "the endpoint has no such import, or not this range or right of it",
        [UNETMM_ST_REVOKED] = "the peer exports this memory no more",
        [UNETMM_ST_REMOTE_RANGE] =
            "the peer's memory ends before, or the place is not aligned",
        [UNETMM_ST_REMOTE_RIGHT] = "the peer has not exported it for that",
        [UNETMM_ST_REMOTE_MEMORY] = "the peer's memory cannot be used",
        [UNETMM_ST_OVERRUN] = "more was stored in windows than could be sent",
        [UNETMM_ST_REMOTE_COUNTER] = "the peer gives no such event counter",
        [UNETMM_ST_BAD_KEYS] = "the peer used wrong keys too often",
    };

    return status < UNETMM_NUM_ST ? sentences[status] : "unknown status";
}

int unetmm_status_errno(unsigned status)
{
    static const int errors[UNETMM_NUM_ST] = {
        [UNETMM_ST_OK] = 0,
        [UNETMM_ST_PROTECTION] = EFAULT,
        [UNETMM_ST_BAD_DESC] = EINVAL,
        [UNETMM_ST_BAD_CHANNEL] = ENOTCONN,
        [UNETMM_ST_TOO_LONG] = EMSGSIZE,
        [UNETMM_ST_SKIPPED] = ENOBUFS,
        [UNETMM_ST_TOO_LARGE] = EMSGSIZE,
        [UNETMM_ST_LIMIT] = EDQUOT,
        [UNETMM_ST_UNSUPPORTED] = EOPNOTSUPP,
        [UNETMM_ST_LINK_DOWN] = ENETDOWN,
        [UNETMM_ST_BAD_INDEX] = EIO,
        [UNETMM_ST_DMA] = EIO,
        [UNETMM_ST_REFUSED] = ECOMM,
        /* Not ETIMEDOUT: that is the end of the call's own timeout. */
        [UNETMM_ST_TIMEOUT] = EHOSTUNREACH,
        [UNETMM_ST_NOT_READY] = ENOBUFS,
        [UNETMM_ST_PEER_BUFFER] = EMSGSIZE,
        [UNETMM_ST_PEER_FAILED] = ECONNRESET,
        [UNETMM_ST_FLUSHED] = ECANCELED,
        [UNETMM_ST_BAD_IMPORT] = ENOENT,
        [UNETMM_ST_REVOKED] = ESTALE,
        [UNETMM_ST_REMOTE_RANGE] = ERANGE,
        [UNETMM_ST_REMOTE_RIGHT] = EACCES,
        [UNETMM_ST_REMOTE_MEMORY] = EREMOTEIO,
        [UNETMM_ST_OVERRUN] = EOVERFLOW,
        [UNETMM_ST_REMOTE_COUNTER] = ENXIO,
        [UNETMM_ST_BAD_KEYS] = EKEYREJECTED,
    };

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
