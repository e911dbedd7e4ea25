//! Standard descriptors that are closed, and too few of all others.

use super::checks::{KILLED, STOPPED, drainit_of, fails_to_start, kills_as_ever, stops_as_ever, with_a_delay};
use crate::harness::{Test, eventually};
use crate::sandbox::{Launch, Mode, PATIENCE, in_both_modes, send};

pub fn tests() -> Vec<Test> {
    [
        in_both_modes("hostile::standard_descriptors_closed", closed),
        in_both_modes("hostile::eight_descriptors_are_enough", few),
        in_both_modes("hostile::with_fewer_descriptors_it_says_so", too_few),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn closed(mode: Mode) {
    for closed in ["0", "1", "2", "0,1,2"] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let said = folder.path().join("said");
        // The command's own standard output is the file, whatever drainit's is.
        let script = format!("exec >{}; {}", said.display(), super::checks::GRACEFUL);
        let running = with_a_delay(Launch::new(mode)).through(&["with-closed-all", closed]).script(&script).start();
        let has_said = |line: &str| {
            eventually(format!("{line:?} without {closed:?}"), PATIENCE, || {
                std::fs::read_to_string(&said).is_ok_and(|text| text.lines().any(|said| said == line))
            });
        };
        has_said("ready");
        let drainit = drainit_of(&running);
        send(drainit, libc::SIGUSR1);
        has_said("got USR1");
        send(drainit, libc::SIGTERM);
        let ended = running.wait();
        assert_eq!(ended.code(), 7, "without {closed:?}: {ended:?}");
        if closed.contains('2') {
            assert!(ended.stderr.is_empty(), "nothing of drainit's lands where standard error was: {ended:?}");
        } else {
            assert_eq!(ended.event_names(), STOPPED, "without {closed:?}");
            assert!(ended.event("stopped")["delay_ms"].as_i64() >= Some(200));
        }
    }
}

fn few(mode: Mode) {
    let limited = || Launch::new(mode).through(&["with-limit", &libc::RLIMIT_NOFILE.to_string(), "8"]);
    for target in ["child", "group", "all"] {
        stops_as_ever(limited().env("DRAINIT_FORWARD_TO", target));
    }
    kills_as_ever(limited());
    // With nothing to spare from here on, what has to be looked up in `/proc` cannot be; the stop goes on without it.
    let running = limited().env("DRAINIT_GRACE", "200ms").helper(&["deaf"]).start();
    running.expect_line("ready");
    running.expect_event("started");
    super::programs::limit(drainit_of(&running), libc::RLIMIT_NOFILE, 3);
    send(drainit_of(&running), libc::SIGTERM);
    let ended = running.wait();
    assert_eq!((ended.code(), ended.event_names()), (137, KILLED.map(String::from).into()), "{ended:?}");
}

fn too_few(mode: Mode) {
    for limit in 3..=5 {
        let limited =
            || Launch::new(mode).through(&["with-limit", &libc::RLIMIT_NOFILE.to_string(), &limit.to_string()]);
        // Only a static program can be loaded where not a single descriptor is left.
        if limit > 3 || limited().args(["--version"]).run().code() == 0 {
            fails_to_start(limited(), "Too many open files");
        }
    }
}
