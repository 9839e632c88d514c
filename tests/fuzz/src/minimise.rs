//! From bytes that show something to few bytes that still show it (delta debugging, the simple kind).

/// Tries of a whole minimisation; each is a run of the program, so this is a second.
const TRIES_MAX: usize = 20_000;

/// The smallest bytes found for which `shows` still holds; it must hold for `bytes`.
///
/// Pieces are taken out, from halves down to single bytes, until nothing more can go; then what remains is made plain
/// where that changes nothing.
pub fn minimise(bytes: &[u8], mut shows: impl FnMut(&[u8]) -> bool) -> Vec<u8> {
    let mut best = bytes.to_vec();
    let mut tries = 0;
    let mut piece = best.len().div_ceil(2);
    while piece > 0 && tries < TRIES_MAX {
        let mut removed = false;
        let mut at = 0;
        while at < best.len() && tries < TRIES_MAX {
            let mut shorter = best[..at].to_vec();
            shorter.extend_from_slice(&best[(at + piece).min(best.len())..]);
            tries += 1;
            if shows(&shorter) {
                best = shorter;
                removed = true;
            } else {
                at += piece;
            }
        }
        if !removed || piece > 1 {
            piece = if piece == 1 { 0 } else { piece.div_ceil(2) };
        }
    }
    for at in 0..best.len() {
        for plain in [b'a', b' '] {
            if best[at] == b'a' || tries >= TRIES_MAX {
                break;
            }
            let before = std::mem::replace(&mut best[at], plain);
            tries += 1;
            if shows(&best) {
                break;
            }
            best[at] = before;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_matter_goes_and_what_matters_stays() {
        let long = [&b"x".repeat(500)[..], b"\r\nkey", &b"y".repeat(300), b"word\xff", &[0; 90]].concat();
        let both = |bytes: &[u8]| {
            let has = |what: &[u8]| bytes.windows(what.len()).any(|window| window == what);
            has(b"key") && has(b"word")
        };
        assert_eq!(minimise(&long, both), b"keyword");
    }

    #[test]
    fn a_needed_length_is_kept_and_made_plain() {
        assert_eq!(minimise(&[0xff; 40], |bytes| bytes.len() >= 20), [b'a'; 20]);
        assert_eq!(minimise(b"", |_| true), b"");
    }

    #[test]
    fn tries_are_bounded() {
        let mut tries = 0;
        minimise(&[7; 60_000], |_| {
            tries += 1;
            false
        });
        assert!(tries <= TRIES_MAX, "{tries}");
    }
}
