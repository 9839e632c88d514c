/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * Ethernet, VLAN, IPv4, IPv6, UDP: from the first byte of the packet to the bounds of the datagram.
 *
 * A `cursor` holds the position; every parse_* function checks its header against the end of the packet,
 * moves the cursor behind it and answers 0, or answers a reason and leaves the caller to return. What a
 * length field says is believed only if the packet is that long. Nothing here knows SIP or a service.
 */
#ifndef SIPWEIR_PARSING_H
#define SIPWEIR_PARSING_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "abi.h"

/* IEEE 802.1ad allows two; a third is somebody's tunnel and the kernel's business. */
#define VLAN_TAGS_MAX 2

/* Not in the UAPI header under every distribution: the pre-standard tag of a provider's bridge. */
#define ETHERTYPE_QINQ_OLD 0x9100

/* IPv4: more fragments, or an offset (RFC 791 section 3.1). */
#define IPV4_FRAGMENT_BITS 0x3fff

/* Next headers (IANA, "Assigned Internet Protocol Numbers") that are not in every <linux/in.h>. */
#define NEXT_HOP_BY_HOP	 0
#define NEXT_ROUTING	 43
#define NEXT_FRAGMENT	 44
#define NEXT_ESP	 50
#define NEXT_AH		 51
#define NEXT_DESTINATION 60
#define NEXT_MOBILITY	 135
#define NEXT_HIP	 139
#define NEXT_SHIM6	 140

/* The rest of the tag's control word is priority (IEEE 802.1Q section 9.6). */
#define VLAN_ID_MASK 0x0fff

struct vlan_tag {
	__be16 control;
	__be16 ethertype;
};

struct cursor {
	__u8 *pos;
	__u8 *end;    /* one behind the last byte */
	__u16 offset; /* of pos; kept beside it because subtracting pointers takes CAP_PERFMON */
};

/* What the headers said about a UDP packet. Offsets count from the first byte of the packet. */
struct flow {
	__u64 source[2]; /* as in the packet; IPv4 as ::ffff:a.b.c.d */
	__u64 destination[2];
	__u32 ip_payload_len;
	__u16 port; /* destination, host byte order */
	__u16 family;
	__u16 udp_len; /* as announced; not yet checked */
	__u16 payload_offset;
	__u64 link_destination;	    /* Ethernet address, the first byte in the lowest bits */
	__u16 vlans[VLAN_TAGS_MAX]; /* outermost first; 0, which is no VLAN, where there is no tag */
};

static __always_inline void advance(struct cursor *cursor, __u16 len)
{
	cursor->pos += len;
	cursor->offset += len;
}

static __always_inline enum reason parse_ethernet(struct cursor *cursor, struct flow *flow, __u16 *ethertype)
{
	struct ethhdr *eth = (struct ethhdr *)cursor->pos;

	if (cursor->pos + sizeof(*eth) > cursor->end)
		return REASON_TRUNCATED;
	if (eth->h_dest[0] & 1)
		return REASON_LINK_MULTICAST;
	*ethertype = bpf_ntohs(eth->h_proto);
	__builtin_memcpy(&flow->link_destination, eth->h_dest, ETH_ALEN);
	advance(cursor, sizeof(*eth));
	return 0;
}

static __always_inline _Bool is_vlan(__u16 ethertype)
{
	return ethertype == ETH_P_8021Q || ethertype == ETH_P_8021AD || ethertype == ETHERTYPE_QINQ_OLD;
}

/* Steps over at most VLAN_TAGS_MAX tags. */
static __always_inline enum reason parse_vlan(struct cursor *cursor, struct flow *flow, __u16 *ethertype)
{
#pragma unroll
	for (int i = 0; i < VLAN_TAGS_MAX; i++) {
		struct vlan_tag *tag = (struct vlan_tag *)cursor->pos;

		if (!is_vlan(*ethertype))
			return 0;
		if (cursor->pos + sizeof(*tag) > cursor->end)
			return REASON_TRUNCATED;
		*ethertype = bpf_ntohs(tag->ethertype);
		flow->vlans[i] = bpf_ntohs(tag->control) & VLAN_ID_MASK;
		advance(cursor, sizeof(*tag));
	}
	return is_vlan(*ethertype) ? REASON_VLAN_DEPTH : 0;
}

/*
 * Bytes between cursor and packet end. Lengths that the packet announces are compared with this number and
 * never added to a packet pointer: the verifier of Linux 6.1 knows no bounds of a number whose bytes were
 * swapped.
 */
static __always_inline __u64 remaining(const struct cursor *cursor)
{
	return cursor->end - cursor->pos;
}

static __always_inline void map_ipv4(__u64 mapped[2], __be32 address)
{
	mapped[0] = 0;
	/* Bytes 8..15: 00 00 ff ff a b c d; as one little- or big-endian word. */
	mapped[1] = bpf_cpu_to_be64(0x0000ffff00000000ULL | bpf_ntohl(address));
}

static __always_inline enum reason parse_ipv4(struct cursor *cursor, struct flow *flow)
{
	struct iphdr *ip = (struct iphdr *)cursor->pos;
	__u32 total_len;

	if (cursor->pos + sizeof(*ip) > cursor->end)
		return REASON_TRUNCATED;
	total_len = bpf_ntohs(ip->tot_len);
	if (ip->version != 4 || ip->ihl < 5 || total_len < ip->ihl * 4)
		return REASON_TRUNCATED;
	if (remaining(cursor) < total_len)
		return REASON_TRUNCATED;
	if (ip->frag_off & bpf_htons(IPV4_FRAGMENT_BITS))
		return REASON_IP_FRAGMENT;
	if (ip->ihl > 5)
		return REASON_IP_OPTIONS;
	if (ip->protocol != IPPROTO_UDP)
		return REASON_NOT_UDP;
	map_ipv4(flow->source, ip->saddr);
	map_ipv4(flow->destination, ip->daddr);
	flow->family = 4;
	flow->ip_payload_len = total_len - sizeof(*ip);
	advance(cursor, sizeof(*ip));
	return 0;
}

static __always_inline _Bool is_ipv6_extension(__u8 next)
{
	switch (next) {
	case NEXT_HOP_BY_HOP:
	case NEXT_ROUTING:
	case NEXT_ESP:
	case NEXT_AH:
	case NEXT_DESTINATION:
	case NEXT_MOBILITY:
	case NEXT_HIP:
	case NEXT_SHIM6:
		return 1;
	default:
		return 0;
	}
}

static __always_inline enum reason parse_ipv6(struct cursor *cursor, struct flow *flow)
{
	struct ipv6hdr *ip = (struct ipv6hdr *)cursor->pos;

	if (cursor->pos + sizeof(*ip) > cursor->end)
		return REASON_TRUNCATED;
	if (ip->version != 6)
		return REASON_TRUNCATED;
	__builtin_memcpy(flow->source, &ip->saddr, sizeof(flow->source));
	__builtin_memcpy(flow->destination, &ip->daddr, sizeof(flow->destination));
	flow->family = 6;
	if (ip->nexthdr == NEXT_FRAGMENT)
		return REASON_IP_FRAGMENT;
	if (is_ipv6_extension(ip->nexthdr))
		return REASON_IPV6_EXTENSION;
	if (ip->nexthdr != IPPROTO_UDP)
		return REASON_NOT_UDP;
	flow->ip_payload_len = bpf_ntohs(ip->payload_len);
	if (remaining(cursor) < sizeof(*ip) + flow->ip_payload_len)
		return REASON_TRUNCATED;
	advance(cursor, sizeof(*ip));
	return 0;
}

/* The UDP header alone. Its length field is judged by check_udp_len, after it is known that the port is a
 * service's. */
static __always_inline enum reason parse_udp(struct cursor *cursor, struct flow *flow)
{
	struct udphdr *udp = (struct udphdr *)cursor->pos;

	if (cursor->pos + sizeof(*udp) > cursor->end || flow->ip_payload_len < sizeof(*udp))
		return REASON_TRUNCATED;
	flow->port = bpf_ntohs(udp->dest);
	flow->udp_len = bpf_ntohs(udp->len);
	advance(cursor, sizeof(*udp));
	flow->payload_offset = cursor->offset;
	return 0;
}

static __always_inline enum reason check_udp_len(const struct flow *flow)
{
	if (flow->udp_len < sizeof(struct udphdr) || flow->udp_len > flow->ip_payload_len)
		return REASON_TRUNCATED;
	return 0;
}

/*
 * Source addresses that no other host can have, so that the stack drops the packet wherever it comes from:
 * handed over, it would look like one that the server has taken. IPv4 (ip_route_input_slow in
 * net/ipv4/route.c): 0/8, loopback, multicast, limited broadcast. IPv6 (ip6_rcv_core in
 * net/ipv6/ip6_input.c): loopback, multicast, IPv4 in IPv6 clothes; not "::", which the stack delivers. The
 * host's own addresses are the worker's business.
 */
static __always_inline enum reason check_source(const struct flow *flow)
{
	__u64 high = bpf_be64_to_cpu(flow->source[0]), low = bpf_be64_to_cpu(flow->source[1]);
	__u32 address = low;
	_Bool martian;

	if (flow->family == 4)
		martian = address >> 24 == 0 || address >> 24 == 127 || address >> 28 == 0xe ||
			  address == 0xffffffff;
	else
		martian = high >> 56 == 0xff || (!high && (low == 1 || low >> 32 == 0xffff));
	return martian ? REASON_SOURCE_MARTIAN : 0;
}

#endif
