//! What tests of this crate need to be alone with the kernel: a network namespace of their own.

use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Held by each test meanwhile. A command that one test starts holds, between fork and exec, copies of all file
/// descriptors of the process: a socket that another test closes then would live on for a moment, and with it its
/// port, or the claim of a hand-off.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs `test` on a thread in a new network namespace, which goes away with the thread, its devices included. One such
/// test runs at a time.
pub(crate) fn in_new_namespace(test: impl FnOnce() + Send + 'static) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    in_nested_namespace(test);
}

/// The same from within such a test.
pub(crate) fn in_nested_namespace(test: impl FnOnce() + Send + 'static) {
    let thread = thread::spawn(move || {
        #[expect(deprecated, reason = "sound here: no file descriptor table is unshared, only the network")]
        rustix::thread::unshare(rustix::thread::UnshareFlags::NEWNET).expect("these tests need root");
        run("ip link set lo up");
        test();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Runs one command line, split at blanks, in the thread's namespace, and returns what it prints.
#[track_caller]
pub(crate) fn run(command_line: &str) -> String {
    let mut words = command_line.split_ascii_whitespace();
    let program = words.next().expect("a command");
    let output = Command::new(program).args(words).output().expect(program);
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{command_line}: {stdout}{stderr}");
    stdout
}
