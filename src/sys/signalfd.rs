//! Signals as something to wait for and to read, signalfd(2).
//!
//! Unlike a handler it keeps each instance of a real-time signal with its sender, works for a signal that was inherited as ignored (one that is
//! blocked is kept all the same), and leaves no window between fork and exec.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::signal::{Signal, SignalSet};
use crate::sys::signals::SET_SIZE;

/// How many signals are read in one call.
const BATCH: usize = 16;

/// One received signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    pub signal: Signal,
    /// Who sent it, as seen in our PID namespace; 0: the kernel, or a process outside.
    pub sender_pid: i32,
    /// The sender's real user id.
    pub sender_uid: u32,
}

/// All signals, which must be blocked.
#[derive(Debug)]
pub struct SignalFd(OwnedFd);

impl SignalFd {
    /// Opens it.
    ///
    /// # Errors
    ///
    /// Where no descriptor is left, or the kernel has no signalfd.
    pub fn new() -> nix::Result<SignalFd> {
        let mask = SignalSet::ALL.bits();
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        // SAFETY: the pointer is to a set of the size given.
        let fd = unsafe { libc::syscall(libc::SYS_signalfd4, -1, &raw const mask, SET_SIZE, flags) };
        super::new_descriptor(fd).map(SignalFd)
    }

    /// Some of the signals that are pending; none, when there are none.
    pub fn read(&self) -> Vec<Received> {
        const SIZE: usize = size_of::<libc::signalfd_siginfo>();
        let mut buffer = [0u8; SIZE * BATCH];
        // SAFETY: the buffer is as long as the length given.
        let count = unsafe { libc::read(self.0.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
        // Nothing is pending (EAGAIN); the kernel gives no other reason for a descriptor of ours.
        let count = usize::try_from(count).unwrap_or(0);
        let infos = buffer.get(..count).unwrap_or_default().chunks_exact(SIZE);
        infos
            .filter_map(|info| {
                // SAFETY: the kernel fills in whole structures, for which any bytes are valid, and the read allows for their place.
                let info: libc::signalfd_siginfo =
                    unsafe { info.as_ptr().cast::<libc::signalfd_siginfo>().read_unaligned() };
                Some(Received {
                    signal: Signal::new(i32::try_from(info.ssi_signo).ok()?)?,
                    sender_pid: info.ssi_pid.cast_signed(),
                    sender_uid: info.ssi_uid,
                })
            })
            .collect()
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
