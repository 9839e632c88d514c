/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * Tokens of a start line and the space between them: versions, the marker field, methods, blanks, line ends.
 * Each loop is a function of its own, which the verifier checks once with any arguments; loops inside one
 * another's paths would multiply. Such a function is called only where the usual line has nothing to loop
 * over.
 */
#ifndef SIPWEIR_TOKENS_H
#define SIPWEIR_TOKENS_H

#include "abi.h"
#include "words.h"

/* CR/LF bytes skipped in front of a message; RFC 3261 section 7.5, and stacks that send four of them. */
#define LEADING_MAX 8

/* Blanks skipped at each place of the line where RFC 3261 allows one or none. */
#define BLANKS_MAX 8

/* Bytes of a method token; the longest registered one has nine. */
#define METHOD_LEN_MAX 32

/* Bytes of a version's digits and dot that are looked at before user space is asked. */
#define VERSION_LEN_MAX 16

/* `word` is the eight bytes that end a line: a blank and "SIP/d.d", letters in any case. */
static __always_inline _Bool is_version(__u64 word)
{
	__u32 name = (__u32)(word >> 8) | 0x00202020;

	return name == WORD_4('s', 'i', 'p', '/') && is_blank(word & 0xff) && is_digit(word >> 40 & 0xff) &&
	       (word >> 48 & 0xff) == '.' && is_digit(word >> 56);
}

/*
 * Whether the token that ends at `end` may still be a SIP version, with more digits than is_version reads or
 * behind something other than a blank. 0 is certain.
 */
__noinline int may_be_version(struct xdp_md *ctx, __u32 end)
{
	struct window window = window_of(ctx);

	for (int i = 1; i <= VERSION_LEN_MAX; i++) {
		int byte = byte_at(&window, end - i);

		if (is_digit(byte) || byte == '.')
			continue;
		return byte == '/' && is_letter(byte_at(&window, end - i - 1), 'p') &&
		       is_letter(byte_at(&window, end - i - 2), 'i');
	}
	return 1;
}

#define FIELD_START WORD_5(' ', 'r', 't', 'x', '=')

/* The marker field at the end of the line, if there is one: its length, else 0. */
static __always_inline __u64 marker_field(__u64 tail, __u8 *copy)
{
	int last = tail >> 56, before = tail >> 48 & 0xff;

	if (!is_digit(last))
		return 0;
	if (low_bytes(tail >> 16, 5) == FIELD_START) {
		*copy = last - '0';
		return 6;
	}
	if (low_bytes(tail >> 8, 5) == FIELD_START && is_digit(before)) {
		*copy = (before - '0') * 10 + last - '0';
		return 7;
	}
	return 0;
}

/* A token of `len` < 8 bytes and its length, without which trailing zero bytes would not count. */
#define METHOD_KEY(len, word) ((word) | (__u64)(len) << 56)

/* `first` is the start of a token of `len` < 8 bytes. Clearing bit 5 maps two bytes to each letter: its two
 * cases. */
static __always_inline enum method short_method(__u64 first, __u64 len)
{
	switch (METHOD_KEY(len, low_bytes(first, len) & EACH_BYTE(~LOWER_CASE_BIT))) {
	case METHOD_KEY(6, WORD_6('I', 'N', 'V', 'I', 'T', 'E')):
		return METHOD_INVITE;
	case METHOD_KEY(3, WORD_3('A', 'C', 'K')):
		return METHOD_ACK;
	case METHOD_KEY(6, WORD_6('C', 'A', 'N', 'C', 'E', 'L')):
		return METHOD_CANCEL;
	case METHOD_KEY(3, WORD_3('B', 'Y', 'E')):
		return METHOD_BYE;
	case METHOD_KEY(5, WORD_5('P', 'R', 'A', 'C', 'K')):
		return METHOD_PRACK;
	case METHOD_KEY(7, WORD_7('O', 'P', 'T', 'I', 'O', 'N', 'S')):
		return METHOD_OPTIONS;
	case METHOD_KEY(6, WORD_6('N', 'O', 'T', 'I', 'F', 'Y')):
		return METHOD_NOTIFY;
	case METHOD_KEY(7, WORD_7('P', 'U', 'B', 'L', 'I', 'S', 'H')):
		return METHOD_PUBLISH;
	case METHOD_KEY(4, WORD_4('I', 'N', 'F', 'O')):
		return METHOD_INFO;
	case METHOD_KEY(5, WORD_5('R', 'E', 'F', 'E', 'R')):
		return METHOD_REFER;
	case METHOD_KEY(7, WORD_7('M', 'E', 'S', 'S', 'A', 'G', 'E')):
		return METHOD_MESSAGE;
	case METHOD_KEY(6, WORD_6('U', 'P', 'D', 'A', 'T', 'E')):
		return METHOD_UPDATE;
	default:
		return METHOD_OTHER;
	}
}

/* Methods of eight and nine bytes; `len` is that of the token. */
static __always_inline enum method long_method(const struct window *window, __u64 start, __u64 first,
					       __u64 len)
{
	first &= EACH_BYTE(~LOWER_CASE_BIT);
	if (len == 8 && first == WORD_8('R', 'E', 'G', 'I', 'S', 'T', 'E', 'R'))
		return METHOD_REGISTER;
	if (len == 9 && first == WORD_8('S', 'U', 'B', 'S', 'C', 'R', 'I', 'B') &&
	    is_letter(byte_at(window, start + 8), 'e'))
		return METHOD_SUBSCRIBE;
	return METHOD_OTHER;
}

/* Offset of the first byte from `offset` on that is no blank; 0 if the bound was reached. */
__noinline int skip_blanks(struct xdp_md *ctx, __u32 offset)
{
	struct window window = window_of(ctx);

	for (int i = 0; i <= BLANKS_MAX; i++)
		if (!is_blank(byte_at(&window, offset + i)))
			return offset + i;
	return 0;
}

/* Offset behind the last byte before `end` that is no blank; 0 if the bound was reached. */
__noinline int trim_blanks(struct xdp_md *ctx, __u32 end)
{
	struct window window = window_of(ctx);

	for (int i = 0; i <= BLANKS_MAX; i++)
		if (!is_blank(byte_at(&window, end - i - 1)))
			return end - i;
	return 0;
}

/* Length of a method of at least eight bytes, or 0 if no blank was met within the bound. */
__noinline int long_method_len(struct xdp_md *ctx, __u32 start)
{
	struct window window = window_of(ctx);

	for (int i = 8; i <= METHOD_LEN_MAX; i++)
		if (is_blank(byte_at(&window, start + i)))
			return i;
	return 0;
}

/* Offset of the first byte from `offset` on that is neither CR nor LF, or `end`; 0 if the bound was reached.
 */
__noinline int skip_line_ends(struct xdp_md *ctx, __u32 offset, __u32 end)
{
	struct window window = window_of(ctx);
	__u64 at = offset;

	for (int i = 0; i <= LEADING_MAX; i++) {
		int byte = bytes_left(at, end) > 0 ? byte_at(&window, at) : -1;
		_Bool is_end = (byte == '\r') | (byte == '\n');

		/* One comparison: of two, some compilers make a read of a stack slot that was not written. */
		asm volatile("" : "+r"(is_end));
		if (!is_end)
			return at;
		at++;
	}
	return 0;
}

#endif
