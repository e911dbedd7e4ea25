//! docker/Dockerfile: what is in its images, and that it runs.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::cli::{self, docker};
use super::elf::{self, Elf};
use super::images::{Arch, Images, buildkit};
use super::log::{Event, story};
use super::tree::which;

/// The image for `arch` holds one static executable for `arch`, which runs.
pub fn image(images: &Images, arch: Arch) {
    let image = images.compiled(arch);
    let files = tempfile::tempdir().expect("a directory for the image's files");
    let names = unpack(image, files.path());
    assert_eq!(names, ["drainit"], "the files in {image}");

    let binary = files.path().join("drainit");
    assert_eq!(elf::read(&binary), Elf { machine: arch.machine(), is_static: true });
    let config: Value = serde_json::from_str(&docker(["image", "inspect", image])).expect("JSON");
    assert_eq!(config[0]["Config"]["Entrypoint"], serde_json::json!(["/drainit"]));

    let version = format!("drainit {}\n", env!("CARGO_PKG_VERSION"));
    match arch {
        Arch::Amd64 => assert_eq!(docker(["run", "--rm", "--network", "none", image, "--version"]), version),
        Arch::Arm64 => {
            // Only BuildKit can say so: the classic builder labels its images with the engine's architecture.
            if buildkit().is_some() {
                assert_eq!(config[0]["Architecture"], arch.name());
            }
            assert_eq!(cli::output(emulated(&binary).arg("--version")), version);
            runs_a_command(&binary);
        }
    }
}

/// An emulated drainit starts a command, passes a signal on in time, and ends with the command's exit code.
fn runs_a_command(binary: &Path) {
    let script = "trap 'exit 3' TERM; echo ready; while :; do sleep 0.1; done";
    let mut command = emulated(binary);
    command.args(["--delay", "0.2s", "--log-format", "json", "--", "sh", "-c", script]);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let mut ready = [0; 6];
    child.stdout.as_mut().expect("piped").read_exact(&mut ready).expect("the command says ready");
    kill(Pid::from_raw(child.id().try_into().expect("a PID")), Signal::SIGTERM).expect("the child is there");
    let output = child.wait_with_output().expect("a child is waited for once");
    let log = String::from_utf8(output.stderr).expect("the log is UTF-8");
    assert_eq!(output.status.code(), Some(3), "{log}");
    let events = Event::parse_all(&log);
    assert_eq!(story(&events), ["stop_requested", "signal_forwarded", "stopped"], "{log}");
    let forwarded = events.iter().find(|event| event.name() == "signal_forwarded").expect("seen above");
    assert!(forwarded.number("after_ms") >= 200, "{log}");
}

fn emulated(binary: &Path) -> Command {
    let mut command = Command::new(which("qemu-aarch64-static"));
    // Nothing that the tests were told is meant for it.
    command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path))).arg(binary);
    command
}

/// Unpacks all layers of `image` into `directory`, and returns the names of everything in them.
fn unpack(image: &str, directory: &Path) -> Vec<String> {
    // Not `docker export`, whose archive has what Docker puts into a container as well.
    let saved = tempfile::tempdir().expect("a directory for the saved image");
    let archive = saved.path().join("image.tar");
    docker(["save".as_ref(), "--output".as_ref(), archive.as_os_str(), image.as_ref()]);
    cli::output(Command::new("tar").arg("-x").arg("-C").arg(saved.path()).arg("-f").arg(&archive));
    let manifest = fs::read_to_string(saved.path().join("manifest.json")).expect("a saved image has a manifest");
    let manifest: Value = serde_json::from_str(&manifest).expect("JSON");
    let layers = manifest[0]["Layers"].as_array().expect("a manifest has layers");
    let mut names = Vec::new();
    for layer in layers {
        let layer = saved.path().join(layer.as_str().expect("a path"));
        names.extend(cli::output(Command::new("tar").arg("-t").arg("-f").arg(&layer)).lines().map(String::from));
        cli::output(Command::new("tar").arg("-x").arg("-C").arg(directory).arg("-f").arg(&layer));
    }
    names
}
