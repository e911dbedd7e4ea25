//! Standard error that takes no more: a terminal stopped by Ctrl-S, another user's terminal, a full pipe that is read again, a full disk.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;

use nix::fcntl::OFlag;
use serde_json::Value;

use super::checks::{self, STOPPED, drainit_of, in_namespaces, with_a_delay};
use crate::harness::{Need, Test, eventually, test};
use crate::pty;
use crate::sandbox::{Launch, Mode, PATIENCE, Running, in_both_modes, send, status};

pub fn tests() -> Vec<Test> {
    let mut tests: Vec<Test> = [
        in_both_modes("hostile::a_terminal_stopped_by_ctrl_s_holds_up_nothing", stopped_terminal),
        in_both_modes("hostile::lines_that_found_a_pipe_full_are_counted_once_it_is_read", full_pipe),
    ]
    .into_iter()
    .flatten()
    .collect();
    let root = [Need::Root];
    tests.extend(in_namespaces(
        "hostile::another_users_terminal_is_written_where_it_is_the_controlling_one",
        &root,
        foreign_controlling_terminal,
    ));
    tests.extend(in_namespaces("hostile::another_users_terminal_holds_up_nothing", &root, foreign_terminal));
    tests.push(test("hostile::lines_that_found_the_disk_full_are_counted", &[Need::PidNamespace], full_disk));
    tests
}

/// A terminal, from the side of who sits before it.
struct Terminal {
    keyboard_and_screen: File,
    /// The programs' side. It stays open here, so that the terminal outlives them.
    line: File,
    path: String,
    shown: Vec<u8>,
}

impl Terminal {
    fn new() -> Terminal {
        let pty::Terminal { user, program, path } = pty::open(OFlag::O_NONBLOCK);
        Terminal { keyboard_and_screen: user, line: program, path, shown: Vec::new() }
    }

    /// Presses Ctrl-S, and waits for it to have its effect.
    fn stop(&mut self) {
        self.press(b"\x13", false);
    }

    /// Presses Ctrl-Q.
    fn go_on(&mut self) {
        self.press(b"\x11", true);
    }

    fn press(&mut self, key: &[u8], goes_on: bool) {
        self.keyboard_and_screen.write_all(key).expect("a key");
        eventually("the terminal to stop or to go on", PATIENCE, || self.takes_output() == goes_on);
    }

    fn takes_output(&self) -> bool {
        let mut poll = libc::pollfd { fd: self.line.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
        // SAFETY: the pointer is to one structure.
        unsafe { libc::poll(&raw mut poll, 1, 0) };
        poll.revents & libc::POLLOUT != 0
    }

    /// Gives it to a user, for nobody else to open.
    fn give_to(&self, uid: u32) {
        std::os::unix::fs::chown(&self.path, Some(uid), None).expect("root");
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&self.path, private).expect("root");
    }

    /// What it shows by now, line by line.
    fn lines(&mut self) -> Vec<String> {
        let mut more = [0; 4096];
        loop {
            match self.keyboard_and_screen.read(&mut more) {
                Ok(count) => self.shown.extend(&more[..count]),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    return String::from_utf8_lossy(&self.shown).lines().map(String::from).collect();
                }
            }
        }
    }
}

/// Has a drainit stop its command; waits until the graceful signal is out and all is said about it.
fn stop_until_forwarded(running: &Running) {
    let drainit = drainit_of(running);
    send(drainit, libc::SIGTERM);
    running.expect_line("got 15");
    let pid = drainit.to_string();
    eventually("drainit to wait", PATIENCE, || status(&pid, "State").is_some_and(|state| state.starts_with('S')));
}

/// Ends the command of [`launch`].
fn end(running: Running) {
    send(drainit_of(&running), libc::SIGUSR1);
    let ended = running.wait();
    assert_eq!((ended.code(), ended.stdout.last().map(String::as_str)), (0, Some("got 10")), "{ended:?}");
}

/// A drainit whose command ends with the second signal that it gets.
fn launch(mode: Mode) -> Launch {
    with_a_delay(Launch::new(mode)).helper(&["report", "2"])
}

/// Checks that of the whole stop only the last line was written, and that it counts the others.
fn assert_counted(lines: &[String], dropped: i64) {
    let events: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).expect(line)).collect();
    let names: Vec<&str> = events.iter().filter_map(|event| event["event"].as_str()).collect();
    assert!(!names.contains(&"stop_requested") && !names.contains(&"signal_forwarded"), "{lines:?}");
    let last = events.last().expect("a line");
    assert_eq!((&last["event"], &last["dropped_log_lines"]), (&"stopped".into(), &dropped.into()), "{lines:?}");
}

fn stopped_terminal(mode: Mode) {
    for goes_on in [true, false] {
        let mut terminal = Terminal::new();
        let running = launch(mode).through(&["with-terminal", &terminal.path, ""]).start();
        running.expect_line("ready");
        eventually("the first line", PATIENCE, || terminal.lines().len() == 1);
        terminal.stop();
        stop_until_forwarded(&running);
        if goes_on {
            terminal.go_on();
        }
        end(running);
        if goes_on {
            assert_counted(&terminal.lines(), 2);
        } else {
            assert_eq!(terminal.lines().len(), 1, "what a stopped terminal does not take is dropped");
        }
    }
}

fn full_pipe(mode: Mode) {
    let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
    // SAFETY: the call takes numbers only.
    let size = unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_GETPIPE_SZ) };
    let mut filling = vec![b'.'; usize::try_from(size).expect("a size")];
    writer.write_all(&filling).expect("it fits");
    let running = launch(mode).stderr(writer).start();
    running.expect_line("ready");
    stop_until_forwarded(&running);
    reader.read_exact(&mut filling).expect("what was written");
    end(running);
    let mut log = String::new();
    reader.read_to_string(&mut log).expect("text");
    assert_counted(&log.lines().map(String::from).collect::<Vec<_>>(), 3);
}

/// Who drainit runs as, and who the terminal belongs to.
const USER: &str = "1000";
const OWNER: u32 = 1001;

fn foreign_controlling_terminal(mode: Mode) {
    let mut terminal = Terminal::new();
    terminal.give_to(OWNER);
    let controlling = ["with-terminal", &terminal.path, "controlling"];
    checks::stops(Launch::new(mode).through(&controlling).through(&["as-user", USER]));
    let lines = terminal.lines();
    let name = |line: &String| serde_json::from_str::<Value>(line).expect(line)["event"].clone();
    assert_eq!(lines.iter().map(name).collect::<Vec<_>>(), STOPPED, "{lines:?}");
}

/// Its line is stopped too. Where it is not the controlling one, there is no way to write it without the risk to block.
fn foreign_terminal(mode: Mode) {
    for way in ["", "controlling"] {
        let mut terminal = Terminal::new();
        terminal.give_to(OWNER);
        terminal.stop();
        checks::stops(Launch::new(mode).through(&["with-terminal", &terminal.path, way]).through(&["as-user", USER]));
        terminal.go_on();
        assert!(terminal.lines().is_empty());
    }
}

/// A file system of its own with room for nothing, until the command makes some while it ends.
fn full_disk() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let disk = folder.path().display();
    let around = format!(
        "mount -t tmpfs -o size=64k tmpfs {disk} && head -c 100000 /dev/zero >{disk}/filler 2>{disk}/log; \
         \"$@\" 2>{disk}/log; code=$?; cat {disk}/log; exit $code"
    );
    let command = format!("trap 'rm {disk}/filler; exit 7' TERM; echo ready; while :; do sleep 0.05; done");
    let running =
        with_a_delay(Launch::new(Mode::Pid1)).through_program(&["sh", "-c", &around, "sh"]).script(&command).start();
    running.expect_line("ready");
    send(drainit_of(&running), libc::SIGTERM);
    let ended = running.wait();
    assert_eq!((ended.code(), ended.stdout.len()), (7, 2), "{ended:?}");
    assert_counted(&ended.stdout[1..], 3);
}
