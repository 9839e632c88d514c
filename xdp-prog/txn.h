/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * The transaction hash: a keyed 64-bit hash of the source address, of the service, and of the whole datagram,
 * apart from leading CR/LF and from the marker. Every copy of one request has the same hash, at every worker,
 * and every other request has another one. `userspace/sip` (txn.rs) is the same function and says why nobody
 * who can choose bytes can choose collisions, or his share of the gate; tests/agreement.rs compares the two.
 *
 * Two sums of products of 32-bit halves, each with a secret word of its own added (NH of UMAC), and
 * SipHash-1-3 of the two and of the length. No product waits for another one.
 */
#ifndef SIPWEIR_TXN_H
#define SIPWEIR_TXN_H

#include "maps.h"
#include "message.h"
#include "request_uri.h"
#include "words.h"

/* Words hashed for one comparison with the end of the packet; a power of two. More: a longer key. */
#define HASH_UNROLL 8

/* Words up to and across a marker, which stands in the start line. */
#define MARKED_WORDS_MAX (START_LINE_MAX / 8 + 1)

/* The golden ratio's bits: salts the share apart from other uses of the hash; and its odd multiples tell the
 * services apart in all bits that matter, those of the fingerprint (transactions.h). */
#define SHARE_SALT     0x9e3779b97f4a7c15ULL
#define SERVICE_FACTOR 0x9e3779b97f4a7c15ULL

struct sums {
	__u64 a, b;
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

/* The key from the position of the word at a byte offset of the datagram on; cut for the verifier. */
static __always_inline const volatile __u32 *key_at(__u64 offset)
{
	asm volatile("%0 &= %1" : "+r"(offset) : "i"(HASHED_LEN_MAX - 8));
	return (const volatile __u32 *)((const volatile __u8 *)hash_key + offset);
}

/* The product of NH: of both halves of a word, with a secret number added to each. */
static __always_inline __u64 nh_product(const volatile __u32 *key, __u64 word)
{
	__u32 low = word, high = word >> 32;

	return (__u64)(__u32)(low + key[0]) * (__u32)(high + key[1]);
}

/* The empty assembly keeps the compiler from loading the words of a step all at once, more than there are
 * registers. */
static __always_inline void hash_word(struct sums *sums, const volatile __u32 *key, __u64 word)
{
	sums->a += nh_product(key, word);
	sums->b += nh_product(key + 2, word);
	asm volatile("" : "+r"(sums->a), "+r"(sums->b) : : "memory");
}

/* `count` words at `pos`, which moves behind them; false if the datagram has no more so many. */
static __always_inline _Bool hash_words(const struct window *window, struct sums *sums, __u64 origin,
					__u64 *pos, __u64 end, const int count)
{
	__u8 *p = window->data + bounded(*pos);
	const volatile __u32 *key = key_at(*pos - origin);
	__u64 *words;

	/* One pointer for the comparison and the loads, so that the verifier sees what they have in common.
	 */
	asm volatile("" : "+r"(p));
	if (bytes_left(*pos, end) < 8 * count || p + 8 * count > window->end)
		return 0;
	words = (__u64 *)p;
#pragma clang loop unroll(full)
	for (int i = 0; i < count; i++)
		hash_word(sums, key + 2 * i, from_le64(words[i]));
	*pos = bounded(*pos + 8 * count);
	return 1;
}

/*
 * The words of [start, end), no marker inside: many at a time, then those that are left, then the last bytes.
 * `origin`: where the datagram would begin if no marker stood in front.
 */
static __always_inline void hash_plain(const struct window *window, struct sums *sums, __u64 origin,
				       __u64 start, __u64 end)
{
	__u64 pos = start, word;

	for (int i = 0; i < HASHED_LEN_MAX / 8 / HASH_UNROLL; i++)
		if (!hash_words(window, sums, origin, &pos, end, HASH_UNROLL))
			break;
	hash_words(window, sums, origin, &pos, end, HASH_UNROLL / 2);
	hash_words(window, sums, origin, &pos, end, HASH_UNROLL / 4);
	hash_words(window, sums, origin, &pos, end, HASH_UNROLL / 8);
	if (bytes_left(pos, end) > 0 && last_bytes(window, end, end - pos, &word))
		hash_word(sums, key_at(pos - origin), word);
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

/* The round of SipHash. */
static __always_inline void sip_round(__u64 *v)
{
	v[0] += v[1];
	v[1] = rotate_left(v[1], 13) ^ v[0];
	v[0] = rotate_left(v[0], 32);
	v[2] += v[3];
	v[3] = rotate_left(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = rotate_left(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = rotate_left(v[1], 17) ^ v[2];
	v[2] = rotate_left(v[2], 32);
}

static __always_inline void sip_word(__u64 *v, __u64 word)
{
	v[3] ^= word;
	sip_round(v);
	v[0] ^= word;
}

static __always_inline __u64 finisher_key(int index)
{
	const volatile __u32 *halves = hash_key + 2 * (FINISHER_POSITION + index);

	return halves[0] | (__u64)halves[1] << 32;
}

/* SipHash-1-3 of 23 bytes: the sums, and seven bytes of the length. */
static __always_inline __u64 finish(const struct sums *sums, __u64 len)
{
	__u64 k0 = finisher_key(0), k1 = finisher_key(1);
	__u64 v[4] = {k0 ^ 0x736f6d6570736575ULL, k1 ^ 0x646f72616e646f6dULL, k0 ^ 0x6c7967656e657261ULL,
		      k1 ^ 0x7465646279746573ULL};

	sip_word(v, sums->a);
	sip_word(v, sums->b);
	sip_word(v, len | 23ULL << 56);
	v[2] ^= 0xff;
	sip_round(v);
	sip_round(v);
	sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/*
 * The hash at a service: RFC 3261 matches requests within one server (section 17.2.3), and the same bytes may
 * be meant for two. Applied twice it is the hash again.
 */
static __always_inline __u64 at_service(__u64 hash, __u8 service)
{
	return hash ^ service * SERVICE_FACTOR;
}

/* Never 0, which means "not computed". */
__noinline __u64 hash_transaction(struct xdp_md *ctx, struct message *message)
{
	struct window window = window_of(ctx);
	struct sums sums = {};
	__u64 origin, start, end, len, hash;

	if (!message)
		return 0;
	start = message->start;
	end = message->end;
	origin = start + message->meta.marker_len;
	len = end - origin;
	hash_word(&sums, hash_key + 2 * ADDRESS_POSITION, from_le64(message->source[0]));
	hash_word(&sums, hash_key + 2 * (ADDRESS_POSITION + 1), from_le64(message->source[1]));
	if (message->meta.marker_len) {
		/* The words up to and across the marker. */
		__u64 marker = message->meta.marker_offset, words = (marker - start) / 8 + 1, word;

		for (__u32 i = 0;
		     i < MARKED_WORDS_MAX && bytes_left(i, words) > 0 && bytes_left(i * 8, len) > 0; i++) {
			if (bytes_left(start + i * 8, marker) < 8 || !word_at(&window, start + i * 8, &word))
				word = marked_word(ctx, message, i * 8);
			hash_word(&sums, key_at(i * 8), word);
		}
		start = origin + words * 8;
	}
	hash_plain(&window, &sums, origin, start, end);
	hash = at_service(finish(&sums, len), message->meta.service);
	return hash ? hash : 1;
}

/*
 * The transaction's place in [0, 2^32), to be compared with the admitted share. The same at every service,
 * whose numbers differ between nodes that share a seed.
 */
static __always_inline __u32 share_hash(__u64 transaction_hash, __u8 service)
{
	return mix64(at_service(transaction_hash, service) ^ SHARE_SALT) >> 32;
}

#endif
