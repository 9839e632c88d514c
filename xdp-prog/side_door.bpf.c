// SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
/*
 * The side door: datagrams that the classifier has let pass, because only the kernel can make one datagram of
 * their packets (fragments, IPv4 options, extension headers, packets larger than a frame, tunnels), reach
 * sipweir by a socket instead of the server past the gate.
 *
 * The kernel runs this program in a network namespace whenever it looks for the socket of a datagram. A
 * datagram to a service that came by a guarded device gets sipweir's own socket; every other look-up goes on
 * as if the program were not there. What sipweir hands over comes by the hand-off device, which is not
 * guarded, so it ends at the server. Without socket or program the server gets everything: fail open.
 *
 * What the host sends to itself is not guarded. The kernel names for it the device that owns the address and
 * not loopback (ip_route_output_key_hash_rcu, net/ipv4/route.c), so it is told apart by its source: one of
 * the host's own addresses. A packet from the wire with such a source is forged. IPv4 drops it before it asks
 * here (fib_validate_source, net/ipv4/fib_frontend.c); IPv6 does not, and names the same device for it as for
 * the host's own (ip6_rcv_core, net/ipv6/ip6_input.c), so this program could not tell the two apart: the
 * classifier, which sees the wire, drops it. What is forged inside of a tunnel passes both.
 *
 * What the kernel finds before it asks: a socket that is connected to the sender (udp4_lib_lookup2,
 * net/ipv4/udp.c). Whom a server has connected a socket to, sipweir does not guard against by this door.
 */
#include <linux/bpf.h>
#include <linux/in.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "abi.h"
#include "lists.h"
#include "locals.h"
#include "services.h"

/* <linux/socket.h> does not have these for BPF. */
#define AF_INET	 2
#define AF_INET6 10

/* Slots of the socket map. */
#define SLOT_IPV4 0
#define SLOT_IPV6 1
#define SINK_IPV4 2
#define SINK_IPV6 3
#define SLOTS	  4

/* What became of a look-up. src/side_door.rs names them in this order. */
enum side_door_outcome {
	SIDE_DOOR_ASSIGNED = 0,	 /* sipweir's socket gets the datagram */
	SIDE_DOOR_NO_SOCKET = 1, /* sipweir has no socket of that family: the server gets it */
	SIDE_DOOR_REFUSED = 2,	 /* the kernel refused the socket, or another program has chosen one */
	SIDE_DOOR_DENIED = 3,	 /* from a denied source: a socket that nobody reads gets it, or nobody */
	SIDE_DOOR_OUTCOMES = 4,
};

/* Keyed by interface index: the guarded device and those stacked on it. The value means nothing. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SIDE_DOOR_DEVICES_MAX);
	__type(key, __u32);
	__type(value, __u32);
} side_door_devices SEC(".maps");

/* One UDP socket a family, and one that nobody reads and whose receive buffer is full at once. A socket that
 * is closed leaves its slot by itself. */
struct {
	__uint(type, BPF_MAP_TYPE_SOCKMAP);
	__uint(max_entries, SLOTS);
	__type(key, __u32);
	__type(value, __u32);
} side_door_sockets SEC(".maps");

struct side_door_counts {
	__u64 lookups[SIDE_DOOR_OUTCOMES];
};

/* One entry: look-ups for a service from a guarded device, by outcome. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct side_door_counts);
} side_door_counters SEC(".maps");

/* What is only watched, bit n for service n. Can change while the program runs. */
struct watched {
	__u64 all;    /* all of it: its datagrams go on to the server */
	__u64 partly; /* some classes, which this program does not know, so it denies nobody */
};
volatile struct watched watched SEC(".data.watched");

/* Atomic, unlike the classifier's: a look-up on behalf of a process can be interrupted by one of a packet. */
static __always_inline void count(enum side_door_outcome outcome)
{
	__u32 first = 0;
	struct side_door_counts *counts = bpf_map_lookup_elem(&side_door_counters, &first);

	if (counts)
		__sync_fetch_and_add(&counts->lookups[outcome], 1);
}

static __always_inline int pass(enum side_door_outcome outcome)
{
	count(outcome);
	return SK_PASS;
}

union address {
	__u32 words[4];
	__u64 halves[2];
};

/* Whether the datagram is for a service that is guarded, and which. */
static __always_inline _Bool is_for_service(struct bpf_sk_lookup *ctx, __u32 *service)
{
	union address address = {.words = {0, 0, bpf_htonl(0xffff), 0}};
	__u16 family = FAMILY_IPV4;

	if (ctx->family == AF_INET) {
		address.words[3] = ctx->local_ip4;
	} else {
		address.words[0] = ctx->local_ip6[0];
		address.words[1] = ctx->local_ip6[1];
		address.words[2] = ctx->local_ip6[2];
		address.words[3] = ctx->local_ip6[3];
		family = FAMILY_IPV6;
	}
	return service_at(address.halves, ctx->local_port, family, service) &&
	       !(watched.all >> (*service & 63) & 1);
}

/* Whether the host itself is the sender; all of 127.0.0.0/8 is. */
static __always_inline _Bool is_from_here(struct bpf_sk_lookup *ctx)
{
	union address address = {.words = {0, 0, bpf_htonl(0xffff), 0}};

	if (ctx->family == AF_INET) {
		address.words[3] = ctx->remote_ip4;
		if ((address.words[3] & bpf_htonl(0xff000000)) == bpf_htonl(0x7f000000))
			return 1;
	} else {
		address.words[0] = ctx->remote_ip6[0];
		address.words[1] = ctx->remote_ip6[1];
		address.words[2] = ctx->remote_ip6[2];
		address.words[3] = ctx->remote_ip6[3];
	}
	return is_local(&address);
}

static __always_inline _Bool is_denied(struct bpf_sk_lookup *ctx)
{
	union address address;

	if (ctx->family == AF_INET)
		return is_denied_ipv4(ctx->remote_ip4);
	address.words[0] = ctx->remote_ip6[0];
	address.words[1] = ctx->remote_ip6[1];
	address.words[2] = ctx->remote_ip6[2];
	address.words[3] = ctx->remote_ip6[3];
	return is_denied_ipv6(address.halves);
}

/* Chooses the socket of a slot; nobody has it afterwards but the kernel. */
static __always_inline long assign(struct bpf_sk_lookup *ctx, struct bpf_sock *socket)
{
	long refused = bpf_sk_assign(ctx, socket, 0);

	bpf_sk_release(socket);
	return refused;
}

SEC("sk_lookup")
int side_door(struct bpf_sk_lookup *ctx)
{
	__u32 device = ctx->ingress_ifindex, slot = ctx->family == AF_INET6 ? SLOT_IPV6 : SLOT_IPV4;
	struct bpf_sock *socket;
	_Bool denied;
	__u32 service;

	if (ctx->protocol != IPPROTO_UDP || !is_service_port(ctx->local_port))
		return SK_PASS;
	if (!bpf_map_lookup_elem(&side_door_devices, &device) || !is_for_service(ctx, &service) ||
	    is_from_here(ctx))
		return SK_PASS;
	denied = !(watched.partly >> (service & 63) & 1) && is_denied(ctx);
	if (denied)
		slot += SINK_IPV4;
	socket = bpf_map_lookup_elem(&side_door_sockets, &slot);
	if (denied) {
		count(SIDE_DOOR_DENIED);
		return socket && !assign(ctx, socket) ? SK_PASS : SK_DROP;
	}
	if (!socket)
		return pass(SIDE_DOOR_NO_SOCKET);
	return pass(assign(ctx, socket) ? SIDE_DOOR_REFUSED : SIDE_DOOR_ASSIGNED);
}

/* As the classifier's. */
char program_license[] SEC("license") = "Dual MIT/GPL";
