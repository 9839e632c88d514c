/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * The host's own addresses. The classifier asks whether a packet from the wire claims to come from one of
 * them, the side door whether a datagram does. Each program has its own copy of the table; src/locals.rs is
 * the only writer.
 */
#ifndef SIPWEIR_LOCALS_H
#define SIPWEIR_LOCALS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "abi.h"

/* Keyed by address, IPv4 as ::ffff:a.b.c.d: the host's own. The value means nothing. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, LOCALS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64[2]);
	__type(value, __u32);
} locals SEC(".maps");

static __always_inline _Bool is_local(const void *address)
{
	return bpf_map_lookup_elem(&locals, address) != 0;
}

#endif
