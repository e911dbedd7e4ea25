//! What touches the kernel, and the only unsafe code.
//!
//! Each file wraps one thing thinly; what can be decided without the kernel is decided elsewhere.

#![allow(unsafe_code)]

use std::ffi::c_long;
use std::os::fd::{FromRawFd, OwnedFd};

pub mod die;
pub mod entry;
pub mod environment;
pub mod reap;
pub mod receive;
pub mod signalfd;
pub mod signals;
pub mod spawn;
pub mod stderr;
pub mod stdio;
pub mod terminal;
pub mod tree;

/// The descriptor that a system call has just returned, or its error.
fn new_descriptor(returned: c_long) -> nix::Result<OwnedFd> {
    match i32::try_from(returned) {
        // SAFETY: the kernel has just made it, and nobody else knows of it.
        Ok(fd @ 0..) => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(nix::Error::last()),
    }
}
