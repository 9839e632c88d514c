// SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
/*
 * The verdict on every packet of a NIC queue: what it is, and which ring, the kernel or nobody gets it.
 *
 * The order of decisions: not for a service (pass) - not to be decided here: fragment, exotic, oversize
 * (pass) - a source that is denied (drop) - keep-alive, STUN, no SIP (ring `retransmission`, whose turn comes
 * last, or drop by setting) - what the start line alone decides (control, marked copies) - what the
 * transaction table knows (copies; the worker asks it instead while that is cheaper) - the gate: while it is
 * normal, the rest goes to ring `new` unread; otherwise the headers are read, and an original outside the
 * admitted share is shed. Whatever a bounded scan cannot tell goes to ring `new` as `undecided`.
 *
 * While a class is only watched (the gate's word says so), its packets pass, and what would have been done
 * with them is counted in a table of its own.
 *
 * Each packet is counted exactly once. What goes to a ring carries struct packet_meta in front. An empty
 * socket slot and a driver without room for metadata both mean XDP_PASS: without sipweir the server gets its
 * packets as ever.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "abi.h"
#include "maps.h"
#include "locals.h"
#include "lists.h"
#include "services.h"
#include "parsing.h"
#include "words.h"
#include "start_line.h"
#include "headers.h"
#include "txn.h"
#include "served.h"
#include "transactions.h"
#include "samples.h"

_Static_assert(sizeof(struct packet_meta) == 32, "kernels before 6.8 accept 32 bytes of metadata");

static __always_inline int pass(enum packet_class class, enum reason reason)
{
	count(class, VERDICT_PASS, reason);
	return XDP_PASS;
}

static __always_inline int drop(enum packet_class class, enum reason reason)
{
	count(class, VERDICT_DROP, reason);
	return XDP_DROP;
}

/* The same of a message for a service, which a capture may want. */
static __always_inline int drop_message(struct xdp_md *ctx, struct message *message)
{
	if (is_sampled(message))
		sample(ctx, message);
	return drop(message->meta.class, message->meta.reason);
}

/* The class of a packet that some header's reason ends before it is known whether it is for a service. */
static __always_inline enum packet_class class_of(enum reason reason)
{
	switch (reason) {
	case REASON_IP_FRAGMENT:
		return CLASS_FRAGMENT;
	case REASON_LINK_MULTICAST:
	case REASON_NOT_IP:
	case REASON_NOT_UDP:
	case REASON_NO_SERVICE:
	case REASON_LINK_NOT_OURS:
	case REASON_VLAN_NOT_OURS:
		return CLASS_FOREIGN;
	default:
		return CLASS_EXOTIC;
	}
}

static __always_inline enum reason parse_headers(struct cursor *cursor, struct flow *flow)
{
	enum reason reason;
	__u16 ethertype;

	reason = parse_ethernet(cursor, flow, &ethertype);
	if (reason)
		return reason;
	reason = parse_vlan(cursor, flow, &ethertype);
	if (reason)
		return reason;
	if (ethertype == ETH_P_IP)
		reason = parse_ipv4(cursor, flow);
	else if (ethertype == ETH_P_IPV6)
		reason = parse_ipv6(cursor, flow);
	else
		reason = REASON_NOT_IP;
	if (reason)
		return reason;
	return parse_udp(cursor, flow);
}

/* Whether the host would take the frame: by its Ethernet address, and its VLAN. Tag 0 is priority without a
 * VLAN. */
static __always_inline enum reason check_link(const struct flow *flow)
{
	_Bool ours = !link_addresses_count;

	for (int i = 0; i < LINK_ADDRESSES_MAX; i++)
		ours |= i < link_addresses_count && flow->link_destination == link_addresses[i];
	if (!ours)
		return REASON_LINK_NOT_OURS;
	for (int i = 0; vlans_checked && i < VLAN_TAGS_MAX; i++) {
		__u32 vlan = flow->vlans[i] & VLAN_ID_MASK;

		if (vlan && !(vlans_taken[vlan / 64] >> (vlan % 64) & 1))
			return REASON_VLAN_NOT_OURS;
	}
	return 0;
}

/*
 * Leaves a packet to the kernel. What the kernel would put together for the side door is dropped if it claims
 * to come from the host itself: the side door takes it for what the host sends to itself, and lets it through
 * to the server. For IPv4 the kernel sees to that (side_door.bpf.c).
 */
static __always_inline int pass_on(const struct flow *flow, enum packet_class class, enum reason reason)
{
	_Bool is_for_side_door = reason == REASON_IP_FRAGMENT || reason == REASON_IPV6_EXTENSION ||
				 reason == REASON_LARGER_THAN_FRAME;

	if (is_for_side_door && flow->family == FAMILY_IPV6 && is_local(flow->source))
		return drop(class, REASON_SOURCE_LOCAL);
	return pass(class, reason);
}

/* To be read once a packet. A queue outside the table has no worker, and no gate. */
static __always_inline __u64 gate_of(__u32 service, __u32 queue)
{
	__u32 index = service * QUEUES_MAX + queue;

	if (queue >= QUEUES_MAX || index >= SERVICES_MAX * QUEUES_MAX)
		return 0;
	return gates[index];
}

static __always_inline __u32 state_of_gate(__u64 gate)
{
	return gate >> GATE_STATE_SHIFT & GATE_STATE_MASK;
}

/* A word that nobody could have written opens the gate, too. */
static __always_inline _Bool is_open(__u64 gate)
{
	return state_of_gate(gate) != GATE_OVERLOAD && state_of_gate(gate) != GATE_DISCARD;
}

/*
 * Whether the source is on the list of those denied. While the list is empty this is a load and a branch. A
 * function of its own, which the verifier looks at once.
 */
__noinline int is_denied(struct message *message)
{
	if (!message)
		return 0;
	if (message->is_ipv4)
		return denied_families & DENIED_IPV4 && is_denied_ipv4(((__u32 *)message->source)[3]);
	return denied_families & DENIED_IPV6 && is_denied_ipv6(message->source);
}

/* Read when it is needed: what is dropped at first sight does not pay for the clock. */
static __always_inline __u64 arrival_of(struct message *message)
{
	if (!message->meta.arrival_ns)
		message->meta.arrival_ns = bpf_ktime_get_ns();
	return message->meta.arrival_ns;
}

/* Whether packets of this class pass whatever would be done with them. */
static __always_inline _Bool is_monitored(enum packet_class class, __u64 gate)
{
	return gate >> (GATE_MONITORED_SHIFT + (class & (CLASSES - 1))) & 1;
}

/* What a request that is shed here gets. */
static __always_inline enum verdict refused(const struct message *message, __u64 gate)
{
	_Bool is_owed = live.reply_owed >> (message->meta.service & 63) & 1;

	return is_owed && !(gate & GATE_SILENT) ? VERDICT_RING_REJECT : VERDICT_DROP;
}

/*
 * An original, while the gate is not normal. What brings credentials is inside twice the share: it was
 * admitted and challenged before, and to shed it now would waste that work. Not inside every share, since any
 * bytes can be credentials.
 */
static __always_inline enum verdict shed_or_admit(struct message *message, __u64 gate)
{
	_Bool credentials = message->meta.reason == REASON_CREDENTIALS;

	if (state_of_gate(gate) == GATE_DISCARD) {
		message->meta.reason = REASON_GATE_DISCARD;
	} else if (share_hash(message->meta.txn_hash, message->meta.service) >> credentials < (__u32)gate) {
		if (!credentials)
			message->meta.reason = REASON_SHARE_INSIDE;
		return VERDICT_RING_NEW;
	} else {
		message->meta.reason = REASON_SHARE_OUTSIDE;
	}
	/* Who would be told no and is not, because too many are, is not remembered: a flood would take the
	 * places of all others in the table, and its copies may find the gate open. */
	if (has_transactions && !(gate & GATE_SILENT))
		remember(message->meta.txn_hash, TRANSACTION_SHED, arrival_of(message));
	return refused(message, gate);
}

/* An original that must not be shed all the same: a call to a configured number, an OPTIONS of a prober. */
__noinline int judge_privilege(struct xdp_md *ctx, struct message *message)
{
	struct window window = window_of(ctx);
	struct prober_key key = {.prefix_len = 128};
	__u64 number;

	if (!message)
		return 0;
	if (live.has_emergency_numbers) {
		number = dialled_number(&window, message->uri);
		if (number == NUMBER_ESCAPED)
			return conclude(message, CLASS_UNDECIDED, REASON_HEADER_UNCLEAR);
		for (int i = 0; i < EMERGENCY_NUMBERS_MAX; i++)
			if (number && number == live.emergency_numbers[i])
				return conclude(message, CLASS_EMERGENCY, REASON_EMERGENCY_CALL);
	}
	if (live.has_probers && message->meta.method == METHOD_OPTIONS) {
		__builtin_memcpy(key.address, message->source, sizeof(key.address));
		if (bpf_map_lookup_elem(&probers, &key))
			return conclude(message, CLASS_PROBER, REASON_PROBER_SOURCE);
	}
	return 0;
}

/* What start line and transaction table left open, decided by gate and headers. */
static __always_inline enum verdict judge_original(struct xdp_md *ctx, struct message *message, __u64 gate)
{
	/* Of what is only watched nobody else reads the headers. */
	if (is_open(gate) && !is_monitored(CLASS_ORIGINAL, gate)) {
		conclude(message, CLASS_UNDECIDED, REASON_HEADERS_UNREAD);
		return VERDICT_RING_NEW;
	}
	scan_headers(ctx, message);
	if (message->meta.class == CLASS_ORIGINAL && (live.has_emergency_numbers || live.has_probers))
		judge_privilege(ctx, message);
	if (message->meta.class == CLASS_ORIGINAL && !is_open(gate))
		return shed_or_admit(message, gate);
	return message->meta.class == CLASS_ORIGINAL || message->meta.class == CLASS_UNDECIDED
		   ? VERDICT_RING_NEW
		   : VERDICT_RING_CONTROL;
}

/*
 * Whether the transaction table is asked about a request of a kind that it remembers. While nobody who is
 * shed here is told so, all that the table could change is what happens to copies of what the server has got.
 */
static __always_inline _Bool asks_table(struct xdp_md *ctx, struct message *message, __u64 gate)
{
	if (!has_transactions)
		return 0;
	if (is_open(gate))
		return !(gate & GATE_TABLE_UNASKED);
	return !(gate & GATE_SILENT) || message->meta.class != CLASS_ORIGINAL || may_be_served(ctx, message);
}

/* A request of a kind that the table remembers. False: it is not known there, and nothing is decided. */
static __always_inline _Bool judge_copy(struct message *message, __u64 gate, enum verdict *verdict)
{
	__u32 limit = message->meta.method == METHOD_INVITE ? COPIES_OF_INVITE : COPIES_OF_OTHERS;

	switch (recall(message->meta.txn_hash, arrival_of(message), limit)) {
	case TRANSACTION_QUEUED:
		conclude(message, CLASS_COPY, REASON_ORIGINAL_WAITS);
		*verdict = VERDICT_DROP;
		return 1;
	case TRANSACTION_SHED:
		conclude(message, CLASS_COPY, REASON_ORIGINAL_SHED);
		*verdict = refused(message, gate);
		return 1;
	case TRANSACTION_HANDED_OVER:
		conclude(message, CLASS_COPY, REASON_ORIGINAL_SERVED);
		*verdict = VERDICT_RING_RETRANSMISSION;
		return 1;
	case TRANSACTION_EXCESS:
		conclude(message, CLASS_COPY, REASON_COPY_EXCESS);
		*verdict = VERDICT_DROP;
		return 1;
	default:
		return 0;
	}
}

/* Class, reason and verdict of a datagram for a service. */
static __always_inline enum verdict judge(struct xdp_md *ctx, struct message *message, __u64 gate)
{
	enum verdict verdict;
	_Bool asks;

	scan_start_line(ctx, message);
	/* Where nothing is watched it was asked before. */
	if (denied_families && gate >> GATE_MONITORED_SHIFT && is_denied(message)) {
		message->meta.reason = REASON_SOURCE_DENIED;
		return VERDICT_DROP;
	}
	if (message->meta.class == CLASS_NOT_SIP && live.not_sip_drop)
		return VERDICT_DROP;
	if (single_ring) {
		if (message->meta.class == CLASS_ORIGINAL)
			conclude(message, CLASS_UNDECIDED, REASON_HEADERS_UNREAD);
		return VERDICT_RING_NEW;
	}
	switch (message->meta.class) {
	case CLASS_KEEPALIVE:
	case CLASS_STUN:
	case CLASS_NOT_SIP:
	case CLASS_COPY: /* The worker asks the table: a claim to be a copy spares this side the hash. */
		return VERDICT_RING_RETRANSMISSION;
	case CLASS_UNDECIDED:
		return VERDICT_RING_NEW;
	case CLASS_ORIGINAL:
	case CLASS_IN_DIALOG:
		asks = asks_table(ctx, message, gate);
		if (asks || state_of_gate(gate) == GATE_OVERLOAD)
			message->meta.txn_hash = hash_transaction(ctx, message);
		if (asks && judge_copy(message, gate, &verdict))
			return verdict;
		break;
	default:
		return VERDICT_RING_CONTROL;
	}
	if (message->meta.class == CLASS_IN_DIALOG)
		return VERDICT_RING_CONTROL;
	return judge_original(ctx, message, gate);
}

/*
 * Makes room for the metadata right in front of the packet; null where that is impossible. Room of the right
 * size may be there already (another program's, or the one before in a repeated test run). Any other size is
 * a stranger's: it would stand between ours and the packet, where user space does not look.
 */
static __always_inline struct packet_meta *metadata_of(struct xdp_md *ctx)
{
	struct packet_meta *meta = (struct packet_meta *)(long)ctx->data_meta;
	_Bool is_there = (__u8 *)(meta + 1) <= (__u8 *)(long)ctx->data;

	if (bpf_xdp_adjust_meta(ctx, is_there ? 0 : -(int)sizeof(*meta)))
		return 0;
	meta = (struct packet_meta *)(long)ctx->data_meta;
	if ((__u8 *)(meta + 1) > (__u8 *)(long)ctx->data || (__u8 *)(meta + 1) + 1 <= (__u8 *)(long)ctx->data)
		return 0;
	return meta;
}

/*
 * Writes the metadata and redirects the packet. Without metadata user space would read the bytes of an older
 * packet as this one's, so the packet goes to the kernel instead, and its counter says so: no other way leads
 * to VERDICT_PASS with a class that belongs to a ring (Counters::without_metadata).
 */
static __always_inline int deliver(struct xdp_md *ctx, struct message *message, enum verdict verdict)
{
	struct packet_meta *meta;

	meta = metadata_of(ctx);
	if (!meta)
		return pass(message->meta.class, message->meta.reason);
	arrival_of(message);
	*meta = message->meta;
	count(message->meta.class, verdict, message->meta.reason);
	return bpf_redirect_map(&sockets, ctx->rx_queue_index * RINGS + verdict, XDP_PASS);
}

/* Counts a packet for the line that would wait, which the worker computes. */
static __always_inline void count_arrival(__u32 service, __u32 queue, enum verdict verdict)
{
	__u32 index = service * QUEUES_MAX + queue;
	struct arrivals *count = queue < QUEUES_MAX ? bpf_map_lookup_elem(&arrivals, &index) : 0;

	if (!count)
		return;
	count->originals += verdict == VERDICT_RING_NEW;
	count->control += verdict == VERDICT_RING_CONTROL;
	count->all++;
}

/*
 * Leaves a packet to the kernel and counts what would have been done with it. Nobody else will enter what the
 * server gets so, and its copies are to be known.
 */
static __always_inline int let_pass(struct message *message, enum verdict verdict)
{
	count_in(&monitored, message->meta.class, verdict, message->meta.reason);
	if ((verdict == VERDICT_RING_NEW || verdict == VERDICT_RING_CONTROL) && message->meta.txn_hash)
		remember(message->meta.txn_hash, TRANSACTION_HANDED_OVER, arrival_of(message));
	return pass(message->meta.class, REASON_MONITORED);
}

SEC("xdp")
int sipweir(struct xdp_md *ctx)
{
	struct cursor cursor = {.pos = (__u8 *)(long)ctx->data, .end = (__u8 *)(long)ctx->data_end};
	struct message message = {};
	struct flow flow = {};
	enum verdict verdict;
	enum reason reason;
	__u32 service;
	__u64 gate;

	reason = parse_headers(&cursor, &flow);
	if (reason)
		return pass_on(&flow, class_of(reason), reason);
	if (!service_at(flow.destination, flow.port, flow.family, &service))
		return pass(CLASS_FOREIGN, REASON_NO_SERVICE);
	reason = check_link(&flow);
	if (!reason)
		reason = check_source(&flow);
	if (!reason)
		reason = check_udp_len(&flow);
	if (reason)
		return pass(class_of(reason), reason);
	message.meta.service = service;
	message.source[0] = flow.source[0];
	message.source[1] = flow.source[1];
	message.is_ipv4 = flow.family == FAMILY_IPV4;
	gate = gate_of(service, ctx->rx_queue_index);
	/* Before anything that costs more. Where a class is watched, it must be known which one this is. */
	if (denied_families && !(gate >> GATE_MONITORED_SHIFT) && is_denied(&message)) {
		conclude(&message, CLASS_UNDECIDED, REASON_SOURCE_DENIED);
		return drop_message(ctx, &message);
	}
	if ((__u8 *)(long)ctx->data + max_frame_len < cursor.end)
		return pass_on(&flow, CLASS_OVERSIZE, REASON_LARGER_THAN_FRAME);

	message.meta.payload_offset = flow.payload_offset;
	message.meta.payload_len = flow.udp_len - sizeof(struct udphdr);
	message.end = flow.payload_offset + flow.udp_len - sizeof(struct udphdr);
	verdict = judge(ctx, &message, gate);
	if (gate >> GATE_MONITORED_SHIFT)
		count_arrival(service, ctx->rx_queue_index, verdict);
	if (is_monitored(message.meta.class, gate))
		return let_pass(&message, verdict);
	if (verdict == VERDICT_DROP)
		return drop_message(ctx, &message);
	return deliver(ctx, &message, verdict);
}

/* The kernel lets only GPL-compatible programs call helpers such as bpf_ktime_get_ns; MIT is the other half.
 */
char program_license[] SEC("license") = "Dual MIT/GPL";
