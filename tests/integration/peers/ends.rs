//! With what code an init ends, and when.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use super::{BOTH, Behaviour, Finding, Init, Subject, Target, expect_code, expect_output, found, signal_name};
use crate::harness::eventually;
use crate::sandbox::{Mode, PATIENCE, send, status};

pub const BEHAVIOURS: &[Behaviour] = &[
    Behaviour { name: "ends with the command's exit code", modes: BOTH, check: exit_codes, fails: &[] },
    Behaviour { name: "ends with 128+n if signal n ended the command", modes: BOTH, check: signal_codes, fails: &[] },
    Behaviour {
        name: "below another process, ends of the signal that ended the command",
        modes: &[Mode::Child],
        check: same_signal,
        fails: &[
            (Init::Tini, "exits with 143 instead"),
            (Init::DumbInit, "exits with 143 instead"),
            (Init::Catatonit, "exits with 143 instead"),
            (Init::Shell, "exits with 143 instead"),
        ],
    },
    Behaviour {
        name: "ends with 127 if the command was not found",
        modes: BOTH,
        check: not_found,
        fails: &[(Init::DumbInit, "ends with 2 instead of 127"), (Init::Catatonit, "ends with 1 instead of 127")],
    },
    Behaviour {
        name: "ends with 126 if the command may not be executed",
        modes: BOTH,
        check: not_executable,
        fails: &[(Init::DumbInit, "ends with 2 instead of 126"), (Init::Catatonit, "ends with 1 instead of 126")],
    },
    Behaviour {
        name: "ends with 126 if the command is for another machine",
        modes: BOTH,
        check: other_machine,
        fails: &[
            (Init::Tini, "ends with 127 instead of 126"),
            (Init::DumbInit, "ends with 127 instead of 126"),
            (Init::Catatonit, "ends with 127 instead of 126"),
        ],
    },
    Behaviour {
        name: "waits for a command that drains before it ends",
        modes: BOTH,
        check: waits_for_command,
        fails: &[(Init::Shell, "ends first, and the command is killed")],
    },
    Behaviour {
        name: "with a group as the target, waits for a grandchild that cleans up",
        modes: BOTH,
        check: waits_for_group,
        fails: &[
            (Init::Tini, "ends with the command, and the grandchild is killed"),
            (Init::DumbInit, "ends with the command, and the grandchild is killed"),
            (Init::Catatonit, "ends with the command, and the grandchild is killed"),
            (Init::Shell, "ends with the command, and the grandchild is killed"),
        ],
    },
    Behaviour {
        name: "goes on when another process stops and continues the command",
        modes: BOTH,
        check: stopped_command,
        fails: &[],
    },
];

fn exit_codes(subject: &Subject) -> Finding {
    [0, 1, 7, 126, 255]
        .into_iter()
        .try_for_each(|code| subject.run_to(code, subject.launch().script(&format!("exit {code}"))).map(drop))
}

fn signal_codes(subject: &Subject) -> Finding {
    let real_time = [32, 33, 34, 64];
    [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGKILL, libc::SIGSEGV, libc::SIGPIPE, libc::SIGTERM]
        .into_iter()
        .chain(real_time)
        .try_for_each(|signal| {
            subject.run_to(128 + signal, subject.launch().helper(&["die", &signal.to_string()])).map(drop)
        })
}

fn same_signal(subject: &Subject) -> Finding {
    [libc::SIGTERM, libc::SIGKILL, libc::SIGQUIT, 40].into_iter().try_for_each(|signal| {
        let ended = subject.run(subject.launch().helper(&["die", &signal.to_string()]))?;
        let is_same = ended.status.signal() == Some(signal);
        found(is_same, || format!("exits with {} instead: {} {ended:?}", ended.code(), signal_name(signal)))
    })
}

fn not_found(subject: &Subject) -> Finding {
    ["no-such-command", "/no/such/command"].into_iter().try_for_each(|command| {
        // The tests' own PATH may name folders that this user may not look into.
        let launch = subject.launch().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        subject.run_to(127, launch.args(["--", command])).map(drop)
    })
}

/// A command that nobody can execute, in a file with `mode`.
fn run_file(subject: &Subject, content: &[u8], mode: u32) -> Finding {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("command");
    std::fs::write(&file, content).expect("a file");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).expect("a mode");
    subject.run_to(126, subject.launch().args(["--".as_ref(), file.as_os_str()])).map(drop)
}

fn not_executable(subject: &Subject) -> Finding {
    run_file(subject, b"#!/bin/sh\n", 0o644)?;
    subject.run_to(126, subject.launch().args(["--", "/"])).map(drop)
}

fn other_machine(subject: &Subject) -> Finding {
    run_file(subject, b"\x7fELF\x02\x01\x01\0 and so on", 0o755)
}

fn waits_for_command(subject: &Subject) -> Finding {
    let script = "trap 'sleep 0.3; echo drained; exit 7' TERM; echo ready; while :; do sleep 0.05; done";
    let running = subject.start(subject.launch().script(script));
    running.signal(libc::SIGTERM);
    let ended = subject.end(running)?;
    expect_output(&["ready", "drained"], &ended, "ends first, and the command is killed")?;
    expect_code(7, &ended)
}

fn waits_for_group(subject: &Subject) -> Finding {
    let grandchild = "trap 'sleep 0.4; echo cleaned; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
    let script = format!("trap 'exit 0' TERM; sh -c \"{grandchild}\" & wait");
    let running = subject.start(subject.launch_for(Target::Group).script(&script));
    running.signal(libc::SIGTERM);
    let ended = subject.end(running)?;
    expect_output(&["ready", "cleaned"], &ended, "ends with the command, and the grandchild is killed")
}

fn stopped_command(subject: &Subject) -> Finding {
    let (running, command) = subject.start_until_usr1(subject.launch());
    let state = || status(&command.to_string(), "State");
    send(command, libc::SIGSTOP);
    // An init that takes this for the end may take its command along.
    eventually("the command to stop", PATIENCE, || state().is_none_or(|state| !state.starts_with(['R', 'S', 'D'])));
    // There is no condition to wait for: nothing must happen.
    std::thread::sleep(Duration::from_millis(100));
    send(command, libc::SIGCONT);
    send(command, libc::SIGUSR1);
    expect_code(7, &subject.end(running)?)
}
