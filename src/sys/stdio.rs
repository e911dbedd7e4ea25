//! The descriptors 0, 1 and 2 when drainit was started without some of them.

use std::io::{self, Write};

use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::sys::stat::{Mode, SFlag, fstat};
use std::os::fd::{BorrowedFd, IntoRawFd, RawFd};

/// Fills the places of closed standard descriptors, so that none of ours lands there and is taken for the command's output.
///
/// The placeholder can be neither read nor written, and closes on exec: the command finds what drainit found.
#[cfg_attr(test, allow(dead_code))]
pub fn reserve() {
    for number in 0..=2 {
        if fcntl(descriptor(number), FcntlArg::F_GETFD).is_err() {
            // The lowest free number is taken, open(2), and the lower ones are taken by now.
            let placeholder = open("/", OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty());
            let _ = placeholder.map(IntoRawFd::into_raw_fd);
        }
    }
}

/// The standard descriptor with this number.
pub fn descriptor(number: RawFd) -> BorrowedFd<'static> {
    // SAFETY: the standard descriptors are never closed; where one was not open at start, a placeholder has its place.
    unsafe { BorrowedFd::borrow_raw(number) }
}

/// What kind of file it is; empty where it is not open.
pub fn kind(number: RawFd) -> SFlag {
    fstat(descriptor(number)).map_or(SFlag::empty(), |stat| SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT)
}

/// Writes `text` to standard output, for the options that only print.
///
/// # Errors
///
/// Where it cannot be written.
pub fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}
