//! One packet through the loaded program (`BPF_PROG_TEST_RUN`), explained: what an operator asks when he wants to
//! know what would become of a packet, and what the tests of this crate stand on.
//!
//! The verdict comes from the counters, not from the program's return value: a redirect into an empty slot returns
//! `XDP_PASS`. A classifier that is attached counts other packets meanwhile; then the run says so instead of guessing.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use libbpf_rs::ProgramInput;

use crate::counters::Tables;
use crate::{Classifier, Error, Meta};

/// What the program returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// `XDP_PASS`: to the kernel, also from a ring whose slot is empty.
    Pass,
    /// `XDP_DROP`.
    Drop,
    /// `XDP_REDIRECT`: to the socket of the ring.
    Redirect,
    /// Anything else, which the program never returns.
    Other(u32),
}

impl From<u32> for Action {
    fn from(action: u32) -> Self {
        match action {
            1 => Self::Drop,
            2 => Self::Pass,
            4 => Self::Redirect,
            other => Self::Other(other),
        }
    }
}

/// What became of a packet. Numbers are those of `abi.h`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestRun {
    /// What the program returned.
    pub action: Action,
    /// `enum packet_class`.
    pub class: u8,
    /// `enum verdict`.
    pub verdict: u8,
    /// `enum reason`.
    pub reason: u8,
    /// What stands in front of the packet, if its verdict is a ring.
    pub meta: Option<Meta>,
    /// The packet afterwards, without the metadata. The program never changes it.
    pub packet_out: Vec<u8>,
}

/// What one run of the program did, without a look at the counters: see [`Classifier::run_packet`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BareRun<'a> {
    /// What the program returned.
    pub action: Action,
    /// What stands in front of the packet, if its verdict is a ring.
    pub meta: Option<Meta>,
    /// The packet afterwards, without the metadata.
    pub packet_out: &'a [u8],
}

/// What the last test run left in the counters, as long as nobody else can have changed them since: until the program is
/// attached. It halves the time of a run, most of which is spent on reading counters.
#[derive(Default)]
pub(crate) struct TestRuns {
    counted: RefCell<Option<Tables>>,
    has_company: Cell<bool>,
}

impl TestRuns {
    /// The program may run on its own from now on.
    pub(crate) fn are_no_longer_alone(&self) {
        self.has_company.set(true);
        self.counted.take();
    }

    fn keep(&self, tables: Tables) {
        if !self.has_company.get() {
            self.counted.replace(Some(tables));
        }
    }
}

/// Bytes of `struct xdp_md` (linux/bpf.h).
const CONTEXT_LEN: usize = 24;

/// Room for the packet and its metadata; a test run takes no more than a page, minus head and tail room.
const PACKET_OUT_LEN: usize = 4096 + Meta::LEN;

impl Classifier {
    /// Runs one packet, as received on queue 0. It is counted like any other.
    ///
    /// # Errors
    ///
    /// The kernel takes packets from an Ethernet header up to about 3,500 bytes; [`Error::TestRun`] if other packets
    /// were counted at the same time.
    pub fn test_run(&self, packet: &[u8]) -> Result<TestRun, Error> {
        let before = self.test_runs.counted.take().map_or_else(|| self.counter_tables(), Ok)?;
        let mut out = vec![0; PACKET_OUT_LEN];
        let (action, meta_len, data_len) = self.run_once(packet, &mut out)?;
        let after = self.counter_tables()?;
        let counted = after.one_packet_since(&before);
        self.test_runs.keep(after);
        let Some((class, verdict, reason)) = counted else {
            return Err(Error::TestRun(
                "other packets were counted meanwhile; detach the program first".to_owned(),
            ));
        };
        out.truncate(data_len);
        let packet_out = out.split_off(meta_len.min(data_len));
        let meta = <&[u8; Meta::LEN]>::try_from(out.as_slice()).ok().map(Meta::from_bytes);
        Ok(TestRun { action, class, verdict, reason, meta, packet_out })
    }

    /// Runs one packet like [`Self::test_run`], but leaves the counters unread, which is most of the time of a run.
    /// For millions of packets, whose counters are then compared all at once. The packet afterwards is written to
    /// `out`, which must have room for it and for the metadata.
    ///
    /// # Errors
    ///
    /// The kernel takes packets from an Ethernet header up to about 3,500 bytes.
    pub fn run_packet<'a>(&self, packet: &[u8], out: &'a mut [u8]) -> Result<BareRun<'a>, Error> {
        self.test_runs.counted.take();
        let (action, meta_len, data_len) = self.run_once(packet, out)?;
        let (meta, packet_out) = out[..data_len].split_at(meta_len.min(data_len));
        let meta = <&[u8; Meta::LEN]>::try_from(meta).ok().map(Meta::from_bytes);
        Ok(BareRun { action, meta, packet_out })
    }

    /// The mean time of a run, over `repeat` runs on the same packet within the kernel.
    ///
    /// # Errors
    ///
    /// As for [`Self::test_run`].
    pub fn time_run(&self, packet: &[u8], repeat: u32) -> Result<Duration, Error> {
        self.test_runs.counted.take();
        let input = ProgramInput { data_in: Some(packet), repeat, ..Default::default() };
        let output = self.skeleton.progs.sipweir.test_run(input);
        output.map(|output| output.duration).map_err(|error| Error::from_libbpf("timing a test run", &error))
    }

    /// Return value, bytes of metadata, and bytes of metadata and packet together.
    fn run_once(&self, packet: &[u8], out: &mut [u8]) -> Result<(Action, usize, usize), Error> {
        // `data` = 0: no metadata in front; `data_end` must be the length. The other fields stay zero.
        let mut context_in = [0; CONTEXT_LEN];
        let len = u32::try_from(packet.len()).unwrap_or(u32::MAX);
        context_in[4..8].copy_from_slice(&len.to_ne_bytes());
        let mut context_out = [0; CONTEXT_LEN];
        let output = self.skeleton.progs.sipweir.test_run(ProgramInput {
            context_in: Some(&mut context_in),
            context_out: Some(&mut context_out),
            data_in: Some(packet),
            data_out: Some(out),
            ..Default::default()
        });
        let output = output.map_err(|error| Error::from_libbpf("test run", &error))?;
        let action = Action::from(output.return_value);
        let data_len = output.data.as_ref().map_or(0, |data| data.len());
        // `data` counts from the start of the metadata.
        let [m0, m1, m2, m3, ..] = context_out;
        let meta_len = u32::from_ne_bytes([m0, m1, m2, m3]);
        Ok((action, usize::try_from(meta_len).unwrap_or(usize::MAX), data_len))
    }
}
