//! Places where little is as usual, and what an init costs while nothing happens.

use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use super::{BELOW, BOTH, Behaviour, Finding, Init, NEVER_ENDS, PID_1, Subject, expect_code, expect_output, found};
use crate::harness::eventually;
use crate::sandbox::{Launch, PATIENCE, status};
use crate::stderr::full;

pub const BEHAVIOURS: &[Behaviour] = &[
    Behaviour {
        name: "as PID 1, sleeps while nothing happens",
        modes: PID_1,
        check: sleeps,
        fails: &[(Init::Tini, "wakes up every second")],
    },
    Behaviour {
        name: "below another process, says nothing when nothing is wrong",
        modes: BELOW,
        check: is_quiet,
        fails: &[(Init::Tini, "warns that it is no subreaper")],
    },
    Behaviour {
        name: "works with standard error closed, or on a full device",
        modes: BOTH,
        check: no_stderr,
        fails: &[],
    },
    Behaviour {
        name: "below another process, works with standard error a pipe that nobody reads",
        modes: BELOW,
        check: unread_stderr,
        fails: &[(Init::Tini, "its own SIGPIPE ends the command")],
    },
    Behaviour {
        name: "below another process, works with standard error a full pipe",
        modes: BELOW,
        check: full_stderr,
        fails: &[(Init::Tini, NEVER_ENDS)],
    },
    Behaviour { name: "works without /proc", modes: BOTH, check: without_proc, fails: &[] },
    Behaviour { name: "works in a directory that has been removed", modes: BOTH, check: removed_directory, fails: &[] },
    Behaviour { name: "works with at most 8 open descriptors", modes: BOTH, check: few_descriptors, fails: &[] },
    Behaviour { name: "works without PATH", modes: BOTH, check: without_path, fails: &[] },
    Behaviour {
        name: "runs a script without an interpreter line",
        modes: BOTH,
        check: script_without_interpreter,
        fails: &[],
    },
];

fn sleeps(subject: &Subject) -> Finding {
    let running = subject.start(subject.launch().helper(&["report", "1"]));
    let pid = running.pid().to_string();
    let wakeups = || status(&pid, "voluntary_ctxt_switches").expect("a number");
    let mut before = wakeups();
    eventually("the start to be over", PATIENCE, || {
        std::thread::sleep(Duration::from_millis(50));
        std::mem::replace(&mut before, wakeups()) == before
    });
    // There is no condition to wait for: nothing must happen.
    std::thread::sleep(Duration::from_millis(1_400));
    let after = wakeups();
    found(after == before, || format!("wakes up every second: {before}, {after}"))
}

fn is_quiet(subject: &Subject) -> Finding {
    let ended = subject.run_to(3, subject.launch().script("exit 3"))?;
    found(ended.stderr.is_empty(), || format!("warns that it is no subreaper: {:?}", ended.stderr))
}

/// The command runs and ends.
fn runs(subject: &Subject, launch: Launch) -> Finding {
    subject.run_to(5, launch.script("exit 5")).map(drop)
}

fn no_stderr(subject: &Subject) -> Finding {
    runs(subject, subject.launch().through(&["with-closed", "2"]))?;
    let full_device = std::fs::File::options().write(true).open("/dev/full").expect("/dev/full");
    runs(subject, subject.launch().stderr(full_device))
}

/// An init that writes there gets a SIGPIPE, which it must not take for one to pass on.
fn unread_stderr(subject: &Subject) -> Finding {
    let survives = |launch: Launch| {
        // It lives long enough for the signal to reach it.
        let ended = subject.run(launch.script("sleep 0.3; exit 5"))?;
        let is_ended = ended.code() == 128 + libc::SIGPIPE;
        found(!is_ended, || format!("its own SIGPIPE ends the command: {ended:?}"))?;
        expect_code(5, &ended)
    };
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    survives(subject.launch().stderr(writer))?;
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("sockets");
    drop(ours);
    survives(subject.launch().stderr(OwnedFd::from(theirs)))
}

fn full_stderr(subject: &Subject) -> Finding {
    let (_reader, writer) = full();
    runs(subject, subject.launch().stderr(writer))
}

fn without_proc(subject: &Subject) -> Finding {
    runs(subject, subject.launch().through(&["without-proc"]))
}

fn removed_directory(subject: &Subject) -> Finding {
    runs(subject, subject.launch().through(&["peers", "in-removed-directory"]))
}

fn few_descriptors(subject: &Subject) -> Finding {
    runs(subject, subject.launch().through_program(&["sh", "-c", "ulimit -n 8; exec \"$@\"", "sh"]))
}

fn without_path(subject: &Subject) -> Finding {
    runs(subject, subject.launch().through_program(&["env", "-u", "PATH"]))
}

fn script_without_interpreter(subject: &Subject) -> Finding {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let script = folder.path().join("script");
    std::fs::write(&script, "echo \"$# words: $1\"\nexit 3\n").expect("a file");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    let ended = subject.run(subject.launch().args(["--".as_ref(), script.as_os_str(), "a b".as_ref()]))?;
    expect_code(3, &ended)?;
    expect_output(&["1 words: a b"], &ended, "the script gets other words")
}
