/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * What ties a response to its request: the branch of the topmost Via, which a server copies verbatim and a
 * client makes unique for each transaction (RFC 3261 sections 8.1.1.7 and 8.2.6.2). The first parameter of
 * that name behind the start line is taken for it, which it is wherever Via comes first or alone has
 * branches; elsewhere an answer is not recognised, and nothing is measured.
 *
 * `userspace/sip` (branch.rs) is the same function; tests/answers.rs compares the two.
 */
#ifndef SIPWEIR_BRANCH_H
#define SIPWEIR_BRANCH_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "words.h"

/* Bytes behind the start line within which the branch must begin. */
#define BRANCH_SEARCH_MAX 384

/* The longest branch that is hashed. Most are 20 to 60 bytes long. */
#define BRANCH_LEN_MAX 128

/* ";branch=", the first byte highest. Bit 0x20 is set in each of them, so that it can be set in all bytes
 * that are compared: the name is case-insensitive. */
#define BRANCH_NAME 0x3b6272616e63683dULL

#define FNV_PRIME 0x100000001b3ULL

/* Where a value ends. */
static __always_inline _Bool is_value_end(__u8 byte)
{
	return byte <= ' ' || byte == ';' || byte == ',' || byte == '>';
}

/* As seen by a function of its own. */
static __always_inline struct window leaving_window_of(struct __sk_buff *skb)
{
	struct window window = {(__u8 *)(long)skb->data, (__u8 *)(long)skb->data_end};

	return window;
}

/* Offset of the first byte behind ";branch=", or 0. A function of its own, as is the next: to the verifier
 * each ends in one way, not in as many as its loop has turns. */
__noinline __u32 find_branch(struct __sk_buff *skb, __u32 start)
{
	struct window window = leaving_window_of(skb);
	__u64 last = 0;

	for (int i = 0; i < BRANCH_SEARCH_MAX; i++) {
		int byte = byte_at(&window, (__u64)start + i);

		if (byte < 0)
			return 0;
		last = last << 8 | (byte | LOWER_CASE_BIT);
		if (last == BRANCH_NAME)
			return start + i + 1;
	}
	return 0;
}

/* FNV-1a from a seed on, and the finisher that it lacks. 0: empty, or of no usual length. */
__noinline __u64 hash_value(struct __sk_buff *skb, __u32 pos, __u64 seed)
{
	struct window window = leaving_window_of(skb);
	__u64 hash = seed;

	for (int i = 0; i <= BRANCH_LEN_MAX; i++) {
		int byte = byte_at(&window, (__u64)pos + i);

		if (byte < 0 || is_value_end(byte)) {
			hash ^= hash >> 32;
			hash *= 0xd6e8feb86659fd93ULL;
			return i ? hash ^ hash >> 32 : 0;
		}
		hash = (hash ^ byte) * FNV_PRIME;
	}
	return 0;
}

/* Of the first branch from `start` on; 0: there is none, or none of a usual length. */
static __always_inline __u64 hash_branch(struct __sk_buff *skb, __u32 start, __u64 seed)
{
	__u32 pos = find_branch(skb, start);

	return pos ? hash_value(skb, pos, seed) : 0;
}

#endif
