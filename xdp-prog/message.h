/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * A message on its way through the stages of the decision, and the ways to conclude one.
 */
#ifndef SIPWEIR_MESSAGE_H
#define SIPWEIR_MESSAGE_H

#include "abi.h"

/*
 * Bytes from the first that is not CR/LF, within which the LF is looked for. Long Request-URIs (push tokens,
 * Teams) take 300. Smaller: more for user space. Larger: more instructions to verify.
 */
#define START_LINE_MAX 512

/* A message on its way through the stages; offsets count from the first byte of the packet. */
struct message {
	struct packet_meta meta;
	__u64 source[2];
	__u16 start;   /* first byte that is not CR/LF */
	__u16 uri;     /* of a request whose start line was read: its Request-URI, */
	__u16 uri_end; /* and the byte behind it */
	__u16 headers; /* first byte behind the start line */
	__u16 end;     /* of the datagram */
	__u16 is_ipv4;
	__u16 zero[2];
};

static __always_inline int conclude(struct message *message, enum packet_class class, enum reason reason)
{
	message->meta.class = class;
	message->meta.reason = reason;
	return 0;
}

/* User space starts anew, so nothing half-read is handed to it. */
static __always_inline int undecided(struct message *message, enum reason reason)
{
	message->meta.method = METHOD_OTHER;
	message->meta.marker_form = MARKER_NONE;
	message->meta.marker_offset = 0;
	message->meta.marker_len = 0;
	message->meta.marker_copy = 0;
	return conclude(message, CLASS_UNDECIDED, reason);
}

static __always_inline int not_sip(struct message *message)
{
	message->meta.start_line_len = 0;
	return conclude(message, CLASS_NOT_SIP, REASON_BAD_START_LINE);
}

#endif
