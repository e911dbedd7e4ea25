//! The processes below drainit, and how to end them without ever hitting a stranger.

use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::unistd::{Pid, getpid};

use crate::config::Target;
use crate::procfs::{Stat, descendants};
use crate::signal::{Signal, SignalSet};
use crate::sys::signals;

/// Whether there is a `/proc` that shows our PID namespace. In a new one the old one's may still be mounted, and its numbers mean other
/// processes.
pub fn proc_is_ours() -> bool {
    std::fs::read_link("/proc/self")
        .is_ok_and(|own| own.to_str().and_then(|pid| pid.parse().ok()) == Some(getpid().as_raw()))
}

/// A snapshot of all processes in our PID namespace; `None` without a `/proc` that shows it.
fn snapshot() -> Option<Vec<Stat>> {
    if !proc_is_ours() {
        return None;
    }
    let entries = std::fs::read_dir("/proc").ok()?;
    // The names first: with a look at each on the way, a storm of forks could keep ahead of us for long.
    let pids: Vec<i32> = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    Some(pids.into_iter().filter_map(stat).collect())
}

fn stat(pid: i32) -> Option<Stat> {
    Stat::parse(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Our descendants that are alive; `None` where that cannot be told.
fn living_descendants() -> Option<Vec<Stat>> {
    let mut found = descendants(&snapshot()?, getpid().as_raw());
    found.retain(Stat::is_alive);
    Some(found)
}

/// Our children, zombies included. The kernel may leave out some while others end, proc(5).
fn children() -> Vec<i32> {
    let own = getpid();
    let text = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children"));
    let text = text.ok().filter(|_| proc_is_ours()).unwrap_or_default();
    text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// The signals that the process catches, if that can be told.
pub fn caught_signals(pid: Pid) -> Option<SignalSet> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok().filter(|_| proc_is_ours())?;
    crate::procfs::caught_signals(&status)
}

/// The command and those around it.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// The command's process id, and that of its process group.
    pub command: Pid,
    /// Whether the command has been reaped. Then its numbers may soon belong to somebody else.
    pub command_is_gone: bool,
}

impl Family {
    /// Sends `signal` to the target.
    ///
    /// # Errors
    ///
    /// Where it could not be sent to all of them.
    pub fn send(self, target: Target, signal: Signal) -> nix::Result<()> {
        let is_in_group = |process: &Stat| process.group == self.command.as_raw();
        match target {
            Target::Child if self.command_is_gone => Ok(()),
            Target::Child => signals::send(self.command.as_raw(), signal),
            Target::Group if self.command_is_gone => {
                let mut members = living_descendants().unwrap_or_default();
                members.retain(is_in_group);
                send_to_all(&members, signal)
            }
            Target::Group => match signals::send(-self.command.as_raw(), signal) {
                // It has left its group, and nobody is in it.
                Err(Errno::ESRCH) => signals::send(self.command.as_raw(), signal),
                sent => sent,
            },
            Target::All => match living_descendants() {
                Some(members) => send_to_all(&members, signal),
                None if getpid().as_raw() == 1 => signals::send(-1, signal),
                None => self.send(Target::Group, signal),
            },
        }
    }

    /// Whether the command's process group still has members. A zombie whose parent does not reap it counts as well.
    pub fn has_group(self) -> bool {
        signals::exists(-self.command.as_raw())
    }

    /// Sends SIGKILL to everything that is left: as PID 1 to all processes of the PID namespace, otherwise to all descendants.
    /// Returns to whom, as far as that can be told.
    pub fn kill_all(self) -> Vec<i32> {
        let command = if self.command_is_gone { vec![] } else { vec![self.command.as_raw()] };
        if getpid().as_raw() == 1 {
            let all = snapshot().map_or(command, |all| {
                all.iter().filter(|process| process.is_alive() && process.pid != 1).map(|process| process.pid).collect()
            });
            // The kernel does it in one go: nobody who forks meanwhile gets away, kill(2).
            return signals::send(-1, Signal::KILL).map_or_else(|_| Vec::new(), |()| all);
        }
        // The command first, because the look at all others may take a while. Its number is its own until it is reaped.
        let mut killed = command;
        killed.retain(|pid| signals::send(*pid, Signal::KILL).is_ok());
        match living_descendants() {
            Some(mut members) => {
                members.retain(|process| send_to(process, Signal::KILL).is_ok());
                killed.extend(members.iter().map(|process| process.pid));
            }
            None if self.command_is_gone => {}
            None => _ = signals::send(-self.command.as_raw(), Signal::KILL),
        }
        killed
    }
}

/// Sends SIGKILL to our children, which are whom the dead have left us. Their numbers are theirs until we reap them, so this can be done
/// often, and fast enough to catch one who forks and ends all the time.
pub fn kill_children() {
    for pid in children() {
        let _ = signals::send(pid, Signal::KILL);
    }
}

/// Sends `signal` to each of them, and reports the first error when all have been tried.
fn send_to_all(members: &[Stat], signal: Signal) -> nix::Result<()> {
    let mut result = Ok(());
    for process in members {
        match send_to(process, signal) {
            // Who has ended meanwhile needs no signal.
            Err(Errno::ESRCH) => {}
            sent => result = result.and(sent),
        }
    }
    result
}

/// Sends `signal` to exactly the process in the snapshot, never to a later one with the same pid.
fn send_to(process: &Stat, signal: Signal) -> nix::Result<()> {
    let pidfd = pidfd_open(process.pid);
    // The pidfd means whoever has the pid at this moment. If that one is still who was in the snapshot, it cannot change any more.
    let is_the_same = stat(process.pid).is_some_and(|now| now.started == process.started);
    if !is_the_same {
        return Err(Errno::ESRCH);
    }
    match pidfd {
        Ok(pidfd) => pidfd_send_signal(&pidfd, signal),
        // Before Linux 5.3, or in a sandbox without pidfds, the check just made has to do.
        Err(Errno::ENOSYS | Errno::EPERM) => signals::send(process.pid, signal),
        Err(error) => Err(error),
    }
}

fn pidfd_open(pid: i32) -> nix::Result<OwnedFd> {
    // SAFETY: the call takes numbers only.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    super::new_descriptor(fd)
}

fn pidfd_send_signal(pidfd: &OwnedFd, signal: Signal) -> nix::Result<()> {
    // SAFETY: no siginfo is passed, so no pointer is followed.
    let result = unsafe {
        libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), signal.number(), std::ptr::null::<u8>(), 0)
    };
    Errno::result(result).map(drop)
}
