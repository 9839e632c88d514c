/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * What the program is told and what it tells: settings (read-only after load), the gate words, the sockets
 * and the counters; the service table is in services.h. Every map has one sentence on what it is keyed by and
 * for; src/settings.rs and src/load.rs are the only writers of the settings.
 */
#ifndef SIPWEIR_MAPS_H
#define SIPWEIR_MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "abi.h"

/* Settings. Written before the verifier runs, which then folds them into the code: an unused branch costs
 * nothing. */

/*
 * Secret key of the transaction hash (txn.h): of each position the low half of its word, then the high one.
 * One position a word of the longest datagram; then two of the source address, one that the last of them
 * shares with the second sum, five that let a step of the loop end behind the others, and two of the
 * finisher.
 */
#define HASHED_LEN_MAX	  4096
#define ADDRESS_POSITION  (HASHED_LEN_MAX / 8)
#define FINISHER_POSITION (ADDRESS_POSITION + 8)
#define HASH_KEY_WORDS	  (2 * (FINISHER_POSITION + 2))
const volatile __u32 hash_key[HASH_KEY_WORDS];

/*
 * Bytes; the longest packet that fits into a UMEM frame behind its headroom. Too large: AF_XDP drops what the
 * kernel could have delivered. Too small: messages go past the gate.
 */
const volatile __u32 max_frame_len;

/* No classes: everything for a service goes to the ring `new`, and the gate is not asked. */
const volatile __u8 single_ring;

/* Buckets of the transaction table less one, which is a power of two less one. */
const volatile __u32 bucket_mask;

/* Lines of the filter of served requests less one, which is a power of two less one. */
const volatile __u32 served_mask;

/* Look requests up in the transaction table. Without it copies are known by their marker only. */
const volatile __u8 has_transactions;

/*
 * Ethernet addresses that packets for this host carry, the first byte in the lowest bits, and how many there
 * are; none means any. A promiscuous interface receives those of other hosts, too.
 */
#define LINK_ADDRESSES_MAX 8
const volatile __u64 link_addresses[LINK_ADDRESSES_MAX];
const volatile __u8 link_addresses_count;

/* Whether VLANs are checked, and one bit for each that is taken. */
const volatile __u8 vlans_checked;
const volatile __u64 vlans_taken[4096 / 64];

/* User parts that make a request an emergency call, as dialled_number answers them (request_uri.h). */
#define EMERGENCY_NUMBERS_MAX 16

/*
 * What can change while the program runs, in words that are written one by one: each packet meets the old
 * value of a word or the new one. Written by src/change.rs alone.
 */
struct live {
	__u64 reply_owed;	     /* bit n: service n owes a reply to what its gate sheds */
	__u64 not_sip_drop;	     /* drop what is no SIP instead of passing it */
	__u64 has_probers;	     /* there is something in the table of probers */
	__u64 has_emergency_numbers; /* one of the next is not 0 */
	__u64 emergency_numbers[EMERGENCY_NUMBERS_MAX];
};
volatile struct live live SEC(".data.live");

/*
 * Index service * QUEUES_MAX + RX queue: the gate word (abi.h). A map of its own, so that a worker can map
 * these words and nothing else. Written by the worker of the queue, read here once a packet.
 */
volatile __u64 gates[SERVICES_MAX * QUEUES_MAX] SEC(".data.gates");

/*
 * Families that the list of denied sources has networks of; while it is 0, nobody looks there (lists.h). A
 * map of its own, so that it can be written without the others.
 */
#define DENIED_IPV4 1
#define DENIED_IPV6 2
volatile __u64 denied_families SEC(".data.lists");

/* What comes for a service of which some classes are only watched: all classes are counted. */
struct arrivals {
	__u64 originals; /* that the gate would admit */
	__u64 control;
	__u64 all;
	__u64 zero;
};

/* Index service * QUEUES_MAX + RX queue. Written by that queue's CPU alone, read, mapped, by its worker. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SERVICES_MAX *QUEUES_MAX);
	__type(key, __u32);
	__type(value, struct arrivals);
} arrivals SEC(".maps");

#define PROBERS_MAX 1024

struct prober_key {
	__u32 prefix_len; /* bits */
	__u32 address[4]; /* network byte order, IPv4 as ::ffff:a.b.c.d */
};

/* Keyed by source prefix: whose OPTIONS are probes. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, PROBERS_MAX);
	__type(key, struct prober_key);
	__type(value, __u32);
} probers SEC(".maps");

/* One cache line. */
#define SLOTS 8

struct bucket {
	volatile __u64 slots[SLOTS];
} __attribute__((aligned(64)));

/* Index from the transaction hash: requests seen lately (transactions.h). Sized before loading. Written here
 * and, mapped, by every worker. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct bucket);
} transactions SEC(".maps");

/* The one that is written, two before it, and one that is being cleared. */
#define GENERATIONS 4

struct served_line {
	volatile __u64 generations[GENERATIONS];
};

/* Index from the hash of a request's beginning: what the server has got lately (served.h). Sized before
 * loading. Read here; written, mapped, by every worker. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct served_line);
} served SEC(".maps");

/* Transactions that were forgotten here to make room for another one. */
volatile __u64 evicted SEC(".data.evicted");

/* Index RX queue * RINGS + ring: the socket of that ring. An empty slot means XDP_PASS. */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, QUEUES_MAX *RINGS);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

#define COUNTER_CELLS (CLASSES * VERDICTS * REASONS)

struct counter_table {
	__u64 packets[COUNTER_CELLS]; /* [class][verdict][reason] */
};

/* One entry: packets by class, verdict and reason. One entry rather than one a cell: it is read with one
 * system call. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counter_table);
} counters SEC(".maps");

/* The same of what would have been done with packets that are only watched. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counter_table);
} monitored SEC(".maps");

static __always_inline void count_in(void *map, __u32 class, __u32 verdict, __u32 reason)
{
	__u32 first = 0, cell = (class * VERDICTS + verdict) * REASONS + reason;
	struct counter_table *table = bpf_map_lookup_elem(map, &first);

	if (table && cell < COUNTER_CELLS)
		table->packets[cell]++;
}

/* INVARIANT: called exactly once for every packet. Plain addition: the table belongs to this CPU, and XDP is
 * not preempted by XDP. */
static __always_inline void count(__u32 class, __u32 verdict, __u32 reason)
{
	count_in(&counters, class, verdict, reason);
}

#endif
