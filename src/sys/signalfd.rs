//! Signals as something to poll for, beside a descriptor, signalfd(2).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::signal::SignalSet;
use crate::sys::signals::SET_SIZE;

/// Readable while a signal is pending. All signals must be blocked.
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
        // SAFETY: the pointer is to a set of the size given.
        let fd = unsafe { libc::syscall(libc::SYS_signalfd4, -1, &raw const mask, SET_SIZE, libc::SFD_CLOEXEC) };
        super::new_descriptor(fd).map(SignalFd)
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
