//! Quoted strings and `;name=value` parameters of header values (RFC 3261 section 25.1).
//!
//! Only what the front-end must know: whether To has a tag, and where the parameters of a Via value stand.
//! Values may still be folded; CR and LF count as blanks here.

use memchr::{memchr, memchr2, memchr3};

/// A blank or a byte of a folded line end.
pub(crate) const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// A value without blanks and line ends around it.
pub(crate) fn trim_space(value: &[u8]) -> &[u8] {
    let Some(first) = value.iter().position(|byte| !is_space(*byte)) else { return &[] };
    let last = value.iter().rposition(|byte| !is_space(*byte)).unwrap_or(first);
    &value[first..=last]
}

/// The offset behind the closing quote of a string whose opening quote stands at `open`; `None` if it never
/// closes. A backslash hides the byte behind it.
pub(crate) fn skip_quoted(value: &[u8], open: usize) -> Option<usize> {
    let mut at = open + 1;
    loop {
        at += memchr2(b'"', b'\\', value.get(at..)?)?;
        if value[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// The offset of the first `stop` at or behind `from` that is outside quoted strings; the length if there is
/// none. `None` if a quoted string never closes.
pub(crate) fn find_unquoted(value: &[u8], from: usize, stop: u8) -> Option<usize> {
    let mut at = from;
    while let Some(found) = memchr2(b'"', stop, value.get(at..).unwrap_or(&[])) {
        at += found;
        if value[at] == stop {
            return Some(at);
        }
        at = skip_quoted(value, at)?;
    }
    Some(value.len())
}

/// Whether a From or To value has a `tag` parameter (RFC 3261 section 19.3), and its value.
///
/// A parameter counts outside quoted strings and outside `<…>`, so one that belongs to the URI does not. A
/// quote that never closes is an ordinary byte: the servers behind may well find the tag behind it, and a
/// request inside a dialog must not be taken for one outside. Without a value the tag is empty.
pub(crate) fn find_tag(value: &[u8]) -> Option<&[u8]> {
    let mut at = 0;
    let mut quotes_close = true;
    while let Some(found) = find_structure(&value[at..]) {
        at += found;
        match value[at] {
            b'"' if quotes_close => match skip_quoted(value, at) {
                Some(behind) => at = behind,
                None => {
                    // From here on every quote is ordinary, or each could cost another walk to the end.
                    quotes_close = false;
                    at += 1;
                }
            },
            b'<' => at += memchr(b'>', &value[at..])? + 1,
            b';' => {
                at += 1;
                if let Some(tag) = strip_tag_name(&value[at..]) {
                    return Some(tag);
                }
            }
            _ => at += 1,
        }
    }
    None
}

/// Bytes among which `find_structure` mostly finds one: fewer than a call of `memchr3` pays for.
const NEAR_LEN: usize = 8;

/// The offset of the first byte that may begin a quoted string, an address or a parameter.
fn find_structure(value: &[u8]) -> Option<usize> {
    let (near, far) = value.split_at(value.len().min(NEAR_LEN));
    near.iter()
        .position(|byte| matches!(byte, b'"' | b'<' | b';'))
        .or_else(|| memchr3(b'"', b'<', b';', far).map(|offset| near.len() + offset))
}

/// The tag's value, if the parameter behind a semicolon is `tag`.
fn strip_tag_name(parameter: &[u8]) -> Option<&[u8]> {
    let start = parameter.iter().position(|byte| !is_space(*byte))?;
    let (name, rest) = parameter[start..].split_at_checked(3)?;
    if !name.eq_ignore_ascii_case(b"tag") {
        return None;
    }
    let rest = skip_space(rest);
    match rest.first() {
        Some(b'=') => {
            let value = skip_space(&rest[1..]);
            let end = value.iter().position(|byte| is_space(*byte) || matches!(byte, b';' | b',' | b'<'));
            Some(&value[..end.unwrap_or(value.len())])
        }
        None | Some(b';' | b',') => Some(&[]),
        Some(_) => None,
    }
}

fn skip_space(text: &[u8]) -> &[u8] {
    &text[text.iter().position(|byte| !is_space(*byte)).unwrap_or(text.len())..]
}

/// One parameter and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Param<'a> {
    /// The name, without blanks around it.
    pub(crate) name: &'a [u8],
    /// The value, without blanks around it; `None` without an equals sign.
    pub(crate) value: Option<&'a [u8]>,
    /// From the semicolon to the last byte in front of the next semicolon, verbatim.
    pub(crate) whole: &'a [u8],
}

impl<'a> Param<'a> {
    /// The value; empty if there is none.
    pub(crate) fn value_or_empty(&self) -> &'a [u8] {
        self.value.unwrap_or(&[])
    }
}

/// The parameters of a value, from its first semicolon on.
#[derive(Clone, Debug)]
pub(crate) struct Params<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Params<'a> {
    type Item = Param<'a>;

    fn next(&mut self) -> Option<Param<'a>> {
        if self.0.is_empty() {
            return None;
        }
        let end = find_unquoted(self.0, 1, b';').unwrap_or(self.0.len());
        let (whole, rest) = self.0.split_at(end);
        self.0 = rest;
        let body = &whole[1..];
        let (name, value) = match memchr(b'=', body) {
            Some(equals) => (&body[..equals], Some(trim_space(&body[equals + 1..]))),
            None => (body, None),
        };
        Some(Param { name: trim_space(name), value, whole })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_counts_behind_the_address_only() {
        let cases: [(&[u8], Option<&[u8]>); 17] = [
            (b"<sip:a@b>;tag=1", Some(b"1")),
            (b"sip:a@b;tag=1", Some(b"1")),
            (b"sip:a@b;user=phone ; TAG = x-1 ;y", Some(b"x-1")),
            (b"sip:a@b ;\r\n tag\r\n\t= 19", Some(b"19")),
            (b"\"a;tag=1\" <sip:a@b>", None),
            (b"\"a\\\";tag=1\" <sip:a@b>", None),
            (b"<sip:a@b;tag=1>", None),
            (b"<sip:a@b;tag=1>;tag=2", Some(b"2")),
            (b"<sip:a@b>;xtag=1", None),
            (b"<sip:a@b>;tagx=1", None),
            (b"<sip:a@b>;tag", Some(b"")),
            (b"<sip:a@b>;tag=", Some(b"")),
            (b"<sip:a@b>;p=\";tag=1\"", None),
            (b"\"a <sip:a@b>;tag=1", Some(b"1")),
            (b"<sip:a@b;tag=1", None),
            (b"a>;tag=1<b>", Some(b"1")),
            (b"", None),
        ];
        for (value, tag) in cases {
            assert_eq!(find_tag(value), tag, "{}", value.escape_ascii());
        }
    }

    #[test]
    fn parameters_keep_their_quoted_semicolons_and_their_place() {
        let found: Vec<_> = Params(b";oc ;oc-algo=\"a;b\" ; rport = 5").collect();
        assert_eq!(found[0], Param { name: b"oc", value: None, whole: b";oc " });
        let algo = Param { name: b"oc-algo", value: Some(b"\"a;b\""), whole: b";oc-algo=\"a;b\" " };
        assert_eq!(found[1], algo);
        assert_eq!(found[2], Param { name: b"rport", value: Some(b"5"), whole: b"; rport = 5" });
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn a_stop_inside_quotes_is_none() {
        assert_eq!(find_unquoted(b"a=\"x,y\",b", 0, b','), Some(7));
        assert_eq!(find_unquoted(b"a=\"x,y\"", 0, b','), Some(7));
        assert_eq!(find_unquoted(b"a=\"x,y", 0, b','), None);
        assert_eq!(find_unquoted(b"a=\"\\", 0, b','), None);
    }

    #[test]
    fn a_long_row_of_hidden_quotes_is_read_once() {
        let mut value = b"\"".to_vec();
        for _ in 0..30_000 {
            value.extend_from_slice(b"\\\"");
        }
        let started = std::time::Instant::now();
        assert_eq!(find_tag(&value), None);
        // A quadratic walk takes seconds here.
        assert!(started.elapsed() < std::time::Duration::from_secs(1));
    }
}
