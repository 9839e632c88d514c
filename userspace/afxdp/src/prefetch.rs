//! Asking for memory before it is needed: what another core has written lies in that core's cache, and fetching it
//! takes longer than anything else that is done with a packet.

/// Bytes of a cache line on the CPUs that NICs of this class sit beside. Where it is wrong, some lines are asked
/// for twice, or come late.
const LINE: usize = 64;

/// Has the CPU fetch the cache lines of `values` while it goes on. Changes nothing but time.
#[inline]
pub fn prefetch<T>(values: &[T]) {
    lines(values).for_each(fetch);
}

/// The first byte of each cache line that a slice has bytes in.
#[inline]
fn lines<T>(values: &[T]) -> impl Iterator<Item = *const u8> {
    let first = values.as_ptr().cast::<u8>();
    let before = first.addr() % LINE;
    let len = size_of_val(values);
    let end = if len == 0 { 0 } else { before + len };
    (0..end).step_by(LINE).map(move |at| first.wrapping_sub(before).wrapping_add(at))
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn fetch(line: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: the instruction is a hint; it does not fault, whatever the address, and reads nothing into the program.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn fetch(line: *const u8) {
    // SAFETY: the instruction is a hint; it does not fault, whatever the address, and touches neither registers nor flags.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) line, options(nostack, preserves_flags, readonly));
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline]
fn fetch(_line: *const u8) {}

#[cfg(test)]
mod tests {
    use super::{LINE, lines};

    #[test]
    fn every_line_with_a_byte_of_the_slice_is_asked_for_once() {
        let bytes = [0_u8; 10 * LINE];
        for start in 0..2 * LINE {
            for len in [0, 1, 2, LINE - 1, LINE, LINE + 1, 3 * LINE, 5 * LINE + 7] {
                let slice = &bytes[start..start + len];
                let mut expected: Vec<_> =
                    slice.iter().map(|byte| std::ptr::from_ref(byte).addr() / LINE).collect();
                expected.dedup();
                let asked: Vec<_> = lines(slice).map(|line| line.addr() / LINE).collect();
                assert_eq!(asked, expected, "{len} bytes from {start} on");
            }
        }
    }
}
