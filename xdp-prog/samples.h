/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * Packets that are dropped here, copied for a capture (`sipweir capture`): no worker ever sees them. While
 * there is no capture, a packet that is dropped costs one load and a test more, and all others nothing.
 */
#ifndef SIPWEIR_SAMPLES_H
#define SIPWEIR_SAMPLES_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "abi.h"
#include "maps.h"
#include "message.h"

/* Bytes of a packet that are kept. Longer: fewer places in the ring buffer, each of which has this size. */
#define SAMPLE_BYTES_MAX 2000

/* What is wanted, as bits, of which bit 0 of the reasons is never set. Written, mapped, by user space; `lost`
 * is written here, too. */
struct sampling {
	__u64 reasons; /* 0: nothing is */
	__u64 services;
	__u64 classes;
	__u64 share; /* a random number of 32 bits is not to be above it */
	__u64 lost;  /* that found no place */
};

volatile struct sampling sampling SEC(".data.sampling");

struct sample {
	__u64 at_ns; /* CLOCK_MONOTONIC */
	__u16 packet_len;
	__u16 len; /* of it, kept */
	__u8 class;
	__u8 reason;
	__u8 service;
	__u8 zero;
	__u8 packet[SAMPLE_BYTES_MAX];
};

_Static_assert(sizeof(struct sample) == 2016, "as src/samples.rs reads it");

/* Some 120 places: user space looks every 10 ms. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} samples SEC(".maps");

static __always_inline _Bool is_sampled(const struct message *message)
{
	return sampling.reasons >> (message->meta.reason & 63) & 1;
}

/* Copies a packet that is about to be dropped, if it is wanted and there is a place. */
__noinline int sample(struct xdp_md *ctx, struct message *message)
{
	struct sample *sample;
	__u64 len;

	if (!message)
		return 0;
	if (!(sampling.services >> (message->meta.service & 63) & 1) ||
	    !(sampling.classes >> (message->meta.class & 63) & 1) || bpf_get_prandom_u32() > sampling.share)
		return 0;
	sample = bpf_ringbuf_reserve(&samples, sizeof(*sample), 0);
	if (!sample) {
		__sync_fetch_and_add(&sampling.lost, 1);
		return 0;
	}
	len = bpf_xdp_get_buff_len(ctx);
	sample->at_ns = bpf_ktime_get_ns();
	sample->packet_len = len;
	sample->class = message->meta.class;
	sample->reason = message->meta.reason;
	sample->service = message->meta.service;
	sample->zero = 0;
	if (len > SAMPLE_BYTES_MAX)
		len = SAMPLE_BYTES_MAX;
	sample->len = len;
	if (len < ETH_HLEN || bpf_xdp_load_bytes(ctx, 0, sample->packet, len)) {
		bpf_ringbuf_discard(sample, BPF_RB_NO_WAKEUP);
		return 0;
	}
	/* Nobody sleeps on it. */
	bpf_ringbuf_submit(sample, BPF_RB_NO_WAKEUP);
	return 0;
}

#endif
