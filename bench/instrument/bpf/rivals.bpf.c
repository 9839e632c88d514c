// SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
/*
 * What the kernel can do with a packet at the least: drop it, give it to an AF_XDP socket, pass it to its own
 * stack. The driver counts the packets (src/device.rs), so that the programs need not.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

/* Index: RX queue. */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u32);
} rival_sockets SEC(".maps");

SEC("xdp")
int bare_drop(struct xdp_md *ctx)
{
	return XDP_DROP;
}

SEC("xdp")
int bare_socket(struct xdp_md *ctx)
{
	return bpf_redirect_map(&rival_sockets, ctx->rx_queue_index, XDP_DROP);
}

SEC("xdp")
int bare_pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

char program_license[] SEC("license") = "Dual MIT/GPL";
