//! Every signal inherited as ignored, or as blocked, all at once.

use std::os::unix::process::ExitStatusExt;

use super::checks::{DELAY, KILLED, STOPPED, drainit_of, with_a_delay};
use crate::harness::Test;
use crate::sandbox::{Launch, Mode, in_both_modes, send};

pub fn tests() -> Vec<Test> {
    [
        in_both_modes("hostile::every_signal_inherited_as_ignored", |mode| {
            every_signal(mode, "with-all-ignored", "SigIgn")
        }),
        in_both_modes("hostile::every_signal_inherited_as_blocked", |mode| {
            every_signal(mode, "with-all-blocked", "SigBlk")
        }),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn every_signal(mode: Mode, program: &str, inherited: &str) {
    let launch = || Launch::new(mode).through(&[program]);

    // The command sees what drainit was given, but for SIGCHLD, which it finds at its default.
    let bit = |signal: i32| 1u64 << (signal - 1);
    let all = !(bit(libc::SIGKILL) | bit(libc::SIGSTOP));
    let ended = launch().args(["--", "cat", "/proc/self/status"]).run();
    for (name, expected) in [
        (inherited, if inherited == "SigIgn" { all & !bit(libc::SIGCHLD) } else { all }),
        (if inherited == "SigIgn" { "SigBlk" } else { "SigIgn" }, 0),
        ("SigCgt", 0),
    ] {
        let line = format!("{name}:\t{expected:016x}");
        assert!(ended.stdout.contains(&line), "{line:?} in {:#?}", ended.stdout);
    }
    assert_eq!((ended.code(), ended.event_names()), (0, ["started", "exited"].map(String::from).into()));

    let passed: Vec<i32> = (1..=64)
        .filter(|signal| ![libc::SIGKILL, libc::SIGSTOP, libc::SIGCHLD, libc::SIGTERM, libc::SIGQUIT].contains(signal))
        .collect();
    let count = (passed.len() + 1).to_string();
    let running = with_a_delay(launch()).helper(&["report", &count]).start();
    running.expect_line("ready");
    let drainit = drainit_of(&running);
    for signal in passed {
        send(drainit, signal);
        running.expect_line(&format!("got {signal}"));
    }
    send(drainit, libc::SIGTERM);
    let ended = running.wait();
    assert_eq!((ended.code(), ended.stdout.last().map(String::as_str)), (0, Some("got 15")), "{ended:?}");
    assert_eq!(ended.event_names(), STOPPED, "{ended:?}");
    let delay = ended.event("stopped")["delay_ms"].as_u64().expect("a time");
    assert!(delay >= DELAY.as_secs() * 1_000 + u64::from(DELAY.subsec_millis()) && delay < 2_000, "{ended:?}");

    let running = launch().env("DRAINIT_GRACE", "200ms").helper(&["deaf"]).start();
    running.expect_line("ready");
    send(drainit_of(&running), libc::SIGTERM);
    let ended = running.wait();
    assert_eq!((ended.code(), ended.event_names()), (137, KILLED.map(String::from).into()), "{ended:?}");

    for signal in [libc::SIGTERM, libc::SIGABRT, libc::SIGUSR1, 40] {
        let ended = launch().helper(&["die", &signal.to_string()]).run();
        assert_eq!(ended.code(), 128 + signal, "{ended:?}");
        if mode == Mode::Child {
            assert_eq!(ended.status.signal(), Some(signal), "below another process it ends of the same signal");
        }
    }
}
