/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * The lists of sources: whose packets to a service are dropped (denied), and whose are not all the same
 * (allowed). An allowed network wins over a denied one, whichever is longer: lists of denied ones come from
 * strangers, who may have been led astray by forged sources; the allowed ones are the operator's own word.
 *
 * Both programs ask, the classifier of packets and the side door of datagrams, and they share one copy;
 * src/lists.rs is the only writer, while they run.
 */
#ifndef SIPWEIR_LISTS_H
#define SIPWEIR_LISTS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "abi.h"

/* A table a family: in a common one the IPv6 prefix ::/0 would hold all of IPv4. */
struct ipv4_prefix {
	__u32 prefix_len; /* bits */
	__u32 address;	  /* network byte order */
};

struct ipv6_prefix {
	__u32 prefix_len; /* bits */
	__u64 address[2]; /* network byte order */
} __attribute__((packed, aligned(4)));

/* Keyed by source prefix; the value means nothing. Sized before loading. */
#define SOURCE_LIST(name, prefix)                                                                            \
	struct {                                                                                             \
		__uint(type, BPF_MAP_TYPE_LPM_TRIE);                                                         \
		__uint(map_flags, BPF_F_NO_PREALLOC);                                                        \
		__uint(max_entries, 1);                                                                      \
		__type(key, struct prefix);                                                                  \
		__type(value, __u32);                                                                        \
	} name SEC(".maps")

SOURCE_LIST(denied_ipv4, ipv4_prefix);
SOURCE_LIST(denied_ipv6, ipv6_prefix);
SOURCE_LIST(allowed_ipv4, ipv4_prefix);
SOURCE_LIST(allowed_ipv6, ipv6_prefix);

static __always_inline _Bool is_denied_ipv4(__u32 address)
{
	struct ipv4_prefix key = {.prefix_len = 32, .address = address};

	return bpf_map_lookup_elem(&denied_ipv4, &key) && !bpf_map_lookup_elem(&allowed_ipv4, &key);
}

static __always_inline _Bool is_denied_ipv6(const __u64 *address)
{
	struct ipv6_prefix key = {.prefix_len = 128, .address = {address[0], address[1]}};

	return bpf_map_lookup_elem(&denied_ipv6, &key) && !bpf_map_lookup_elem(&allowed_ipv6, &key);
}

#endif
