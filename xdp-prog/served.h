/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * Whether the server may have got a request lately: a Bloom filter over the beginnings of what workers hand
 * over. It spares a flood that nobody is answered for the hash of the whole datagram and the look into the
 * transaction table, which is the dearest thing that happens to an original.
 *
 * `userspace/overload` (served.rs) is the same filter and says how long it remembers; `userspace/sip`
 * (beginning.rs) has the same hash; tests/transactions.rs compares. This side only reads. It never says no of
 * what is there, so a copy of a request that the server has is always looked for in the table.
 */
#ifndef SIPWEIR_SERVED_H
#define SIPWEIR_SERVED_H

#include "maps.h"
#include "message.h"
#include "txn.h"
#include "words.h"

/* Words behind the start line that are hashed: the topmost Via with its branch, which nearly every client
 * writes first. */
#define BEGINNING_WORDS 16

/* Bits of a request in its word, six bits of the hash each. */
#define SERVED_BITS 3

/* Adds the products of `count` words at `pos`; false if the packet has no more so many. */
static __always_inline _Bool nh_words(const struct window *window, __u64 *sum, __u64 pos,
				      const volatile __u32 *key, const int count)
{
	__u8 *p = window->data + bounded(pos);
	__u64 *words;

	asm volatile("" : "+r"(p));
	if (p + 8 * count > window->end)
		return 0;
	words = (__u64 *)p;
#pragma clang loop unroll(full)
	for (int i = 0; i < count; i++) {
		*sum += nh_product(key + 2 * i, from_le64(words[i]));
		asm volatile("" : "+r"(*sum) : : "memory");
	}
	return 1;
}

/* False: the server has not got it since a time in which all of its copies must have come. */
static __always_inline _Bool may_be_served(struct xdp_md *ctx, const struct message *message)
{
	struct window window = window_of(ctx);
	struct served_line *line;
	__u64 sum, bits = 0;
	__u32 index;

	/* Shorter ones are looked for in the table. */
	if (bytes_left(message->headers, message->end) < 8 * BEGINNING_WORDS)
		return 1;
	sum = nh_product(hash_key + 2 * ADDRESS_POSITION, from_le64(message->source[0])) +
	      nh_product(hash_key + 2 * (ADDRESS_POSITION + 1), from_le64(message->source[1]));
	if (!nh_words(&window, &sum, message->headers, hash_key, BEGINNING_WORDS))
		return 1;
	sum = mix64(sum);
	index = sum & served_mask;
	line = bpf_map_lookup_elem(&served, &index);
	if (!line)
		return 1;
	for (int i = 0; i < SERVED_BITS; i++)
		bits |= 1ULL << ((sum >> (64 - 6 * (i + 1))) & 63);
	for (int i = 0; i < GENERATIONS; i++)
		if ((line->generations[i] & bits) == bits)
			return 1;
	return 0;
}

#endif
