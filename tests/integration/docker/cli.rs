//! The `docker` command.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs `docker ARGS`, which has to succeed, and returns its standard output.
pub fn docker<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> String {
    output(Command::new("docker").args(args))
}

/// Runs `command`, which has to succeed, and returns its standard output.
pub fn output(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert_success(command, &output);
    String::from_utf8(output.stdout).expect("what the tests run writes UTF-8")
}

/// Runs `docker ARGS` with what `tar TAR_ARGS` writes on its standard input. Both have to succeed.
pub fn tar_into_docker<A: AsRef<OsStr>, B: AsRef<OsStr>>(
    tar_args: impl IntoIterator<Item = A>,
    args: impl IntoIterator<Item = B>,
) {
    let mut tar = Command::new("tar");
    tar.args(tar_args).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut packing = tar.spawn().unwrap_or_else(|e| panic!("{tar:?}: {e}"));
    let archive = packing.stdout.take().expect("piped");

    let mut docker = Command::new("docker");
    docker.args(args).stdin(archive);
    let output = docker.output().unwrap_or_else(|e| panic!("{docker:?}: {e}"));
    assert_success(&docker, &output);
    let packed = packing.wait().expect("tar is waited for once");
    assert!(packed.success(), "{tar:?}: {packed}");
}

fn assert_success(command: &Command, output: &Output) {
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
}

/// The root of the repository.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
