//! The processes below drainit, and how to end them without ever hitting a stranger.

use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::unistd::{Pid, getpgid, getpgrp, getpid, getsid};

use crate::config::Target;
use crate::procfs::{self, Stat, descendants};
use crate::signal::{Signal, SignalSet};
use crate::sys::reap::has_child_in_group;
use crate::sys::receive::{Received, send_on};
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
    // The names first: with a look at each on the way, a storm of forks could keep ahead of us for long.
    let names: Vec<OsString> = std::fs::read_dir("/proc")
        .ok()?
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect::<Result<_, _>>()
        .ok()?;
    let pids = names.iter().filter_map(|name| name.to_str()?.parse().ok());
    Some(pids.filter_map(stat).collect())
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

/// The signals that the process catches and those that it ignores, if that can be told.
pub fn dispositions(pid: Pid) -> Option<(SignalSet, SignalSet)> {
    let status = status(pid)?;
    Some((procfs::signal_set(&status, "SigCgt")?, procfs::signal_set(&status, "SigIgn")?))
}

fn status(pid: Pid) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{pid}/status")).ok().filter(|_| proc_is_ours())
}

/// Whether nobody else is in our process group, as far as that can be told. Who leads a session has just made its group.
pub fn is_alone_in_group() -> bool {
    let (own, group) = (getpid(), getpgrp());
    let is_other =
        |process: &Stat| process.group == group.as_raw() && process.pid != own.as_raw() && process.is_alive();
    // (The number 0 stands for all groups outside the PID namespace.)
    getsid(None) == Ok(own) || group.as_raw() == 0 || snapshot().is_none_or(|all| !all.iter().any(is_other))
}

/// Whether the shell, or whoever made the job that we belong to, does anything about a job that stops. An init does not, and what stops below it
/// stays so for ever.
pub fn stops_are_noticed() -> bool {
    // The leader of our group is who was started as the job, as in `sudo drainit`; its parent is who did it.
    let Some(leader) = stat(getpgrp().as_raw()).filter(|_| proc_is_ours()) else { return false };
    let Some(status) = status(Pid::from_raw(leader.parent)) else { return false };
    // A shell ignores or catches SIGTSTP, or it would stop with its jobs. Inits wait for it as for any other.
    let has_tstp = |name| procfs::signal_set(&status, name).is_some_and(|set| set.contains(Signal::TSTP));
    has_tstp("SigIgn") || has_tstp("SigCgt")
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
    /// Sends `signal` to the target. Returns why some of them did not get it, if so.
    ///
    /// # Errors
    ///
    /// Where nobody got it.
    pub fn send(self, target: Target, signal: Signal) -> nix::Result<Option<Errno>> {
        match target {
            Target::Child if self.command_is_gone => Ok(None),
            Target::Child => signals::send(self.command.as_raw(), signal).map(|()| None),
            Target::Group => self.send_to_group(signal),
            Target::All => match living_descendants() {
                Some(members) => {
                    // Some mounts of `/proc` hide processes from whom they do not belong to, proc(5).
                    if !self.command_is_gone && !members.iter().any(|member| member.pid == self.command.as_raw()) {
                        signals::send(self.command.as_raw(), signal)?;
                    }
                    send_to_all(&members, signal)
                }
                None if getpid().as_raw() == 1 => signals::send(-1, signal).map(|()| None),
                None => self.send_to_group(signal),
            },
        }
    }

    /// Sends `signal` to the command alone, in place of what was `received`.
    ///
    /// # Errors
    ///
    /// EAGAIN where the command's queue is full.
    pub fn send_to_command(self, signal: Signal, received: &Received) -> nix::Result<()> {
        if self.command_is_gone { Ok(()) } else { send_on(self.command, signal, received) }
    }

    fn send_to_group(self, signal: Signal) -> nix::Result<Option<Errno>> {
        if self.command_is_gone {
            return match living_descendants() {
                Some(members) => send_to_all(&self.in_group(members), signal),
                None if has_child_in_group(self.command) => {
                    signals::send(-self.command.as_raw(), signal).map(|()| None)
                }
                None => Ok(None),
            };
        }
        let sent = signals::send(-self.command.as_raw(), signal);
        if getpgid(Some(self.command)) == Ok(self.command) {
            return sent.map(|()| None);
        }
        // It has left its group, so it is told by itself.
        signals::send(self.command.as_raw(), signal).map(|()| None)
    }

    fn in_group(self, mut processes: Vec<Stat>) -> Vec<Stat> {
        processes.retain(|process| process.group == self.command.as_raw());
        processes
    }

    /// Whether somebody in the command's process group is alive. Without `/proc`, a zombie whose parent does not reap it counts as well.
    pub fn has_group(self) -> bool {
        // That there is no such group is told without a look at all processes.
        signals::exists(-self.command.as_raw())
            && living_descendants().is_none_or(|processes| !self.in_group(processes).is_empty())
    }

    /// Sends SIGKILL to everything that is left: as PID 1 to all processes of the PID namespace, otherwise to all descendants.
    /// Returns to whom, as far as that can be told.
    pub fn kill_all(self) -> Vec<i32> {
        let command = if self.command_is_gone { vec![] } else { vec![self.command.as_raw()] };
        if getpid().as_raw() == 1 {
            // The command first, as some mounts of `/proc` hide it.
            let living = snapshot().into_iter().flatten().filter(Stat::is_alive).map(|process| process.pid);
            let others = living.filter(|pid| *pid != 1 && !command.contains(pid));
            let mut all: Vec<i32> = command.iter().copied().chain(others).collect();
            // Whom this user may not kill, the kernel passes over without a word.
            all.retain(|pid| signals::may_send(*pid));
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
            None if self.command_is_gone && !has_child_in_group(self.command) => {}
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

/// Sends `signal` to each of them. Returns the first error, if there were some; it is one of all of them if nobody could be reached.
fn send_to_all(members: &[Stat], signal: Signal) -> nix::Result<Option<Errno>> {
    let (mut has_reached, mut error) = (false, None);
    for process in members {
        match send_to(process, signal) {
            Ok(()) => has_reached = true,
            // Who has ended meanwhile needs no signal.
            Err(Errno::ESRCH) => {}
            Err(errno) => error = error.or(Some(errno)),
        }
    }
    match error {
        Some(errno) if !has_reached => Err(errno),
        error => Ok(error),
    }
}

/// Sends `signal` to exactly the process in the snapshot, never to a later one with the same pid.
fn send_to(process: &Stat, signal: Signal) -> nix::Result<()> {
    let pidfd = pidfd_open(process.pid);
    // The pidfd means whoever has the pid at this moment. If that one is still who was in the snapshot, it cannot change any more.
    let is_the_same = stat(process.pid).is_some_and(|now| now.started == process.started);
    if !is_the_same {
        return Err(Errno::ESRCH);
    }
    match pidfd.and_then(|pidfd| pidfd_send_signal(&pidfd, signal)) {
        Ok(()) => Ok(()),
        Err(Errno::ESRCH) => Err(Errno::ESRCH),
        // Before Linux 5.3, in a sandbox without pidfds, or without a descriptor to spare, the check just made has to do.
        Err(_) => signals::send(process.pid, signal),
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
