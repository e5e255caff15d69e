/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Requests for connections on the wire: messages of connection management.
 *
 *   connector                                         acceptor
 *     channel to the PEP's service  ---------------->   a conn
 *     REQUEST, service of its data port  ----------->   FI_CONNREQ
 *       data channel  <------------------------------   fi_accept()
 *     FI_CONNECTED  <--  ACCEPT, its endpoint, channel
 *     ends the CM channel  ------------------------->   FI_CONNECTED
 *
 * or REJECT comes back.  The acceptor makes the data channel because it alone
 * knows to which of its ports the connection belongs.  A shared port may have
 * several channels on their way from one peer: ACCEPT names the one that is meant by
 * the acceptor's endpoint and channel.
 *
 * The acceptor sends nothing before the connector has taken the channel, so that a
 * stranger's message is not taken for the acceptor's (port.c).  The end of the CM channel
 * says so, or the first message of the connector.
 *
 * Lifetime: a message is a copy, on the stack of the function that sends or reads it; the one
 * of a request that is put aside is the conn's.  Peers are not trusted: the length, the numbers
 * and the type of a message are checked, and a wrong one ends its channel.
 */
#include "cm.h"

#include <endian.h>
#include <string.h>

#define MAGIC   0x69666d75u     /* "umfi" */

int umfi_conn_send_message(struct umfi_conn *conn, struct umfi_message *m,
                           enum umfi_message_type type, const void *data, size_t len)
{
    m->magic = htole32(MAGIC);
    m->version = htole16(UMFI_PROTOCOL_VERSION);
    m->type = htole16(type);
    /* Data of an answer: as fi_cm(3) has it, the rest is dropped without an error. */
    len = len < sizeof(m->data) ? len : sizeof(m->data);
    m->len = htole16((uint16_t)len);
    if (len) {
        memcpy(m->data, data, len);
    }
    return unetmm_send(conn->port->ep, conn->channel, m, sizeof(*m), 0,
                       UNETMM_INLINE | UNETMM_UNSIGNALED);
}

bool umfi_message_is_sound(const struct umfi_message *m, size_t len)
{
    if (len != sizeof(*m) || le32toh(m->magic) != MAGIC) {
        UMFI_WARN(FI_LOG_EP_CTRL, "a wrong message of %zu bytes: the request ends\n",
                  len);
        return false;
    }
    if (le16toh(m->version) != UMFI_PROTOCOL_VERSION) {
        UMFI_WARN(FI_LOG_EP_CTRL, "the peer's provider has version %u of the messages, "
                  "this one %u: the request ends\n", le16toh(m->version),
                  UMFI_PROTOCOL_VERSION);
        return false;
    }
    if (le16toh(m->len) > UMFI_CM_DATA) {
        UMFI_WARN(FI_LOG_EP_CTRL, "a message has %u bytes of the program: the request "
                  "ends\n", le16toh(m->len));
        return false;
    }
    return true;
}

bool umfi_message_not_expected(const struct umfi_message *m)
{
    UMFI_WARN(FI_LOG_EP_CTRL, "a message of type %u is not expected: the request ends\n",
              le16toh(m->type));
    return false;
}
