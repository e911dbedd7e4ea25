//! The real drainit binary, built on the way.

use std::env;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use serde_json::Value;

use crate::Result;
use crate::progress::Progress;

/// Names a drainit binary to use instead of building one.
const VARIABLE: &str = "DRAINIT_BIN";
const BUILT_WITHIN: Duration = Duration::from_secs(600);

/// The path of the binary that `DRAINIT_BIN` names, or else of the one that Cargo builds.
pub(crate) fn binary(progress: &mut Progress) -> Result<PathBuf> {
    let path = match env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        // Made absolute, for it is a file and not a name to look up in PATH.
        Some(path) => PathBuf::from(path).canonicalize().map_err(|error| format!("{VARIABLE}: {error}"))?,
        None => build(progress)?,
    };
    progress.say(&format!("drainit is {}", path.display()))?;
    Ok(path)
}

/// `cargo run` builds the example, but not the package's binary with it.
fn build(progress: &mut Progress) -> Result<PathBuf> {
    progress.say("building drainit: cargo build --release --bin drainit")?;
    let mut build = Build::start()?;
    let cargo = &mut build.cargo;
    let status = progress.wait_for("cargo build", BUILT_WITHIN, || Ok(cargo.try_wait()?))?;
    if !status.success() {
        return Err(format!("cargo build ended with {status}").into());
    }
    build.executable()?.ok_or_else(|| "cargo build made no drainit".into())
}

/// A running `cargo build`. Dropping it ends it, with its compilers.
struct Build {
    cargo: Child,
    executable: Option<JoinHandle<Option<PathBuf>>>,
}

impl Build {
    fn start() -> Result<Self> {
        // The Cargo that runs the example, if one does.
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            // Cargo itself says where the binary is, whatever target directory is set and wherever.
            .args([
                "build",
                "--release",
                "--package",
                "drainit",
                "--bin",
                "drainit",
                "--message-format=json-render-diagnostics",
            ])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| format!("cannot run cargo: {error}"))?;
        let messages = cargo.stdout.take();
        let executable = thread::spawn(move || {
            let lines = messages.into_iter().flat_map(|messages| BufReader::new(messages).lines());
            // To the end, because Cargo would fail if nobody read what it has to say.
            lines.map_while(std::result::Result::ok).filter_map(|line| executable(&line)).last()
        });
        Ok(Self { cargo, executable: Some(executable) })
    }

    fn executable(&mut self) -> Result<Option<PathBuf>> {
        let reader = self.executable.take().ok_or("the messages have been read before")?;
        reader.join().map_err(|_| "cannot read cargo's messages".into())
    }
}

impl Drop for Build {
    fn drop(&mut self) {
        if let (Ok(None), Ok(pid)) = (self.cargo.try_wait(), i32::try_from(self.cargo.id())) {
            let _ = signal::killpg(Pid::from_raw(pid), Signal::SIGTERM);
            let _ = self.cargo.wait();
        }
    }
}

/// The path of the drainit binary, if this message of Cargo's is about it.
fn executable(message: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(message).ok()?;
    if message.pointer("/target/name")?.as_str()? != "drainit" {
        return None;
    }
    message.get("executable")?.as_str().map(PathBuf::from)
}
