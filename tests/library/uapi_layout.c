/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The driver's structures as they were published.  test-uapi.py has this compiled
 * for several machines: offsets and sizes are the same on all, and (-Wpadded)
 * nothing is between the members.
 */
#include <linux/unetmm.h>

#define SIZE(name, bytes) \
    _Static_assert(sizeof(struct unetmm_##name) == (bytes), #name)
#define AT(name, member, offset) \
    _Static_assert(__builtin_offsetof(struct unetmm_##name, member) == \
                   (offset), #name "." #member)

SIZE(info, 104);
AT(info, size, 0);
AT(info, flags, 4);
AT(info, mac, 8);
AT(info, rsvd0, 14);
AT(info, user_mtu, 16);
AT(info, version, 20);
AT(info, caps, 24);
AT(info, sources, 28);
AT(info, policies, 32);
AT(info, endpoints, 36);
AT(info, channels, 40);
AT(info, max_ring_log2, 44);
AT(info, max_pretranslate, 48);
AT(info, tlb_sets, 52);
AT(info, tlb_ways, 56);
AT(info, tlb_victims, 60);
AT(info, max_buffer_pages, 64);
AT(info, rsvd1, 68);
AT(info, pin_limit_pages, 72);
AT(info, reliable, 80);
AT(info, max_message, 84);
AT(info, regions, 88);
AT(info, imports, 92);
AT(info, flows, 96);
AT(info, backup, 100);

SIZE(space, 32);
AT(space, size, 0);
AT(space, source, 4);
AT(space, flags, 8);
AT(space, id, 12);
AT(space, quota_pages, 16);
AT(space, log_bytes, 20);
AT(space, log_map, 24);

SIZE(endpoint, 88);
AT(endpoint, size, 0);
AT(endpoint, flags, 4);
AT(endpoint, sq_log2, 8);
AT(endpoint, fq_log2, 12);
AT(endpoint, cq_log2, 16);
AT(endpoint, policy, 20);
AT(endpoint, pretranslate, 24);
AT(endpoint, event_fd, 28);
AT(endpoint, id, 32);
AT(endpoint, sq_offset, 36);
AT(endpoint, fq_offset, 40);
AT(endpoint, cq_offset, 44);
AT(endpoint, index_offset, 48);
AT(endpoint, doorbell_bytes, 52);
AT(endpoint, queue_map, 56);
AT(endpoint, queue_bytes, 64);
AT(endpoint, doorbell_map, 72);
AT(endpoint, backup, 80);
AT(endpoint, rsvd, 84);

SIZE(destroy, 24);
AT(destroy, size, 0);
AT(destroy, endpoint, 4);
AT(destroy, type, 8);
AT(destroy, count, 12);
AT(destroy, id, 16);

SIZE(listen, 40);
AT(listen, size, 0);
AT(listen, endpoint, 4);
AT(listen, service, 8);
AT(listen, backlog, 16);
AT(listen, flags, 20);
AT(listen, timeout_us, 24);
AT(listen, retries, 28);
AT(listen, not_ready_retries, 32);
AT(listen, not_ready_us, 36);

SIZE(connect, 72);
AT(connect, size, 0);
AT(connect, endpoint, 4);
AT(connect, service, 8);
AT(connect, deadline_ns, 16);
AT(connect, mac, 24);
AT(connect, rsvd0, 30);
AT(connect, channel, 32);
AT(connect, mtu, 36);
AT(connect, peer_endpoint, 40);
AT(connect, flags, 44);
AT(connect, timeout_us, 48);
AT(connect, retries, 52);
AT(connect, not_ready_retries, 56);
AT(connect, max_message, 60);
AT(connect, not_ready_us, 64);
AT(connect, peer_channel, 68);

SIZE(probe, 32);
AT(probe, size, 0);
AT(probe, flags, 4);
AT(probe, mac, 8);
AT(probe, rsvd0, 14);
AT(probe, deadline_ns, 16);
AT(probe, mtu, 24);
AT(probe, rsvd1, 28);

SIZE(listener, 48);
AT(listener, service, 0);
AT(listener, mac, 8);
AT(listener, endpoint, 14);
AT(listener, mtu, 16);
AT(listener, types, 20);
AT(listener, name, 24);
AT(listener, unused, 40);

SIZE(peers, 48);
AT(peers, size, 0);
AT(peers, flags, 4);
AT(peers, deadline_ns, 8);
AT(peers, service, 16);
AT(peers, listeners, 24);
AT(peers, mac, 32);
AT(peers, rsvd0, 38);
AT(peers, count, 40);
AT(peers, rsvd1, 44);

SIZE(region, 24);
AT(region, size, 0);
AT(region, flags, 4);
AT(region, addr, 8);
AT(region, length, 16);

SIZE(counters, 24);
AT(counters, size, 0);
AT(counters, scope, 4);
AT(counters, endpoint, 8);
AT(counters, count, 12);
AT(counters, values, 16);

SIZE(post, 16);
AT(post, size, 0);
AT(post, endpoint, 4);
AT(post, flags, 8);
AT(post, rsvd, 12);

SIZE(utlb, 32);
AT(utlb, size, 0);
AT(utlb, flags, 4);
AT(utlb, addr, 8);
AT(utlb, npages, 16);
AT(utlb, done, 20);
AT(utlb, ahead, 24);
AT(utlb, rsvd, 28);

SIZE(utlb_range, 16);
AT(utlb_range, start, 0);
AT(utlb_range, last, 8);

SIZE(utlb_log, 4096);
AT(utlb_log, seq, 0);
AT(utlb_log, rsvd, 8);
AT(utlb_log, ranges, 64);

SIZE(prefetch, 32);
AT(prefetch, size, 0);
AT(prefetch, flags, 4);
AT(prefetch, addr, 8);
AT(prefetch, length, 16);
AT(prefetch, done, 24);

SIZE(export, 48);
AT(export, size, 0);
AT(export, flags, 4);
AT(export, id, 8);
AT(export, addr, 16);
AT(export, length, 24);
AT(export, cookie, 32);
AT(export, rights, 40);
AT(export, counter, 44);
AT(export, ncounters, 46);

SIZE(export_key, 32);
AT(export_key, size, 0);
AT(export_key, rsvd, 4);
AT(export_key, id, 8);
AT(export_key, key, 16);
AT(export_key, base, 24);

SIZE(span, 16);
AT(span, offset, 0);
AT(span, length, 8);

SIZE(redirect, 184);
AT(redirect, size, 0);
AT(redirect, what, 4);
AT(redirect, id, 8);
AT(redirect, offset, 16);
AT(redirect, length, 24);
AT(redirect, to, 32);
AT(redirect, from, 40);
AT(redirect, count, 48);
AT(redirect, rsvd, 52);
AT(redirect, spans, 56);

SIZE(redirect_id, 24);
AT(redirect_id, size, 0);
AT(redirect_id, what, 4);
AT(redirect_id, id, 8);
AT(redirect_id, offset, 16);

SIZE(import, 48);
AT(import, size, 0);
AT(import, endpoint, 4);
AT(import, id, 8);
AT(import, deadline_ns, 16);
AT(import, channel, 24);
AT(import, rights, 28);
AT(import, import, 32);
AT(import, rsvd, 36);
AT(import, length, 40);

SIZE(window, 64);
AT(window, size, 0);
AT(window, endpoint, 4);
AT(window, kind, 8);
AT(window, import, 12);
AT(window, at, 16);
AT(window, length, 24);
AT(window, combine_ns, 32);
AT(window, combine_bytes, 36);
AT(window, rsvd, 38);
AT(window, flags, 40);
AT(window, id, 44);
AT(window, map, 48);
AT(window, map_bytes, 56);

SIZE(event, 24);
AT(event, size, 0);
AT(event, count, 4);
AT(event, id, 8);
AT(event, rsvd, 12);
AT(event, map, 16);

SIZE(event_wait, 32);
AT(event_wait, size, 0);
AT(event_wait, id, 4);
AT(event_wait, value, 8);
AT(event_wait, deadline_ns, 16);
AT(event_wait, now, 24);

SIZE(event_arm, 32);
AT(event_arm, size, 0);
AT(event_arm, id, 4);
AT(event_arm, value, 8);
AT(event_arm, event_fd, 16);
AT(event_arm, rsvd, 20);
AT(event_arm, now, 24);

SIZE(flow, 32);
AT(flow, size, 0);
AT(flow, endpoint, 4);
AT(flow, kind, 8);
AT(flow, flags, 12);
AT(flow, value, 16);
AT(flow, mac, 18);
AT(flow, flow, 24);
AT(flow, rsvd, 28);

_Static_assert(UNETMM_IOC_INFO == 0xd500 && UNETMM_IOC_PEERS == 0xd520,
               "numbers");
