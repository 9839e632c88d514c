//! The packet generator: streams of requests and copies at several million a second, from one core.
//!
//! `bpf/generator.bpf.c` makes each frame; this is what tells it how and sets it running. The frames leave by one end of
//! a veth pair. The kernel runs the other end's NAPI on the same core between two batches of 64 frames, so what is
//! offered arrives, and the time of a run contains the receiving half, up to and with the copy into an AF_XDP ring.
//! `METHODOLOGY.md` says what follows from that. Only where the machine has put that off (ksoftirqd, on a busy core) do
//! frames not fit into the ring between the two ends; the driver counts them, and they were not offered to anybody.

use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{OpenObject, ProgramInput};

use crate::device::refused;
use crate::frame::Template;
use crate::skeleton::generator::{GeneratorSkel, GeneratorSkelBuilder, types};
use crate::stage::{ifindex, on_core};

/// As in `generator.h`.
pub(crate) const TEMPLATES_MAX: usize = 8;
/// As in `generator.h`.
pub(crate) const SLOTS_MAX: usize = 64;

/// `BPF_F_TEST_XDP_LIVE_FRAMES` (linux/bpf.h).
const LIVE_FRAMES: u32 = 1 << 1;

/// Frames of one system call: some tenths of a second at full speed, so that a signal is noticed in time.
const CALL_FRAMES_MAX: u64 = 1 << 20;

/// A paced run looks at the clock this often. Shorter: set-up of the calls is most of the work. Longer: bursts grow
/// beyond a small ring at a tenth of what it carries.
const TICK: Duration = Duration::from_micros(200);

/// One packet of the repeating pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) template: u8,
    /// A copy of the request that came so many requests ago (0: the last one); none is the next request.
    pub(crate) copy_of: Option<u32>,
}

/// What comes after what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) templates: Vec<Template>,
    pub(crate) pattern: Vec<Slot>,
    /// Source addresses, a power of two up to 65,536.
    pub(crate) sources: u32,
}

impl Stream {
    fn check(&self) -> anyhow::Result<()> {
        let (templates, slots) = (self.templates.len(), self.pattern.len());
        ensure!(
            (1..=TEMPLATES_MAX).contains(&templates),
            "{templates} templates: 1 to {TEMPLATES_MAX} are possible"
        );
        ensure!((1..=SLOTS_MAX).contains(&slots), "a pattern of {slots}: 1 to {SLOTS_MAX} are possible");
        let lens: Vec<usize> = self.templates.iter().map(|template| template.bytes.len()).collect();
        ensure!(
            lens.iter().all(|len| *len == lens[0]),
            "frames of {lens:?} bytes: all of a stream must be equally long"
        );
        let unknown = self.pattern.iter().find(|slot| usize::from(slot.template) >= templates);
        ensure!(unknown.is_none(), "{unknown:?} names a template that is not there");
        let sources = self.sources;
        ensure!(
            sources.is_power_of_two() && sources <= 1 << 16,
            "{sources} sources: a power of two up to 65536 is possible"
        );
        Ok(())
    }
}

/// What a run has offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offered {
    /// That have arrived.
    pub(crate) packets: u64,
    /// That did not fit into the wire's ring.
    pub(crate) refused: u64,
    pub(crate) elapsed: Duration,
    /// CPU time of the generator's thread: both halves of the wire, without what other processes took of the core.
    pub(crate) cpu: Duration,
}

impl Offered {
    pub(crate) fn per_s(&self) -> f64 {
        self.packets as f64 / self.elapsed.as_secs_f64()
    }

    pub(crate) fn cpu_ns_per_packet(&self) -> f64 {
        self.cpu.as_nanos() as f64 / self.packets as f64
    }
}

/// A loaded generator. It stays on the thread that loaded it, whose network namespace holds the device.
pub(crate) struct Generator {
    skeleton: GeneratorSkel<'static>,
    first_frame: Vec<u8>,
    device: String,
    core: usize,
}

impl std::fmt::Debug for Generator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Generator")
    }
}

impl Generator {
    /// Loads the program for one stream out of one device, to be run on a core. As with the classifier's skeleton, the place of libbpf's
    /// object is never freed: load once a scenario, not once a round.
    pub(crate) fn load(stream: &Stream, device: &str, core: usize) -> anyhow::Result<Self> {
        stream.check()?;
        let ifindex = ifindex(device)?;
        let place: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
        let open =
            GeneratorSkelBuilder::default().open(place).context("cannot open the generator's program")?;
        let skeleton = open.load().context("cannot load the generator's program")?;
        let mut generator = Self {
            skeleton,
            first_frame: stream.templates[0].bytes.clone(),
            device: device.to_owned(),
            core,
        };
        let data = generator.skeleton.maps.data_templates_data.as_deref_mut().context("no templates")?;
        for (place, template) in data.templates.iter_mut().zip(&stream.templates) {
            write_template(place, template);
        }
        let state = generator.state()?;
        for (place, slot) in state.slots.iter_mut().zip(&stream.pattern) {
            place.template = slot.template;
            place.fresh = slot.copy_of.is_none().into();
            place.back = slot.copy_of.unwrap_or(0);
        }
        state.slots_used = u32::try_from(stream.pattern.len())?;
        state.source_mask = stream.sources - 1;
        state.number_mask = u32::MAX;
        state.ifindex = ifindex;
        Ok(generator)
    }

    /// From now on requests are numbered from `base` on, and begin again behind `base + len`: then they are copies. `len`
    /// is a power of two.
    pub(crate) fn go_round(&mut self, base: u32, len: u32) -> anyhow::Result<()> {
        ensure!(len.is_power_of_two(), "a range of {len} requests: it must be a power of two");
        let state = self.state()?;
        (state.next, state.number_base, state.number_mask) = (0, base, len - 1);
        Ok(())
    }

    /// Frames made so far, by template.
    #[cfg(test)]
    pub(crate) fn sent(&mut self) -> anyhow::Result<[u64; TEMPLATES_MAX]> {
        // Read once, as the kernel writes it.
        Ok(std::hint::black_box(self.state()?.sent))
    }

    /// Offers so many packets as fast as it goes.
    pub(crate) fn run(&self, packets: u64) -> anyhow::Result<Offered> {
        self.count_arrived(packets, || {
            let begin = Instant::now();
            let mut left = packets;
            while left > 0 {
                let now = left.min(CALL_FRAMES_MAX);
                self.call(now)?;
                left -= now;
            }
            Ok(begin.elapsed())
        })
    }

    /// Offers so many packets at an even rate, in small bursts. `elapsed` is what it took, which is longer if the rate is
    /// above what can be offered.
    pub(crate) fn run_at(&self, rate_per_s: f64, packets: u64) -> anyhow::Result<Offered> {
        self.count_arrived(packets, || self.pace(rate_per_s, packets))
    }

    /// As [`Self::run_at`], on the generator's core, for who runs several at a time and counts what has arrived of all.
    pub(crate) fn run_uncounted_at(&self, rate_per_s: f64, packets: u64) -> anyhow::Result<Duration> {
        on_core(self.core, || self.pace(rate_per_s, packets))
    }

    fn pace(&self, rate_per_s: f64, packets: u64) -> anyhow::Result<Duration> {
        let begin = Instant::now();
        let mut offered = 0;
        while offered < packets {
            let due = ((begin.elapsed() + TICK).as_secs_f64() * rate_per_s) as u64;
            let now = due.min(packets).saturating_sub(offered).min(CALL_FRAMES_MAX);
            if now > 0 {
                self.call(now)?;
                offered += now;
            }
            let next = Duration::from_secs_f64(offered as f64 / rate_per_s);
            if let Some(early) = next.checked_sub(begin.elapsed()) {
                std::thread::sleep(early.min(TICK));
            }
        }
        Ok(begin.elapsed())
    }

    /// Does a run on the core, and finds out what has arrived of it.
    fn count_arrived(
        &self,
        packets: u64,
        run: impl FnOnce() -> anyhow::Result<Duration>,
    ) -> anyhow::Result<Offered> {
        let before = refused(&self.device)?;
        let cpu = thread_cpu_time();
        let elapsed = on_core(self.core, run)?;
        let cpu = thread_cpu_time().saturating_sub(cpu);
        let refused = refused(&self.device)? - before;
        Ok(Offered { packets: packets - refused, refused, elapsed, cpu })
    }

    /// Offers a few packets, too few for any to be lost, and without the time that counting takes.
    pub(crate) fn burst(&self, packets: u64) -> anyhow::Result<()> {
        on_core(self.core, || self.call(packets))
    }

    fn call(&self, packets: u64) -> anyhow::Result<()> {
        let input = ProgramInput {
            data_in: Some(&self.first_frame),
            repeat: u32::try_from(packets)?,
            flags: LIVE_FRAMES,
            ..Default::default()
        };
        self.skeleton
            .progs
            .generate
            .test_run(input)
            .context("the kernel does not run the generator (5.18 or later)")?;
        Ok(())
    }

    fn state(&mut self) -> anyhow::Result<&mut types::stream> {
        let data = self.skeleton.maps.data_stream_data.as_deref_mut().context("no stream")?;
        Ok(&mut data.stream)
    }

    /// The frame that comes next, made without sending it.
    #[cfg(test)]
    fn next_frame(&mut self) -> Vec<u8> {
        let mut out = vec![0; crate::frame::FRAME_MAX];
        let input =
            ProgramInput { data_in: Some(&self.first_frame), data_out: Some(&mut out), ..Default::default() };
        let output = self.skeleton.progs.generate.test_run(input).expect("a run");
        assert_eq!(output.return_value, 4, "XDP_REDIRECT");
        let len = output.data.map_or(0, |data| data.len());
        out.truncate(len);
        out
    }
}

fn thread_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

fn write_template(place: &mut types::template, template: &Template) {
    place.bytes[..template.bytes.len()].copy_from_slice(&template.bytes);
    place.len = template.bytes.len() as u32;
    (place.ip_sum, place.udp_sum) = (template.ip_sum, template.udp_sum);
    place.number_at = template.number_at;
    place.source_at = template.source_at;
    (place.ip_checksum_at, place.udp_checksum_at) = (template.ip_checksum_at, template.udp_checksum_at);
}

#[cfg(test)]
mod tests;
