use std::collections::VecDeque;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::config::UmemConfig;
use crate::frame::{Batch, Frame};
use crate::port::BusyPoll;
use crate::tx::Kick;
use crate::umem::Places;
use crate::{BusyPollConfig, FrameBudget};

fn small() -> PortConfig {
    PortConfig {
        umem: UmemConfig { frames: 64, ..UmemConfig::default() },
        rx_ring_sizes: [16, 16, 4, 2],
        fill_ring_size: 32,
        tx_ring_size: 8,
        ..PortConfig::default()
    }
}

fn receive_all(port: &mut QueuePort, ring: usize) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    let mut batch = Batch::new();
    while port.receive(ring, &mut batch) > 0 {
        packets.extend(batch.iter().map(|frame| port.umem().packet(frame).to_vec()));
        port.give_back_all(&mut batch);
    }
    packets
}

#[test]
fn packets_arrive_in_their_ring_in_order_with_their_metadata() {
    let (mut port, mut wire) = pair(&PortConfig::default());
    for number in 0..100_u8 {
        let ring = usize::from(number) % RINGS;
        wire.deliver(ring, &[number; 60], &[!number; METADATA_LEN]).expect("room for 25 packets a ring");
    }
    for ring in 0..RINGS {
        assert_eq!(port.waiting(ring), 25);
        let mut batch = Batch::new();
        assert_eq!(port.receive(ring, &mut batch), 25);
        for (frame, number) in batch.iter().zip((ring as u8..).step_by(RINGS)) {
            assert_eq!(port.umem().packet(frame), &[number; 60]);
            assert_eq!(port.umem().metadata(frame), &[!number; METADATA_LEN]);
        }
        port.give_back_all(&mut batch);
    }
    assert_eq!(port.umem().outstanding(), 0);
}

#[test]
fn a_batch_takes_no_more_than_it_has_room_for() {
    let (mut port, mut wire) = pair(&PortConfig::default());
    for number in 0..100_u8 {
        wire.deliver(1, &[number], &[0; METADATA_LEN]).expect("room");
    }
    let mut batch = Batch::new();
    assert_eq!((port.receive(1, &mut batch), batch.len()), (64, 64));
    assert_eq!(port.receive(1, &mut batch), 0, "the batch is full");
    port.give_back_all(&mut batch);
    assert_eq!(receive_all(&mut port, 1), (64..100).map(|number| vec![number]).collect::<Vec<_>>());
}

#[test]
fn more_packets_than_there_are_indices_left_go_through() {
    let (mut port, mut wire) = pair(&small());
    let (mut egress, mut beyond) =
        egress_pair(&mut port, &EgressConfig { tx_ring_size: 8, ..EgressConfig::default() });
    let mut batch = Batch::new();
    for number in 0..1000_u32 {
        port.refill();
        wire.deliver(0, &number.to_ne_bytes(), &[0; METADATA_LEN]).expect("room");
        assert_eq!(port.receive(0, &mut batch), 1);
        let frame = batch.pop().expect("one packet");
        egress.transmit(&mut port, frame).expect("room");
        assert_eq!(egress.kick(), Ok(Kick::Done));
        assert_eq!(beyond.sent(), [number.to_ne_bytes()]);
        assert_eq!(egress.reap(&mut port), 1);
    }
    assert_eq!(egress.kick(), Ok(Kick::Nothing));
    assert_eq!(port.umem().bad_descriptors(), 0);
}

#[test]
fn drops_are_counted_where_the_kernel_counts_them() {
    let (mut port, mut wire) = pair(&small());
    let packet = [0; 60];
    let mut deliver = |ring| wire.deliver(ring, &packet, &[0; METADATA_LEN]);
    assert_eq!([deliver(3), deliver(3), deliver(3)], [Ok(()), Ok(()), Err(Dropped::RingFull)]);
    for _ in 0..14 {
        deliver(0).expect("room in the ring");
        deliver(1).expect("room in the ring");
    }
    // Two in ring 3 and 28 in the others; of 32 frames two are left, one of them kept after the full ring.
    assert_eq!([deliver(2), deliver(2), deliver(2)], [Ok(()), Ok(()), Err(Dropped::FillEmpty)]);
    assert_eq!(wire.deliver(0, &[0; 1793], &[0; METADATA_LEN]), Err(Dropped::TooLong));
    let statistics = |ring| port.statistics(ring).expect("paired");
    assert_eq!((statistics(3).rx_ring_full, statistics(0).rx_ring_full), (1, 0));
    assert_eq!((statistics(2).rx_dropped, statistics(0).rx_dropped), (1, 1));
    assert_eq!((statistics(0).rx_fill_ring_empty_descs, statistics(3).rx_fill_ring_empty_descs), (1, 1));
    assert_eq!(receive_all(&mut port, 2).len(), 2);
    port.refill();
    assert_eq!(wire.deliver(2, &packet, &[0; METADATA_LEN]), Ok(()), "there are frames again");
}

/// A burst of 500 copies for ring 2, then originals for ring 1, while the worker does nothing. Returns the
/// originals that were lost. The fill ring is refilled as a worker would before it goes on.
fn originals_lost_behind_a_burst(config: &PortConfig) -> usize {
    let (mut port, mut wire) = pair(config);
    for _ in 0..500 {
        let _ = wire.deliver(2, b"a copy", &[0; METADATA_LEN]);
    }
    port.refill();
    (0..20).filter(|_| wire.deliver(1, b"an original", &[0; METADATA_LEN]).is_err()).count()
}

#[test]
fn a_burst_of_copies_leaves_originals_alone_if_and_only_if_the_budget_holds() {
    let config = |low_ring| PortConfig {
        umem: UmemConfig { frames: 256, ..UmemConfig::default() },
        rx_ring_sizes: [32, 32, low_ring, 4],
        fill_ring_size: 32,
        tx_ring_size: 16,
        ..PortConfig::default()
    };
    assert!(FrameBudget::of(&config(64), 0, 0, 0).check().is_ok());
    assert_eq!(originals_lost_behind_a_burst(&config(64)), 0);
    assert!(FrameBudget::of(&config(256), 0, 0, 0).check().is_err());
    let starved = PortConfig { fill_ring_size: 256, ..config(256) };
    assert_eq!(originals_lost_behind_a_burst(&starved), 20);
}

#[test]
fn a_full_tx_ring_and_an_empty_packet_return_the_frame() {
    let (mut port, mut wire) = pair(&small());
    let empty = port.take().expect("a free frame");
    let empty = port.transmit(empty).expect_err("nothing to send");
    port.give_back(empty);
    let mut send = || {
        let mut frame = port.take().expect("a free frame");
        port.umem().set_range(&mut frame, 0..60);
        port.transmit(frame)
    };
    for _ in 0..8 {
        send().expect("room for eight");
    }
    let frame = send().expect_err("no room for nine");
    port.give_back(frame);
    assert!(wire.sent().is_empty(), "nothing was kicked yet");
    assert_eq!(port.kick(), Ok(Kick::Done));
    assert_eq!(wire.sent_max(3).len(), 3);
    let mut frame = port.take().expect("a free frame");
    umem_write(&port, &mut frame, &[9; 60]);
    let frame = port.transmit(frame).expect_err("sent frames count until they are reaped");
    port.give_back(frame);
    assert_eq!((port.umem().places().tx_nic, port.reap(), port.umem().places().tx_nic), (8, 3, 5));
    assert_eq!((wire.sent().len(), port.reap()), (5, 5));
}

#[test]
fn closing_an_egress_port_brings_its_frames_back_and_stops_its_wire() {
    let (mut port, _wire) = pair(&small());
    let config = EgressConfig { tx_ring_size: 8, ..EgressConfig::default() };
    let (mut gone, mut gone_wire) = egress_pair(&mut port, &config);
    let (mut stays, mut stays_wire) = egress_pair(&mut port, &config);
    for number in 0..5_u8 {
        for egress in [&mut gone, &mut stays] {
            let mut frame = port.take().expect("a free frame");
            umem_write(&port, &mut frame, &[number; 20]);
            egress.transmit(&mut port, frame).expect("room");
            egress.kick().expect("paired");
        }
    }
    assert_eq!(gone_wire.sent_max(2).len(), 2, "two are sent, not yet reaped");
    assert_eq!(gone.close(&mut port), 5);
    assert!(gone_wire.sent().is_empty());
    assert_eq!((stays_wire.sent().len(), stays.reap(&mut port)), (5, 5));
    assert_eq!(port.umem().places().tx_egress, 0);
    assert_eq!(port.umem().places(), port.umem().recount());
}

fn umem_write(port: &QueuePort, frame: &mut Frame, bytes: &[u8]) {
    port.umem().buffer_mut(frame)[..bytes.len()].copy_from_slice(bytes);
    port.umem().set_range(frame, 0..bytes.len());
}

#[test]
#[should_panic(expected = "another queue port")]
fn an_egress_port_refuses_another_queue_port() {
    let (mut one, _wire) = pair(&small());
    let (mut other, _other_wire) = pair(&small());
    let (mut egress, _egress_wire) = egress_pair(&mut one, &EgressConfig::default());
    egress.reap(&mut other);
}

#[test]
fn waiting_ends_when_a_packet_arrives_and_when_the_time_is_over() {
    let (mut port, mut wire) = pair(&small());
    assert_eq!(port.wait(&[], Some(1_000_000)), Ok(false));
    let sender = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        wire.deliver(2, b"late", &[0; METADATA_LEN]).expect("room");
    });
    let start = Instant::now();
    assert_eq!(port.wait(&[], Some(10_000_000_000)), Ok(true));
    assert!(start.elapsed() < Duration::from_secs(9));
    assert_eq!(receive_all(&mut port, 2), [b"late"]);
    assert_eq!(port.wait(&[], Some(0)), Ok(false), "the announcement is used up");
    sender.join().expect("the sender delivers");
}

#[test]
fn waiting_watches_other_descriptors_too() {
    use std::io::Write;
    use std::os::fd::AsFd;

    let (port, _wire) = pair(&small());
    let (mut writer, reader) = std::os::unix::net::UnixStream::pair().expect("a socket pair");
    assert_eq!(port.wait(&[reader.as_fd()], Some(0)), Ok(false));
    writer.write_all(&[1]).expect("room");
    assert_eq!(port.wait(&[reader.as_fd()], None), Ok(true));
}

#[test]
fn busy_polling_without_a_device_is_reported_as_inactive() {
    let busy_poll = Some(BusyPollConfig { time_us: 20, budget: 64 });
    let (port, _wire) = pair(&PortConfig { busy_poll, ..small() });
    assert_eq!(port.busy_poll(), BusyPoll::Inactive);
    assert_eq!(pair(&small()).0.busy_poll(), BusyPoll::Off);
}

/// Anything that can happen to a port, at both ends.
#[derive(Clone, Copy, Debug)]
enum Op {
    Deliver(usize),
    Receive(usize),
    Refill,
    Take,
    GiveBack,
    Transmit,
    Egress(usize),
    Kick,
    Send(usize),
    Reap,
    Reopen(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..RINGS).prop_map(Op::Deliver),
        3 => (0..RINGS).prop_map(Op::Receive),
        2 => Just(Op::Refill),
        1 => Just(Op::Take),
        3 => Just(Op::GiveBack),
        3 => Just(Op::Transmit),
        3 => (0..2_usize).prop_map(Op::Egress),
        2 => Just(Op::Kick),
        2 => (0..6_usize).prop_map(Op::Send),
        2 => Just(Op::Reap),
        1 => (0..2_usize).prop_map(Op::Reopen),
    ]
}

proptest! {
    #[test]
    fn no_frame_is_lost_or_doubled_whatever_happens(ops in prop::collection::vec(op(), 0..300)) {
        let config = EgressConfig { tx_ring_size: 4, ..EgressConfig::default() };
        let (mut port, mut wire) = pair(&small());
        let mut egresses = [egress_pair(&mut port, &config), egress_pair(&mut port, &config)];
        let mut held: VecDeque<Frame> = VecDeque::new();
        for (number, op) in ops.into_iter().enumerate() {
            let packet = number.to_ne_bytes();
            match op {
                Op::Deliver(ring) => drop(wire.deliver(ring, &packet, &[0; METADATA_LEN])),
                Op::Receive(ring) => {
                    let mut batch = Batch::new();
                    port.receive(ring, &mut batch);
                    held.extend(batch.drain(..));
                }
                Op::Refill => { port.refill(); }
                Op::Take => held.extend(port.take().map(|mut frame| {
                    umem_write(&port, &mut frame, &packet);
                    frame
                })),
                Op::GiveBack => if let Some(frame) = held.pop_front() { port.give_back(frame) },
                Op::Transmit => if let Some(frame) = held.pop_front() {
                    held.extend(port.transmit(frame).err());
                },
                Op::Egress(which) => if let Some(frame) = held.pop_front() {
                    held.extend(egresses[which].0.transmit(&mut port, frame).err());
                },
                Op::Kick => {
                    prop_assert!(port.kick().is_ok());
                    for (egress, _) in &mut egresses {
                        prop_assert!(egress.kick().is_ok());
                    }
                }
                Op::Send(count) => {
                    wire.sent_max(count);
                    for (_, wire) in &mut egresses {
                        wire.sent_max(count);
                    }
                }
                Op::Reap => {
                    port.reap();
                    for (egress, _) in &mut egresses {
                        egress.reap(&mut port);
                    }
                }
                Op::Reopen(which) => {
                    let fresh = egress_pair(&mut port, &config);
                    let (old, _wire) = std::mem::replace(&mut egresses[which], fresh);
                    old.close(&mut port);
                }
            }
            let places = port.umem().places();
            prop_assert_eq!(places.total(), 64);
            prop_assert_eq!(places, port.umem().recount());
            prop_assert_eq!(places.held as usize, held.len());
            let mut indices: Vec<u32> = held.iter().map(Frame::index).collect();
            indices.sort_unstable();
            indices.dedup();
            prop_assert_eq!(indices.len(), held.len(), "a frame was doubled");
        }

        // When everything is emptied, every frame is free or waits to be received into.
        held.drain(..).for_each(|frame| port.give_back(frame));
        (0..RINGS).for_each(|ring| drop(receive_all(&mut port, ring)));
        port.kick().expect("paired");
        wire.sent();
        port.reap();
        for (mut egress, mut wire) in egresses {
            egress.kick().expect("paired");
            wire.sent();
            egress.reap(&mut port);
            prop_assert_eq!(egress.close(&mut port), 0, "nothing was left");
        }
        let places = port.umem().places();
        let free = 64 - places.receiving;
        prop_assert_eq!(places, Places { free, receiving: places.receiving, ..Places::default() });
        prop_assert_eq!(port.umem().bad_descriptors(), 0);
    }
}
