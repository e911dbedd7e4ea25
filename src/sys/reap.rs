//! Reaping, wait(2).

use nix::errno::Errno;
use nix::unistd::Pid;

use crate::exit::ExitReason;
use crate::signal::Signal;

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
///
/// # Errors
///
/// Where a sandbox refuses the call.
pub fn reap() -> nix::Result<Reaped> {
    let mut status = 0;
    // SAFETY: the pointer is to an int.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    match Errno::result(pid) {
        Ok(0) => Ok(Reaped::NoneEnded),
        Ok(pid) if libc::WIFSTOPPED(status) => {
            release(pid, libc::WSTOPSIG(status));
            reap()
        }
        Ok(pid) => Ok(Reaped::Child { pid, reason: ExitReason::from_wait_status(status) }),
        Err(Errno::ECHILD) => Ok(Reaped::NoChildren),
        Err(errno) => Err(errno),
    }
}

/// Lets a child go on that has made us its tracer, PTRACE_TRACEME, as some programs do against debuggers. It waits for us with every signal.
fn release(pid: i32, signal: i32) {
    let signal = if signal == libc::SIGTRAP { 0 } else { signal };
    // SAFETY: this request takes numbers only, the address is not looked at.
    unsafe { libc::ptrace(libc::PTRACE_DETACH, pid, 0, signal) };
}

/// The signal that has stopped the child, if one has since the last time that we asked.
pub fn stopped_by(pid: Pid) -> Option<Signal> {
    let info = wait_for(libc::P_PID, pid, libc::WSTOPPED | libc::WNOHANG).ok()?;
    // SAFETY: waitid has filled in the fields for a child, or left zeros.
    Signal::new(unsafe { info.si_status() })
}

/// Whether a child has ended and waits to be reaped.
pub fn has_ended(pid: Pid) -> bool {
    peek(libc::P_PID, pid) == Ok(pid)
}

/// Whether a process of the group is a child of ours. Then the group's number is in use, and means that group.
pub fn has_child_in_group(group: Pid) -> bool {
    peek(libc::P_PGID, group).is_ok()
}

/// Looks for a child that has ended, and leaves it to be reaped. Returns its pid, or 0 if none has ended.
fn peek(kind: libc::idtype_t, id: Pid) -> nix::Result<Pid> {
    let info = wait_for(kind, id, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT)?;
    // SAFETY: waitid has filled in the fields for a child, or left zeros.
    Ok(Pid::from_raw(unsafe { info.si_pid() }))
}

fn wait_for(kind: libc::idtype_t, id: Pid, options: i32) -> nix::Result<libc::siginfo_t> {
    let id = libc::id_t::try_from(id.as_raw()).map_err(|_| Errno::ECHILD)?;
    // SAFETY: any bytes are a siginfo_t, and zero is what the kernel leaves in it where there is nobody.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a siginfo_t.
    let result = unsafe { libc::waitid(kind, id, &raw mut info, options) };
    Errno::result(result).map(|_| info)
}

/// Makes drainit adopt the orphans among its descendants, as PID 1 does anyway.
///
/// # Errors
///
/// On a kernel older than 3.4.
pub fn become_subreaper() -> nix::Result<()> {
    // SAFETY: this option takes a number and no pointer.
    Errno::result(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }).map(drop)
}
