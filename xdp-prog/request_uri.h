/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * The three things that are looked for in a Request-URI: a retransmission marker (docs/marker.md), the
 * emergency URN, and a number to be compared with the configured emergency numbers. The URI is not otherwise
 * understood: odd ones are for the server to judge.
 */
#ifndef SIPWEIR_REQUEST_URI_H
#define SIPWEIR_REQUEST_URI_H

#include "abi.h"
#include "message.h"
#include "words.h"

/* Words read plus '@', '?' and ';' met in a Request-URI. 64 words are START_LINE_MAX; the rest is for a long
 * URI's parameters. */
#define URI_STEPS_MAX (START_LINE_MAX / 8 + 32)

/*
 * The marker in the Request-URI [uri, uri_end): the first ";rtx=N" behind the last '@' and before the first
 * '?' behind that '@'. One pass: an '@' forgets what was found before it. 0, or -1 if the bound was reached.
 */
__noinline int scan_uri(struct xdp_md *ctx, struct message *message, __u32 uri, __u32 uri_end)
{
	struct window window = window_of(ctx);
	__u64 pos = uri, end = uri_end, marks = 0, word = 0;
	long left;
	_Bool in_headers = 0;

	if (!message)
		return -1;
	for (int i = 0; i < URI_STEPS_MAX; i++) {
		__u64 at, token, digits;
		int byte;

		if (!marks) {
			if (bytes_left(pos, end) <= 0)
				return 0;
			/* Behind a request line there is at least its version, so that a whole word can be
			 * read. */
			if (!word_at(&window, pos, &word))
				return -1;
			marks = marks_of(word, ';') | marks_of(word, '@') | marks_of(word, '?');
			pos = bounded(pos + 8);
			continue;
		}
		at = pos - 8 + lowest(marks);
		marks &= marks - 1;
		if (bytes_left(at, end) <= 0)
			return 0;
		byte = byte_at(&window, at);
		if (byte == '@') {
			in_headers = 0;
			message->meta.marker_form = MARKER_NONE;
			continue;
		}
		if (byte == '?') {
			in_headers = 1;
			continue;
		}
		if (in_headers || message->meta.marker_form)
			continue;
		if (!word_at(&window, at, &token) || low_bytes(token, 5) != WORD_5(';', 'r', 't', 'x', '='))
			continue;
		digits = is_digit(token >> 48 & 0xff) ? 2 : 1;
		if (!is_digit(token >> 40 & 0xff))
			continue;
		left = bytes_left(at + 5 + digits, end);
		byte = byte_at(&window, at + 5 + digits);
		if (left < 0 || (left > 0 && byte != ';' && byte != '?'))
			continue;
		message->meta.marker_form = MARKER_URI;
		message->meta.marker_offset = at;
		message->meta.marker_len = 5 + digits;
		message->meta.marker_copy =
		    digits == 2 ? (token >> 40 & 0xf) * 10 + (token >> 48 & 0xf) : token >> 40 & 0xf;
	}
	return -1;
}

/* "urn:service:sos" in any case, then '.', ';' or the end of the URI (RFC 5031 section 4.2). */
static __always_inline _Bool is_emergency_urn(const struct window *window, __u64 uri, __u64 uri_end)
{
	__u64 head, tail;
	int next;

	if (uri + 15 > uri_end || !is_letter(byte_at(window, uri), 'u'))
		return 0;
	if (!word_at(window, uri, &head) || !word_at(window, uri + 7, &tail))
		return 0;
	/* The colons are bytes 3 and 11; bit 5 is set in both characters anyway, so they are compared on
	 * their own. */
	if ((head | EACH_BYTE(LOWER_CASE_BIT)) != WORD_8('u', 'r', 'n', ':', 's', 'e', 'r', 'v') ||
	    (tail | EACH_BYTE(LOWER_CASE_BIT)) != WORD_8('v', 'i', 'c', 'e', ':', 's', 'o', 's'))
		return 0;
	if (byte_at(window, uri + 3) != ':' || byte_at(window, uri + 11) != ':')
		return 0;
	next = byte_at(window, uri + 15);
	return uri + 15 == uri_end || next == '.' || next == ';';
}

/* What dialled_number answers for an escaped character, which only user space decodes. No number has it. */
#define NUMBER_ESCAPED (~0ULL)

/*
 * The user part of a sip or sips URI, or the number of a tel URI, as characters from the lowest byte on and
 * their count in the highest; 0 if it is none or has more than seven. It ends at '@', ';', ':' or a blank.
 */
static __always_inline __u64 dialled_number(const struct window *window, __u64 uri)
{
	__u64 head, word, marks, len, scheme_len = 3;
	__u32 scheme;

	if (!word_at(window, uri, &head))
		return 0;
	scheme = low_bytes(head, 3) | WORD_3(LOWER_CASE_BIT, LOWER_CASE_BIT, LOWER_CASE_BIT);
	if (scheme == WORD_3('s', 'i', 'p')) {
		if (is_letter(head >> 24 & 0xff, 's'))
			scheme_len = 4;
	} else if (scheme != WORD_3('t', 'e', 'l')) {
		return 0;
	}
	if ((head >> (8 * scheme_len) & 0xff) != ':' || !word_at(window, uri + scheme_len + 1, &word))
		return 0;
	marks = marks_of(word, '@') | marks_of(word, ';') | marks_of(word, ':') | marks_of(word, ' ') |
		marks_of(word, '\t') | marks_of(word, '%');
	if (!marks)
		return 0;
	len = lowest(marks);
	if ((word >> (8 * len & 63) & 0xff) == '%')
		return NUMBER_ESCAPED;
	return len ? low_bytes(word, len) | len << 56 : 0;
}

#endif
