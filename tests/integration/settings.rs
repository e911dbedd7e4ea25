//! Settings by flag and by variable, and what is said of bad ones.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;

use serde_json::json;

use crate::harness::{Test, test};
use crate::sandbox::{Ended, Launch, Mode};

pub fn tests() -> Vec<Test> {
    vec![
        test("settings::a_bad_value_starts_nothing_and_names_what_to_mend", &[], bad_values),
        test("settings::a_bad_command_line_starts_nothing_and_names_what_to_mend", &[], bad_command_lines),
        test("settings::an_error_is_json_where_json_was_asked_for", &[], errors_as_json),
        test("settings::the_flag_wins_and_an_empty_variable_counts_as_unset", &[], flag_wins),
        test("settings::a_misspelt_variable_is_told_the_nearest_name", &[], misspelt),
        test("settings::levels_hide_what_is_below_them", &[], levels),
        test("settings::help_and_version_start_nothing", &[], help),
        test("settings::a_huge_environment_and_command_line_are_no_matter", &[], huge),
    ]
}

/// A drainit with its log as text, and a command that would say so if it ran.
fn text() -> Launch {
    Launch::new(Mode::Child).env("DRAINIT_LOG_FORMAT", "")
}

/// Asserts that nothing was started, and returns the one line that says why.
fn the_only_line(ended: &Ended) -> String {
    assert_eq!((ended.code(), &ended.stdout[..]), (125, [].as_slice()), "{ended:?}");
    assert_eq!(ended.stderr.len(), 1, "{ended:?}");
    assert!(ended.stderr[0].starts_with("drainit: error: "), "{ended:?}");
    ended.stderr[0].clone()
}

fn bad_values() {
    let binary = OsString::from_vec(b"1\xff".to_vec());
    let huge = "9".repeat(100_000);
    let cases: &[(&str, &OsStr, &str)] = &[
        ("DELAY", "15x".as_ref(), "it takes a duration such as 15s"),
        ("DELAY", "-5s".as_ref(), "it is negative"),
        ("DELAY", "99999999999999999999s".as_ref(), "it is too long"),
        ("DELAY", "18446744073709551615s 1000ms".as_ref(), "it is too long"),
        ("DELAY", &binary, "it is not UTF-8"),
        ("DELAY", huge.as_ref(), "it takes a duration such as 15s"),
        ("GRACE", "soon".as_ref(), "it takes a duration such as 15s"),
        ("STOP_TIMEOUT", "0".as_ref(), "it takes a duration above 0"),
        ("MARGIN", "1,5".as_ref(), "it takes a duration such as 15s"),
        ("SIGNAL", "SIGFOO".as_ref(), "there is no signal"),
        ("SIGNAL", "STOP".as_ref(), "it takes a signal other than STOP"),
        ("STOP_SIGNALS", "TERM,KILL".as_ref(), "SIGKILL cannot be caught"),
        ("FORWARD_TO", "everyone".as_ref(), "it takes child, group or all"),
        ("REWRITE", "HUP".as_ref(), "it takes FROM:TO pairs"),
        ("REWRITE", huge.as_ref(), "it takes FROM:TO pairs"),
        ("OK_EXIT", "256".as_ref(), "it takes exit codes from 0 to 255"),
        ("LOG", "loud".as_ref(), "it takes off, error, warn, info or debug"),
        ("LOG_FORMAT", "xml".as_ref(), "it takes text or json"),
    ];
    for (name, value, says) in cases {
        let variable = format!("DRAINIT_{name}");
        let line = the_only_line(&text().env(&variable, value).script("echo started").run());
        assert!(line.contains(&format!("{variable}=")) && line.contains(says), "{line}");
        let flag = format!("--{}", name.to_lowercase().replace('_', "-"));
        let line = the_only_line(&text().args([OsStr::new(&flag), value]).script("echo started").run());
        assert!(line.contains(&format!("{flag} ")) && line.contains(says), "{line}");
        assert!(value.len() > 1000 || line.contains(&format!("{value:?}")), "it shows the value: {line}");
        assert!(line.len() < 1_000, "it stays readable: {} bytes", line.len());
    }
}

fn bad_command_lines() {
    for (words, says) in [
        (&[][..], "no COMMAND was given"),
        (&["--"], "no COMMAND was given"),
        (&["--delay", "5"], "no COMMAND was given"),
        (&["--dely", "5", "echo"], "did you mean --delay?"),
        (&["--dealy", "5", "echo"], "did you mean --delay?"),
        (&["-x", "echo"], "'-x'"),
        (&["--a\nb", "echo"], "'--a\\nb' found"),
        (&["--delay"], "--delay"),
        (&["--delay", "1", "--delay", "2", "echo"], "--delay"),
    ] {
        let line = the_only_line(&text().args(words).run());
        assert!(line.contains(says), "{words:?}: {line}");
    }
    let unknown = OsString::from_vec(b"--\xff\n".to_vec());
    the_only_line(&text().args([unknown]).args(["echo"]).run());
}

fn errors_as_json() {
    let ended =
        Launch::new(Mode::Child).env("DRAINIT_DELAY", "15x").env("DRAINIT_LOG", "off").script("echo started").run();
    assert_eq!(
        (ended.code(), ended.event("error")["level"].as_str()),
        (125, Some("error")),
        "even at level off: {ended:?}"
    );
    let ended = Launch::new(Mode::Child).args(["--nonsense"]).run();
    assert_eq!((ended.code(), ended.event_names()), (125, vec!["error".to_owned()]));
}

fn flag_wins() {
    let ended = Launch::new(Mode::Child)
        .env("DRAINIT_DELAY", "15x")
        .env("DRAINIT_GRACE", "")
        .args(["--delay", "2.5", "--stop-timeout=1m 30s"])
        .script("exit 0")
        .run();
    let started = ended.event("started");
    assert_eq!([&started["delay_ms"], &started["stop_timeout_ms"]], [&json!(2_500), &json!(90_000)]);
    assert_eq!(started["grace_ms"], json!(90_000 - 1_000 - 2_500));
}

fn misspelt() {
    let ended = Launch::new(Mode::Child)
        .env("DRAINIT_DELY", "15")
        .env("DRAINIT_UNTIL_QUIET", "2s")
        .env("DRAINIT_NOTHING", "")
        .script("exit 3")
        .run();
    assert_eq!(ended.code(), 3, "a warning, and no more");
    let warnings: Vec<&String> = ended.stderr.iter().filter(|line| line.contains("\"level\":\"warn\"")).collect();
    assert_eq!(warnings.len(), 2, "{ended:?}");
    assert!(warnings.iter().any(|line| line.contains("did you mean DRAINIT_DELAY?")), "{warnings:?}");
    assert!(warnings.iter().any(|line| line.contains("DRAINIT_UNTIL_QUIET is not supported")), "{warnings:?}");
}

fn levels() {
    let lines = |level: &str| {
        let launch = Launch::new(Mode::Child).env("DRAINIT_LOG", level).env("DRAINIT_DELY", "1");
        launch.script("exit 0").run().event_names()
    };
    assert_eq!(lines("off"), [""; 0]);
    assert_eq!(lines("error"), [""; 0]);
    assert_eq!(lines("WARN"), ["warning"]);
    assert_eq!(lines("info"), ["warning", "started", "exited"]);
    assert_eq!(lines("debug"), ["warning", "started", "exited"]);
    let quiet = text().env("DRAINIT_LOG", "").script("exit 0").run();
    assert_eq!(quiet.stderr, [""; 0], "with no setting at all, the start is at level debug");
}

fn help() {
    for (flag, says) in
        [("--help", "--stop-timeout D"), ("-h", "DRAINIT_DELAY"), ("--version", "drainit 0."), ("-V", "drainit 0.")]
    {
        let ended = text().args([flag]).run();
        assert_eq!((ended.code(), ended.stderr.len()), (0, 0), "{ended:?}");
        assert!(ended.stdout.iter().any(|line| line.contains(says)), "{flag}: {ended:?}");
    }
    let ended = text().args(["sh", "-c", "echo \"$@\"", "name", "--help", "--", "--version"]).run();
    assert_eq!(ended.stdout, ["--help -- --version"], "after the command begins, options are the command's");
}

fn huge() {
    // The kernel takes at most 128 KiB in one word, and 2 MiB and more in all.
    let word = "x".repeat(100_000);
    let mut launch = Launch::new(Mode::Child).args(["--", "sh", "-c", "echo $#", "name"]);
    for number in 0..8 {
        launch = launch.env(format!("HUGE_{number}"), &word).args([&word]);
    }
    let ended = launch.run();
    assert_eq!((ended.code(), &ended.stdout[..]), (0, ["8".to_owned()].as_slice()));
    assert_eq!(ended.event_names(), ["started", "exited"], "a line stays below PIPE_BUF, whatever the command line is");
}
