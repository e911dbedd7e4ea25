//! A task: the service in a process of its own, below drainit or not.

use std::env;
use std::io::{BufRead, BufReader, Read};
use std::iter;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

use crate::Result;
use crate::progress::Progress;
use crate::service;

/// What drainit is told: a delay longer than the client's list lags behind, and the time until the platform's SIGKILL.
pub(crate) const DRAINIT_OPTIONS: [&str; 4] = ["--delay", "2s", "--stop-timeout", "10s"];

const READY_WITHIN: Duration = Duration::from_secs(10);
const EXIT_WITHIN: Duration = Duration::from_secs(15);
const LOG_WITHIN: Duration = Duration::from_secs(5);
/// For one more line from a task that failed.
const NEXT_LINE_WITHIN: Duration = Duration::from_millis(100);

/// What the service runs below.
pub(crate) enum Init {
    /// Nothing: it gets its stop signal at once, as it does below most inits.
    None,
    /// The drainit binary at this path.
    Drainit(PathBuf),
}

impl Init {
    /// The deploy's name in the output.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::None => "at once",
            Self::Drainit(_) => "drainit",
        }
    }

    fn command(&self) -> Result<Command> {
        let example = env::current_exe()?;
        let mut command = match self {
            Self::None => Command::new(example),
            Self::Drainit(drainit) => {
                let mut command = Command::new(drainit);
                command.args(DRAINIT_OPTIONS).arg("--").arg(example);
                command
            }
        };
        command.arg(service::SUB_COMMAND);
        // The options alone are to decide, not what the user's shell happens to export for drainit.
        for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("DRAINIT_")) {
            command.env_remove(name);
        }
        Ok(command)
    }
}

/// A running task. Dropping it ends it, and all that it started.
pub(crate) struct Task {
    process: Guard,
    address: SocketAddr,
    log: Receiver<String>,
}

impl Task {
    /// Starts a task and waits until it takes requests.
    pub(crate) fn start(init: &Init, progress: &mut Progress) -> Result<Self> {
        let mut child = init
            .command()?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A Ctrl-C at the terminal is for the example alone, which then ends its tasks itself.
            .process_group(0)
            .spawn()
            .map_err(|error| format!("cannot start a task: {error}"))?;
        let out = lines(child.stdout.take());
        let log = lines(child.stderr.take());
        let process = Guard(child);
        let ready = progress.wait_for("a task to be ready", READY_WITHIN, || match out.try_recv() {
            Ok(line) => Ok(Some(line)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => {
                Err(format!("a task ended before it was ready, and wrote {:?}", soon(&log)).into())
            }
        })?;
        let address = ready
            .strip_prefix(service::READY)
            .and_then(|address| address.trim().parse().ok())
            .ok_or_else(|| format!("a task says {ready:?} instead of where it listens"))?;
        Ok(Self { process, address, log })
    }

    /// Where the service listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Fails if the task has ended, which none should before its stop signal.
    pub(crate) fn check(&mut self) -> Result<()> {
        match self.process.0.try_wait()? {
            None => Ok(()),
            Some(status) => Err(format!("a task ended unasked with {status}, and wrote {:?}", soon(&self.log)).into()),
        }
    }

    /// Sends the stop signal to the task's first process, as the platform does.
    pub(crate) fn stop(&self) -> Result<()> {
        Ok(signal::kill(self.process.pid()?, Signal::SIGTERM)?)
    }

    /// Waits until the task has exited, and returns what it wrote to stderr: below drainit, drainit's log.
    pub(crate) fn wait(mut self, progress: &mut Progress) -> Result<Vec<String>> {
        let child = &mut self.process.0;
        let status = progress.wait_for("a task to exit", EXIT_WITHIN, || Ok(child.try_wait()?))?;
        if !status.success() {
            return Err(format!("a task ended with {status}, and wrote {:?}", soon(&self.log)).into());
        }
        let mut log = Vec::new();
        progress.wait_for("the end of a task's log", LOG_WITHIN, || {
            loop {
                match self.log.try_recv() {
                    Ok(line) => log.push(line),
                    Err(TryRecvError::Empty) => return Ok(None),
                    Err(TryRecvError::Disconnected) => return Ok(Some(())),
                }
            }
        })?;
        Ok(log)
    }
}

/// What a task that failed has written. Does not wait until the pipe closes, for the failure may have left a process
/// behind that holds it open.
fn soon(log: &Receiver<String>) -> String {
    let lines: Vec<_> = iter::from_fn(|| log.recv_timeout(NEXT_LINE_WITHIN).ok()).collect();
    lines.join("\n")
}

/// Reads a pipe's lines in a thread, so that a wait for one can have an end. The channel closes when the pipe does.
fn lines(pipe: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in pipe.into_iter().flat_map(|pipe| BufReader::new(pipe).lines()).map_while(std::result::Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

/// The task's first process, which must not outlive the example.
struct Guard(Child);

impl Guard {
    /// Is the task's until it has been waited for, so that no signal can reach a stranger.
    fn pid(&self) -> Result<Pid> {
        Ok(Pid::from_raw(i32::try_from(self.0.id())?))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // The service ends when its stdin does, wherever in the process tree it is, and drainit ends with the
        // service. So no process has to be looked for, and SIGKILL is only for one that hangs.
        drop(self.0.stdin.take());
        for _ in 0..100 {
            match self.0.try_wait() {
                Ok(None) => thread::sleep(Duration::from_millis(10)),
                _ => return,
            }
        }
        if let Ok(pid) = self.pid() {
            let _ = signal::killpg(pid, Signal::SIGKILL);
        }
        let _ = self.0.wait();
    }
}
