//! The closed words of a decision: what a packet is, what is done with it, and why.
//!
//! They mirror `xdp-prog/abi.h` number by number; `xdp-prog` has the test that compares the two. `name` is
//! the spelling in metrics and documents, and is a promise to dashboards: a retired number stays reserved, a
//! new one goes to the end. How a packet gets its class is not here but in `wire` and `message`.

/// Sockets, and therefore rings, of one NIC queue; an XSKMAP slot is `queue * RINGS + ring`.
pub const RINGS: usize = 4;
/// Room for classes in counter tables.
pub const CLASSES: usize = 16;
/// Room for verdicts in counter tables.
pub const VERDICTS: usize = 6;
/// Room for reasons in counter tables; larger than the number of reasons, so that they can grow.
pub const REASONS: usize = 40;
/// Room for methods in counter tables.
pub const METHODS: usize = 15;
/// Services that one front-end can guard; the kernel's tables have this size.
pub const SERVICES_MAX: usize = 64;
/// NIC queues that one front-end can serve; the kernel's tables have this size.
pub const QUEUES_MAX: usize = 64;

/// Declares an enum whose discriminants are those of `abi.h`, with its table of values and names.
macro_rules! closed_enum {
    ($(#[$meta:meta])* $name:ident: $($(#[$value_meta:meta])* $value:ident = $number:literal, $label:literal;)+) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[$value_meta])* $value = $number,)+ }

        impl $name {
            /// Every value, in the order of its number.
            pub const ALL: [Self; [$($number),+].len()] = [$(Self::$value),+];

            /// The name in metrics and documents, in snake case.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$value => $label,)+ }
            }

            /// The value with this number, if there is one.
            #[must_use]
            pub const fn from_u8(number: u8) -> Option<Self> {
                match number { $($number => Some(Self::$value),)+ _ => None }
            }
        }
    };
}

closed_enum! {
    /// What a packet is.
    Class:
    /// A status line.
    Response = 0, "response";
    /// An ACK, known by its method; it is never answered and never shed.
    Ack = 1, "ack";
    /// A CANCEL, known by its method; it is never shed.
    Cancel = 2, "cancel";
    /// A BYE, a PRACK, or a request with a tag in To.
    InDialog = 3, "in_dialog";
    /// A request to `urn:service:sos` or one with Resource-Priority.
    Emergency = 4, "emergency";
    /// An OPTIONS of a configured prober.
    Prober = 5, "prober";
    /// The first copy of any other request.
    Original = 6, "original";
    /// A retransmission.
    Copy = 7, "copy";
    /// The kernel's bounded scan could not tell. User space never says this.
    Undecided = 8, "undecided";
    /// Up to four bytes of CR, LF or zero.
    Keepalive = 9, "keepalive";
    /// A STUN message on the SIP port (RFC 5626 section 4.4.2).
    Stun = 10, "stun";
    /// Nothing that a SIP server would read as a request or a response.
    NotSip = 11, "not_sip";
    /// An IP fragment, the first or a later one.
    Fragment = 12, "fragment";
    /// IPv4 options, IPv6 extension headers, too many VLAN tags, a header cut short, or a martian source.
    Exotic = 13, "exotic";
    /// For a service, but larger than a frame.
    Oversize = 14, "oversize";
    /// For no service.
    Foreign = 15, "foreign";
}

closed_enum! {
    /// What is done with a packet. The first four are the rings of a queue.
    Verdict:
    /// To the ring that is served first.
    RingControl = 0, "ring_control";
    /// To the ring of originals.
    RingNew = 1, "ring_new";
    /// To the ring that is served last.
    RingRetransmission = 2, "ring_retransmission";
    /// To the ring of originals that are owed a refusal.
    RingReject = 3, "ring_reject";
    /// To the kernel's own stack, untouched.
    Pass = 4, "pass";
    /// Nowhere.
    Drop = 5, "drop";
}

closed_enum! {
    /// Why a class and a verdict were chosen.
    Reason:
    /// Never counted.
    Unset = 0, "unset";
    /// EtherType other than IPv4 and IPv6.
    NotIp = 1, "not_ip";
    /// More than two VLAN tags.
    VlanDepth = 2, "vlan_depth";
    /// Ethernet group address.
    LinkMulticast = 3, "link_multicast";
    /// IPv4 header longer than 20 bytes.
    IpOptions = 4, "ip_options";
    /// An IPv6 extension header other than the fragment header.
    Ipv6Extension = 5, "ipv6_extension";
    /// More fragments, a fragment offset, or an IPv6 fragment header.
    IpFragment = 6, "ip_fragment";
    /// TCP, ICMP, anything but UDP.
    NotUdp = 7, "not_udp";
    /// UDP, but to no configured address and port.
    NoService = 8, "no_service";
    /// The packet does not fit into a frame.
    LargerThanFrame = 9, "larger_than_frame";
    /// A header or the datagram ends before its announced length.
    Truncated = 10, "truncated";
    /// Keep-alive bytes.
    LinePing = 11, "line_ping";
    /// First two bits 00 and the magic cookie.
    StunMessage = 12, "stun_message";
    /// Neither status line nor request line.
    BadStartLine = 13, "bad_start_line";
    /// A status line.
    StatusLine = 14, "status_line";
    /// ACK, CANCEL, BYE, PRACK.
    Method = 15, "method";
    /// A request inside a dialog.
    ToTag = 16, "to_tag";
    /// Request-URI or Resource-Priority.
    EmergencyCall = 17, "emergency_call";
    /// A configured prober.
    ProberSource = 18, "prober_source";
    /// The gate is open.
    NewRequest = 19, "new_request";
    /// Gate in overload, transaction inside the admitted share.
    ShareInside = 20, "share_inside";
    /// Gate in overload, transaction outside the admitted share.
    ShareOutside = 21, "share_outside";
    /// The gate discards every original.
    GateDiscard = 22, "gate_discard";
    /// The marker says Nth copy with N of at least 1.
    Marker = 23, "marker";
    /// Start line or headers not finished within the kernel's bound.
    ScanBound = 24, "scan_bound";
    /// Gate open: headers are left to user space.
    HeadersUnread = 25, "headers_unread";
    /// A header that the kernel's scan does not interpret.
    HeaderUnclear = 26, "header_unclear";
    /// A source address that no other host can have.
    SourceMartian = 27, "source_martian";
    /// Copy of a request that still waits here: its answer serves both.
    OriginalWaits = 28, "original_waits";
    /// Copy of a request that was shed: the same answer again.
    OriginalShed = 29, "original_shed";
    /// Copy of a request that the server has got.
    OriginalServed = 30, "original_served";
    /// More copies than RFC 3261's timers can make.
    CopyExcess = 31, "copy_excess";
    /// For the Ethernet address of another host.
    LinkNotOurs = 32, "link_not_ours";
    /// A VLAN that the host has no device for.
    VlanNotOurs = 33, "vlan_not_ours";
    /// An original that brings credentials: it was challenged before, so half of its work is done.
    Credentials = 34, "credentials";
    /// From the wire, with a source address of the host itself.
    SourceLocal = 35, "source_local";
    /// Only watched: what would have been done is counted apart.
    Monitored = 36, "monitored";
    /// The source is on the list of those denied.
    SourceDenied = 37, "source_denied";
}

closed_enum! {
    /// The method of a request.
    Method:
    /// Any token not below, and what is no request.
    Other = 0, "other";
    /// INVITE.
    Invite = 1, "invite";
    /// ACK.
    Ack = 2, "ack";
    /// CANCEL.
    Cancel = 3, "cancel";
    /// BYE.
    Bye = 4, "bye";
    /// PRACK (RFC 3262).
    Prack = 5, "prack";
    /// REGISTER.
    Register = 6, "register";
    /// OPTIONS.
    Options = 7, "options";
    /// SUBSCRIBE (RFC 6665).
    Subscribe = 8, "subscribe";
    /// NOTIFY (RFC 6665).
    Notify = 9, "notify";
    /// PUBLISH (RFC 3903).
    Publish = 10, "publish";
    /// INFO (RFC 6086).
    Info = 11, "info";
    /// REFER (RFC 3515).
    Refer = 12, "refer";
    /// MESSAGE (RFC 3428).
    Message = 13, "message";
    /// UPDATE (RFC 3311).
    Update = 14, "update";
}

closed_enum! {
    /// Where the retransmission marker stood (docs/marker.md).
    MarkerForm:
    /// No marker.
    None = 0, "none";
    /// A fourth token of the request line, `SIP/2.0 rtx=1`.
    Field = 1, "field";
    /// A parameter of the Request-URI, `;rtx=1`.
    Uri = 2, "uri";
}

impl Method {
    /// The method named by a token. The comparison ignores case: servers accept `invite`, so a
    /// case-sensitive front-end could be walked around (RFC 3261 section 7.1 has upper case only).
    #[must_use]
    pub const fn from_token(token: &[u8]) -> Self {
        // Short-circuit by length, so that most comparisons never run.
        let candidates: &[Self] = match token.len() {
            3 => &[Self::Ack, Self::Bye],
            4 => &[Self::Info],
            5 => &[Self::Prack, Self::Refer],
            6 => &[Self::Invite, Self::Cancel, Self::Notify, Self::Update],
            7 => &[Self::Options, Self::Publish, Self::Message],
            8 => &[Self::Register],
            9 => &[Self::Subscribe],
            _ => &[],
        };
        let mut i = 0;
        while i < candidates.len() {
            if token.eq_ignore_ascii_case(candidates[i].name().as_bytes()) {
                return candidates[i];
            }
            i += 1;
        }
        Self::Other
    }
}

impl Verdict {
    /// The ring of the queue, for the four verdicts that name one.
    #[must_use]
    pub const fn ring(self) -> Option<usize> {
        match self {
            Self::RingControl | Self::RingNew | Self::RingRetransmission | Self::RingReject => {
                Some(self as usize)
            }
            Self::Pass | Self::Drop => None,
        }
    }
}

impl Class {
    /// What a packet for a service can be when a worker has decided on it. All others stay with the kernel.
    pub const OF_SERVICES: [Self; 11] = [
        Self::Response,
        Self::Ack,
        Self::Cancel,
        Self::InDialog,
        Self::Emergency,
        Self::Prober,
        Self::Original,
        Self::Copy,
        Self::Keepalive,
        Self::Stun,
        Self::NotSip,
    ];

    /// Whether the gate may shed a message of this class, so that an answer is owed to it. A copy gets the answer of
    /// its original.
    #[must_use]
    pub const fn may_be_shed(self) -> bool {
        matches!(self, Self::Original | Self::Copy)
    }
}

/// Where a class goes while the gate is open.
#[must_use]
pub const fn verdict_of(class: Class) -> Verdict {
    match class {
        Class::Response | Class::Ack | Class::Cancel | Class::InDialog | Class::Emergency | Class::Prober => {
            Verdict::RingControl
        }
        Class::Original | Class::Undecided => Verdict::RingNew,
        Class::Copy | Class::Keepalive | Class::Stun | Class::NotSip => Verdict::RingRetransmission,
        Class::Fragment | Class::Exotic | Class::Oversize | Class::Foreign => Verdict::Pass,
    }
}

// Counter tables are indexed by these numbers.
const _: () = assert!(Class::ALL.len() == CLASSES);
const _: () = assert!(Verdict::ALL.len() == VERDICTS);
const _: () = assert!(Reason::ALL.len() <= REASONS);
const _: () = assert!(Method::ALL.len() == METHODS);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_worker_gets_and_decides_on_is_of_services() {
        let goes_to_a_worker =
            |class: &Class| verdict_of(*class).ring().is_some() && *class != Class::Undecided;
        let expected: Vec<Class> = Class::ALL.into_iter().filter(goes_to_a_worker).collect();
        assert_eq!(Class::OF_SERVICES.to_vec(), expected);
    }

    #[test]
    fn every_number_leads_back_to_its_value() {
        for (number, class) in (0u8..).zip(Class::ALL) {
            assert_eq!((class as u8, Class::from_u8(number)), (number, Some(class)));
        }
        for reason in Reason::ALL {
            assert_eq!(Reason::from_u8(reason as u8), Some(reason));
        }
        for (number, method) in (0u8..).zip(Method::ALL) {
            assert_eq!((method as u8, Method::from_u8(number)), (number, Some(method)));
        }
        assert_eq!(Class::from_u8(16), None);
        assert_eq!(Reason::from_u8(38), None);
        assert_eq!(Verdict::from_u8(6), None);
        assert_eq!(MarkerForm::from_u8(2), Some(MarkerForm::Uri));
    }

    #[test]
    fn a_method_is_known_in_any_case_and_never_by_a_prefix() {
        for method in Method::ALL.into_iter().filter(|m| *m != Method::Other) {
            let upper = method.name().to_ascii_uppercase();
            assert_eq!(Method::from_token(upper.as_bytes()), method);
            assert_eq!(Method::from_token(method.name().as_bytes()), method);
            assert_eq!(Method::from_token(&upper.as_bytes()[1..]), Method::Other, "{upper} without its head");
            assert_eq!(Method::from_token(format!("{upper}X").as_bytes()), Method::Other);
        }
        assert_eq!(Method::from_token(b"OTHER"), Method::Other);
        assert_eq!(Method::from_token(b""), Method::Other);
    }

    #[test]
    fn only_the_first_four_verdicts_name_a_ring() {
        let rings: Vec<_> = Verdict::ALL.iter().filter_map(|v| v.ring()).collect();
        assert_eq!(rings, [0, 1, 2, 3]);
        assert_eq!(rings.len(), RINGS);
    }
}
