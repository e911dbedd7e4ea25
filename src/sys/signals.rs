//! Signal masks and dispositions, with the kernel's own calls.
//!
//! Both C libraries hide the first real-time signals from their callers, 32 and 33 in glibc and 34 too in musl. An init has to block and to pass on
//! each signal there is, so it cannot use their functions.

use nix::errno::Errno;
use nix::unistd::Pid;

use crate::signal::{Signal, SignalSet};

/// The size of a signal set in bytes, as the kernel wants to hear it.
pub(super) const SET_SIZE: usize = size_of::<u64>();

/// Blocks exactly the signals in `mask`; returns those that were blocked before. (SIGKILL and SIGSTOP never are.)
///
/// # Errors
///
/// Where a sandbox refuses the call.
pub fn set_mask(mask: SignalSet) -> nix::Result<SignalSet> {
    let new = mask.bits();
    let mut old = 0u64;
    // SAFETY: both pointers are to sets of the size given.
    let result =
        unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const new, &raw mut old, SET_SIZE) };
    Errno::result(result).map(|_| SignalSet::from_bits(old))
}

/// Gives `signal` its default action.
///
/// # Errors
///
/// Where the signal cannot be caught.
pub fn set_default(signal: Signal) -> nix::Result<()> {
    // The kernel's sigaction is the handler, the flags, a restorer and the mask, each eight bytes at most: all zero is SIG_DFL.
    let action = [0u64; 4];
    // SAFETY: `action` is as large as the kernel's structure, and with no handler there is nothing to call.
    let result = unsafe {
        libc::syscall(libc::SYS_rt_sigaction, signal.number(), action.as_ptr(), std::ptr::null_mut::<u64>(), SET_SIZE)
    };
    Errno::result(result).map(drop)
}

/// Sends `signal` to the process `pid`, or for a negative number to the group, or for -1 to everybody, kill(2).
///
/// # Errors
///
/// ESRCH where there is nobody, EPERM where that is not allowed.
pub fn send(pid: i32, signal: Signal) -> nix::Result<()> {
    // SAFETY: kill has no preconditions.
    Errno::result(unsafe { libc::kill(pid, signal.number()) }).map(drop)
}

/// Whether there is a process `pid`, or for a negative number a group, zombies included.
pub fn exists(pid: i32) -> bool {
    matches!(ask(pid), Ok(()) | Err(Errno::EPERM))
}

/// Whether there is a process `pid` that a signal could be sent to.
pub fn may_send(pid: i32) -> bool {
    ask(pid).is_ok()
}

fn ask(pid: i32) -> nix::Result<()> {
    // SAFETY: kill has no preconditions, and the signal 0 only asks.
    Errno::result(unsafe { libc::kill(pid, 0) }).map(drop)
}

/// Stops ourselves, or with 0 our whole process group, by one of the terminal's signals; returns when we have been continued. The kernel takes no
/// notice when nobody in the session could continue us, nor as PID 1; then this returns false.
pub fn stop_ourselves(whom: Pid, signal: Signal) -> bool {
    // The command has its dispositions already, so ours may change.
    let _ = set_default(signal).and_then(|()| send(whom.as_raw(), signal));
    let _ = set_mask(SignalSet::ALL.without(signal));
    // Here we are stopped.
    let _ = set_mask(SignalSet::ALL);
    pending().contains(Signal::CONT)
}

fn pending() -> SignalSet {
    let mut pending = 0u64;
    // SAFETY: the pointer is to a set of the size given.
    unsafe { libc::syscall(libc::SYS_rt_sigpending, &raw mut pending, SET_SIZE) };
    SignalSet::from_bits(pending)
}
