//! What every integration test needs: a name, the things it needs of the machine, and the binary under test.
//!
//! A test whose needs are not met counts as ignored, and the reason is printed. With `DRAINIT_TEST_ALL=1`, as in CI, it runs all the same
//! and fails on whatever is missing.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
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
    /// Debian's nginx.
    Nginx,
    /// A Docker Engine that answers.
    Docker,
}

impl Need {
    /// Why this machine does not have it, if it does not. Probed once.
    pub fn missing(self) -> Option<&'static str> {
        static PID_NAMESPACE: OnceLock<bool> = OnceLock::new();
        static NGINX: OnceLock<bool> = OnceLock::new();
        static DOCKER: OnceLock<bool> = OnceLock::new();
        let (probed, reason) = match self {
            Need::PidNamespace => (
                PID_NAMESPACE.get_or_init(|| succeeds(crate::sandbox::unshare().arg("true"))),
                "no PID namespace can be made here (unshare --pid)",
            ),
            Need::Nginx => (NGINX.get_or_init(|| succeeds(Command::new("nginx").arg("-v"))), "nginx is not installed"),
            Need::Docker => {
                (DOCKER.get_or_init(|| succeeds(Command::new("docker").arg("info"))), "no Docker Engine answers")
            }
        };
        (!probed).then_some(reason)
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
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < limit, "waited {limit:?} in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
