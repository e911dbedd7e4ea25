//! The first instruction that is ours.
//!
//! Rust's own start-up would come before `fn main`: it ignores SIGPIPE, so that nobody can tell any more what was inherited, opens `/dev/null` over
//! closed descriptors, and catches SIGSEGV. An init must hand all of that down as it got it, so this is C's `main`.

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;

use crate::signal::SignalSet;

/// What drainit was given by whoever executed it.
#[derive(Debug)]
pub struct Start {
    /// The signal mask, or why signals could not be blocked.
    pub mask: nix::Result<SignalSet>,
    /// The command line, program name included.
    pub args: Vec<&'static CStr>,
}

impl Start {
    /// The command line for reading.
    pub fn words(&self) -> Vec<&'static OsStr> {
        self.args.iter().map(|arg| OsStr::from_bytes(arg.to_bytes())).collect()
    }
}

#[cfg(not(test))]
#[unsafe(no_mangle)]
extern "C" fn main(argc: std::ffi::c_int, argv: *const *const c_char) -> std::ffi::c_int {
    // Before anything else, so that no signal is lost from here on: it stays pending until there is somebody to tell.
    let mask = super::signals::set_mask(SignalSet::ALL);
    super::stdio::reserve();
    // SAFETY: the C library passes `argc` and `argv` as the C standard has them.
    let args = unsafe { strings(argv, usize::try_from(argc).unwrap_or(0)) };
    crate::run(&Start { mask, args }).into()
}

/// The strings of a C array.
///
/// # Safety
///
/// `array` holds at least `count` pointers to strings that end in NUL and are never changed or freed.
#[cfg_attr(test, allow(dead_code))]
unsafe fn strings(array: *const *const c_char, count: usize) -> Vec<&'static CStr> {
    (0..count)
        .map(|i| {
            // SAFETY: `i` is below `count`, and the caller vouches for that many.
            let place = unsafe { array.add(i) };
            // SAFETY: as above.
            let string = unsafe { *place };
            // SAFETY: the caller vouches for the string.
            unsafe { CStr::from_ptr(string) }
        })
        .collect()
}
