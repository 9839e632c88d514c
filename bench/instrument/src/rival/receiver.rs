//! The bare AF_XDP receiver: takes packets out of a ring and gives their frames back.

use std::time::Duration;

use afxdp::{Batch, PortConfig, QueuePort};
use anyhow::Context as _;

use crate::rival::programs::Programs;
use crate::rival::thread::Thread;

/// How long it sleeps without a packet before it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(20);

/// The ring that the packets come by.
pub(crate) const RING: usize = 0;

/// A port with sizes like sipweir's, and its ring as the rivals' socket. The device is one of the calling thread's
/// namespace; [`super::programs::Bare::Socket`] must be attached.
pub(crate) fn open_port(programs: &Programs, ifindex: u32) -> anyhow::Result<QueuePort> {
    let (port, _mode) =
        QueuePort::open(ifindex, 0, &PortConfig::default()).context("cannot open the rival's port")?;
    programs.set_socket(port.rx_fd(RING))?;
    Ok(port)
}

/// Starts receiving.
pub(crate) fn start(mut port: QueuePort, core: usize) -> anyhow::Result<Thread> {
    Thread::start("bare-af-xdp", core, move |shared| {
        let mut batch = Batch::new();
        while !shared.stopped() {
            port.refill();
            let received = port.receive(RING, &mut batch);
            port.give_back_all(&mut batch);
            shared.count(received);
            if received == 0 {
                sleep(&port)?;
            }
        }
        Ok(())
    })
}

/// Sleeps until there is a packet, as the worker does.
pub(crate) fn sleep(port: &QueuePort) -> anyhow::Result<()> {
    let timeout_ns = u64::try_from(LOOK.as_nanos()).unwrap_or(u64::MAX);
    port.wait(&[], Some(timeout_ns)).context("cannot wait for packets")?;
    Ok(())
}
