use super::*;

fn umem(frames: u32) -> Umem {
    Umem::new(&UmemConfig { frames, ..UmemConfig::default() }).expect("memory for a test")
}

/// A frame as if a packet of `len` bytes had been received into it.
fn received(umem: &mut Umem, len: u32) -> Frame {
    let address = umem.lend().expect("a free frame");
    umem.accept(address + u64::from(XDP_HEADROOM), len).expect("a proper descriptor")
}

#[test]
fn every_frame_is_free_at_first_and_can_be_taken_once() {
    let mut umem = umem(8);
    let mut frames: Vec<Frame> = (0..8).map(|_| umem.take().expect("eight frames")).collect();
    assert!(umem.take().is_none());
    assert_eq!(umem.outstanding(), 8);
    let mut indices: Vec<u32> = frames.iter().map(Frame::index).collect();
    indices.sort_unstable();
    assert_eq!(indices, [0, 1, 2, 3, 4, 5, 6, 7]);
    for frame in frames.drain(..) {
        umem.give_back(frame);
    }
    assert_eq!(umem.places(), Places { free: 8, ..Places::default() });
    assert_eq!(umem.places(), umem.recount());
}

#[test]
fn bytes_of_neighbours_do_not_mix() {
    let mut umem = umem(16);
    let mut frames: Vec<Frame> = (0..16).map(|_| umem.take().expect("a free frame")).collect();
    for frame in &mut frames {
        let mark = frame.index() as u8;
        let buffer = umem.buffer_mut(frame);
        assert_eq!(buffer.len(), 2048 - 256);
        buffer.fill(mark);
        umem.set_range(frame, 0..1792);
    }
    for frame in &frames {
        assert!(umem.packet(frame).iter().all(|&byte| byte == frame.index() as u8));
    }
}

#[test]
fn a_request_can_be_read_while_its_reply_is_written() {
    let mut umem = umem(4);
    let mut request = received(&mut umem, 7);
    umem.packet_mut(&mut request).copy_from_slice(b"request");
    let mut reply = umem.take().expect("a free frame");
    let question = umem.packet(&request);
    let answer = umem.buffer_mut(&mut reply);
    answer[..7].copy_from_slice(question);
    answer[7..9].copy_from_slice(b"ed");
    umem.set_range(&mut reply, 0..9);
    assert_eq!(umem.packet(&reply), b"requested");
}

#[test]
fn metadata_lies_in_front_of_the_packet() {
    let mut umem = umem(4);
    let mut frame = received(&mut umem, 4);
    umem.packet_mut(&mut frame).copy_from_slice(&[1, 2, 3, 4]);
    assert_eq!(umem.metadata(&frame), &[0; METADATA_LEN]);
    umem.set_range(&mut frame, 4..8);
    let metadata = umem.metadata(&frame);
    assert_eq!(metadata[METADATA_LEN - 4..], [1, 2, 3, 4], "it goes with the start of the packet");
}

#[test]
fn a_range_cuts_in_front_and_reaches_into_the_tail_room() {
    let mut umem = umem(4);
    let mut frame = received(&mut umem, 100);
    assert_eq!(umem.tail_room(&frame), 1792 - 100);
    umem.packet_mut(&mut frame)[10] = 42;
    umem.set_range(&mut frame, 10..100);
    assert_eq!((frame.len(), umem.packet(&frame)[0]), (90, 42));
    umem.set_range(&mut frame, 0..1782);
    assert_eq!((frame.len(), umem.tail_room(&frame)), (1782, 0));
    umem.set_range(&mut frame, 1782..1782);
    assert!(frame.is_empty() && umem.packet(&frame).is_empty() && umem.buffer_mut(&mut frame).is_empty());
}

#[test]
#[should_panic(expected = "leaves frame")]
fn a_range_beyond_the_frame_is_refused() {
    let mut umem = umem(4);
    let mut frame = received(&mut umem, 100);
    umem.set_range(&mut frame, 1..1793);
}

#[test]
#[should_panic(expected = "another UMEM")]
fn a_frame_of_another_umem_cannot_be_read() {
    let (mut one, other) = (umem(4), umem(4));
    let frame = received(&mut one, 100);
    let _ = other.packet(&frame);
}

#[test]
#[should_panic(expected = "another UMEM")]
fn a_frame_of_another_umem_cannot_be_given_back() {
    let (mut one, mut other) = (umem(4), umem(4));
    let frame = received(&mut one, 100);
    other.give_back(frame);
}

#[test]
fn a_descriptor_for_a_frame_that_is_not_there_makes_no_frame() {
    let mut umem = umem(4);
    let address = umem.lend().expect("a free frame") + 256;
    let frame = umem.accept(address, 60).expect("the first time");
    assert!(umem.accept(address, 60).is_none(), "the kernel says it twice");
    umem.give_back(frame);
    assert!(umem.accept(address, 60).is_none(), "after it was given back");
    for nonsense in [4 * 2048 + 256, u64::MAX, 1 << 44] {
        assert!(umem.accept(nonsense, 60).is_none());
        assert!(!umem.complete(nonsense, Place::TX_NIC));
    }
    assert_eq!(umem.bad_descriptors(), 8);
    assert_eq!(umem.places(), Places { free: 4, ..Places::default() });
    assert_eq!(umem.recount(), umem.places());
}

#[test]
fn a_descriptor_whose_bytes_leave_the_frame_gives_the_frame_back() {
    let mut umem = umem(4);
    for (offset, len) in [(256, 1793), (2047, 2), (256, u32::MAX), (31, 10)] {
        let address = umem.lend().expect("a free frame");
        assert!(umem.accept(address + offset, len).is_none());
    }
    assert_eq!(umem.bad_descriptors(), 4);
    assert_eq!(umem.places(), Places { free: 4, ..Places::default() });
}

#[test]
fn a_completion_counts_only_on_the_device_that_sent() {
    let mut umem = umem(4);
    let (first, second) = (Place::tx_egress(0), Place::tx_egress(1));
    let frame = received(&mut umem, 60);
    let (address, len) = umem.send(frame, first);
    assert_eq!((address % 2048, len), (256, 60));
    assert!(!umem.complete(address, Place::TX_NIC) && !umem.complete(address, second));
    assert!(umem.complete(address, first));
    assert!(!umem.complete(address, first), "twice");
    assert_eq!(umem.places().free, 4);
}

#[test]
fn reclaiming_takes_the_frames_of_one_egress_port_only() {
    let mut umem = umem(8);
    for place in [Place::TX_NIC, Place::tx_egress(0), Place::tx_egress(0), Place::tx_egress(1)] {
        let frame = received(&mut umem, 60);
        umem.send(frame, place);
    }
    assert_eq!(umem.reclaim(Place::tx_egress(0)), 2);
    assert_eq!(umem.places(), Places { free: 6, tx_nic: 1, tx_egress: 1, ..Places::default() });
    assert_eq!(umem.recount(), umem.places());
}

#[test]
fn egress_slots_are_given_out_once_and_again_after_release() {
    let mut umem = umem(4);
    for slot in 0..64 {
        assert_eq!(umem.claim_egress(), Some(slot));
    }
    assert_eq!(umem.claim_egress(), None);
    umem.release_egress(17);
    assert_eq!(umem.claim_egress(), Some(17));
}

#[test]
fn huge_pages_are_optional() {
    let config = UmemConfig { frames: 100, huge_pages: true, ..UmemConfig::default() };
    let mut umem = Umem::new(&config).expect("with or without huge pages");
    let mut last = (0..100).filter_map(|_| umem.take()).last().expect("a hundred frames");
    umem.buffer_mut(&mut last).fill(1);
    assert_eq!(umem.frames(), 100);
}
