// SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
/*
 * What the classifier's cost is measured against: the least that a program can do which steers packets into
 * AF_XDP sockets. Never attached to an interface by sipweir.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u32);
} yardstick_sockets SEC(".maps");

SEC("xdp")
int bare_redirect(struct xdp_md *ctx)
{
	return bpf_redirect_map(&yardstick_sockets, ctx->rx_queue_index, XDP_PASS);
}

char program_license[] SEC("license") = "Dual MIT/GPL";
