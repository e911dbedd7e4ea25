//! Running a program as PID 1 of a PID namespace of its own.

use std::ffi::CString;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, exit};

use nix::mount::{MsFlags, mount};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{Pid, dup2_stdin, dup2_stdout};

/// The monotonic clock, in nanoseconds.
pub fn now() -> u64 {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).expect("a clock");
    u64::try_from(time.tv_sec() * 1_000_000_000 + time.tv_nsec()).expect("a time since boot")
}

/// Sees to it that namespaces can be made: without root, in a user namespace.
pub fn become_root() {
    if nix::unistd::geteuid().is_root() {
        return;
    }
    let own = std::env::current_exe().expect("the path of the bench");
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--"]).arg(own).args(std::env::args_os().skip(1));
    panic!("neither root nor a user namespace, so there is no PID namespace to be had: {}", unshare.exec());
}

/// A PID 1. It is killed, and its namespace with it, when it is dropped.
pub struct Pid1 {
    /// Its number outside.
    pub pid: Pid,
    /// When it was about to be executed.
    pub started: u64,
    /// The command's standard input and output, if they were asked for.
    pub stdin: Option<File>,
    pub stdout: Option<File>,
    is_over: bool,
}

impl Pid1 {
    /// Executes `words` in new PID and mount namespaces, with a `/proc` that shows them. With `talks` both ends of its standard input and
    /// output are here.
    pub fn start(words: &[String], talks: bool) -> Pid1 {
        let words: Vec<CString> = words.iter().map(|word| CString::new(word.as_str()).expect("no NUL")).collect();
        let pipe = || nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).expect("a pipe");
        let (clock, its_clock) = pipe();
        let talk = talks.then(|| (pipe(), pipe()));
        let flags = libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::SIGCHLD;
        // SAFETY: without a stack and pointers this is a fork, and the bench has one thread.
        let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
        match i32::try_from(pid).expect("a pid") {
            0 => {
                let ends = talk.as_ref().map(|((stdin, _), (_, stdout))| (stdin, stdout));
                become_pid_1(&words, ends, &its_clock)
            }
            -1 => panic!("clone: {}", std::io::Error::last_os_error()),
            pid => {
                drop(its_clock);
                let mut started = [0; 8];
                File::from(clock).read_exact(&mut started).expect("the time of the start");
                let (stdin, stdout) =
                    talk.map_or((None, None), |((_, stdin), (stdout, _))| (Some(stdin), Some(stdout)));
                let started = u64::from_ne_bytes(started);
                let [stdin, stdout] = [stdin, stdout].map(|fd| fd.map(File::from));
                Pid1 { pid: Pid::from_raw(pid), started, stdin, stdout, is_over: false }
            }
        }
    }

    /// Waits for its end, and returns the time when it was seen.
    pub fn wait(mut self) -> u64 {
        let status = waitpid(self.pid, None).expect("our child");
        let time = now();
        self.is_over = true;
        assert_eq!(status, WaitStatus::Exited(self.pid, 0));
        time
    }

    /// The text of one of its files in `/proc`.
    pub fn proc_file(&self, name: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{name}", self.pid)).expect("a file of a process that runs")
    }
}

impl Drop for Pid1 {
    fn drop(&mut self) {
        if !self.is_over {
            let _ = nix::sys::signal::kill(self.pid, nix::sys::signal::Signal::SIGKILL);
            let _ = waitpid(self.pid, None);
        }
    }
}

fn become_pid_1(words: &[CString], ends: Option<(&OwnedFd, &OwnedFd)>, clock: &OwnedFd) -> ! {
    let none = None::<&str>;
    let mounted = mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .and_then(|()| mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), none));
    if mounted.is_err() {
        eprintln!("/proc cannot be mounted in a namespace: {mounted:?}");
        exit(1);
    }
    if let Some((stdin, stdout)) = ends {
        dup2_stdin(stdin).and_then(|()| dup2_stdout(stdout)).expect("descriptors");
    }
    let environment: [CString; 1] = [c"PATH=/usr/bin:/bin".to_owned()];
    nix::unistd::write(clock, &now().to_ne_bytes()).expect("a pipe");
    let error = nix::unistd::execve(&words[0], words, &environment).expect_err("it returns with an error");
    eprintln!("{:?}: {error}", words[0]);
    exit(1)
}
