//! Reaping, wait(2).

use crate::exit::ExitReason;

/// What there is to reap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reaped {
    /// A child has ended, and now it is gone.
    Child { pid: i32, reason: ExitReason },
    /// All children that are left are running.
    NoneEnded,
    /// There are no children.
    NoChildren,
}

/// Reaps one child, if one has ended. One SIGCHLD may stand for many.
///
/// (nix decodes the status after the child is gone, and fails for the real-time signals.)
pub fn reap() -> Reaped {
    let mut status = 0;
    // SAFETY: the pointer is to an int.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    match pid {
        0 => Reaped::NoneEnded,
        // The call cannot be interrupted, as all signals are blocked: it fails for want of children only.
        ..0 => Reaped::NoChildren,
        pid => Reaped::Child { pid, reason: ExitReason::from_wait_status(status) },
    }
}

/// Makes drainit adopt the orphans among its descendants, as PID 1 does anyway.
///
/// # Errors
///
/// On a kernel older than 3.4.
pub fn become_subreaper() -> nix::Result<()> {
    // SAFETY: this option takes a number and no pointer.
    nix::errno::Errno::result(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }).map(drop)
}
