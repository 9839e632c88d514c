/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * The words that the XDP program and user space share: classes, verdicts, reasons, the gate word and the
 * metadata in front of a packet. No includes of its own; fixed-width types come from <linux/types.h>.
 *
 * Each enum is closed. `userspace/sip` (class.rs) mirrors them and `xdp-prog/tests/abi.rs` compares the
 * two, name by name and number by number. Names are a promise to dashboards: a retired number stays
 * reserved, a new one goes to the end.
 */
#ifndef SIPWEIR_ABI_H
#define SIPWEIR_ABI_H

/* What a packet is. */
enum packet_class {
	CLASS_RESPONSE = 0,  /* status line */
	CLASS_ACK = 1,	     /* by method; never answered, never shed */
	CLASS_CANCEL = 2,    /* by method; never shed */
	CLASS_IN_DIALOG = 3, /* BYE, PRACK, or a To tag */
	CLASS_EMERGENCY = 4, /* urn:service:sos..., Resource-Priority */
	CLASS_PROBER = 5,    /* OPTIONS from a configured prober */
	CLASS_ORIGINAL = 6,  /* any other request, first copy */
	CLASS_COPY = 7,	     /* a retransmission, by marker or transaction table */
	CLASS_UNDECIDED = 8, /* a bounded scan could not tell, and user space decides; or nobody looked */
	CLASS_KEEPALIVE = 9, /* CR/LF or zero bytes up to 4, or empty */
	CLASS_STUN = 10,     /* STUN on the SIP port (RFC 5626 section 4.4.2) */
	CLASS_NOT_SIP = 11,  /* nothing that a SIP server would read as a request or a response */
	CLASS_FRAGMENT = 12, /* any IP fragment, first or later */
	CLASS_EXOTIC = 13, /* IPv4 options, IPv6 extension headers, more than two tags, cut short, martian */
	CLASS_OVERSIZE = 14, /* for a service, but larger than a UMEM frame */
	CLASS_FOREIGN = 15,  /* not for a service */
	CLASSES = 16,
};

/* What is done with it. */
enum verdict {
	VERDICT_RING_CONTROL = 0,
	VERDICT_RING_NEW = 1,
	VERDICT_RING_RETRANSMISSION = 2,
	VERDICT_RING_REJECT = 3,
	VERDICT_PASS = 4,
	VERDICT_DROP = 5,
	VERDICTS = 6,
};

/* The first four verdicts are the rings of a queue; XSKMAP slot = queue * RINGS + ring. */
#define RINGS 4

/* Why. Noun phrases, spelled alike in metrics and docs. Zero is never counted. */
enum reason {
	REASON_UNSET = 0,
	REASON_NOT_IP = 1,	      /* EtherType other than IPv4, IPv6 */
	REASON_VLAN_DEPTH = 2,	      /* more than two VLAN tags */
	REASON_LINK_MULTICAST = 3,    /* Ethernet group address */
	REASON_IP_OPTIONS = 4,	      /* IPv4 header longer than 20 bytes */
	REASON_IPV6_EXTENSION = 5,    /* next header is an extension header (other than fragment) */
	REASON_IP_FRAGMENT = 6,	      /* MF or offset set; IPv6 fragment header */
	REASON_NOT_UDP = 7,	      /* TCP, ICMP, anything else */
	REASON_NO_SERVICE = 8,	      /* UDP, but to no configured address and port */
	REASON_LARGER_THAN_FRAME = 9, /* packet does not fit into a UMEM frame */
	REASON_TRUNCATED = 10,	      /* a header or the datagram ends before its announced length */
	REASON_LINE_PING = 11,	      /* keep-alive bytes */
	REASON_STUN_MESSAGE = 12,     /* first two bits 00, magic cookie at byte 4 */
	REASON_BAD_START_LINE = 13,   /* neither status line nor request line */
	REASON_STATUS_LINE = 14,      /* SIP/x.y 3DIGIT */
	REASON_METHOD = 15,	      /* ACK, CANCEL, BYE, PRACK */
	REASON_TO_TAG = 16,	      /* request inside a dialog */
	REASON_EMERGENCY_CALL = 17,   /* Request-URI or Resource-Priority */
	REASON_PROBER_SOURCE = 18,    /* configured prober */
	REASON_NEW_REQUEST = 19,      /* gate open */
	REASON_SHARE_INSIDE = 20,     /* gate in overload, transaction inside the admitted share */
	REASON_SHARE_OUTSIDE = 21,    /* gate in overload, transaction outside the admitted share */
	REASON_GATE_DISCARD = 22,     /* gate discards every original */
	REASON_MARKER = 23,	      /* marker says Nth copy, N >= 1 */
	REASON_SCAN_BOUND = 24,	      /* start line or headers not finished within the kernel's bound */
	REASON_HEADERS_UNREAD = 25,   /* gate open: headers are left to user space */
	REASON_HEADER_UNCLEAR = 26,   /* a header that the kernel's scan does not interpret */
	REASON_SOURCE_MARTIAN = 27,   /* a source address that no other host can have */
	REASON_ORIGINAL_WAITS = 28,   /* copy of a request that still waits here: its answer serves both */
	REASON_ORIGINAL_SHED = 29,    /* copy of a request that was shed: the same answer again */
	REASON_ORIGINAL_SERVED = 30,  /* copy of a request that the server has got */
	REASON_COPY_EXCESS = 31,      /* more copies than RFC 3261's timers can make */
	REASON_LINK_NOT_OURS = 32,    /* for the Ethernet address of another host */
	REASON_VLAN_NOT_OURS = 33,    /* a VLAN that the host has no device for */
	REASON_CREDENTIALS = 34,      /* brings credentials: half of its work is done */
	REASON_SOURCE_LOCAL = 35,     /* from the wire, with a source address of the host itself */
	REASON_MONITORED = 36,	      /* only watched: what would have been done is counted apart */
	REASON_SOURCE_DENIED = 37,    /* the source is on the list of those denied */
	REASONS = 40,		      /* room to grow; more than 42 and the counters of a CPU exceed 32 KiB */
};

enum method {
	METHOD_OTHER = 0, /* any token not below; also "no method" for what is no request */
	METHOD_INVITE = 1,
	METHOD_ACK = 2,
	METHOD_CANCEL = 3,
	METHOD_BYE = 4,
	METHOD_PRACK = 5,
	METHOD_REGISTER = 6,
	METHOD_OPTIONS = 7,
	METHOD_SUBSCRIBE = 8,
	METHOD_NOTIFY = 9,
	METHOD_PUBLISH = 10,
	METHOD_INFO = 11,
	METHOD_REFER = 12,
	METHOD_MESSAGE = 13,
	METHOD_UPDATE = 14,
	METHODS = 15,
};

/* Where the retransmission marker stood (docs/marker.md). */
enum marker_form {
	MARKER_NONE = 0,
	MARKER_FIELD = 1, /* INVITE sip:bob@example.com SIP/2.0 rtx=1 */
	MARKER_URI = 2,	  /* INVITE sip:bob@example.com;rtx=1 SIP/2.0 */
};

/* The overload state of one service at one worker. */
enum gate_state {
	GATE_NORMAL = 0,
	GATE_OVERLOAD = 1,
	GATE_DISCARD = 2,
};

/*
 * The gate word: one aligned 64-bit value, written by the worker with a single store and read by the XDP
 * program with a single load. Low half: admitted share as a threshold; in overload an original is admitted
 * when the upper 32 bits of its salted transaction hash are below it. A share of 1 is GATE_NORMAL's business
 * or 0xffffffff (which refuses one transaction in 2^32). Above it eight bits of enum gate_state, then flags.
 */
#define GATE_STATE_SHIFT 32
#define GATE_STATE_MASK	 0xff

/* While the gate is normal: leave it to the worker to ask the transaction table. */
#define GATE_TABLE_UNASKED (1ULL << 40)

/* Answer nobody: as many replies as the worker may send are on their way. */
#define GATE_SILENT (1ULL << 41)

/* From here on a bit for each enum packet_class: such packets pass, whatever would be done with them. */
#define GATE_MONITORED_SHIFT 48

/*
 * In front of every redirected packet. 32 bytes, the most that kernels before 6.8 accept. Host byte order.
 * Offsets count from the first byte of the Ethernet header.
 */
struct packet_meta {
	__u64 arrival_ns;     /* bpf_ktime_get_ns: CLOCK_MONOTONIC */
	__u64 txn_hash;	      /* keyed hash of source address, service and datagram; 0 = not computed */
	__u16 payload_offset; /* of the UDP payload */
	__u16 payload_len;    /* by the UDP header */
	__u16 start_line_len; /* from the first byte that is not CR/LF up to, not including, the line end; 0 =
				 not found */
	__u16 marker_offset;  /* of the marker's first byte (its space or semicolon); 0 = none */
	__u8 class;	      /* enum packet_class */
	__u8 reason;	      /* enum reason */
	__u8 method;	      /* enum method */
	__u8 marker_form;     /* enum marker_form */
	__u8 marker_copy;     /* N of rtx=N */
	__u8 marker_len;      /* bytes to remove */
	__u8 service;	      /* index of the service */
	__u8 zero;
};

/* Limits that both sides size their tables by. */
#define SERVICES_MAX 64
#define QUEUES_MAX   64

/* The guarded device and what is stacked on it; a device can carry 4094 VLANs. */
#define SIDE_DOOR_DEVICES_MAX 4096

/* The host's own addresses, in each of the two programs. */
#define LOCALS_MAX 16384

#endif
