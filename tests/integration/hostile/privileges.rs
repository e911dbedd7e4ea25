//! Without privileges, without the right to kill the command, and without the right to fork.

use super::checks::{DEAF, KILLED, STOPPED, drainit_of, fails_to_start, in_namespaces, kills_as_ever, stops_as_ever};
use crate::harness::{Need, Test};
use crate::sandbox::{Launch, Mode, in_both_modes, send};

pub fn tests() -> Vec<Test> {
    [
        in_both_modes("hostile::without_capabilities", without_capabilities),
        in_both_modes("hostile::with_no_new_privileges", no_new_privileges),
        in_namespaces("hostile::as_an_ordinary_user", &[Need::Root], ordinary_user),
        in_namespaces("hostile::with_none_of_the_privileges", &[Need::Root], nothing_at_all),
        in_namespaces("hostile::a_command_that_it_may_not_kill", &[Need::Root], may_not_kill),
        in_namespaces("hostile::where_it_may_not_fork", &[Need::Root], no_fork),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A user who has no processes, so that a limit on their number has to do with the test alone.
const USER: &str = "54321";

fn without_capabilities(mode: Mode) {
    stops_as_ever(Launch::new(mode).without_capabilities());
    kills_as_ever(Launch::new(mode).without_capabilities());
}

fn no_new_privileges(mode: Mode) {
    let launch = || Launch::new(mode).through_program(&["setpriv", "--no-new-privs"]);
    stops_as_ever(launch());
    kills_as_ever(launch());
}

fn ordinary_user(mode: Mode) {
    let launch = || Launch::new(mode).through(&["as-user", USER]);
    stops_as_ever(launch());
    kills_as_ever(launch());
}

fn nothing_at_all(mode: Mode) {
    let launch = || Launch::new(mode).through(&["as-bare-user", USER]);
    stops_as_ever(launch());
    kills_as_ever(launch());
}

/// The command becomes root by a program with the set-user-ID bit, below a drainit that is not.
fn may_not_kill(mode: Mode) {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).expect("our folder");
    let becomes_root = folder.path().join("becomes-root");
    let copy = format!("cp \"$(command -v setpriv)\" {0} && chmod 4755 {0}", becomes_root.display());
    assert!(std::process::Command::new("sh").args(["-c", &copy]).status().expect("a shell").success());

    let running = Launch::new(mode)
        .env("DRAINIT_GRACE", "200ms")
        .through(&["as-user", USER])
        .args(["--".as_ref(), becomes_root.as_os_str()])
        .args(["--reuid", "0", "--regid", "0", "--clear-groups", "sh", "-c", &format!("id -u; {DEAF}")])
        .start();
    running.expect_line("ready");
    assert_eq!(running.stdout_so_far()[0], "0", "the command is root");
    send(drainit_of(&running), libc::SIGTERM);
    let ended = running.wait();
    assert_eq!(ended.code(), 137, "{ended:?}");
    // One line says that the graceful signal could not be sent, and the others that nobody was killed.
    assert_eq!(ended.event_names(), ["started", "stop_requested", "warning", "killed", "stopped"], "{ended:?}");
    let warning = ended.event("warning")["msg"].to_string();
    assert!(warning.contains("SIGTERM could not be sent to the command: Operation not permitted"), "{warning}");
    let stopped = ended.event("stopped");
    assert_eq!([&ended.event("killed")["processes"], &stopped["killed"]], [&0, &0], "{ended:?}");
    assert_eq!((&stopped["clean"], &stopped["graceful_signal"]), (&false.into(), &serde_json::Value::Null));
    assert!((200..2_000).contains(&stopped["total_ms"].as_i64().expect("a time")), "{stopped}");
}

fn no_fork(mode: Mode) {
    // Each a user of its own: the limit counts all processes of a user.
    let user = if mode == Mode::Pid1 { "54322" } else { "54323" };
    fails_to_start(Launch::new(mode).through(&["as-user-of-few-processes", user, "1"]), "fork: ");

    // With the command the limit is reached, and a stop needs no more.
    for target in ["child", "all"] {
        let commands: [(&[&str], i32, &[&str]); 2] = [(&["report", "1"], 0, &STOPPED), (&["deaf"], 137, &KILLED)];
        for (command, code, events) in commands {
            let running = Launch::new(mode)
                .env("DRAINIT_FORWARD_TO", target)
                .env("DRAINIT_GRACE", "200ms")
                .through(&["as-user-of-few-processes", user, "2"])
                .helper(command)
                .start();
            running.expect_line("ready");
            send(drainit_of(&running), libc::SIGTERM);
            let ended = running.wait();
            assert_eq!(ended.code(), code, "{ended:?}");
            assert_eq!(ended.event_names(), events, "{ended:?}");
        }
    }
}
