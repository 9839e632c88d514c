/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * The transaction table: which requests were seen lately, and what became of them. It tells a copy from an
 * original where no marker does.
 *
 * `userspace/overload` (transactions.rs) is the same table and says what its slots mean, why no state can
 * kill a call, and how large the chance of a false copy is; tests/transactions.rs compares the two. This side
 * looks requests up, counts copies, and enters what the gate sheds here. Everything else is entered by the
 * worker, which alone knows that it has got a packet: a packet that a full ring loses leaves no trace.
 *
 * Each slot is one word that is read once and written by one compare-and-swap, here and in user space; one
 * that fails has lost against a newer truth and is not repeated.
 */
#ifndef SIPWEIR_TRANSACTIONS_H
#define SIPWEIR_TRANSACTIONS_H

#include "maps.h"
#include "words.h"

/*
 * A slot from its upper bits down: fingerprint, state, copies, time of the last datagram, start of the span
 * in which copies are counted. A slot of zero is empty.
 */
#define FINGERPRINT_SHIFT 22
#define STATE_SHIFT	  20
#define COPIES_SHIFT	  16
#define LAST_SHIFT	  8
#define STATE_MASK	  3
#define COPIES_MASK	  15
#define TIME_MASK	  0xff

/* Times count in 2^30 ns (1.07 s) and wrap after 275 s; user space sweeps the table more often than that. */
#define TIME_SHIFT 30

/* Units of time after which a transaction is forgotten: more than 64 T1 = 32 s whatever the rounding. */
#define AGE_MAX 30

/* More copies than clients of RFC 3261 send within 64 T1 (timers A and E, sections 17.1.1.2 and 17.1.2.2). */
#define COPIES_OF_INVITE 6
#define COPIES_OF_OTHERS 10

/* Salts the way from a bucket to the other one of the same fingerprint: the golden ratio's bits. The upper
 * six of the product choose among the 64 buckets of a page of memory. */
#define OTHER_BUCKET_FACTOR 0x9e3779b97f4a7c15ULL
#define OTHER_BUCKET_SHIFT  58

enum transaction_state {
	TRANSACTION_UNKNOWN = 0,
	TRANSACTION_SHED = 1,
	TRANSACTION_QUEUED = 2,
	TRANSACTION_HANDED_OVER = 3,
	TRANSACTION_EXCESS = 4, /* never in a slot: known, and more copies than any client sends */
};

static __always_inline __u64 time_of(__u64 now_ns)
{
	return now_ns >> TIME_SHIFT & TIME_MASK;
}

static __always_inline __u64 state_of(__u64 slot)
{
	return slot >> STATE_SHIFT & STATE_MASK;
}

static __always_inline struct bucket *bucket_at(__u32 index)
{
	index &= bucket_mask;
	return bpf_map_lookup_elem(&transactions, &index);
}

/* In the same page of memory, so that the two cost one miss of the TLB; odd, so that it is another one. */
static __always_inline __u32 other_bucket(__u64 hash)
{
	return (__u32)hash ^
	       (__u32)((hash >> FINGERPRINT_SHIFT) * OTHER_BUCKET_FACTOR >> OTHER_BUCKET_SHIFT | 1);
}

/* The slot with one datagram more, at `time`. */
static __always_inline __u64 with_copy(__u64 slot, __u64 time)
{
	__u64 copies = slot >> COPIES_SHIFT & COPIES_MASK, span = slot & TIME_MASK;

	if (((time - span) & TIME_MASK) > AGE_MAX) {
		span = time;
		copies = 0;
	}
	if (copies < COPIES_MASK)
		copies++;
	slot &= ~0ULL << STATE_SHIFT;
	return slot | copies << COPIES_SHIFT | time << LAST_SHIFT | span;
}

/* 1 if x is zero, which is below 2^63; else 0. Here and below without branches: each slot would double the
 * paths that the verifier walks. The empty assembly keeps the compiler from making branches of it. */
static __always_inline __u64 is_zero(__u64 x)
{
	__u64 borrow = (x - 1) >> 63;

	asm volatile("" : "+r"(borrow));
	return borrow;
}

/* Units since the last datagram of a slot; of one that was shed since the first of its span, which no copy
 * renews. */
static __always_inline __u64 age_of(__u64 slot, __u64 time)
{
	__u64 is_shed = is_zero(state_of(slot) ^ TRANSACTION_SHED);

	return (time - (slot >> (LAST_SHIFT * (1 - is_shed)))) & TIME_MASK;
}

/* 1 while the transaction of a slot is remembered. */
static __always_inline __u64 is_live(__u64 slot, __u64 time)
{
	return (1 - is_zero(state_of(slot))) & ((age_of(slot, time) - (AGE_MAX + 1)) >> 63);
}

/* Whether some slot of a bucket has the fingerprint, live or not: all that most originals have to ask. */
static __always_inline _Bool has_fingerprint(const struct bucket *bucket, __u64 hash)
{
#pragma unroll
	for (int i = 0; i < SLOTS; i++)
		if ((bucket->slots[i] ^ hash) >> FINGERPRINT_SHIFT == 0)
			return 1;
	return 0;
}

/* The slots of a bucket that have the fingerprint, one bit each. */
static __always_inline __u64 fingerprints_in(const struct bucket *bucket, __u64 hash)
{
	__u64 found = 0;

#pragma unroll
	for (int i = 0; i < SLOTS; i++)
		found |= is_zero((bucket->slots[i] ^ hash) >> FINGERPRINT_SHIFT) << i;
	return found;
}

/* The slots of a bucket that are this request's and live: bit 8 * state + slot. */
__noinline __u64 matches_in(__u32 index, __u64 hash, __u64 time)
{
	struct bucket *bucket = bucket_at(index);
	__u64 matches = 0;

	if (!bucket)
		return 0;
#pragma unroll
	for (int i = 0; i < SLOTS; i++) {
		__u64 slot = bucket->slots[i];
		__u64 hit = is_zero((slot ^ hash) >> FINGERPRINT_SHIFT) & is_live(slot, time);

		matches |= hit << (state_of(slot) * SLOTS + i);
	}
	return matches;
}

/* Index of the lowest of the bits 0..15, one of which is set. */
static __always_inline __u64 lowest_bit(__u64 bits)
{
	bits &= -bits;
	return !!(bits & 0xff00) << 3 | !!(bits & 0xf0f0) << 2 | !!(bits & 0xcccc) << 1 | !!(bits & 0xaaaa);
}

/*
 * Which slot is the request's where several have its fingerprint, those of the other bucket counted behind
 * the first one's; SLOTS * 2 if none is. Two writers entered it at the same time, or an old one has not been
 * swept: among the live ones the highest state counts.
 */
__noinline __u64 best_of(__u64 hash, __u64 time)
{
	__u64 matches = matches_in(hash, hash, time);
	__u64 others = matches_in(other_bucket(hash), hash, time), at;

	for (int state = TRANSACTION_HANDED_OVER; state >= TRANSACTION_SHED; state--) {
		at = (matches >> (state * SLOTS) & 0xff) | (others >> (state * SLOTS) & 0xff) << SLOTS;
		if (at)
			return lowest_bit(at);
	}
	return SLOTS * 2;
}

/*
 * What is known of the request with this hash, as enum transaction_state; if it is known, this is a copy and
 * is counted. `limit`: copies from which on they are too many.
 */
static __always_inline int recall(__u64 hash, __u64 now_ns, __u32 limit)
{
	__u64 time = time_of(now_ns), found, slot, counted, at;
	struct bucket *bucket = bucket_at(hash), *other = bucket_at(other_bucket(hash));

	if (!bucket || !other || !(has_fingerprint(bucket, hash) || has_fingerprint(other, hash)))
		return TRANSACTION_UNKNOWN;
	found = fingerprints_in(bucket, hash) | fingerprints_in(other, hash) << SLOTS;
	at = found & (found - 1) ? best_of(hash, time) : lowest_bit(found);
	if (at >= SLOTS * 2)
		return TRANSACTION_UNKNOWN;
	if (at >= SLOTS)
		bucket = other;
	at &= SLOTS - 1;
	slot = bucket->slots[at];
	/* Changed since it was found: unknown, which is never wrong. */
	if ((slot ^ hash) >> FINGERPRINT_SHIFT || !is_live(slot, time))
		return TRANSACTION_UNKNOWN;
	counted = with_copy(slot, time);
	__sync_val_compare_and_swap(&bucket->slots[at], slot, counted);
	if ((counted >> COPIES_SHIFT & COPIES_MASK) > limit)
		return TRANSACTION_EXCESS;
	return state_of(slot);
}

/* The age of a slot, and more than any age if it is empty. */
static __always_inline __u64 worthlessness(__u64 slot, __u64 time)
{
	__u64 empty = is_zero(state_of(slot));

	return (age_of(slot, time) & (empty - 1)) | empty << 8;
}

/* Slots that are in use, in the low byte; above it the slot that is worth least (empty, expired or oldest;
 * the first of equals); above that its age, which is TIME_MASK + 1 if it is empty. */
static __always_inline __u64 least_worth(__u32 index, __u64 time)
{
	struct bucket *bucket = bucket_at(index);
	__u64 best = 0, used = 0;

	if (!bucket)
		return 0;
#pragma unroll
	for (int i = 0; i < SLOTS; i++) {
		__u64 worth_nothing = worthlessness(bucket->slots[i], time), worse;
		__u64 key = worth_nothing << 3 | (SLOTS - 1 - i);

		used += (worth_nothing - (AGE_MAX + 1)) >> 63;
		worse = (best - key) >> 63;
		asm volatile("" : "+r"(worse));
		best += (key - best) & -worse;
	}
	return best >> 3 << 16 | (SLOTS - 1 - (best & (SLOTS - 1))) << 8 | used;
}

/*
 * Enters a request whose end is known here: one that was shed, so that its copies get the same answer, or one
 * that is only watched, and that the server gets by itself.
 */
static __always_inline int remember(__u64 hash, enum transaction_state state, __u64 now_ns)
{
	__u64 time = time_of(now_ns), first, second, slot, entered, at;
	__u32 index = hash;
	struct bucket *bucket;

	first = least_worth(index, time);
	second = least_worth(other_bucket(hash), time);
	if ((second & 0xff) < (first & 0xff) ||
	    ((first & 0xff) == SLOTS && (second & 0xff) == SLOTS && second >> 16 > first >> 16)) {
		first = second;
		index = other_bucket(hash);
	}
	bucket = bucket_at(index);
	if (!bucket)
		return 0;
	at = first >> 8 & (SLOTS - 1);
	slot = bucket->slots[at];
	/* Another writer has just entered something worth more. */
	if (worthlessness(slot, time) != first >> 16)
		return 0;
	entered = hash >> FINGERPRINT_SHIFT << FINGERPRINT_SHIFT | (__u64)state << STATE_SHIFT |
		  time << LAST_SHIFT | time;
	if (__sync_val_compare_and_swap(&bucket->slots[at], slot, entered) != slot)
		return 0;
	if ((first & 0xff) == SLOTS)
		__sync_fetch_and_add(&evicted, 1);
	return 1;
}

#endif
