//! The words that made messages consist of: usual ones several times, so that a table is its own weighting.

/// Methods: registered ones, in other cases, and neighbours of theirs.
pub(super) const METHODS: [&str; 36] = [
    "INVITE",
    "INVITE",
    "INVITE",
    "INVITE",
    "INVITE",
    "REGISTER",
    "REGISTER",
    "OPTIONS",
    "OPTIONS",
    "SUBSCRIBE",
    "SUBSCRIBE",
    "NOTIFY",
    "PUBLISH",
    "INFO",
    "REFER",
    "MESSAGE",
    "UPDATE",
    "ACK",
    "CANCEL",
    "BYE",
    "PRACK",
    "invite",
    "Register",
    "suBSCRIBE",
    "aCK",
    "FEATURE",
    "X",
    "INVITEX",
    "INVIT",
    "REGISTERS",
    "SUBSCRIBER",
    "SUBSCRIB",
    "!interesting-Method0123456789_*+`.%",
    "a-token-of-more-than-thirty-two-bytes",
    "I\x0eVITE",
    "\0CK",
];

/// Between the parts of a start line.
pub(super) const SEPARATORS: [&str; 12] =
    [" ", " ", " ", " ", " ", " ", " ", " ", "\t", "  ", " \t ", "          "];

/// Schemes and what stands for one.
pub(super) const SCHEMES: [&str; 10] =
    ["sip:", "sip:", "sip:", "sip:", "sips:", "tel:", "SIP:", "<sip:", "", "http://"];

/// Users.
pub(super) const USERS: [&str; 12] = [
    "bob@",
    "alice@",
    "+15551234@",
    "",
    "",
    "1000;phone-context=x@",
    "a;rtx=4@",
    "a?b;rtx=1@",
    "user:secret@",
    "%61%40@",
    "a b@",
    "\"q\"@",
];

/// Hosts.
pub(super) const HOSTS: [&str; 8] = [
    "example.com",
    "pbx.example",
    "192.0.2.10",
    "[2001:db8::10]",
    "192.0.2.10:5060",
    "[2001:db8::10]:5062",
    "x",
    "",
];

/// URI parameters; `rtx` in every shape that could be taken for a marker.
pub(super) const URI_PARAMETERS: [&str; 26] = [
    ";transport=udp",
    ";lr",
    ";user=phone",
    ";rtx=0",
    ";rtx=0",
    ";rtx=1",
    ";rtx=1",
    ";rtx=2",
    ";rtx=12",
    ";rtx=00",
    ";rtx=99",
    ";rtx=123",
    ";rtx=",
    ";rtx",
    ";rtx=x",
    ";rtx=1x",
    ";RTX=1",
    "; rtx=1",
    ";rtx =1",
    ";;",
    ";",
    ";maddr=192.0.2.1",
    ";x=\"y;rtx=1\"",
    ">",
    "@",
    "?",
];

/// Headers of a URI.
pub(super) const URI_HEADERS: [&str; 5] =
    ["?subject=x", "?a=b;rtx=7", "?a=b&c=d", "?to=a@b;rtx=1", "?x?;rtx=3"];

/// Emergency URNs and their neighbours.
pub(super) const URNS: [&str; 12] = [
    "urn:service:sos",
    "urn:service:sos.police",
    "URN:service:SOS.fire",
    "urn:Service:sos;rtx=1",
    "urn:service:sos;rtx=0",
    "urn:service:sosa",
    "urn:service:so",
    "urn:service:counseling",
    "urn\x1aservice\x1asos",
    "urn:service:sos?x",
    "urn:service:sos@x",
    "rn:service:sos",
];

/// Versions and what stands behind them.
pub(super) const VERSIONS: [&str; 24] = [
    "SIP/2.0 rtx=0",
    "SIP/2.0 rtx=0",
    "SIP/2.0 rtx=1",
    "SIP/2.0 rtx=1",
    "SIP/2.0 rtx=7",
    "SIP/2.0 rtx=42",
    "SIP/2.0 rtx=00",
    "SIP/2.0 rtx=123",
    "SIP/2.0 rtx=",
    "SIP/2.0 RTX=1",
    "SIP/2.0  rtx=1",
    "SIP/2.0\trtx=1",
    "SIP/2.0 rtx=1 rtx=2",
    "sip/2.0",
    "sIp/7.1",
    "SIP/12.0",
    "SIP/2.00",
    "SIP/2.",
    "SIP/.0",
    "SIP2.0",
    "SIPS/2.0",
    "HTTP/1.1",
    "RTSP/1.0",
    "",
];

/// Status lines and their neighbours.
pub(super) const STATUS_LINES: [&str; 16] = [
    "SIP/2.0 200 OK",
    "SIP/2.0 200 OK",
    "SIP/2.0 100 Trying",
    "SIP/2.0 503 Service Unavailable",
    "sip/2.0 180",
    "SIP/2.0 486 ",
    "SIP/2.0 1000 x",
    "SIP/2.0 20",
    "SIP/2.0 2000",
    "SIP/2.0  100 x",
    "SIP/2.0\t100 x",
    "SIP/1.0 100 x",
    "SIP/22.0 100 x",
    "SIP/2.0 200\tOK",
    "SIP/2.0 SIP/2.0",
    "SIP/2.0 INVITE SIP/2.0",
];

/// Ends of lines; one is chosen for a whole message, another now and then for a line.
pub(super) const LINE_ENDS: [&str; 8] = ["\r\n", "\r\n", "\n", "\n", "\n", " \r\n", "\t\t\n", "\r\r\n"];

/// In front of a message.
pub(super) const LEADING: [&str; 8] = [
    "\r\n",
    "\r\n\r\n",
    "\n",
    "\r",
    "\r\n\n",
    "\r\n\r\n\r\n\r\n",
    "\n\n\n\n\n\n\n\n",
    "\r\n\r\n\r\n\r\n\r\n",
];

/// Whole Via values.
pub(super) const VIAS: [&str; 12] = [
    "SIP/2.0/UDP 198.51.100.7:5060;branch=z9hG4bK776asdhds",
    "SIP/2.0/UDP pc33.example.net;branch=z9hG4bKn",
    "SIP/2.0/UDP [2001:db8::7]:5062;branch=z9hG4bK1;rport",
    "SIP/2.0/UDP a;branch=z9hG4bK1,SIP/2.0/UDP b;branch=z9hG4bK2",
    "SIP/2.0/UDP a ;oc;oc-algo=\"loss,A\";branch=z9hG4bK1 , SIP/2.0/TCP b",
    "SIP / 2.0 / UDP 198.51.100.7 : 5064 ; branch = z9hG4bK1 ; rport",
    "SIP/2.0/UDP 198.51.100.7;branch=0",
    "SIP/2.0/UDP 198.51.100.7",
    "SIP/2.0/UDP 198.51.100.7;received=192.0.2.1;rport=9;branch=z9hG4bKr",
    "SIP/2.0/UDP a;maddr=198.51.100.7;branch=z9hG4bKm",
    "SIP/2.0/UDP a;branch=\"z",
    "junk",
];

/// What a To line may say, behind the colon.
pub(super) const TOS: [&str; 30] = [
    " <sip:b@x>",
    " <sip:b@x>",
    " <sip:b@x>",
    " <sip:b@x>",
    " Bob <sip:b@x>",
    " sip:b@x",
    "<sip:b@x>;tag=abc",
    " <sip:b@x>;tag=abc",
    " <sip:b@x>;TAG=abc;x",
    " <sip:b@x>;tag=",
    " <sip:b@x>;tag",
    " <sip:b@x> ;tag=1",
    " <sip:b@x>; tag=1",
    " <sip:b@x>;tag =1",
    " <sip:b@x>;x=y;tag=1",
    " <sip:b@x>;tagged=1",
    " <sip:b@x>;xtag=1",
    " <sip:b@x;tag=1>",
    " sip:b@x;tag=1",
    " \"tag=1;tag=2\" <sip:b@x>",
    " \"x\\\";tag=1\" <sip:b@x>",
    " \"x\" <sip:b@x>;tag=1",
    " \"x <sip:b@x>;tag=1",
    " <sip:b@x>;x=\">;tag=1\"",
    " <sip:b@x",
    " <sip:b@x\r;tag=1",
    " b>;tag=1",
    " \u{80}\u{ff} <sip:b@x>;tag=\0",
    "",
    ";tag=1",
];

/// Names of To and its neighbours.
pub(super) const TO_NAMES: [&str; 14] =
    ["To", "To", "To", "To", "t", "T", "TO", "to ", "To\t", "t ", "To  ", "To \t ", "To\r", "Tö"];

/// Headers that are looked at or must not be: names and values.
pub(super) const NEAR_HEADERS: [&str; 36] = [
    "Authorization: Digest username=\"a\"",
    "AUTHORIZATION:x",
    "authorization : x",
    "Authorization",
    "Authorizatiom: x",
    "Authorization-X: x",
    "Authoriz: x",
    "Proxy-Authorization: Digest username=\"a\"",
    "proxy-AUTHORIZATION:x",
    "Proxy-Authorization\t: x",
    "Proxy-Authorization",
    "Proxy\rAuthorization: x",
    "Proxy-Authenticate: x",
    "Proxy-Authorizations: x",
    "Resource-Priority: esnet.1",
    "Resource-Priority:ets.0",
    "RESOURCE-priority: x",
    "resource-priority : wps.0",
    "Resource-Priority\t:q",
    "Resource-Priority",
    "Resource-Prioritx: 1",
    "Resource-Priority-X: 1",
    "Resource\rPriority: 1",
    "Resource: 1",
    "Route: <sip:p;lr>;tag=1",
    "Require: 100rel",
    "r: x",
    "Topic: <x>;tag=1",
    "To-X: a;tag=1",
    "Timestamp: 1;tag=1",
    "T",
    "t",
    "To",
    "Reply-To: <a>;tag=1",
    "\0To: <a>;tag=1",
    " To: <a>;tag=1",
];

/// Headers of no interest.
pub(super) const PLAIN_HEADERS: [&str; 16] = [
    "Max-Forwards: 70",
    "From: Alice <sip:alice@example.net>;tag=1928301774",
    "f:<sip:a@b>;tag=1",
    "Call-ID: a84b4c76e66710@pc33.example.net",
    "i:1@x",
    "CSeq: 314159 INVITE",
    "CSeq: 1 REGISTER",
    "Contact: <sip:alice@198.51.100.7:5060>;expires=3600",
    "Allow: INVITE, ACK, CANCEL, OPTIONS, BYE, REFER, NOTIFY",
    "User-Agent: a telephone/1.0 (\"quoted\"; on a desk)",
    "Content-Length: 0",
    "l: 2147483648",
    "Authorization: Digest username=\"a\", realm=\"b\", nonce=\"84a4cc6f3082121f32b42a2187831a9e\"",
    "P-Asserted-Identity: \"J\u{fc}rgen\" <sip:j@x>",
    "Subject: a line that fills some words and says nothing at all about ;tag=1",
    "no colon in here",
];

/// Bodies; whatever they say, they are not headers.
pub(super) const BODIES: [&str; 5] = [
    "v=0\r\no=- 1 1 IN IP4 198.51.100.7\r\ns=-\r\nc=IN IP4 198.51.100.7\r\nt=0 0\r\nm=audio 4000 RTP/AVP 0\r\n",
    "To: <x>;tag=9\r\nResource-Priority: x\r\n",
    "OPTIONS sip:second@x SIP/2.0\r\nTo: <x>;tag=1\r\n\r\n",
    "\0\x01\x02\x7f",
    "t=0 0",
];

/// What mutations insert.
pub(crate) const TOKENS: [&str; 20] = [
    "\r\n",
    "\n",
    "\r",
    "\r\n ",
    "\r\n\t",
    "\r\n\r\n",
    ";tag=",
    ">;tag=1",
    " rtx=1",
    ";rtx=1",
    " SIP/2.0",
    "SIP/2.0 ",
    "To:",
    "\r\nt:",
    "\r\nResource-Priority:",
    "urn:service:sos",
    "\"",
    "@",
    "        ",
    "\0\0\0\0\0\0\0\0",
];
