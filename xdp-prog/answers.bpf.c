// SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
/*
 * What the servers answer: a traffic-control program on the way out of the guarded interface, which counts
 * responses from a service's address and port by status class, and the time to the first answer of requests
 * that a worker has picked.
 *
 * It only looks: every packet goes on to whatever comes next (TCX_NEXT, which is TC_ACT_UNSPEC for clsact).
 *
 * The time begins when a worker hands a request over: it writes branch hash and time into a table of one word
 * a place (`awaited`). The first response of that transaction, 100 as well as any other, takes the word out.
 * The table forgets: a word is overwritten by the next request with its place. Which requests are picked
 * only the workers know, so nothing has to be agreed on.
 *
 * What is not an answer of a server: requests, whatever a server relays; what sipweir itself sends by the
 * side door (known by its sockets; what it sends by AF_XDP never comes here, __dev_direct_xmit in
 * net/core/dev.c).
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "abi.h"
#include "parsing.h"
#include "services.h"
#include "words.h"
#include "branch.h"

/* Places of the table, a power of two. At 512 picks a second (overload::Picker) a word lives for seconds. */
#define AWAITED_PLACES 4096

/* A word: the highest bits of the hash, and microseconds of CLOCK_MONOTONIC modulo 12 days. 0 is none. */
#define AWAITED_TIME_BITS 40
#define AWAITED_TIME_MASK ((1ULL << AWAITED_TIME_BITS) - 1)

/* An older word is one of a transaction that is over (timer C of RFC 3261 section 16.6 is longer, but is a
 * matter of users and not of servers). */
#define ANSWER_US_MAX 64000000

/* Index of a count: status class 1 to 6; 0 for what is no status of RFC 3261; 503 once more, apart. */
#define STATUS_UNAVAILABLE 7
#define STATUSES	   8

/*
 * Buckets of times: 64 us, then two an octave (above 2^n, and above 1.5 * 2^n us), the last above 16.8 s.
 * xdp-prog/src/answers.rs has their bounds.
 */
#define FIRST_OCTAVE 6
#define TIMES	     38

struct answers {
	__u64 statuses[STATUSES];
	__u64 time_us; /* sum of the times */
	__u64 times[TIMES];
};

/* Keyed by the index of the service. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SERVICES_MAX);
	__type(key, __u32);
	__type(value, struct answers);
} answers_seen SEC(".maps");

/* Index from the branch hash. Written, mapped, by every worker; each word is taken out here. */
volatile __u64 awaited[AWAITED_PLACES] SEC(".data.awaited");

/* Cookies (SO_COOKIE) of sipweir's own raw sockets, or 0. */
volatile __u64 own_sockets[2] SEC(".data.own");

/* Bit n: service n's answers are looked at. */
const volatile __u64 watched;

/* Of the branch hash, secret: nobody shall choose which transactions share a place. */
const volatile __u64 branch_seed;

static __always_inline _Bool is_own(struct __sk_buff *skb)
{
	__u64 cookie;

	if (!own_sockets[0] && !own_sockets[1])
		return 0;
	cookie = bpf_get_socket_cookie(skb);
	return cookie && (cookie == own_sockets[0] || cookie == own_sockets[1]);
}

struct udp_source {
	__u64 address[2];
	__u16 port;
	__u16 family;
	__u32 payload; /* offset */
};

/* Addresses of an IPv4 packet, and where its UDP header is. A first fragment has the start line, too. */
static __always_inline _Bool from_ipv4(const struct window *window, __u64 at, struct udp_source *from,
				       __u64 *udp)
{
	struct iphdr *ip = (struct iphdr *)(window->data + bounded(at));

	if ((__u8 *)(ip + 1) > window->end)
		return 0;
	if (ip->protocol != IPPROTO_UDP || ip->ihl < 5 || ip->frag_off & bpf_htons(0x1fff))
		return 0;
	map_ipv4(from->address, ip->saddr);
	from->family = FAMILY_IPV4;
	*udp = at + ip->ihl * 4;
	return 1;
}

/* The same of an IPv6 packet, with a fragment header or no extension header at all. */
static __always_inline _Bool from_ipv6(const struct window *window, __u64 at, struct udp_source *from,
				       __u64 *udp)
{
	struct ipv6hdr *ip = (struct ipv6hdr *)(window->data + bounded(at));
	__u8 *fragment = (__u8 *)(ip + 1);

	if (fragment > window->end)
		return 0;
	__builtin_memcpy(from->address, &ip->saddr, sizeof(from->address));
	from->family = FAMILY_IPV6;
	*udp = at + sizeof(*ip);
	if (ip->nexthdr == IPPROTO_UDP)
		return 1;
	/* Next header, reserved, 13 bits of offset. */
	if (ip->nexthdr != NEXT_FRAGMENT || fragment + 8 > window->end)
		return 0;
	*udp += 8;
	return fragment[0] == IPPROTO_UDP && !fragment[2] && !(fragment[3] & 0xf8);
}

/* Who sends a UDP datagram; false for what is none. */
static __always_inline _Bool udp_source_of(const struct window *window, struct udp_source *from)
{
	struct cursor cursor = {.pos = window->data, .end = window->end};
	struct flow flow = {};
	struct udphdr *udp;
	__u16 ethertype;
	__u64 at;

	if (parse_ethernet(&cursor, &flow, &ethertype) || parse_vlan(&cursor, &flow, &ethertype))
		return 0;
	if (ethertype == ETH_P_IP) {
		if (!from_ipv4(window, cursor.offset, from, &at))
			return 0;
	} else if (ethertype != ETH_P_IPV6 || !from_ipv6(window, cursor.offset, from, &at)) {
		return 0;
	}
	udp = (struct udphdr *)(window->data + bounded(at));
	if ((__u8 *)(udp + 1) > window->end)
		return 0;
	from->port = bpf_ntohs(udp->source);
	from->payload = at + sizeof(*udp);
	return 1;
}

/* "SIP/2.0 ", the first byte lowest. */
#define VERSION_AND_BLANK 0x20302e322f504953ULL

/* The status code of a response; 0 of what is none. */
static __always_inline __u32 status_of(const struct window *window, __u64 payload)
{
	__u64 word, digits;

	if (!word_at(window, payload, &word) || word != VERSION_AND_BLANK)
		return 0;
	/* "2.0 200 ": the bytes that end one behind the code. */
	if (!word_at(window, payload + 4, &digits))
		return 0;
	for (int i = 4; i < 7; i++)
		if (!is_digit(digits >> (8 * i) & 0xff))
			return 0;
	return (digits >> 32 & 0xf) * 100 + (digits >> 40 & 0xf) * 10 + (digits >> 48 & 0xf);
}

/* The bucket of a time. */
static __always_inline __u32 bucket_of(__u64 us)
{
	__u32 octave = 0;
	__u64 x = us ? us - 1 : 0;

	if (!(x >> FIRST_OCTAVE))
		return 0;
	for (int step = 16; step; step /= 2)
		if (x >> (octave + step))
			octave += step;
	octave = 1 + 2 * (octave - FIRST_OCTAVE) + (x >> (octave - 1) & 1);
	return octave < TIMES ? octave : TIMES - 1;
}

/* Counts the time of the first answer to a request that was picked. */
static __always_inline void measure(struct __sk_buff *skb, __u32 headers, struct answers *answers)
{
	__u64 hash = hash_branch(skb, headers, branch_seed), word, us;
	volatile __u64 *place = &awaited[hash & (AWAITED_PLACES - 1)];
	__u32 bucket;

	if (!hash)
		return;
	word = *place;
	if (!word || (word ^ hash) >> AWAITED_TIME_BITS)
		return;
	/* Another answer of the same transaction may be leaving by another CPU. */
	if (__sync_val_compare_and_swap(place, word, 0) != word)
		return;
	us = (bpf_ktime_get_ns() / 1000 - word) & AWAITED_TIME_MASK;
	if (us > ANSWER_US_MAX)
		return;
	bucket = bucket_of(us);
	if (bucket < TIMES)
		answers->times[bucket]++;
	answers->time_us += us;
}

/* A response of a watched service. */
static __always_inline void look_at(struct __sk_buff *skb, __u32 service, __u32 payload)
{
	struct window window = leaving_window_of(skb);
	__u32 status = status_of(&window, payload);
	__u64 class = status / 100;
	struct answers *answers;

	if (!status || is_own(skb))
		return;
	answers = bpf_map_lookup_elem(&answers_seen, &service);
	if (!answers)
		return;
	if (class >= STATUS_UNAVAILABLE)
		class = 0;
	/* For the verifier, which knows no bounds of a quotient; assembly, so that the compiler does not drop
	 * it. */
	asm volatile("%0 &= %1" : "+r"(class) : "i"(STATUSES - 1));
	/* Plain additions: a CPU sends with softirqs off, and one packet at a time. */
	answers->statuses[class]++;
	if (status == 503)
		answers->statuses[STATUS_UNAVAILABLE]++;
	measure(skb, payload + sizeof("SIP/2.0 200") - 1, answers);
}

SEC("tc")
int answers(struct __sk_buff *skb)
{
	struct window window = leaving_window_of(skb);
	struct udp_source from = {};
	__u32 service;

	if (!udp_source_of(&window, &from))
		return TC_ACT_UNSPEC;
	if (service_at(from.address, from.port, from.family, &service) && watched >> (service & 63) & 1)
		look_at(skb, service, from.payload);
	return TC_ACT_UNSPEC;
}

/* As the classifier's. */
char program_license[] SEC("license") = "Dual MIT/GPL";
