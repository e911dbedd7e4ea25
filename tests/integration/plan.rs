//! `--plan`, as it comes to the terminal.

use crate::harness::{Test, test};
use crate::sandbox::{Ended, Launch, Mode};

pub fn tests() -> Vec<Test> {
    vec![
        test("plan::shows_what_happens_when_and_that_it_fits", &[], fits),
        test("plan::shows_that_it_does_not_fit_and_what_is_cut", &[], does_not_fit),
        test("plan::shows_an_end_that_is_open", &[], open_end),
        test("plan::shows_time_that_is_not_used", &[], not_used),
        test("plan::names_the_signal_that_a_rewrite_makes", &[], rewritten),
        test("plan::starts_nothing", &[], starts_nothing),
        test("plan::a_plan_that_cannot_be_written_is_an_error", &[], cannot_be_written),
    ]
}

fn plan(options: &[&str]) -> Ended {
    let ended = Launch::new(Mode::Child).env("DRAINIT_LOG_FORMAT", "").args(["--plan"]).args(options).run();
    assert_eq!(ended.code(), 0, "{ended:?}");
    for line in &ended.stdout {
        assert!(line.chars().count() <= 80, "a drawing for a terminal of 80 columns: {line:?}");
    }
    ended
}

fn fits() {
    let ended = plan(&["--delay", "15", "--stop-timeout", "45", "--signal", "QUIT"]);
    assert_eq!(ended.stderr, [""; 0]);
    let expected = "\
drainit: what happens on a stop

        0s  SIGQUIT or SIGTERM arrives; the command serves on
       15s  SIGQUIT to the command
       44s  SIGKILL to whatever is left
       45s  the platform's own SIGKILL: the budget ends

  0s                   15s                                     44s 45s
  |====================|---------------------------------------|.|

  =  delay: it serves on, 15s
  -  grace: it shuts down, 29s
  .  margin, 1s

  FITS: delay 15s + grace 29s + margin 1s = 45s of the stop timeout of 45s";
    assert_eq!(ended.stdout.join("\n"), expected);
    assert!(include_str!("../../README.md").contains(expected), "the README shows the same");
}

fn does_not_fit() {
    let ended = plan(&["--delay", "30", "--grace", "20", "--stop-timeout", "45"]);
    let verdict =
        "delay 30s + grace 20s + margin 1s = 51s do not fit into the stop timeout of 45s: the delay is cut to 24s";
    let shown = ended.stdout.join("\n").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.ends_with(&format!("DOES NOT FIT: {verdict}")), "{shown}");
    assert_eq!(ended.stderr, [format!("drainit: warning: {verdict}")]);
    assert!(ended.stdout.iter().any(|line| line.contains("24s  the same signal to the command")), "{ended:?}");
}

fn open_end() {
    let ended = plan(&["--delay", "15"]);
    assert!(ended.stdout.iter().any(|line| line.ends_with("->")), "{ended:?}");
    assert!(!ended.stdout.iter().any(|line| line.contains("SIGKILL")), "nothing is ever killed: {ended:?}");
    assert!(ended.stdout.last().is_some_and(|line| line.contains("NOT CHECKED")), "{ended:?}");
}

fn not_used() {
    let ended = plan(&["--delay", "5", "--grace", "10", "--stop-timeout", "30"]);
    assert!(ended.stdout.iter().any(|line| line.contains("_  not used, 14s")), "{ended:?}");
    let labels = ended.stdout.iter().find(|line| line.starts_with("  0s ")).expect("the labels");
    assert_eq!(labels.split_whitespace().collect::<Vec<_>>(), ["0s", "5s", "15s", "29s", "30s"]);
}

fn rewritten() {
    let ended = plan(&["--rewrite", "TERM:QUIT"]);
    assert!(ended.stdout.iter().any(|line| line.contains("SIGQUIT to the command")), "{ended:?}");
}

fn starts_nothing() {
    let ended = plan(&["--", "sh", "-c", "echo started"]);
    assert!(!ended.stdout.iter().any(|line| line.contains("started")), "{ended:?}");
}

fn cannot_be_written() {
    let full = std::fs::File::options().write(true).open("/dev/full").expect("/dev/full");
    let status = std::process::Command::new(crate::harness::drainit())
        .args(["--plan"])
        .stdout(full)
        .stderr(std::process::Stdio::null())
        .status()
        .expect("drainit");
    assert_eq!(status.code(), Some(125));
}
