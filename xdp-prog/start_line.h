/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * From the first byte of the datagram to the end of its first line: keep-alive, STUN, status line, request
 * line or none of them; method, marker, emergency URN.
 *
 * The line is decided from its tail: words are searched for LF only, then the last token must be the SIP
 * version (or the marker behind it). The Request-URI is read only if the line has a semicolon. Each bound
 * that is reached, and each rare form, ends as `undecided`: user space has the same rules without bounds
 * (userspace/sip, start_line.rs). Not here: headers, the gate, the service.
 */
#ifndef SIPWEIR_START_LINE_H
#define SIPWEIR_START_LINE_H

#include "abi.h"
#include "message.h"
#include "request_uri.h"
#include "tokens.h"
#include "words.h"

#define LINE_PING_MAX	4
#define STUN_HEADER_LEN 20
#define STUN_COOKIE	0x2112a442

/* Shortest request line: one byte, blank, SIP/2.0. */
#define REQUEST_LINE_MIN 9
#define STATUS_LINE_MIN	 11

/* Keep-alives that phones and nathelper send: nothing, CR/LF, zero bytes. */
static __always_inline _Bool is_line_ping(const struct window *window, __u64 offset, __u64 len)
{
	if (len > LINE_PING_MAX)
		return 0;
#pragma unroll
	for (int i = 0; i < LINE_PING_MAX; i++) {
		int byte;

		if (i >= len)
			break;
		byte = byte_at(window, offset + i);
		if (byte != '\r' && byte != '\n' && byte != 0)
			return 0;
	}
	return 1;
}

/* RFC 8489 section 5: two zero bits, the magic cookie at byte 4; on the SIP port by RFC 5626 section 4.4.2.
 */
static __always_inline _Bool is_stun(const struct window *window, __u64 offset, __u64 len)
{
	__u64 word;

	if (len < STUN_HEADER_LEN || !word_at(window, offset, &word))
		return 0;
	return (word & 0xc0) == 0 && (__u32)(word >> 32) == __builtin_bswap32(STUN_COOKIE);
}

/* A semicolon was met on the way; beside the offset in what find_line_end answers. */
#define SEMICOLON_BIT (1UL << 32)

#define LINE_BOUND_REACHED 0xffff

/*
 * Offset of the first LF within START_LINE_MAX, in the low half; 0 if there is none in the datagram,
 * LINE_BOUND_REACHED if the bound was reached.
 */
static __always_inline __u64 find_line_end(struct xdp_md *ctx, __u32 start, __u32 end_of_datagram)
{
	struct window window = window_of(ctx);
	__u64 pos = start, end = end_of_datagram, word, marks, semicolons = 0;
	long left;

	for (int i = 0; i < START_LINE_MAX / 8; i++) {
		left = bytes_left(pos, end);
		if (left < 8)
			goto last_word;
		if (!word_at(&window, pos, &word))
			return 0;
		semicolons |= first_mark_of(word, ';');
		marks = first_mark_of(word, '\n');
		if (marks)
			return (pos + lowest(marks)) | (semicolons ? SEMICOLON_BIT : 0);
		pos = bounded(pos + 8);
	}
	return bytes_left(pos, end) <= 0 ? 0 : LINE_BOUND_REACHED;

last_word:
	if (left <= 0 || !last_bytes(&window, end, left, &word))
		return 0;
	semicolons |= first_mark_of(word, ';');
	marks = first_mark_of(word, '\n');
	return marks ? (pos + lowest(marks)) | (semicolons ? SEMICOLON_BIT : 0) : 0;
}

/*
 * A line whose last token is the version: `version` is the offset of the blank before it, `first` the line's
 * first word. Decides method, marker and URN; what is left over is CLASS_ORIGINAL, to be decided by headers
 * and gate.
 */
static __always_inline int request_line(struct xdp_md *ctx, const struct window *window,
					struct message *message, __u64 first, __u64 version, _Bool semicolon)
{
	__u64 start = message->start, marks, len, uri, uri_end;
	enum method method;

	if (is_blank(first & 0xff))
		return undecided(message, REASON_HEADER_UNCLEAR);
	marks = first_mark_of(first, ' ') | first_mark_of(first, '\t');
	if (marks) {
		len = lowest(marks);
		method = short_method(first, len);
	} else {
		len = long_method_len(ctx, start);
		if (!len)
			return undecided(message, REASON_SCAN_BOUND);
		method = long_method(window, start, first, len);
	}
	message->meta.method = method;

	uri = start + len + 1;
	if (is_blank(byte_at(window, uri)))
		uri = skip_blanks(ctx, uri);
	uri_end = version;
	if (is_blank(byte_at(window, uri_end - 1)))
		uri_end = trim_blanks(ctx, uri_end);
	if (!uri || !uri_end)
		return undecided(message, REASON_SCAN_BOUND);
	message->uri = uri;
	message->uri_end = uri_end;
	if (semicolon && !message->meta.marker_form && uri < uri_end && scan_uri(ctx, message, uri, uri_end))
		return undecided(message, REASON_SCAN_BOUND);
	if (!message->meta.marker_form) {
		message->meta.marker_offset = 0;
		message->meta.marker_len = 0;
		message->meta.marker_copy = 0;
	}

	if (method == METHOD_ACK)
		return conclude(message, CLASS_ACK, REASON_METHOD);
	if (method == METHOD_CANCEL)
		return conclude(message, CLASS_CANCEL, REASON_METHOD);
	if (method == METHOD_BYE || method == METHOD_PRACK)
		return conclude(message, CLASS_IN_DIALOG, REASON_METHOD);
	if (is_emergency_urn(window, uri, uri_end))
		return conclude(message, CLASS_EMERGENCY, REASON_EMERGENCY_CALL);
	if (message->meta.marker_copy)
		return conclude(message, CLASS_COPY, REASON_MARKER);
	return conclude(message, CLASS_ORIGINAL, REASON_NEW_REQUEST);
}

/* A line that begins with "SIP/": a status line in its usual form, else a question for user space. */
static __always_inline int status_line(const struct window *window, struct message *message, __u64 first,
				       __u64 line_end)
{
	__u64 start = message->start, code;

	if ((first >> 32) == WORD_4('2', '.', '0', ' ') && start + STATUS_LINE_MIN <= line_end &&
	    word_at(window, start + 4, &code)) {
		int next = byte_at(window, start + STATUS_LINE_MIN);

		/* Bytes 4..7 of `code` are the three digits and what follows them. */
		if (is_digit(code >> 32 & 0xff) && is_digit(code >> 40 & 0xff) &&
		    is_digit(code >> 48 & 0xff) && (start + STATUS_LINE_MIN == line_end || is_blank(next)))
			return conclude(message, CLASS_RESPONSE, REASON_STATUS_LINE);
	}
	return undecided(message, REASON_HEADER_UNCLEAR);
}

/*
 * Fills class, reason, method, marker and start line of the metadata, and `start` and `headers`.
 * `payload_offset`, `payload_len` and `end` are set.
 */
static __always_inline int scan_start_line(struct xdp_md *ctx, struct message *message)
{
	struct window window = window_of(ctx);
	__u64 start, end, len, line_end, trimmed, tail, first, found, marker_len;
	int byte;

	start = message->meta.payload_offset;
	len = message->meta.payload_len;
	end = message->end;
	if (is_line_ping(&window, start, len))
		return conclude(message, CLASS_KEEPALIVE, REASON_LINE_PING);
	if (is_stun(&window, start, len))
		return conclude(message, CLASS_STUN, REASON_STUN_MESSAGE);

	byte = byte_at(&window, start);
	if (byte == '\r' || byte == '\n') {
		start = skip_line_ends(ctx, start, end);
		if (!start)
			return undecided(message, REASON_SCAN_BOUND);
	}
	message->start = start;

	found = find_line_end(ctx, start, end);
	line_end = found & 0xffff;
	if (line_end == LINE_BOUND_REACHED)
		return undecided(message, REASON_SCAN_BOUND);
	if (!line_end)
		return not_sip(message);
	message->headers = line_end + 1;
	if (byte_at(&window, line_end - 1) == '\r')
		line_end--;
	message->meta.start_line_len = line_end - start;
	trimmed = line_end;
	if (is_blank(byte_at(&window, trimmed - 1)))
		trimmed = trim_blanks(ctx, trimmed);
	if (!trimmed)
		return undecided(message, REASON_SCAN_BOUND);
	if (start + REQUEST_LINE_MIN > trimmed)
		return not_sip(message);
	if (!word_at(&window, start, &first) || !word_at(&window, trimmed - 8, &tail))
		return not_sip(message);

	if (((__u32)first | 0x00202020) == WORD_4('s', 'i', 'p', '/'))
		return status_line(&window, message, first, trimmed);

	if (is_version(tail))
		return request_line(ctx, &window, message, first, trimmed - 8, found & SEMICOLON_BIT ? 1 : 0);
	marker_len = marker_field(tail, &message->meta.marker_copy);
	if (marker_len) {
		trimmed -= marker_len;
		if (start + REQUEST_LINE_MIN <= trimmed && word_at(&window, trimmed - 8, &tail) &&
		    is_version(tail)) {
			message->meta.marker_form = MARKER_FIELD;
			message->meta.marker_offset = trimmed;
			message->meta.marker_len = marker_len;
			return request_line(ctx, &window, message, first, trimmed - 8, 0);
		}
	}
	message->meta.marker_copy = 0;
	if (may_be_version(ctx, trimmed))
		return undecided(message, REASON_HEADER_UNCLEAR);
	return not_sip(message);
}

#endif
