/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * The headers, read only while the gate of the service is not normal: is this request one that must not be
 * shed, or one to be preferred?
 *
 * Resource-Priority and To with a tag matter, and credentials (Authorization, Proxy-Authorization). One pass
 * over eight-byte words stops at line ends; the first letter of a line decides whether anything more is
 * looked at. Every form that is not the usual one makes the message undecided, which is never shed here: user
 * space reads it again without bounds (userspace/sip, headers.rs).
 */
#ifndef SIPWEIR_HEADERS_H
#define SIPWEIR_HEADERS_H

#include "abi.h"
#include "message.h"
#include "words.h"

/* Words searched for line ends with one comparison with the end of the packet. */
#define SEARCH_UNROLL 4

/*
 * A step is SEARCH_UNROLL words, or a line that ends in them. An INVITE through several proxies has 30 lines
 * in 1,500 bytes, which are some 80 steps. Smaller: such INVITEs escape the gate in the kernel and are shed
 * by the worker. Larger: more instructions to verify.
 */
#define HEADER_STEPS_MAX 132

/* Words of one To line, and semicolons, quotes and line ends met in it. */
#define TO_STEPS_MAX (256 / 8 + 16)

/* A line shorter than this cannot be read as a whole word, and cannot hold what is looked for. */
#define HEADER_LINE_MIN 8

/* What a line says about the request: bits, because the verifier follows sums of bits and not choices. */
enum finding {
	FOUND_TO = 1,
	FOUND_TO_TAG = 2, /* certain; beside FOUND_TO */
	FOUND_PRIORITY = 4,
	FOUND_UNCLEAR = 8,
	FOUND_END = 16, /* the empty line, or the end of the datagram */
	FOUND_CREDENTIALS = 32,
};

#define TAG_START WORD_5(';', 't', 'a', 'g', '=')

/*
 * The To line whose value starts at `pos`. A tag is certain as ">;tag=" in a line without quotes, and
 * certainly absent if no semicolon is followed by a blank or the letter t. All else, and a folded line, is
 * unclear.
 */
__noinline int scan_to(struct xdp_md *ctx, __u32 value, __u32 end_of_datagram)
{
	struct window window = window_of(ctx);
	__u64 pos = value, end = end_of_datagram, marks = 0, word;
	int finding = FOUND_TO;
	long left;

	for (int i = 0; i < TO_STEPS_MAX; i++) {
		__u64 at, token;
		int byte, next;

		if (!marks) {
			left = bytes_left(pos, end);
			/* A To without a line end: whether more was to come is for user space to say. */
			if (left <= 0)
				return FOUND_UNCLEAR;
			if (left < 8 ? !last_bytes(&window, end, left, &word) : !word_at(&window, pos, &word))
				return FOUND_UNCLEAR;
			marks = marks_of(word, '\n') | marks_of(word, ';') | marks_of(word, '"');
			pos = bounded(pos + 8);
			continue;
		}
		at = pos - 8 + lowest(marks);
		marks &= marks - 1;
		byte = byte_at(&window, at);
		next = bytes_left(at, end) > 1 ? byte_at(&window, at + 1) : -1;
		if (byte == '\n')
			return is_blank(next) ? FOUND_UNCLEAR : finding;
		if (byte == '"')
			return FOUND_UNCLEAR;
		if (!is_blank(next) && !is_letter(next, 't') && next != '\r' && next != '\n')
			continue;
		if (finding & FOUND_TO_TAG)
			continue;
		if (byte_at(&window, at - 1) != '>' || !word_at(&window, at, &token) ||
		    low_bytes(token | WORD_5(0, LOWER_CASE_BIT, LOWER_CASE_BIT, LOWER_CASE_BIT, 0), 5) !=
			TAG_START)
			return FOUND_UNCLEAR;
		finding |= FOUND_TO_TAG;
	}
	return FOUND_UNCLEAR;
}

/* A line that starts at `line` with t or T; `word` is its first word. */
static __always_inline int to_header(struct xdp_md *ctx, __u64 line, __u64 word, __u64 end)
{
	__u64 name_len = is_letter(word >> 8 & 0xff, 'o') ? 2 : 1;
	int next = word >> (8 * name_len) & 0xff;

	if (is_blank(next)) {
		name_len++;
		next = word >> (8 * name_len) & 0xff;
		if (next != ':')
			return FOUND_UNCLEAR;
	}
	if (next == ':')
		return scan_to(ctx, line + name_len + 1, end);
	return next == '\r' || next == '\n' ? FOUND_UNCLEAR : 0;
}

/* What stands behind a name that was found, at `pos`: only a colon right there is certain. */
static __always_inline int behind_name(const struct window *window, __u64 pos, int finding)
{
	int next = byte_at(window, pos);

	if (next == ':')
		return finding;
	return is_blank(next) || next == '\r' || next == '\n' ? FOUND_UNCLEAR : 0;
}

/* A line that starts at `line` with r or R; `word` is its first word. */
static __always_inline int priority_header(const struct window *window, __u64 line, __u64 word, __u64 end)
{
	__u64 middle;

	if ((word | EACH_BYTE(LOWER_CASE_BIT)) != WORD_8('r', 'e', 's', 'o', 'u', 'r', 'c', 'e'))
		return 0;
	if (line + 18 > end)
		return FOUND_UNCLEAR;
	if (!word_at(window, line + 8, &middle))
		return FOUND_UNCLEAR;
	/* Setting bit 5 leaves '-' as it is, but makes one of CR. */
	if (byte_at(window, line + 8) != '-' ||
	    (middle | EACH_BYTE(LOWER_CASE_BIT)) != WORD_8('-', 'p', 'r', 'i', 'o', 'r', 'i', 't'))
		return 0;
	if (!is_letter(byte_at(window, line + 16), 'y'))
		return 0;
	return behind_name(window, line + 17, FOUND_PRIORITY);
}

/* A line that starts at `line` with a or A, or with p or P; `word` is its first word. */
static __always_inline int credentials_header(const struct window *window, __u64 line, __u64 word, __u64 end)
{
	__u64 head, tail;

	if (is_letter(word & 0xff, 'p')) {
		/* Setting bit 5 leaves '-' as it is, but makes one of CR. */
		if (low_bytes(word | EACH_BYTE(LOWER_CASE_BIT), 6) != WORD_6('p', 'r', 'o', 'x', 'y', '-') ||
		    (word >> 40 & 0xff) != '-')
			return 0;
		line += 6;
		if (line + 8 > end || !word_at(window, line, &head))
			return 0;
	} else {
		head = word;
	}
	if ((head | EACH_BYTE(LOWER_CASE_BIT)) != WORD_8('a', 'u', 't', 'h', 'o', 'r', 'i', 'z'))
		return 0;
	/* Without room for the colon it is no header. */
	if (line + 14 > end || !word_at(window, line + 5, &tail))
		return 0;
	if ((tail | EACH_BYTE(LOWER_CASE_BIT)) != WORD_8('r', 'i', 'z', 'a', 't', 'i', 'o', 'n'))
		return 0;
	return behind_name(window, line + 13, FOUND_CREDENTIALS);
}

/* The first letters of the headers that matter, in either case. */
static __always_inline _Bool may_matter(int first)
{
	return is_letter(first, 't') || is_letter(first, 'r') || is_letter(first, 'a') ||
	       is_letter(first, 'p');
}

/* The line that starts at `start`, which is before the datagram's end, as bits of enum finding. */
__noinline int read_line(struct xdp_md *ctx, __u32 start, __u32 end_of_datagram)
{
	struct window window = window_of(ctx);
	__u64 line = start, end = end_of_datagram, word;
	int first = byte_at(&window, line);

	if (first == '\n' || (first == '\r' && line + 1 < end && byte_at(&window, line + 1) == '\n'))
		return FOUND_END;
	if (!may_matter(first))
		return 0;
	if (line + HEADER_LINE_MIN > end || !word_at(&window, line, &word))
		return is_letter(first, 't') || is_letter(first, 'r') ? FOUND_UNCLEAR : 0;
	if (is_letter(first, 't'))
		return to_header(ctx, line, word, end);
	if (is_letter(first, 'r'))
		return priority_header(&window, line, word, end);
	return credentials_header(&window, line, word, end);
}

/*
 * Whether read_line has to be asked about a line: a call costs more than a look at three letters, above all
 * where the CPU must not predict returns. Before the packet's end it is asked always.
 */
static __always_inline _Bool is_of_interest(const struct window *window, __u64 line)
{
	__u8 *p = window->data + bounded(line);
	__u32 letters;

	if (p + 4 > window->end)
		return 1;
	letters = from_le32(*(__u32 *)p);
	if ((letters & 0xff) == '\r' || (letters & 0xff) == '\n')
		return 1;
	letters = (letters | 0x00202020) & 0x00ffffff;
	return (letters & 0xff) == 't' || letters == WORD_3('r', 'e', 's') ||
	       letters == WORD_3('a', 'u', 't') || letters == WORD_3('p', 'r', 'o');
}

/*
 * Behind the first LF from `*pos` on, as far as a step searches: SEARCH_UNROLL words, or what is left of the
 * datagram if that is less. 0 if there is none; `*pos` is then behind what was searched. What cannot be read
 * it never gets past, so that the bound is reached.
 */
static __always_inline __u64 behind_line_end(const struct window *window, __u64 *pos, __u64 end)
{
	__u8 *p = window->data + bounded(*pos);
	long left = bytes_left(*pos, end);
	__u64 at = *pos, marks, word;

	/* One pointer for the comparison and the loads, so that the verifier sees what they have in common.
	 */
	asm volatile("" : "+r"(p));
	if (left >= 8 * SEARCH_UNROLL && p + 8 * SEARCH_UNROLL <= window->end) {
#pragma clang loop unroll(full)
		for (int i = 0; i < SEARCH_UNROLL; i++) {
			word = from_le64(((__u64 *)p)[i]);
			if (!may_have_control(word))
				continue;
			marks = first_mark_of(word, '\n');
			if (marks)
				return at + 8 * i + lowest(marks) + 1;
		}
		*pos = bounded(at + 8 * SEARCH_UNROLL);
		return 0;
	}
	if (left < 8 ? !last_bytes(window, end, left, &word) : !word_at(window, at, &word))
		return 0;
	*pos = bounded(at + (left < 8 ? left : 8));
	marks = first_mark_of(word, '\n');
	return marks ? at + lowest(marks) + 1 : 0;
}

/*
 * The findings of all header lines from `start` on, up to the first that is unclear. FOUND_END is missing if
 * a bound was reached. A second To is unclear: which of them counts is no question for a filter.
 */
__noinline int read_headers(struct xdp_md *ctx, __u32 start, __u32 end_of_datagram)
{
	struct window window = window_of(ctx);
	__u64 pos = start, end = end_of_datagram, line;
	int found, finding;

	if (bytes_left(pos, end) <= 0)
		return FOUND_END;
	if (is_blank(byte_at(&window, pos)))
		return FOUND_UNCLEAR;
	found = is_of_interest(&window, pos) ? read_line(ctx, pos, end) : 0;
	if (found & (FOUND_END | FOUND_UNCLEAR))
		return found;
	for (int i = 0; i < HEADER_STEPS_MAX; i++) {
		if (bytes_left(pos, end) <= 0)
			return found | FOUND_END;
		line = behind_line_end(&window, &pos, end);
		if (!line)
			continue;
		if (bytes_left(line, end) <= 0)
			return found | FOUND_END;
		pos = bounded(line);
		if (!is_of_interest(&window, line))
			continue;
		finding = read_line(ctx, line, end);
		if (found & finding & FOUND_TO)
			return FOUND_UNCLEAR;
		found |= finding;
		if (found & (FOUND_END | FOUND_UNCLEAR))
			return found;
	}
	return found;
}

/* Turns CLASS_ORIGINAL into emergency, in_dialog or undecided, or leaves it; then the reason tells of
 * credentials. */
static __always_inline int scan_headers(struct xdp_md *ctx, struct message *message)
{
	int found = read_headers(ctx, message->headers, message->end);

	if (found & FOUND_UNCLEAR)
		return conclude(message, CLASS_UNDECIDED, REASON_HEADER_UNCLEAR);
	if (!(found & FOUND_END))
		return conclude(message, CLASS_UNDECIDED, REASON_SCAN_BOUND);
	if (found & FOUND_PRIORITY)
		return conclude(message, CLASS_EMERGENCY, REASON_EMERGENCY_CALL);
	if (found & FOUND_TO_TAG)
		return conclude(message, CLASS_IN_DIALOG, REASON_TO_TAG);
	if (found & FOUND_CREDENTIALS)
		return conclude(message, CLASS_ORIGINAL, REASON_CREDENTIALS);
	return 0;
}

#endif
