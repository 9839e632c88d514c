/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * What the generator's program is told and what it tells. src/generator.rs fills it in before the first
 * frame; src/frame.rs makes the templates.
 */
#ifndef SIPWEIR_GENERATOR_H
#define SIPWEIR_GENERATOR_H

#include <linux/types.h>

/* Kinds of frames in one stream. A power of two: the index is masked. */
#define TEMPLATES_MAX 8
/* Bytes of a frame, Ethernet header included. A power of two: offsets are masked. */
#define FRAME_MAX 1024
/* Slots of a schedule. A power of two: the position is masked. */
#define SLOTS_MAX 64
/* Places that hold the request's number: Via branch, From tag, Call-ID. */
#define NUMBER_PLACES 3
/* Letters of a number, one for each of 32 bits' nibbles. */
#define NUMBER_LEN 8

/* A frame with zeroes where its number, source and checksums go. */
struct template
{
	/* The last byte of the Ethernet source address is the template's index + 1: it tells which template a
	 * frame that comes back from the page pool still holds. */
	__u8 bytes[FRAME_MAX];
	__u32 len; /* bytes; the same for all templates of a stream */
	/* Sums of all 16-bit words, as they lie in memory, that the checksums cover. */
	__u32 ip_sum;
	__u32 udp_sum;
	__u16 number_at[NUMBER_PLACES]; /* even distance from the UDP header */
	__u16 source_at;		/* of the last two bytes of the source address */
	__u16 ip_checksum_at;		/* 0: IPv6, which has none */
	__u16 udp_checksum_at;
};

/* One packet of the repeating pattern. */
struct slot {
	__u32 back; /* a copy of the request that came so many requests ago, 0 = the last one */
	__u8 fresh; /* the next request instead */
	__u8 template;
	__u8 zero[2];
};

struct stream {
	struct slot slots[SLOTS_MAX];
	__u32 slots_used;
	__u32 position;	   /* in the pattern */
	__u32 next;	   /* request */
	__u32 number_mask; /* number of request n = (n & mask) + base: a range that is gone through again and
			      again */
	__u32 number_base;
	__u32 source_mask; /* source of request n = base address + (n & mask) */
	__u32 ifindex;	   /* the frames leave by this device */
	__u32 zero;
	__u64 sent[TEMPLATES_MAX];
};

#endif
