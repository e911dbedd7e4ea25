//! What the command finds of what the init was given.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStringExt;

use super::{BOTH, Behaviour, Finding, Init, Subject, expect_code, expect_output, found};
use crate::sandbox::{Launch, Mode};

pub const BEHAVIOURS: &[Behaviour] = &[
    Behaviour {
        name: "hands down the signal mask as it was",
        modes: BOTH,
        check: mask,
        fails: &[(Init::DumbInit, "blocked signals are unblocked"), (Init::Catatonit, "more signals are blocked")],
    },
    Behaviour {
        name: "hands down the ignored signals as they were",
        modes: BOTH,
        check: ignored,
        fails: &[
            (Init::DumbInit, "ignored signals get their default action"),
            (Init::Shell, "more signals are ignored"),
        ],
    },
    Behaviour {
        name: "hands down standard input",
        modes: BOTH,
        check: standard_input,
        fails: &[(Init::Shell, "the command reads nothing")],
    },
    Behaviour {
        name: "runs with standard input closed",
        modes: BOTH,
        check: without_input,
        fails: &[(Init::Tini, "ends with 1 instead of 5")],
    },
    Behaviour {
        name: "hands down closed standard descriptors as closed",
        modes: BOTH,
        check: closed_descriptors,
        fails: &[
            (Init::Tini, "the command does not find the same"),
            (Init::Shell, "the command does not find the same"),
        ],
    },
    Behaviour {
        name: "hands down the open descriptors, and none of its own",
        modes: BOTH,
        check: open_descriptors,
        fails: &[],
    },
    Behaviour {
        name: "hands down arguments of any bytes, and a megabyte of them",
        modes: BOTH,
        check: arguments,
        fails: &[],
    },
    Behaviour {
        name: "hands down an environment of any names and bytes, and a megabyte of it",
        // The shell that stands for PID 1 would not hand it down.
        modes: &[Mode::Pid1, Mode::Child],
        check: environment,
        fails: &[(Init::Shell, "names that no shell takes are missing")],
    },
];

/// The signal sets of the command, as it finds them itself.
fn sets(subject: &Subject, launch: Launch) -> Result<[u64; 2], String> {
    let ended = subject.run_to(0, launch.args(["--", "cat", "/proc/self/status"]))?;
    let set = |name: &str| {
        let mask = ended.stdout.iter().find_map(|line| line.strip_prefix(name)).expect("a mask");
        u64::from_str_radix(mask.trim(), 16).expect("a mask")
    };
    Ok([set("SigBlk:"), set("SigIgn:")])
}

fn mask(subject: &Subject) -> Finding {
    for signal in [libc::SIGUSR1, libc::SIGTSTP, 40] {
        let launch = subject.launch().through(&["with-blocked", &signal.to_string()]);
        let [blocked, _] = sets(subject, launch)?;
        let expected = 1 << (signal - 1);
        found(blocked & expected != 0, || format!("blocked signals are unblocked: {signal} {blocked:x}"))?;
        found(blocked == expected, || format!("more signals are blocked: {signal} {blocked:x}"))?;
    }
    Ok(())
}

fn ignored(subject: &Subject) -> Finding {
    for signal in [libc::SIGPIPE, libc::SIGHUP, libc::SIGTTOU, 40] {
        let launch = subject.launch().through(&["with-ignored", &signal.to_string()]);
        let [_, ignored] = sets(subject, launch)?;
        let expected = 1 << (signal - 1);
        found(ignored & expected != 0, || format!("ignored signals get their default action: {signal} {ignored:x}"))?;
        found(ignored == expected, || format!("more signals are ignored: {signal} {ignored:x}"))?;
    }
    Ok(())
}

fn standard_input(subject: &Subject) -> Finding {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    writer.write_all(b"hello\n").expect("it fits");
    drop(writer);
    let ended = subject.run(subject.launch().stdin(reader).script("read -r line; echo \"read <$line>\""))?;
    expect_output(&["read <hello>"], &ended, "the command reads nothing")
}

fn without_input(subject: &Subject) -> Finding {
    subject.run_to(5, subject.launch().through(&["with-closed", "0"]).script("exit 5")).map(drop)
}

/// The shell only looks whether it has a descriptor, and opens none for that. Its exit code has a bit for each.
const SHOW_DESCRIPTORS: &str = "bit=1; for fd in 0 1 2 3 4 5 6 7; do [ -e /proc/$$/fd/$fd ] && open=$((open | bit)); bit=$((bit * 2)); done; exit $open";

/// Executes with no descriptor above 2 but `/dev/null` as 4.
const GIVE_4: &str = "exec 3<&- 4</dev/null 5<&- 6<&- 7<&- 8<&- 9<&-; exec \"$@\"";

fn expect_descriptors(subject: &Subject, launch: Launch, open: i32) -> Finding {
    let ended = subject.run(launch.script(SHOW_DESCRIPTORS))?;
    found(ended.code() == open, || format!("the command does not find the same: {open:b} expected, {ended:?}"))
}

fn closed_descriptors(subject: &Subject) -> Finding {
    [("0", 0b110), ("1", 0b101), ("2", 0b011)].into_iter().try_for_each(|(closed, open)| {
        expect_descriptors(subject, subject.launch().through(&["with-closed", closed]), open)
    })
}

fn open_descriptors(subject: &Subject) -> Finding {
    let launch = subject.launch().through_program(&["sh", "-c", GIVE_4, "sh"]);
    expect_descriptors(subject, launch, 0b1_0111)
}

/// What no UTF-8 text has.
fn any_bytes() -> OsString {
    OsString::from_vec(b"\xff\xfe '\"\t\x01*$".to_vec())
}

/// The kernel takes at most 128 KiB in one word, and 2 MiB and more in all.
const LARGE: usize = 125_000;

fn arguments(subject: &Subject) -> Finding {
    let script = "printf %s \"$1\" | od -An -tx1; shift; printf %s \"$@\" | wc -c";
    let large = vec!["x".repeat(LARGE); 8];
    let launch = subject.launch().args(["--", "sh", "-c", script, "name"]).args([any_bytes()]).args(large);
    let ended = subject.run(launch)?;
    expect_output(&[" ff fe 20 27 22 09 01 2a 24", "1000000"], &ended, "they differ")
}

fn environment(subject: &Subject) -> Finding {
    let large = "x".repeat(LARGE);
    let mut launch = subject.launch().env("any.name-at=all", any_bytes());
    for number in 0..8 {
        launch = launch.env(format!("large.{number}"), &large);
    }
    let ended = subject.run(launch.args(["--", "cat", "/proc/self/environ"]))?;
    expect_code(0, &ended)?;
    let found_there = ended.stdout.join("\n");
    let has = |name: &str, value: &str| found_there.split('\0').any(|entry| entry == format!("{name}={value}"));
    let is_right = has("any.name-at=all", &any_bytes().to_string_lossy())
        && (0..8).all(|number| has(&format!("large.{number}"), &large));
    found(is_right, || format!("names that no shell takes are missing: {} bytes", found_there.len()))
}
