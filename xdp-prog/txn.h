/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * The transaction hash: a keyed 64-bit hash of the source address and of the whole datagram, apart from
 * leading CR/LF and from the marker. Every copy of one request has the same hash, at every worker, and every
 * other request has another one. `userspace/sip` (txn.rs) is the same function; tests/agreement.rs compares
 * them.
 *
 * Two lanes of multiplications run side by side; the multipliers are secret, so that nobody who can choose
 * bytes can choose collisions or his share of the gate.
 */
#ifndef SIPWEIR_TXN_H
#define SIPWEIR_TXN_H

#include "maps.h"
#include "message.h"
#include "request_uri.h"
#include "words.h"

/* Words of the longest datagram: Settings refuses a max_frame_len above 4096. */
#define HASH_WORDS_MAX 512

/* Words hashed for one comparison with the end of the packet. */
#define HASH_UNROLL 4

/* Words up to and across a marker, which stands in the start line; and one more. */
#define MARKED_WORDS_MAX (START_LINE_MAX / 8 + 2)

/* The golden ratio's bits: salts the length, and the share apart from other uses of the hash. */
#define HASH_SALT  0x9e3779b97f4a7c15ULL
#define SHARE_SALT 0x9e3779b97f4a7c15ULL

struct lanes {
	__u64 a, b;
	__u64 multiplier_a, multiplier_b;
};

static __always_inline __u64 rotate_left(__u64 x, int bits)
{
	return x << bits | x >> (64 - bits);
}

/* The finisher of MurmurHash3 (public domain): every input bit reaches every output bit. */
static __always_inline __u64 mix64(__u64 x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdULL;
	x ^= x >> 33;
	x *= 0xc4ceb9fe1a85ec53ULL;
	x ^= x >> 33;
	return x;
}

static __always_inline void hash_even(struct lanes *lanes, __u64 word)
{
	lanes->a = rotate_left((lanes->a ^ word) * lanes->multiplier_a, 29);
}

static __always_inline void hash_odd(struct lanes *lanes, __u64 word)
{
	lanes->b = rotate_left((lanes->b ^ word) * lanes->multiplier_b, 31);
}

static __always_inline void hash_word(struct lanes *lanes, __u64 index, __u64 word)
{
	if (index & 1)
		hash_odd(lanes, word);
	else
		hash_even(lanes, word);
}

/* The words of [start, end), no marker inside: four at a time, then one by one, then the last bytes. */
static __always_inline void hash_plain(const struct window *window, struct lanes *lanes, __u64 start,
				       __u64 end)
{
	__u64 pos = start, word;

	for (int i = 0; i < HASH_WORDS_MAX / HASH_UNROLL; i++) {
		__u8 *p = window->data + bounded(pos);
		__u64 *words = (__u64 *)p;

		if (bytes_left(pos, end) < 8 * HASH_UNROLL || p + 8 * HASH_UNROLL > window->end)
			break;
		hash_even(lanes, from_le64(words[0]));
		hash_odd(lanes, from_le64(words[1]));
		hash_even(lanes, from_le64(words[2]));
		hash_odd(lanes, from_le64(words[3]));
		pos = bounded(pos + 8 * HASH_UNROLL);
	}
#pragma unroll
	for (int i = 0; i < HASH_UNROLL - 1; i++) {
		if (bytes_left(pos, end) < 8 || !word_at(window, pos, &word))
			break;
		hash_word(lanes, i, word);
		pos = bounded(pos + 8);
	}
	if (bytes_left(pos, end) > 0 && last_bytes(window, end, end - pos, &word))
		hash_word(lanes, (pos - start) >> 3, word);
}

/*
 * The word at `at` of a message with its marker left out: before it, across it, behind it. A function of its
 * own for the verifier's sake; only requests that say rtx=0 pay for the calls.
 */
__noinline __u64 marked_word(struct xdp_md *ctx, struct message *message, __u32 at)
{
	struct window window = window_of(ctx);
	__u64 start, end, marker, marker_len, word, behind;
	long left, own;

	if (!message)
		return 0;
	start = message->start;
	end = message->end;
	marker = message->meta.marker_offset;
	marker_len = message->meta.marker_len;
	left = bytes_left(at, end - start - marker_len);
	own = bytes_left(at, marker - start);
	if (own >= 8)
		return word_at(&window, start + at, &word) ? word : 0;
	if (own <= 0) {
		if (left < 8 ? !last_bytes(&window, end, left, &word)
			     : !word_at(&window, start + at + marker_len, &word))
			return 0;
		return word;
	}
	/* `own` bytes stand before the marker; behind it follow eight more, or the last ones of the datagram.
	 */
	if (!word_at(&window, start + at, &word))
		return 0;
	if (left - own < 8 ? !last_bytes(&window, end, left - own, &behind)
			   : !word_at(&window, marker + marker_len, &behind))
		return 0;
	return low_bytes(word, own) | behind << ((8 * own) & 63);
}

/* Never 0, which means "not computed". */
__noinline __u64 hash_transaction(struct xdp_md *ctx, struct message *message)
{
	struct window window = window_of(ctx);
	struct lanes lanes;
	__u64 start, end, len, hash;

	if (!message)
		return 0;
	start = message->start;
	end = message->end;
	lanes.a = seed[0] ^ from_le64(message->source[0]);
	lanes.b = seed[1] ^ from_le64(message->source[1]);
	lanes.multiplier_a = seed[2] | 1;
	lanes.multiplier_b = seed[3] | 1;
	len = end - start - message->meta.marker_len;
	if (message->meta.marker_len) {
		/* The words up to and across the marker, and one more if that makes their number even. */
		__u64 marker = message->meta.marker_offset, words = ((marker - start) / 16 + 1) * 2, word;

		for (__u32 i = 0;
		     i < MARKED_WORDS_MAX && bytes_left(i, words) > 0 && bytes_left(i * 8, len) > 0; i++) {
			if (bytes_left(start + i * 8, marker) < 8 || !word_at(&window, start + i * 8, &word))
				word = marked_word(ctx, message, i * 8);
			hash_word(&lanes, i, word);
		}
		start += words * 8 + message->meta.marker_len;
	}
	hash_plain(&window, &lanes, start, end);
	hash = mix64(lanes.a ^ rotate_left(lanes.b, 32) ^ len * HASH_SALT);
	return hash ? hash : 1;
}

/* The transaction's place in [0, 2^32), to be compared with the admitted share. */
static __always_inline __u32 share_hash(__u64 transaction_hash)
{
	return mix64(transaction_hash ^ SHARE_SALT) >> 32;
}

#endif
