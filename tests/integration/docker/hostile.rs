//! Containers that are given as little as Docker can give.

use super::container::Container;
use super::images::Images;
use super::log::story;
use super::stop::settings;

/// Docker's seccomp profile, which every container has unless it is told otherwise, changes nothing.
pub fn default_seccomp_profile(images: &Images) {
    const SCRIPT: &str = "trap 'exit 3' TERM; grep '^Seccomp:' /proc/1/status; while :; do sleep 0.1; done";
    let options = settings(&[("DELAY", "0.2s"), ("STOP_TIMEOUT", "5s"), ("FORWARD_TO", "all")]);
    let container = Container::start(images.app(), &options, &["sh", "-c", SCRIPT]);
    // 2: a filter is in force, proc(5).
    container.wait_for_line("Seccomp:\t2");
    container.stop(10);
    assert_eq!(container.exit_code(), 3);
    assert_eq!(story(&container.events()), ["stop_requested", "signal_forwarded", "stopped"]);
    assert!(!container.stderr().contains("warning"), "{}", container.stderr());
}

/// drainit is the one process that the container may have, and says that there can be no other.
pub fn limit_of_one_process(images: &Images) {
    let mut options = settings(&[]);
    options.extend(["--pids-limit", "1"].map(String::from));
    let container = Container::start(images.app(), &options, &["sh", "-c", "echo started"]);
    assert_eq!(container.exit_code(), 125);
    let stderr = container.stderr();
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    let events = container.events();
    assert!(events[0].text("msg").contains("could not be started: fork: "), "{stderr}");
}

/// No privilege, nothing to write to, and a limit of processes that is reached: drainit, the shell and its sleep.
fn everything_taken_away(images: &Images, script: &str) -> Container {
    const OPTIONS: [&str; 9] = [
        "--cap-drop",
        "ALL",
        "--security-opt",
        "no-new-privileges",
        "--read-only",
        "--user",
        "1000",
        "--pids-limit",
        "3",
    ];
    let mut options = settings(&[("DELAY", "0.2s"), ("STOP_TIMEOUT", "2s"), ("FORWARD_TO", "all")]);
    options.extend(OPTIONS.map(String::from));
    let container = Container::start(images.app(), &options, &["sh", "-c", script]);
    container.wait_for_line("ready");
    container.stop(5);
    container
}

pub fn everything_taken_away_then_graceful(images: &Images) {
    let container = everything_taken_away(images, "trap 'exit 3' TERM; sleep 86400 & echo ready; wait");
    assert_eq!(container.exit_code(), 3);
    assert_eq!(story(&container.events()), ["stop_requested", "signal_forwarded", "stopped"]);
    assert!(container.wait_for_event("signal_forwarded").number("after_ms") >= 200);
}

pub fn everything_taken_away_then_deaf(images: &Images) {
    let container = everything_taken_away(images, "trap '' TERM; sleep 86400 & echo ready; wait; exit 3");
    assert_eq!(container.exit_code(), 137);
    assert_eq!(story(&container.events()), ["stop_requested", "signal_forwarded", "killed", "stopped"]);
    assert_eq!(container.wait_for_event("killed").number("processes"), 2);
    assert!(container.wait_for_event("stopped").number("budget_left_ms") > 0);
}
