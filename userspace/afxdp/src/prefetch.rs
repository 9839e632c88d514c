//! Asking for memory before it is needed: what another core has written lies in that core's cache, and fetching it
//! takes longer than anything else that is done with a packet.

/// Bytes of a cache line on the CPUs that NICs of this class sit beside. Where it is wrong, some lines are asked
/// for twice, or come late.
const LINE: usize = 64;

/// Has the CPU fetch the cache lines of `values` while it goes on. Changes nothing but time.
#[inline]
pub fn prefetch<T>(values: &[T]) {
    let first = values.as_ptr().cast::<u8>();
    for at in (0..size_of_val(values)).step_by(LINE) {
        fetch(first.wrapping_add(at));
    }
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
    #[test]
    fn any_slice_will_do() {
        super::prefetch::<u8>(&[]);
        super::prefetch(&[0_u64; 1000]);
        super::prefetch(&[0_u8; 1]);
    }
}
