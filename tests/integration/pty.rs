//! A real pseudo-terminal with a program on it, and somebody who types and reads.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::stat::Mode;

use crate::harness::wait_for;
use crate::sandbox::{PATIENCE, descendants, send, status};

/// What the keys send that a terminal turns into signals.
pub const CTRL_C: &str = "\x03";
pub const CTRL_D: &str = "\x04";
pub const CTRL_Z: &str = "\x1a";

/// A session on a terminal of its own. It is ended with all that it started when the test ends.
pub struct Session {
    child: Child,
    keyboard: Option<File>,
    is_hung_up: Arc<AtomicBool>,
    screen: Arc<Mutex<String>>,
    /// How much of the screen has been looked at.
    seen: usize,
}

impl Session {
    /// Starts `command` as the leader of a new session, with a terminal of 24 by 80 characters.
    pub fn start(mut command: Command) -> Session {
        let Terminal { user: master, program, .. } = open(OFlag::empty());
        let standard = || program.try_clone().expect("a descriptor");
        command.stdin(standard()).stdout(standard()).stderr(standard());
        command
            .env("PS1", "$ ")
            .env("TERM", "dumb")
            .env_remove("ENV")
            .env_remove("DRAINIT_TEST_BIN")
            .env_remove("DRAINIT_TEST_ALL");
        let take_terminal = || {
            nix::unistd::setsid()?;
            // SAFETY: the call takes numbers only.
            nix::errno::Errno::result(unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) })?;
            Ok(())
        };
        // SAFETY: the closure makes two system calls.
        unsafe { command.pre_exec(take_terminal) };
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        drop(command);
        let screen = Arc::new(Mutex::new(String::new()));
        let mut output = master.try_clone().expect("a descriptor");
        let session =
            Session { child, keyboard: Some(master), is_hung_up: Arc::default(), screen: Arc::clone(&screen), seen: 0 };
        let is_hung_up = Arc::clone(&session.is_hung_up);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while !is_hung_up.load(Ordering::Relaxed) {
                let mut fds = [PollFd::new(output.as_fd(), PollFlags::POLLIN)];
                if poll(&mut fds, PollTimeout::from(20u8)) == Ok(0) {
                    continue;
                }
                // A terminal that nobody has open any more gives EIO.
                let Ok(length @ 1..) = output.read(&mut buffer) else { return };
                screen.lock().expect("no panic").push_str(&String::from_utf8_lossy(&buffer[..length]));
            }
        });
        session
    }

    /// An interactive shell, with job control.
    pub fn shell(shell: &str) -> Session {
        let mut command = Command::new(shell);
        if shell == "bash" {
            command.args(["--norc", "--noprofile"]);
        }
        command.arg("-i");
        let mut session = Session::start(command);
        session.expect("$ ");
        session
    }

    fn keyboard(&self) -> &File {
        self.keyboard.as_ref().expect("the terminal has not been hung up")
    }

    /// Types `keys`.
    pub fn press(&mut self, keys: &str) {
        self.keyboard().write_all(keys.as_bytes()).expect("typed");
    }

    /// Types a line.
    pub fn enter(&mut self, line: &str) {
        self.press(&format!("{line}\n"));
    }

    /// Waits until the screen shows `text`, after what was expected before.
    pub fn expect(&mut self, text: &str) {
        assert!(self.shows_within(text, PATIENCE), "{text:?} is not on the screen: {:?}", self.screen());
    }

    /// Whether that comes true within `limit`.
    pub fn shows_within(&mut self, text: &str, limit: Duration) -> bool {
        let end = wait_for(limit, || self.screen()[self.seen..].find(text).map(|start| self.seen + start + text.len()));
        self.seen = end.unwrap_or(self.seen);
        end.is_some()
    }

    /// All that the screen has shown.
    pub fn screen(&self) -> String {
        self.screen.lock().expect("no panic").clone()
    }

    /// Makes the window larger or smaller.
    pub fn resize(&self, rows: u16, columns: u16) {
        set_size(self.keyboard(), rows, columns);
    }

    /// Closes the terminal, as when a connection breaks.
    pub fn hang_up(&mut self) {
        self.keyboard = None;
        self.is_hung_up.store(true, Ordering::Relaxed);
    }

    /// Waits until a program called `name` runs in the session.
    pub fn expect_program(&self, name: &str) {
        let runs = |pid: &i32| status(&pid.to_string(), "Name").as_deref() == Some(name);
        let found = wait_for(PATIENCE, || descendants(self.pid()).iter().any(runs).then_some(()));
        assert!(found.is_some(), "{name} does not run: {:?}", self.screen());
    }

    /// The process that was started.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a pid")
    }

    /// Waits for its end, and returns its exit code.
    pub fn exit_code(&mut self) -> Option<i32> {
        let status = wait_for(PATIENCE, || self.child.try_wait().expect("our child"));
        status.unwrap_or_else(|| panic!("the session does not end: {:?}", self.screen())).code()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the screen:\n{}", self.screen());
        }
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            for pid in descendants(self.pid()).into_iter().chain([self.pid()]) {
                send(pid, libc::SIGKILL);
            }
            let _ = self.child.wait();
        }
    }
}

/// A new terminal.
pub struct Terminal {
    /// The end of whoever sits before it.
    pub user: File,
    /// The end for programs, as it is called in the file system.
    pub program: File,
    pub path: String,
}

/// Opens a terminal of 24 by 80 characters, the user's end with `more` flags. Those whom other tests start at the same time must not inherit
/// it, or nobody would notice a hang-up.
pub fn open(more: OFlag) -> Terminal {
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let master = posix_openpt(flags | more).expect("a pseudo-terminal");
    grantpt(&master).expect("granted");
    unlockpt(&master).expect("unlocked");
    let path = ptsname_r(&master).expect("a name");
    let program = nix::fcntl::open(path.as_str(), flags, Mode::empty()).expect("the other end");
    // SAFETY: the descriptor is this object's own, and is given up with it.
    let user = File::from(unsafe { OwnedFd::from_raw_fd(master.into_raw_fd()) });
    set_size(&user, 24, 80);
    Terminal { user, program: File::from(program), path }
}

fn set_size(terminal: &File, rows: u16, columns: u16) {
    let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the pointer is to a winsize.
    let result = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}
