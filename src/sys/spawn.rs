//! Starting the command.
//!
//! Rust's `Command` would reset the signal mask and SIGPIPE, whatever was inherited; an init hands both down as they were.

use std::ffi::{CStr, CString, OsStr, c_char};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use nix::unistd::{AccessFlags, ForkResult, Pid, access, fork, getpid, pipe2, read, setpgid};

use crate::command::{StartError, candidates};
use crate::signal::SignalSet;
use crate::sys::signalfd::SignalFd;
use crate::sys::terminal::Terminal;
use crate::sys::{environment, signals};

/// What a shell is called when it has to run a script that names no interpreter, execvp(3).
const SHELL: &CStr = c"/bin/sh";
/// The child's report of a failed exec: the error's number, and which candidate it was, four bytes each.
const REPORT: usize = 8;

/// A child between fork and exec.
#[derive(Debug)]
pub struct Starting {
    /// Its process id, and that of its process group.
    pub pid: Pid,
    signals: SignalFd,
    report: OwnedFd,
    candidates: Vec<CString>,
}

/// Forks, and lets the child execute `command` in a process group of its own, with the signal mask `mask` and, if there is one, with the
/// terminal. All signals are blocked in between, so none is lost.
///
/// # Errors
///
/// Where there is no descriptor or no process to be had.
pub fn spawn(
    command: &[&'static CStr],
    path: Option<&OsStr>,
    mask: SignalSet,
    terminal: Option<&Terminal>,
) -> Result<Starting, StartError> {
    let candidates = command.first().map(|name| candidates(name, path)).unwrap_or_default();
    // Whatever has to be allocated is allocated before the fork.
    let argv: Vec<*const c_char> = command.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect();
    // The shell's name and the script's, which replaces the name of the command.
    let mut shell_argv = vec![SHELL.as_ptr(), std::ptr::null()];
    shell_argv.extend(argv.iter().skip(1));
    let signals = SignalFd::new().map_err(|errno| StartError::Own("signalfd", errno))?;
    let (report, child_report) =
        pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).map_err(|errno| StartError::Own("pipe", errno))?;
    // Once the command runs it is too late to learn that a sandbox does not let us read.
    match read(&report, &mut [0]) {
        Ok(_) | Err(Errno::EAGAIN) => {}
        Err(errno) => return Err(StartError::Own("read", errno)),
    }
    // SAFETY: drainit has one thread, so the child may go on as it likes.
    match unsafe { fork() }.map_err(|errno| StartError::Own("fork", errno))? {
        ForkResult::Parent { child } => Ok(Starting { pid: child, signals, report, candidates }),
        ForkResult::Child => {
            // A group of its own, so that signals can go to the whole group, and the terminal's keys do not reach drainit as well.
            let _ = setpgid(Pid::from_raw(0), Pid::from_raw(0));
            if let Some(terminal) = terminal {
                terminal.give_to(getpid());
            }
            let _ = signals::set_mask(mask);
            let (errno, index) = execute(&candidates, &argv, &mut shell_argv);
            let mut message = [0; REPORT];
            for (place, byte) in
                message.iter_mut().zip((errno as i32).to_ne_bytes().into_iter().chain(index.to_ne_bytes()))
            {
                *place = byte;
            }
            let _ = nix::unistd::write(child_report.as_fd(), &message);
            // SAFETY: _exit ends the process and runs nothing of the parent's.
            unsafe { libc::_exit(1) }
        }
    }
}

/// Tries one candidate after the other. Returns only if none could be executed, with the error to report and the candidate that it belongs to.
fn execute(candidates: &[CString], argv: &[*const c_char], shell_argv: &mut [*const c_char]) -> (Errno, u32) {
    let mut failure = (Errno::ENOENT, u32::MAX);
    for (index, candidate) in (0..).zip(candidates) {
        // SAFETY: the arrays end in a null pointer, and their strings live on.
        unsafe { libc::execve(candidate.as_ptr(), argv.as_ptr(), environment::pointer()) };
        let mut errno = Errno::last();
        if errno == Errno::ENOEXEC && is_text(candidate) {
            if let Some(script) = shell_argv.get_mut(1) {
                *script = candidate.as_ptr();
            }
            // SAFETY: as above.
            unsafe { libc::execve(SHELL.as_ptr(), shell_argv.as_ptr(), environment::pointer()) };
            errno = Errno::ENOEXEC;
        }
        match errno {
            // Not there: the next place may have it.
            Errno::ENOENT
            | Errno::ENOTDIR
            | Errno::ENAMETOOLONG
            | Errno::ELOOP
            | Errno::ESTALE
            | Errno::ENODEV
            | Errno::ETIMEDOUT => {}
            // A folder in PATH that this user may not look into has nothing for them.
            Errno::EACCES if candidates.len() > 1 && access(candidate.as_c_str(), AccessFlags::F_OK).is_err() => {}
            // There, but not executable: a later place may have another one, and if none has, this is the error to report.
            Errno::EACCES => {
                if failure.0 == Errno::ENOENT {
                    failure = (errno, index);
                }
            }
            _ => return (errno, index),
        }
    }
    failure
}

/// Whether the file looks like a script. A program for another machine contains NULs near its beginning; a shell would make nonsense of it.
fn is_text(file: &CStr) -> bool {
    let mut head = [0; 128];
    let opened = nix::fcntl::open(file, OFlag::O_RDONLY | OFlag::O_CLOEXEC, nix::sys::stat::Mode::empty());
    let length = opened.and_then(|file| read(file, &mut head));
    length.is_ok_and(|length| !head.get(..length).unwrap_or_default().contains(&0))
}

impl Starting {
    /// Waits for a signal or for news of the start.
    ///
    /// # Errors
    ///
    /// Where a sandbox refuses that.
    pub fn wait(&self, timeout: Option<Duration>) -> nix::Result<()> {
        let mut fds = [&self.signals.as_fd(), &self.report.as_fd()].map(|fd| PollFd::new(*fd, PollFlags::POLLIN));
        // No signal interrupts us, as all are blocked.
        ppoll(&mut fds, timeout.map(TimeSpec::from_duration), None).map(drop)
    }

    /// How it went; `None` while that is not known yet. Never blocks.
    ///
    /// # Errors
    ///
    /// Why the command could not be executed.
    pub fn finish(&self) -> Option<Result<(), StartError>> {
        let mut message = [0; REPORT];
        match read(&self.report, &mut message) {
            Err(Errno::EAGAIN) => None,
            Ok(REPORT) => Some(Err(self.explain(message))),
            // The exec closes the pipe, so nothing to read is success. It is also what a child leaves that was killed before the exec.
            _ => Some(Ok(())),
        }
    }

    fn explain(&self, message: [u8; REPORT]) -> StartError {
        let number = |bytes: &[u8]| bytes.try_into().map(i32::from_ne_bytes).unwrap_or_default();
        let (errno, index) = message.split_at(REPORT / 2);
        let errno = Errno::from_raw(number(errno));
        let candidate = usize::try_from(number(index)).ok().and_then(|index| self.candidates.get(index));
        match candidate {
            Some(candidate) => StartError::CannotExecute(candidate.clone(), errno),
            None => match self.candidates.iter().find(|candidate| exists(candidate)) {
                Some(candidate) => StartError::NoInterpreter(candidate.clone()),
                None => StartError::NotFound,
            },
        }
    }
}

fn exists(file: &CStr) -> bool {
    Path::new(OsStr::from_bytes(file.to_bytes())).is_file()
}
