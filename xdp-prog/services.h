/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * The guarded addresses and ports, and the one question about them. Both programs ask it: the classifier of
 * packets, and the side door of datagrams that the kernel has put together. Each program has its own copy of
 * the table; src/settings.rs is the only writer.
 */
#ifndef SIPWEIR_SERVICES_H
#define SIPWEIR_SERVICES_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "abi.h"

/* One bit a UDP port, in host byte order: set if any service uses that port. Most foreign packets end here.
 */
const volatile __u64 service_ports[65536 / 64];

/* Which kinds of key the service table holds, so that no useless look-up is made. */
const volatile __u8 has_exact_v4;
const volatile __u8 has_exact_v6;
const volatile __u8 has_any_address;

/* Families of a service key. */
#define FAMILY_ANY  0
#define FAMILY_IPV4 4
#define FAMILY_IPV6 6

/* A multiple of four bytes long, which is the kernel's fast path for hashing keys. */
struct service_key {
	__u64 address[2]; /* network byte order, IPv4 as ::ffff:a.b.c.d; zero for FAMILY_ANY */
	__u16 port;	  /* host byte order */
	__u16 family;
	__u32 zero;
};

/* Keyed by local address and port: the index of the service. Filled before the program is attached. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SERVICES_MAX);
	__type(key, struct service_key);
	__type(value, __u32);
} services SEC(".maps");

/* Service 0, which is found without the table: a hash and two calls less where there is one service only. */
const volatile struct service_key first_service;

static __always_inline _Bool is_first_service(const __u64 *address, __u16 port, __u16 family)
{
	return first_service.address[0] == address[0] && first_service.address[1] == address[1] &&
	       first_service.port == port && first_service.family == family;
}

static __always_inline _Bool is_service_port(__u16 port)
{
	return service_ports[port / 64] >> (port % 64) & 1;
}

/* The service of a local address and port: the exact address wins over "any". False: none. */
static __always_inline _Bool service_at(const __u64 *address, __u16 port, __u16 family, __u32 *service)
{
	struct service_key key = {.port = port, .family = family};
	__u32 *index = 0;

	if (!is_service_port(port))
		return 0;
	if (is_first_service(address, port, family)) {
		*service = 0;
		return 1;
	}
	if (family == FAMILY_IPV4 ? has_exact_v4 : has_exact_v6) {
		key.address[0] = address[0];
		key.address[1] = address[1];
		index = bpf_map_lookup_elem(&services, &key);
	}
	if (!index && has_any_address) {
		key.address[0] = key.address[1] = 0;
		key.family = FAMILY_ANY;
		index = bpf_map_lookup_elem(&services, &key);
	}
	if (!index)
		return 0;
	*service = *index;
	return 1;
}

#endif
