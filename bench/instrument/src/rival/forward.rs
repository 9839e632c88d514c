//! The bare hand-off: from an AF_XDP ring to a device whose other end is in the host's IP stack, nothing in between but
//! new Ethernet addresses. By veth with a TX ring over the same frames, or by TAP with one system call a packet.

use std::fs::File;
use std::io::Write as _;

use afxdp::{Batch, EgressConfig, EgressPort, Kick, QueuePort};
use anyhow::Context as _;

use crate::rival::receiver::{RING, sleep};
use crate::rival::thread::Thread;

/// Bytes of both Ethernet addresses.
const ADDRESSES_LEN: usize = 12;

/// Destination and source of what is handed over.
pub(crate) type Addresses = [u8; ADDRESSES_LEN];

/// Starts forwarding to a device of the calling thread's namespace.
pub(crate) fn to_veth(
    mut port: QueuePort,
    ifindex: u32,
    to: Addresses,
    core: usize,
) -> anyhow::Result<Thread> {
    let mut egress = EgressPort::open(&mut port, ifindex, 0, &EgressConfig::default())
        .context("cannot open the rival's hand-off")?;
    Thread::start("bare-veth", core, move |shared| {
        let mut batch = Batch::new();
        while !shared.stopped() {
            egress.reap(&mut port);
            port.refill();
            let received = port.receive(RING, &mut batch);
            for mut frame in batch.drain(..) {
                port.umem().packet_mut(&mut frame)[..ADDRESSES_LEN].copy_from_slice(&to);
                if let Err(frame) = egress.transmit(&mut port, frame) {
                    port.give_back(frame);
                }
            }
            while egress.kick().context("the rival's hand-off device")? == Kick::Again {
                egress.reap(&mut port);
            }
            shared.count(received);
            if received == 0 {
                sleep(&port)?;
            }
        }
        Ok(())
    })
}

/// Starts forwarding into an open TAP device.
pub(crate) fn to_tap(
    mut port: QueuePort,
    mut tap: File,
    to: Addresses,
    core: usize,
) -> anyhow::Result<Thread> {
    Thread::start("bare-tap", core, move |shared| {
        let mut batch = Batch::new();
        while !shared.stopped() {
            port.refill();
            let received = port.receive(RING, &mut batch);
            for frame in &mut batch {
                let packet = port.umem().packet_mut(frame);
                packet[..ADDRESSES_LEN].copy_from_slice(&to);
                tap.write_all(packet).context("the rival's TAP device")?;
            }
            port.give_back_all(&mut batch);
            shared.count(received);
            if received == 0 {
                sleep(&port)?;
            }
        }
        Ok(())
    })
}
