/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * Reading the datagram eight bytes at a time, and finding bytes in such a word.
 *
 * Words are little-endian whatever the machine is, so byte 0 of the word is the first byte in the packet.
 * "Marks" are words whose bytes are 0x80 where something was found and 0x00 elsewhere.
 *
 * Offsets are 64 bits wide and are cut to OFFSET_MASK right before they are added to a packet pointer. That
 * gives the verifier one range for all of them, hence the same state on every turn of a loop, hence few
 * states. The program is not changed by it: no packet for a service is longer (max_frame_len), and the
 * comparison with the end follows.
 */
#ifndef SIPWEIR_WORDS_H
#define SIPWEIR_WORDS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define OFFSET_MASK 0x1fff

#define EACH_BYTE(byte) (0x0101010101010101ULL * (__u8)(byte))

#define LOWER_CASE_BIT 0x20

/* The packet as seen by a function of its own: the verifier trusts only pointers that were loaded from the
 * context. */
struct window {
	__u8 *data;
	__u8 *end;
};

static __always_inline struct window window_of(struct xdp_md *ctx)
{
	struct window window = {(__u8 *)(long)ctx->data, (__u8 *)(long)ctx->data_end};

	return window;
}

static __always_inline __u64 from_le64(__u64 word)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return word;
#else
	return __builtin_bswap64(word);
#endif
}

static __always_inline __u32 from_le32(__u32 word)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return word;
#else
	return __builtin_bswap32(word);
#endif
}

/* Cuts an offset for the verifier; assembly, so that the compiler neither drops nor moves it. */
static __always_inline __u64 bounded(__u64 offset)
{
	asm volatile("%0 &= %1" : "+r"(offset) : "i"(OFFSET_MASK));
	return offset;
}

/*
 * Bytes from `pos` to `end`, negative behind it. Loops compare this instead of the two: a comparison narrows
 * what the verifier knows of `end`, a little differently on every path, and no state would equal an earlier
 * one.
 */
static __always_inline long bytes_left(__u64 pos, __u64 end)
{
	long left = end - pos;

	asm volatile("" : "+r"(left));
	return left;
}

/* The byte at an offset, or -1 behind the end of the packet. */
static __always_inline int byte_at(const struct window *window, __u64 offset)
{
	__u8 *p = window->data + bounded(offset);

	if (p + 1 > window->end)
		return -1;
	return *p;
}

/* The eight bytes from an offset on. False behind the end of the packet. */
static __always_inline _Bool word_at(const struct window *window, __u64 offset, __u64 *word)
{
	__u8 *p = window->data + bounded(offset);

	if (p + 8 > window->end)
		return 0;
	*word = from_le64(*(__u64 *)p);
	return 1;
}

/*
 * The last 1..7 bytes before `end`, zeros above them. Reads the eight bytes that end there, which exist: more
 * than eight bytes of headers stand in front of every datagram.
 */
static __always_inline _Bool last_bytes(const struct window *window, __u64 end, __u64 len, __u64 *word)
{
	if (!word_at(window, end - 8, word))
		return 0;
	*word >>= (64 - 8 * len) & 63;
	return 1;
}

/* Marks the zero bytes of a word exactly (no borrow crosses a byte). */
static __always_inline __u64 zero_marks(__u64 word)
{
	return ~(((word & EACH_BYTE(0x7f)) + EACH_BYTE(0x7f)) | word | EACH_BYTE(0x7f));
}

static __always_inline __u64 marks_of(__u64 word, __u8 byte)
{
	return zero_marks(word ^ EACH_BYTE(byte));
}

/* Shorter by an operation: right up to and including the first mark; marks above it may be wrong. */
static __always_inline __u64 first_mark_of(__u64 word, __u8 byte)
{
	__u64 x = word ^ EACH_BYTE(byte);

	return (x - EACH_BYTE(1)) & ~x & EACH_BYTE(0x80);
}

/* Whether a word may hold a byte below ' ', as line ends are. Bytes above ASCII make it true, too. */
static __always_inline _Bool may_have_control(__u64 word)
{
	return ((word - EACH_BYTE(' ')) & EACH_BYTE(0x80)) != 0;
}

/* Index of the lowest marked byte; `marks` is not zero. BPF has no instruction for it. */
static __always_inline __u64 lowest(__u64 marks)
{
	return ((((marks - 1) & EACH_BYTE(1)) * EACH_BYTE(1)) >> 56) - 1;
}

static __always_inline _Bool is_blank(int byte)
{
	return byte == ' ' || byte == '\t';
}

static __always_inline _Bool is_digit(int byte)
{
	return byte >= '0' && byte <= '9';
}

/* Only for letters: true for both cases of `letter`, which is given in lower case. */
static __always_inline _Bool is_letter(int byte, int letter)
{
	return (byte | LOWER_CASE_BIT) == letter;
}

/* Up to eight characters as the word in which they would be read. */
#define WORD_1(a)		       ((__u64)(__u8)(a))
#define WORD_2(a, b)		       (WORD_1(a) | WORD_1(b) << 8)
#define WORD_3(a, b, c)		       (WORD_2(a, b) | WORD_1(c) << 16)
#define WORD_4(a, b, c, d)	       (WORD_2(a, b) | WORD_2(c, d) << 16)
#define WORD_5(a, b, c, d, e)	       (WORD_4(a, b, c, d) | WORD_1(e) << 32)
#define WORD_6(a, b, c, d, e, f)       (WORD_4(a, b, c, d) | WORD_2(e, f) << 32)
#define WORD_7(a, b, c, d, e, f, g)    (WORD_4(a, b, c, d) | WORD_3(e, f, g) << 32)
#define WORD_8(a, b, c, d, e, f, g, h) (WORD_4(a, b, c, d) | WORD_4(e, f, g, h) << 32)

/* The low `n` bytes of a word, n < 8. */
static __always_inline __u64 low_bytes(__u64 word, __u64 n)
{
	return word & ((1ULL << ((8 * n) & 63)) - 1);
}

#endif
