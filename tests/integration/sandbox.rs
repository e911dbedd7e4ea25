//! PID namespaces for the tests.

use std::process::Command;

/// `unshare` set up so that the command appended to it becomes PID 1 of a new PID namespace with its own `/proc`, and dies with it.
pub fn unshare() -> Command {
    let mut unshare = Command::new("unshare");
    if !nix::unistd::geteuid().is_root() {
        unshare.args(["--user", "--map-root-user"]);
    }
    unshare.args(["--pid", "--fork", "--mount-proc", "--kill-child", "--"]);
    unshare
}
