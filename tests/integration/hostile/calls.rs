//! Each system call that drainit makes, refused. It either does without, or says in one line that it cannot.

use std::panic::catch_unwind;

use super::checks::with_a_delay;
use crate::harness::{Need, Test, test};
use crate::sandbox::{Ended, Launch, Mode, in_both_modes};

pub fn tests() -> Vec<Test> {
    let needs = [Need::PidNamespace, Need::Tracer];
    let mut tests = vec![
        test("hostile::each_call_refused_with_eperm", &needs, || each_call_refused(libc::EPERM)),
        test("hostile::each_call_refused_with_enosys", &needs, || each_call_refused(libc::ENOSYS)),
    ];
    tests.extend(in_both_modes("hostile::a_sandbox_that_refuses_a_call_to_the_command_too", sandboxed));
    tests
}

/// Calls that Rust's library expects to succeed: without memory, or where a directory cannot be closed, it ends the program. No sandbox refuses
/// them.
const TAKEN_FOR_GRANTED: [i64; 3] = [libc::SYS_close, libc::SYS_mmap, libc::SYS_brk];

/// Commands that begin a stop by themselves, and the exit codes that they make: one that ends, and one that is killed with a daemon.
const COMMANDS: [(&str, i32); 2] = [
    ("trap 'exit 7' TERM; kill -TERM $PPID; while :; do sleep 0.02; done", 7),
    ("trap '' TERM; (setsid sleep 86400 &); kill -TERM $PPID; sleep 86400; exit 1", 137),
];

/// One after the other, for drainit alone. Which calls there are, a run that is only watched tells.
fn each_call_refused(errno: i32) {
    let mut wrong = Vec::new();
    for (command, code) in COMMANDS {
        for call in calls(command, code) {
            if TAKEN_FOR_GRANTED.contains(&call) {
                continue;
            }
            let refuse = ["refuse", &call.to_string(), &errno.to_string()];
            let verdict = catch_unwind(|| judge(&run(&refuse, command), code)).unwrap_or(Err("it hangs".to_owned()));
            wrong.extend(verdict.err().map(|reason| format!("call {call}, exit code {code} expected: {reason}")));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn calls(command: &str, code: i32) -> Vec<i64> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let record = folder.path().join("calls");
    let ended = run(&["record", record.to_str().expect("a path")], command);
    assert_eq!(ended.code(), code, "{ended:?}");
    let record = std::fs::read_to_string(record).expect("the calls");
    let calls: Vec<i64> = record.lines().map(|call| call.parse().expect("a number")).collect();
    assert!(calls.contains(&libc::SYS_ppoll), "drainit's own calls: {calls:?}");
    calls.into_iter().filter(|call| *call != libc::SYS_exit_group).collect()
}

/// Runs a command with drainit below the tracer, which is PID 1, so that whatever gets out of hand ends with it.
fn run(plan: &[&str], command: &str) -> Ended {
    let words: Vec<&str> = ["traced"].iter().chain(plan).copied().collect();
    let settings = [("FORWARD_TO", "all"), ("DELAY", "50ms"), ("GRACE", "100ms"), ("STOP_TIMEOUT", "2")];
    let launch = settings
        .iter()
        .fold(Launch::new(Mode::Pid1), |launch, (name, value)| launch.env(format!("DRAINIT_{name}"), value));
    launch.through(&words).script(command).run()
}

fn judge(ended: &Ended, code: i32) -> Result<(), String> {
    let names = ended.event_names();
    let complaints = names.iter().filter(|name| ["warning", "error"].contains(&name.as_str())).count();
    let is_right = match ended.code() {
        // That nothing could be started is the only line.
        125 => names == ["error"],
        ended => ended == code && complaints <= 1 && !names.contains(&"error".to_owned()),
    };
    // (The shell may say that its sleep was terminated.)
    let is_foreign = |line: &&String| !line.starts_with('{') && line.trim() != "Terminated";
    match ended.stderr.iter().find(is_foreign) {
        None if is_right => Ok(()),
        foreign => Err(format!("{}, {names:?}, {foreign:?}", ended.code())),
    }
}

/// A filter is inherited by the command, and by drainit's child before it becomes the command. So this is for calls that those can do without.
fn sandboxed(mode: Mode) {
    let calls = [
        libc::SYS_splice,
        libc::SYS_pidfd_open,
        libc::SYS_pidfd_send_signal,
        libc::SYS_prctl,
        libc::SYS_waitid,
        libc::SYS_ppoll,
        libc::SYS_setpgid,
        libc::SYS_getpgid,
        libc::SYS_ioctl,
        libc::SYS_tgkill,
        libc::SYS_rt_sigqueueinfo,
        libc::SYS_rt_tgsigqueueinfo,
        libc::SYS_getrandom,
        libc::SYS_readlinkat,
        libc::SYS_getdents64,
    ];
    for call in calls {
        for errno in [libc::EPERM, libc::ENOSYS] {
            for target in ["group", "all"] {
                let running = with_a_delay(Launch::new(mode))
                    .env("DRAINIT_DELAY", "20ms")
                    .env("DRAINIT_FORWARD_TO", target)
                    .through(&["with-refused", &call.to_string(), &errno.to_string()])
                    .helper(&["report", "1"])
                    .start();
                running.expect_line("ready");
                running.signal(libc::SIGTERM);
                let ended = running.wait();
                let got = (ended.code(), ended.stdout.last().map(String::as_str));
                assert_eq!(got, (0, Some("got 15")), "call {call}, {target}: {ended:?}");
                let mut events = ended.event_names();
                let count = events.len();
                events.retain(|name| name != "warning");
                assert!(count - events.len() <= 1, "at most one line is about the call: {ended:?}");
                assert_eq!(events, super::checks::STOPPED, "call {call}, {target}");
            }
        }
    }
}
