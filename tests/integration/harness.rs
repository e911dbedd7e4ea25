//! What every integration test needs: a name, the things it needs of the machine, and the binary under test.
//!
//! A test whose needs are not met counts as ignored, and the reason is printed. With `DRAINIT_TEST_ALL=1`, as in CI, it runs all the same
//! and fails on whatever is missing.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// One test: it fails by a panic.
pub struct Test {
    pub name: String,
    pub needs: Vec<Need>,
    pub run: Box<dyn FnOnce() + Send>,
}

/// A test that needs `needs` of the machine.
pub fn test(name: impl Into<String>, needs: &[Need], run: impl FnOnce() + Send + 'static) -> Test {
    Test { name: name.into(), needs: needs.to_vec(), run: Box::new(run) }
}

/// Something that not every machine has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Need {
    /// A new PID namespace with a `/proc` of its own, as root or through a user namespace.
    PidNamespace,
    /// Root, who can become any other user.
    Root,
    /// The right to trace a process, and the one architecture whose registers the tests know.
    Tracer,
    /// The shell that most people have.
    Bash,
    /// The inits that drainit is compared with.
    Tini,
    DumbInit,
    Catatonit,
    /// What `sh` is in Debian.
    Dash,
    /// Debian's nginx.
    Nginx,
    /// A Docker Engine that answers.
    Docker,
    /// A busybox that runs in an image without a C library.
    StaticBusybox,
    /// The Rust targets that drainit is shipped for.
    MuslTargets,
    /// What runs an arm64 program on another machine.
    Qemu,
}

impl Need {
    /// Why this machine does not have it, if it does not. Each is probed once.
    pub fn missing(self) -> Option<&'static str> {
        static PROBED: Mutex<BTreeMap<&str, bool>> = Mutex::new(BTreeMap::new());
        let shell = |script: &str| {
            let mut shell = Command::new("sh");
            shell.args(["-c", script]);
            shell
        };
        let targets = "for target in x86_64 aarch64; do test -d \"$(rustc --print target-libdir --target $target-unknown-linux-musl)\" || exit; done";
        let (mut probe, reason) = match self {
            Need::PidNamespace => {
                let mut unshare = crate::sandbox::unshare();
                unshare.arg("true");
                (unshare, "no PID namespace can be made here (unshare --pid)")
            }
            Need::Root => (shell("test $(id -u) = 0"), "only root can become another user here"),
            Need::Tracer => {
                let mut tracer = Command::new(std::env::current_exe().expect("the path of the tests"));
                tracer.args(["helper", "traced", "record", "/dev/null", "true"]);
                (tracer, "processes cannot be traced here (ptrace, on x86_64)")
            }
            Need::Bash => (shell("command -v bash"), "bash is not installed"),
            Need::Tini => (shell("tini --version"), "tini is not installed (tini)"),
            Need::DumbInit => (shell("dumb-init --version"), "dumb-init is not installed (dumb-init)"),
            Need::Catatonit => (shell("catatonit --version"), "catatonit is not installed (catatonit)"),
            Need::Dash => (shell("dash -c true"), "dash is not installed (dash)"),
            Need::Nginx => (shell("nginx -v"), "nginx is not installed (nginx-light)"),
            Need::Docker => (shell("docker info"), "no Docker Engine answers (docker info)"),
            Need::StaticBusybox => (
                shell("busybox=$(command -v busybox) && ! ldd \"$busybox\""),
                "no static busybox is installed (busybox-static)",
            ),
            Need::MuslTargets => (shell(targets), "the musl targets are not installed (rustup target add)"),
            Need::Qemu => (shell("command -v qemu-aarch64-static"), "qemu is not installed (qemu-user-static)"),
        };
        let mut probed = PROBED.lock().expect("no panic");
        let is_there = *probed.entry(reason).or_insert_with(|| succeeds(&mut probe));
        (!is_there).then_some(reason)
    }
}

fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The binary under test: `DRAINIT_TEST_BIN`, or the one that cargo built beside the tests.
pub fn drainit() -> &'static Path {
    static BIN: OnceLock<PathBuf> = OnceLock::new();
    BIN.get_or_init(|| {
        let path = std::env::var_os("DRAINIT_TEST_BIN")
            .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_drainit")), PathBuf::from);
        path.canonicalize().unwrap_or_else(|e| panic!("the binary under test, {}: {e}", path.display()))
    })
}

/// Waits until `condition` holds; panics with `what` when it does not within `limit`.
pub fn eventually(what: impl fmt::Display, limit: Duration, mut condition: impl FnMut() -> bool) {
    assert!(wait_for(limit, || condition().then_some(())).is_some(), "waited {limit:?} in vain: {what}");
}

/// Waits until there is `something`, at most for `limit`.
pub fn wait_for<T>(limit: Duration, mut something: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        let found = something();
        if found.is_some() || start.elapsed() >= limit {
            return found;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
