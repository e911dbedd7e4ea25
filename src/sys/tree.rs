//! The processes below drainit, and how to end them without ever hitting a stranger.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::unistd::{Pid, getpid};

use crate::config::Target;
use crate::procfs::{Stat, descendants};
use crate::signal::{Signal, SignalSet};
use crate::sys::signals;

/// Whether there is a `/proc` that shows our PID namespace. In a new one the old one's may still be mounted, and its numbers mean other
/// processes.
fn proc_is_ours() -> bool {
    std::fs::read_link("/proc/self")
        .is_ok_and(|own| own.to_str().and_then(|pid| pid.parse().ok()) == Some(getpid().as_raw()))
}

/// A snapshot of all processes in our PID namespace; `None` without a `/proc` that shows it.
fn snapshot() -> Option<Vec<Stat>> {
    if !proc_is_ours() {
        return None;
    }
    let entries = std::fs::read_dir("/proc").ok()?;
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Some(numbers.filter_map(stat).collect())
}

fn stat(pid: i32) -> Option<Stat> {
    Stat::parse(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
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
    /// Those of the target who are alive; `None` where that cannot be told.
    fn living(self, target: Target) -> Option<Vec<Stat>> {
        let mut members = descendants(&snapshot()?, getpid().as_raw());
        members.retain(|process| {
            process.is_alive()
                && match target {
                    Target::Child => process.pid == self.command.as_raw(),
                    Target::Group => process.group == self.command.as_raw(),
                    Target::All => true,
                }
        });
        Some(members)
    }

    /// Sends `signal` to the target.
    ///
    /// # Errors
    ///
    /// Where it could not be sent.
    pub fn send(self, target: Target, signal: Signal) -> io::Result<()> {
        let members = match (target, self.command_is_gone) {
            // Until the command is reaped, its numbers are its own.
            (Target::Child, false) => return signals::send(self.command.as_raw(), signal),
            (Target::Group, false) => return signals::send(-self.command.as_raw(), signal),
            (Target::All, false) => self.living(target),
            (_, true) => Some(self.living(target).unwrap_or_default()),
        };
        match members {
            Some(members) => members.iter().try_for_each(|process| match send_to(process, signal) {
                // Who has ended meanwhile needs no signal.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                sent => sent,
            }),
            None => signals::send(-self.command.as_raw(), signal),
        }
    }

    /// Whether anybody of the target may still be alive.
    pub fn is_anybody_left(self, target: Target) -> bool {
        // Without /proc, a zombie whose parent does not reap it counts as well.
        self.living(target).map_or_else(|| signals::exists(-self.command.as_raw()), |members| !members.is_empty())
    }

    /// Sends SIGKILL to everything that is left: as PID 1 to all processes of the PID namespace, otherwise to all descendants.
    /// Returns to whom, as far as that can be told.
    pub fn kill_all(self) -> Vec<i32> {
        let command = || vec![self.command.as_raw()];
        if getpid().as_raw() == 1 {
            let all = snapshot().map_or_else(command, |all| {
                all.iter().filter(|process| process.is_alive() && process.pid != 1).map(|process| process.pid).collect()
            });
            // The kernel does it in one go: nobody who forks meanwhile gets away, kill(2).
            return signals::send(-1, Signal::KILL).map_or_else(|_| Vec::new(), |()| all);
        }
        match self.living(Target::All) {
            Some(mut members) => {
                members.retain(|process| send_to(process, Signal::KILL).is_ok());
                members.iter().map(|process| process.pid).collect()
            }
            None if self.command_is_gone => Vec::new(),
            None => signals::send(-self.command.as_raw(), Signal::KILL).map_or_else(|_| Vec::new(), |()| command()),
        }
    }
}

/// Sends `signal` to exactly the process in the snapshot, never to a later one with the same pid.
fn send_to(process: &Stat, signal: Signal) -> io::Result<()> {
    let pidfd = pidfd_open(process.pid);
    // The pidfd means whoever has the pid at this moment. If that one is still who was in the snapshot, it cannot change any more.
    let is_the_same = stat(process.pid).is_some_and(|now| now.started == process.started);
    if !is_the_same {
        return Err(io::ErrorKind::NotFound.into());
    }
    match pidfd {
        Ok(pidfd) => pidfd_send_signal(&pidfd, signal),
        // Before Linux 5.3, or in a sandbox without pidfds, the check just made has to do.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
            signals::send(process.pid, signal)
        }
        Err(error) => Err(error),
    }
}

fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: the call takes numbers only.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    super::new_descriptor(fd)
}

fn pidfd_send_signal(pidfd: &OwnedFd, signal: Signal) -> io::Result<()> {
    // SAFETY: no siginfo is passed, so no pointer is followed.
    let result = unsafe {
        libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), signal.number(), std::ptr::null::<u8>(), 0)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
