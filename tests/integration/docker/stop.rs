//! Ways to stop a container, and what is in its log and its exit code afterwards. The services are shell scripts.

use std::time::{Duration, Instant};

use super::container::Container;
use super::images::Images;
use super::log::{Event, story};
use super::surroundings::{Surroundings, Way};

/// Ends with 3 on SIGTERM.
const GRACEFUL: &str = "trap 'exit 3' TERM; echo ready; while :; do sleep 0.1; done";

/// Two processes that ignore every signal that can be ignored, but for SIGCHLD, without which a shell cannot wait: the command, and one that
/// has left it for a session and a parent of its own.
const DEAF: &str =
    "trap '' HUP INT QUIT ILL TRAP ABRT BUS FPE USR1 SEGV USR2 PIPE ALRM TERM STKFLT CONT TSTP TTIN TTOU URG XCPU \
                    XFSZ VTALRM PROF WINCH IO PWR SYS
                    (setsid sleep 86400 &)
                    echo ready; exec sleep 86400";

/// The options of `docker run` for `DRAINIT_…` settings and a log in JSON.
pub fn settings(settings: &[(&str, &str)]) -> Vec<String> {
    let all = settings.iter().chain([&("LOG_FORMAT", "json")]);
    all.flat_map(|(name, value)| ["--env".to_owned(), format!("DRAINIT_{name}={value}")]).collect()
}

/// A command that nothing moves is killed by drainit, with all its descendants and nobody else, before Docker's own SIGKILL would end
/// drainit without a word.
pub fn deaf_command_is_killed(images: &Images, way: Way) {
    let surroundings = Surroundings::new(way, images);
    let options = surroundings.options(settings(&[("DELAY", "0.3s"), ("STOP_TIMEOUT", "1.5s"), ("MARGIN", "0.5s")]));
    let container = Container::start(images.app(), &options, &["sh", "-c", DEAF]);
    container.wait_for_line("ready");
    assert_eq!(container.wait_for_event("started").flag("pid1"), way.is_pid1());
    container.stop(2);
    assert_eq!(container.exit_code(), 137);

    assert_eq!(story(&container.events()), ["stop_requested", "signal_forwarded", "killed", "stopped"]);
    let killed = container.wait_for_event("killed");
    assert!(killed.number("after_ms") >= 1000, "{killed:?}");
    assert_eq!(killed.number("processes"), 2, "{killed:?}");
    let stopped = container.wait_for_event("stopped");
    assert_eq!((stopped.number("exit_code"), stopped.flag("clean")), (137, false), "{stopped:?}");
    assert_eq!(stopped.number("killed"), 2, "{stopped:?}");
    surroundings.assert_unharmed();
}

/// Orphans come to drainit, wherever it is, and do not stay as zombies.
pub fn orphans_are_reaped(images: &Images, way: Way) {
    /// The shell between the command and the true orphan ends at once.
    const SCRIPT: &str = "trap 'exit 0' TERM; for i in 1 2 3; do (sleep 0.1 &); done
                          while ps -o args | grep -q '^sleep 0.1'; do :; done
                          ps -o stat,args | grep '^Z'; echo ready; while :; do sleep 0.2; done";
    let surroundings = Surroundings::new(way, images);
    let container =
        Container::start(images.app(), &surroundings.options(settings(&[("DELAY", "0.1s")])), &["sh", "-c", SCRIPT]);
    container.wait_for_line("ready");
    container.stop(10);
    assert_eq!(container.exit_code(), 0);
    let stopped = container.wait_for_event("stopped");
    assert!(stopped.flag("clean"), "{stopped:?}");
    assert_eq!(stopped.number("reaped"), 3, "{stopped:?}");
    surroundings.assert_unharmed();
}

/// Nothing is waited for once there is nobody to serve. The command is told to end by a signal that is none of drainit's business and so
/// passes through during the delay.
pub fn ends_during_the_delay(images: &Images) {
    const SCRIPT: &str = "trap 'exit 7' USR1; echo ready; while :; do sleep 0.1; done";
    let began = Instant::now();
    let options = settings(&[("DELAY", "60s"), ("STOP_TIMEOUT", "100s")]);
    let container = Container::start(images.app(), &options, &["sh", "-c", SCRIPT]);
    container.wait_for_line("ready");
    container.signal("TERM");
    container.wait_for_event("stop_requested");
    container.signal("USR1");
    assert_eq!(container.exit_code(), 7);
    assert!(began.elapsed() < Duration::from_secs(60), "it ended no sooner than the delay");
    assert_eq!(story(&container.events()), ["stop_requested", "stopped"]);
    let stopped = container.wait_for_event("stopped");
    assert_eq!((stopped.number("exit_code"), stopped.flag("clean")), (7, false), "{stopped:?}");
}

/// An operator in a hurry need not wait.
pub fn second_signal_ends_the_delay(images: &Images) {
    let began = Instant::now();
    let options = settings(&[("DELAY", "60s"), ("STOP_TIMEOUT", "100s")]);
    let container = Container::start(images.app(), &options, &["sh", "-c", GRACEFUL]);
    container.wait_for_line("ready");
    container.signal("TERM");
    container.wait_for_event("stop_requested");
    container.signal("TERM");
    assert_eq!(container.exit_code(), 3);
    assert!(began.elapsed() < Duration::from_secs(60), "it ended no sooner than the delay");
    assert_eq!(story(&container.events()), ["stop_requested", "signal_forwarded", "stopped"]);
    assert_eq!(container.wait_for_event("signal_forwarded").text("cause"), "second_signal");
}

/// `STOPSIGNAL SIGQUIT` of a base image, when what runs in it knows SIGTERM only.
pub fn stopsignal_of_the_base_image(images: &Images) {
    let mut options = settings(&[("DELAY", "0.2s")]);
    options.extend(["--stop-signal", "QUIT"].map(String::from));
    let container = Container::start(images.app(), &options, &["sh", "-c", GRACEFUL]);
    container.wait_for_line("ready");
    container.stop(10);
    assert_eq!(container.exit_code(), 3);
    assert_eq!(container.wait_for_event("stop_requested").text("signal"), "SIGQUIT");
    assert_eq!(container.wait_for_event("signal_forwarded").text("signal"), "SIGTERM");
}

/// Frozen when the graceful signal was due, a container that thaws does the same as any other.
pub fn paused_then_graceful(images: &Images) {
    let stopped = paused_across_the_delay(images, GRACEFUL, 3, &["stop_requested", "signal_forwarded", "stopped"]);
    assert_eq!(stopped.number("killed"), 0, "{stopped:?}");
}

/// The same with a command that has to be killed.
pub fn paused_then_deaf(images: &Images) {
    let story = ["stop_requested", "signal_forwarded", "killed", "stopped"];
    let stopped = paused_across_the_delay(images, DEAF, 137, &story);
    assert_eq!(stopped.number("killed"), 2, "{stopped:?}");
}

fn paused_across_the_delay(images: &Images, script: &str, code: i32, expected: &[&str]) -> Event {
    /// Enough for Docker to pause the container before this is over.
    const DELAY: Duration = Duration::from_millis(1500);
    let options = settings(&[("DELAY", "1.5s"), ("STOP_TIMEOUT", "5s")]);
    let container = Container::start(images.app(), &options, &["sh", "-c", script]);
    container.wait_for_line("ready");
    container.signal("TERM");
    container.wait_for_event("stop_requested");
    container.pause();
    let paused = Instant::now();
    assert_eq!(story(&container.events()), ["stop_requested"], "Docker was too slow to pause it during the delay");
    // Whatever part of the delay had passed, this is past its end.
    std::thread::sleep(DELAY);
    assert_eq!(story(&container.events()), ["stop_requested"], "it acted while it was paused");
    container.unpause();
    let slept = paused.elapsed();
    assert_eq!(container.exit_code(), code);

    assert_eq!(story(&container.events()), expected);
    let forwarded = container.wait_for_event("signal_forwarded");
    let after =
        u64::try_from(forwarded.number("after_ms")).map(Duration::from_millis).expect("not before the stop signal");
    assert!(after >= DELAY, "{forwarded:?}");
    let stopped = container.wait_for_event("stopped");
    assert!(stopped.number("budget_left_ms") > 0, "paused for {slept:?}, it ended too late: {stopped:?}");
    stopped
}

/// The log that people read: a line for each event, each with the name of its event.
pub fn text_log(images: &Images) {
    let options = ["--env", "DRAINIT_DELAY=0.2s", "--env", "DRAINIT_STOP_TIMEOUT=10s"];
    let container = Container::start(images.app(), &options, &["sh", "-c", GRACEFUL]);
    container.wait_for_line("ready");
    container.stop(10);
    assert_eq!(container.exit_code(), 3);
    let log = container.stderr();
    let names: Vec<_> = log.lines().map(|line| line.split(": ").nth(1).unwrap_or_default()).collect();
    assert_eq!(names, ["started", "stop_requested", "signal_forwarded", "stopped"], "{log}");
    assert!(log.lines().all(|line| line.starts_with("drainit: ")), "{log}");
}
