//! Running drainit as PID 1 of a PID namespace, or as a child below another init.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{self, Need, Test, eventually, test, wait_for};

/// Nothing in these tests takes longer, unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// `unshare` set up so that the command appended to it becomes PID 1 of a new PID namespace with its own `/proc`, and dies with it.
pub fn unshare() -> Command {
    let mut unshare = Command::new("unshare");
    if !nix::unistd::geteuid().is_root() {
        unshare.args(["--user", "--map-root-user"]);
    }
    unshare.args(["--pid", "--fork", "--mount-proc", "--kill-child", "--"]);
    unshare
}

/// What drainit is for its parent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// PID 1 of a PID namespace of its own.
    Pid1,
    /// Any child of any process.
    Child,
    /// A child of PID 1, in a PID namespace that goes with the test, whatever gets out of hand in it.
    BelowPid1,
}

/// The same test in both modes.
pub fn in_both_modes(name: &str, run: fn(Mode)) -> [Test; 2] {
    [
        test(format!("{name} [pid 1]"), &[Need::PidNamespace], move || run(Mode::Pid1)),
        test(format!("{name} [child]"), &[], move || run(Mode::Child)),
    ]
}

/// A drainit to be started.
pub struct Launch {
    mode: Mode,
    env: Vec<(OsString, OsString)>,
    args: Vec<OsString>,
    stdin: Stdio,
    stderr: Option<Stdio>,
    /// drainit, or another init with its options.
    init: Vec<OsString>,
    /// A program that executes drainit in its own place, and its arguments.
    through: Vec<OsString>,
}

impl Launch {
    /// drainit in `mode`, with its log as JSON.
    pub fn new(mode: Mode) -> Launch {
        let launch = Launch {
            mode,
            env: Vec::new(),
            args: Vec::new(),
            stdin: Stdio::null(),
            stderr: None,
            init: vec![harness::drainit().into()],
            through: Vec::new(),
        };
        launch.env("DRAINIT_LOG_FORMAT", "json")
    }

    /// Another init in drainit's place, with its options.
    pub fn init(mut self, words: Vec<OsString>) -> Launch {
        self.init = words;
        self
    }

    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Launch {
        self.env.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Words of drainit's command line.
    pub fn args<S: AsRef<OsStr>>(mut self, words: impl IntoIterator<Item = S>) -> Launch {
        self.args.extend(words.into_iter().map(|word| word.as_ref().to_owned()));
        self
    }

    /// A shell script as the command.
    pub fn script(self, script: &str) -> Launch {
        self.args(["--", "sh", "-c", script])
    }

    /// One of the programs in `helper.rs` as the command.
    pub fn helper(self, words: &[&str]) -> Launch {
        self.args(["--"]).args(helper(words))
    }

    /// A helper that executes drainit, after it has set up something to be inherited. Several of them execute one another in this order.
    pub fn through(mut self, words: &[&str]) -> Launch {
        self.through.extend(helper(words));
        self
    }

    /// The same with any program that ends in an exec.
    pub fn through_program(mut self, words: &[&str]) -> Launch {
        self.through.extend(words.iter().map(OsString::from));
        self
    }

    /// Without the privileges that make root see everything.
    pub fn without_capabilities(self) -> Launch {
        if nix::unistd::geteuid().is_root() {
            return self.through_program(&["setpriv", "--bounding-set=-all", "--inh-caps=-all"]);
        }
        self
    }

    /// What standard input is, instead of `/dev/null`.
    pub fn stdin(mut self, stdin: impl Into<Stdio>) -> Launch {
        self.stdin = stdin.into();
        self
    }

    /// Where standard error goes, instead of into the list of events.
    pub fn stderr(mut self, stderr: impl Into<Stdio>) -> Launch {
        self.stderr = Some(stderr.into());
        self
    }

    pub fn start(self) -> Running {
        let mut words = self.through;
        words.extend(self.init);
        words.extend(self.args);
        let mut command = match self.mode {
            Mode::Pid1 => {
                let mut unshare = unshare();
                unshare.args(&words);
                unshare
            }
            Mode::Child => {
                let mut command = Command::new(&words[0]);
                command.args(&words[1..]);
                command
            }
            Mode::BelowPid1 => {
                let mut unshare = unshare();
                // With something to do afterwards, the shell has to stay.
                unshare.args(["sh", "-c", "\"$@\"; exit $?", "sh"]).args(&words);
                unshare
            }
        };
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("DRAINIT_")) {
            command.env_remove(name);
        }
        let is_captured = self.stderr.is_none();
        let mut child = command
            .envs(self.env)
            .stdin(self.stdin)
            .stdout(Stdio::piped())
            .stderr(self.stderr.unwrap_or_else(Stdio::piped))
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stdout = Lines::read(child.stdout.take().expect("a pipe"));
        let stderr = is_captured.then(|| Lines::read(child.stderr.take().expect("a pipe")));
        Running { mode: self.mode, child, stdout, stderr }
    }

    /// Runs it to its end.
    pub fn run(self) -> Ended {
        self.start().wait()
    }
}

/// The command line of a helper.
pub fn helper(words: &[&str]) -> Vec<OsString> {
    let own = std::env::current_exe().expect("the path of the tests");
    [own.into_os_string(), "helper".into()].into_iter().chain(words.iter().map(OsString::from)).collect()
}

/// Lines as they come.
struct Lines {
    lines: Arc<Mutex<Vec<String>>>,
    reader: JoinHandle<()>,
}

impl Lines {
    fn read(source: impl Read + Send + 'static) -> Lines {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let reader = std::thread::spawn({
            let lines = Arc::clone(&lines);
            move || {
                for line in BufReader::new(source).split(b'\n').map_while(Result::ok) {
                    lines.lock().expect("no panic").push(String::from_utf8_lossy(&line).into_owned());
                }
            }
        });
        Lines { lines, reader }
    }

    fn so_far(&self) -> Vec<String> {
        self.lines.lock().expect("no panic").clone()
    }

    fn all(self) -> Vec<String> {
        let Lines { lines, reader } = self;
        // Whoever still holds the other end is a process that should have ended.
        eventually("the end of its output", PATIENCE, || reader.is_finished());
        reader.join().expect("no panic");
        lines.lock().expect("no panic").clone()
    }
}

/// A drainit that runs. It is killed with what it started when the test ends early.
pub struct Running {
    mode: Mode,
    child: Child,
    stdout: Lines,
    stderr: Option<Lines>,
}

impl Running {
    /// drainit's process id, as seen from here.
    pub fn pid(&self) -> i32 {
        let child = i32::try_from(self.child.id()).expect("a pid");
        let first_child = |pid| children(pid).first().copied().expect("a child");
        match self.mode {
            Mode::Child => child,
            Mode::Pid1 => first_child(child),
            Mode::BelowPid1 => first_child(first_child(child)),
        }
    }

    /// Waits for a line of the command's output.
    pub fn expect_line(&self, line: &str) {
        eventually(format!("the line {line:?}: {:?}", self.log()), PATIENCE, || {
            self.stdout_so_far().iter().any(|l| l == line)
        });
    }

    pub fn stdout_so_far(&self) -> Vec<String> {
        self.stdout.so_far()
    }

    /// What has been logged so far, for error messages too.
    pub fn log(&self) -> Vec<String> {
        self.stderr.as_ref().map(Lines::so_far).unwrap_or_default()
    }

    /// Waits for an event, and returns it.
    pub fn expect_event(&self, name: &str) -> Value {
        let mut found = None;
        eventually(format!("the event {name}"), PATIENCE, || {
            found = find_event(&events(&self.log()), name);
            found.is_some()
        });
        found.expect("found")
    }

    pub fn signal(&self, signal: i32) {
        send(self.pid(), signal);
    }

    /// Whether a line of the command's output comes within `limit`.
    pub fn has_line_within(&self, line: &str, limit: Duration) -> bool {
        wait_for(limit, || {
            let is_all = self.stdout.reader.is_finished();
            let is_there = self.stdout_so_far().iter().any(|l| l == line);
            if is_all || is_there { Some(is_there) } else { None }
        })
        .unwrap_or(false)
    }

    /// Waits for the end.
    pub fn wait(self) -> Ended {
        self.wait_within(PATIENCE).unwrap_or_else(|running| panic!("it does not end: {:?}", running.log()))
    }

    /// Waits for the end, which has to come within `limit`.
    ///
    /// # Errors
    ///
    /// What still runs.
    pub fn wait_within(mut self, limit: Duration) -> Result<Ended, Box<Running>> {
        let Some(status) = wait_for(limit, || self.child.try_wait().expect("our child")) else {
            return Err(Box::new(self));
        };
        let Running { stdout, stderr, .. } = &mut self;
        let stdout = std::mem::replace(stdout, Lines::read(std::io::empty())).all();
        let stderr = stderr.take().map(Lines::all).unwrap_or_default();
        Ok(Ended { status, stdout, stderr })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // With --kill-child the namespace goes with unshare. A drainit without one takes its command along if it is told so in time.
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let own = i32::try_from(self.child.id()).expect("a pid");
            for pid in descendants(own).into_iter().chain([own]) {
                send(pid, libc::SIGKILL);
            }
            let _ = self.child.wait();
        }
    }
}

/// What is left of a drainit that has ended.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: Vec<String>,
    pub stderr: Vec<String>,
}

impl Ended {
    /// The exit code, as a shell has it.
    pub fn code(&self) -> i32 {
        self.status.code().or(self.status.signal().map(|signal| 128 + signal)).expect("an end")
    }

    /// The event `name`, which has to be there once.
    pub fn event(&self, name: &str) -> Value {
        let all = events(&self.stderr);
        let count = all.iter().filter(|event| event["event"] == name).count();
        assert_eq!(count, 1, "events {name} in {:#?}", self.stderr);
        find_event(&all, name).expect("counted")
    }

    /// The names of all events, in order.
    pub fn event_names(&self) -> Vec<String> {
        let name = |event: &Value| event["event"].as_str().expect("a name").to_owned();
        events(&self.stderr).iter().map(name).collect()
    }
}

fn events(lines: &[String]) -> Vec<Value> {
    lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn find_event(events: &[Value], name: &str) -> Option<Value> {
    events.iter().find(|event| event["event"] == name).cloned()
}

/// Sends a signal, from outside any PID namespace that the test made.
pub fn send(pid: i32, signal: i32) {
    // SAFETY: kill has no preconditions. (The C library's own signals have no place in nix's type.)
    unsafe { libc::kill(pid, signal) };
}

/// The children of a process, from whatever thread.
pub fn children(pid: i32) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks
        .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|text| text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>())
        .collect()
}

/// The descendants of a process.
pub fn descendants(pid: i32) -> Vec<i32> {
    children(pid).into_iter().flat_map(|child| [child].into_iter().chain(descendants(child))).collect()
}

/// A line of `/proc/PID/status`, without its name.
pub fn status(pid: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(|value| value.trim().to_owned()))
}
