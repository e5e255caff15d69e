/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The provider "unetmm" of libfabric: FI_EP_MSG endpoints on reliable channels.
 *
 * Objects and lifetimes.  libfabric's caller closes each object before the object
 * that it was opened from; fi_close() returns -FI_EBUSY otherwise.
 *
 *   fabric    the context of libunetmm, and all that makes connections
 *     EQ      events of connections
 *     PEP     a listening CM port
 *   domain    of a fabric: memory regions, completion queues, endpoints
 *     CQ      a ring of completions, and the ports that fill it
 *     SRX     a port that several endpoints share
 *     EP      a channel of a port: its own port, or that of its SRX
 *   port      an endpoint of the card for data; lives as long as its EP or SRX
 *   CM port   an endpoint of the card for messages of connection management; a
 *             fabric has one for requests that it makes, each PEP one for those
 *             that it receives
 *   conn      a channel of a CM port: one request for a connection.  It ends with
 *             the answer, with its channel, or with its CM port.
 *   call      a thread that opens a channel for an EP, since the peer's driver has to
 *             answer; of the fabric, at whose end it is cancelled
 *
 * Locks, outermost first, and the members that each lock guards.  A function that is called
 * under a lock asserts that the lock is held, unless the function belongs to the data path.
 *
 *   fabric.lock   fabric: cm_ports, ports, request_port, peers, callees, callees_ready,
 *                 calls_running, calls_ended, threads.  All members of CM ports, conns and peers.
 *                 port.arrivals.  pep.port, pep.begins, pep.address.  ep.conn, ep.call, ep.dst.
 *                 A call: node, callee, ep, cancelled; its thread alone has the others.  Not held
 *                 in calls that wait for a peer, nor while pages are pinned; the work under it is
 *                 limited (docs/provider.rst, "Locks").
 *   domain.lock   domain: whole, whole_key, eps, closed, nclosed.  All members of ports,
 *                 operations and CQs.  An EP: port, channel, open, state, node, in_domain,
 *                 sends and the members about fences.  arrival.closed.  The only lock of the
 *                 data path.
 *   eq.lock       an EQ's events, err_data, overrun; nothing else is locked under it.
 *   spans_lock    the fabric's spans; taken under no lock, and nothing else is locked under it.
 *
 * No lock: `users`, `channels` and next_export are atomic.  All other members are set when the
 * object is opened or bound, before another thread has it.  Both port.arrivals and port.node
 * change under fabric.lock; the first also under domain.lock, so each of the two suffices to read.
 *
 * libunetmm allows unetmm_connect_ex(), _accept() and _listen_ex() beside calls on
 * the queues of the same endpoint, so these need no lock of a port.
 */
#ifndef UNETMM_PROVIDER_H
#define UNETMM_PROVIDER_H

#include "absent.h"
#include "data.h"
#include "connect.h"

#endif /* UNETMM_PROVIDER_H */
