//! What drainit has to do in any surroundings: start a command, pass on a signal, and stop it in time, with or without a kill.

use std::time::{Duration, Instant};

use crate::harness::{self, Need, Test, test};
use crate::sandbox::{Ended, Launch, Mode, Running, descendants, send};

/// The same test as PID 1 and below another init, each in a PID namespace that goes with the test, whatever gets out of hand in it.
pub fn in_namespaces(name: &str, more: &[Need], run: fn(Mode)) -> [Test; 2] {
    let needs = [&[Need::PidNamespace], more].concat();
    [(Mode::Pid1, "pid 1"), (Mode::BelowPid1, "child")]
        .map(|(mode, word)| test(format!("{name} [{word}]"), &needs, move || run(mode)))
}

/// A command that any user can run. It ends with 7 on SIGTERM.
pub const GRACEFUL: &str = "trap 'echo got USR1' USR1; trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done";
/// One that only SIGKILL ends, with a daemon beside it.
pub const DEAF: &str = "trap '' TERM USR1; (setsid sleep 86400 &); echo ready; sleep 86400; exit 1";

/// The events of a stop without a kill.
pub const STOPPED: [&str; 4] = ["started", "stop_requested", "signal_forwarded", "stopped"];
/// The events of a stop with one.
pub const KILLED: [&str; 5] = ["started", "stop_requested", "signal_forwarded", "killed", "stopped"];

/// The delay of a stop without a kill.
pub const DELAY: Duration = Duration::from_millis(200);
/// More than a busy machine adds to it, and less than anything that waits for something else.
const SLACK: Duration = Duration::from_secs(2);

/// The same drainit with a delay and a budget.
pub fn with_a_delay(launch: Launch) -> Launch {
    launch.env("DRAINIT_DELAY", "200ms").env("DRAINIT_STOP_TIMEOUT", "10")
}

/// Asks a drainit to stop, and tells how long it took to end.
pub fn stop(running: Running) -> (Ended, Duration) {
    let asked = Instant::now();
    send(drainit_of(&running), libc::SIGTERM);
    let ended = running.wait();
    (ended, asked.elapsed())
}

/// Has a drainit pass on a signal, and then stop its command after a delay. Its log is not looked at.
pub fn stops(launch: Launch) -> Ended {
    let running = with_a_delay(launch).script(GRACEFUL).start();
    running.expect_line("ready");
    send(drainit_of(&running), libc::SIGUSR1);
    running.expect_line("got USR1");
    let (ended, took) = stop(running);
    assert_eq!(ended.code(), 7, "{ended:?}");
    assert!(took >= DELAY && took < DELAY + SLACK, "{took:?}: {ended:?}");
    ended
}

/// Has a drainit kill its command. Its log is not looked at.
pub fn kills(launch: Launch) -> Ended {
    let running = launch.env("DRAINIT_GRACE", "200ms").script(DEAF).start();
    running.expect_line("ready");
    let (ended, took) = stop(running);
    assert_eq!(ended.code(), 137, "{ended:?}");
    assert!(took >= DELAY && took < DELAY + SLACK, "{took:?}: {ended:?}");
    ended
}

/// The same, with the log of any other stop.
pub fn stops_as_ever(launch: Launch) {
    let ended = stops(launch);
    assert_eq!(ended.event_names(), STOPPED, "{ended:?}");
}

/// The same, with the log of any other kill, which took the daemon too.
pub fn kills_as_ever(launch: Launch) {
    let ended = kills(launch);
    assert_eq!(ended.event_names(), KILLED, "{ended:?}");
    // The shell, its sleep, and the daemon.
    assert_eq!(
        (ended.event("killed")["processes"].as_i64(), ended.event("stopped")["killed"].as_i64()),
        (Some(3), Some(3))
    );
}

/// Has a drainit that cannot start its command say so in one line of its log.
pub fn fails_to_start(launch: Launch, reason: &str) {
    let ended = launch.script("echo started").run();
    assert_eq!((ended.code(), ended.stdout.len()), (125, 0), "{ended:?}");
    assert_eq!((ended.stderr.len(), ended.event_names()), (1, vec!["error".to_owned()]), "{ended:?}");
    let message = ended.event("error")["msg"].to_string();
    assert!(message.contains(reason), "{message}");
}

/// The drainit in what was started, however many programs stand between.
pub fn drainit_of(running: &Running) -> i32 {
    let top = running.pid();
    let is_drainit =
        |pid: &i32| std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == harness::drainit());
    let found = [top].into_iter().chain(descendants(top)).find(is_drainit);
    found.unwrap_or_else(|| panic!("no drainit runs: {:?}", running.log()))
}
