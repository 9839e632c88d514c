// SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
/*
 * Makes SIP packets at several million a second. The kernel runs this program on frames of a page pool
 * (BPF_PROG_TEST_RUN with BPF_F_TEST_XDP_LIVE_FRAMES) and sends what it redirects; nothing is received.
 *
 * A frame that was sent comes back with the bytes that it had. So each run writes only what differs from
 * packet to packet - number, source, checksums - and the whole template only if the frame holds another one.
 * Numbers are written in letters a to p, one a nibble, the lowest first: no branch, and never mistaken for
 * anything else.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "generator.h"

struct template templates[TEMPLATES_MAX] SEC(".data.templates");
struct stream stream SEC(".data.stream");

/* Eight letters of a number: one nibble a byte. */
static __always_inline __u64 letters(__u32 number)
{
	__u64 x = number;

	x = (x | x << 16) & 0x0000ffff0000ffffULL;
	x = (x | x << 8) & 0x00ff00ff00ff00ffULL;
	x = (x | x << 4) & 0x0f0f0f0f0f0f0f0fULL;
	return x + 0x6161616161616161ULL;
}

/* The checksum field for this sum of 16-bit words (RFC 1071). */
static __always_inline __u16 checksum(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

static __always_inline __u64 sum_of_words(__u64 x)
{
	return (x & 0xffff) + (x >> 16 & 0xffff) + (x >> 32 & 0xffff) + (x >> 48);
}

/* The next request of the pattern, and what its frame is made from. */
static __always_inline __u32 next_request(const struct template **template)
{
	__u32 position = stream.position & (SLOTS_MAX - 1), index, request;
	const struct slot *slot = &stream.slots[position];

	stream.position = position + 1 < stream.slots_used ? position + 1 : 0;
	request = slot->fresh ? stream.next++ : stream.next - 1 - slot->back;
	index = slot->template & (TEMPLATES_MAX - 1);
	stream.sent[index]++;
	*template = &templates[index];
	return request;
}

static __always_inline _Bool write_u16(struct xdp_md *ctx, __u32 at, __u16 value)
{
	__u8 *place = (__u8 *)(long)ctx->data + (at & (FRAME_MAX - 1));

	if (place + sizeof(value) > (__u8 *)(long)ctx->data_end)
		return 0;
	*(__u16 *)place = value;
	return 1;
}

static __always_inline _Bool write_u64(struct xdp_md *ctx, __u32 at, __u64 value)
{
	__u8 *place = (__u8 *)(long)ctx->data + (at & (FRAME_MAX - 1));

	if (place + sizeof(value) > (__u8 *)(long)ctx->data_end)
		return 0;
	*(__u64 *)place = value;
	return 1;
}

/* Whether the frame holds this template, by the last byte of its Ethernet source address. */
static __always_inline _Bool holds(struct xdp_md *ctx, const struct template *template)
{
	struct ethhdr *eth = (struct ethhdr *)(long)ctx->data;

	if ((__u8 *)(eth + 1) > (__u8 *)(long)ctx->data_end)
		return 0;
	return eth->h_source[ETH_ALEN - 1] == template->bytes[2 * ETH_ALEN - 1];
}

SEC("xdp")
int generate(struct xdp_md *ctx)
{
	const struct template *template;
	/* In a form from which the verifier sees that it is 1 to FRAME_MAX. */
	__u32 request = next_request(&template), len = ((template->len - 1) & (FRAME_MAX - 1)) + 1;
	__u64 number = letters((request & stream.number_mask) + stream.number_base);
	/* Copies of a number in a range come from where its request came from. */
	__u16 source = bpf_htons((request & stream.number_mask) & stream.source_mask), udp;
	_Bool fits = 1;

	if (!holds(ctx, template) && bpf_xdp_store_bytes(ctx, 0, (void *)template->bytes, len))
		return XDP_ABORTED;
#pragma unroll
	for (int i = 0; i < NUMBER_PLACES; i++)
		fits &= write_u64(ctx, template->number_at[i], number);
	fits &= write_u16(ctx, template->source_at, source);
	if (template->ip_checksum_at)
		fits &= write_u16(ctx, template->ip_checksum_at, checksum((__u64) template->ip_sum + source));
	udp = checksum((__u64) template->udp_sum + NUMBER_PLACES * sum_of_words(number) + source);
	/* Zero would say that there is none (RFC 768). */
	fits &= write_u16(ctx, template->udp_checksum_at, udp ? udp : 0xffff);
	if (!fits)
		return XDP_ABORTED;
	return bpf_redirect(stream.ifindex, 0);
}

char program_license[] SEC("license") = "Dual MIT/GPL";
