//! The rules of the stop sequence, each as a test, and all of them in any order of events.

use super::*;
use crate::setting::{Given, Setting, Settings, Source};
use proptest::prelude::*;

const TERM: Event = Event::Signal(Signal::TERM);
const QUIT: Event = Event::Signal(Signal::QUIT);

fn config(given: &[(Setting, &str)]) -> Config {
    let flags = given
        .iter()
        .map(|(setting, value)| Given { setting: *setting, source: Source::Flag, value: value.into() })
        .collect();
    Config::new(&Settings::new(flags, |_| None)).expect("good settings").0
}

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn forward(cause: Cause) -> Action {
    Action::Forward { received: Signal::TERM, cause }
}

fn announce(signal: Signal, forward_in: u64, kill_in: Option<u64>) -> Action {
    Action::Announce { signal, forward_in: s(forward_in), kill_in: kill_in.map(s) }
}

/// The actions of a whole script of events, with the time of each.
fn play(config: &Config, script: &[(u64, Event)]) -> Vec<(u64, Action)> {
    let mut sequence = StopSequence::new(config);
    let mut played = Vec::new();
    for (at, event) in script {
        played.extend(sequence.on_event(*event, s(*at)).into_iter().map(|action| (*at, action)));
    }
    played
}

const DELAY_15_OF_45: [(Setting, &str); 2] = [(Setting::Delay, "15"), (Setting::StopTimeout, "45")];

#[test]
fn with_no_settings_a_stop_signal_is_passed_on_at_once() {
    let config = config(&[]);
    assert_eq!(
        play(&config, &[(7, TERM), (8, TERM)]),
        [(7, announce(Signal::TERM, 0, None)), (7, forward(Cause::Delay)), (8, Action::PassOn(Signal::TERM))]
    );
}

#[test]
fn rule_1_during_the_delay_the_command_gets_no_stop_signal() {
    let config = config(&DELAY_15_OF_45);
    assert_eq!(
        play(&config, &[(100, TERM), (101, Event::Tick), (114, Event::Tick)]),
        [(100, announce(Signal::TERM, 15, Some(44)))]
    );
}

#[test]
fn rule_1_every_other_signal_passes_through_at_once_always() {
    let config = config(&DELAY_15_OF_45);
    let hup = Signal::new(1).unwrap();
    let hups = |at| (at, Action::PassOn(hup));
    let script = [0, 2, 16, 45].map(|at| (at, Event::Signal(hup)));
    let script = [script[0], (1, TERM), script[1], (16, Event::Tick), script[2], (45, Event::Tick), script[3]];
    let passed: Vec<_> = play(&config, &script).into_iter().filter(|(_, a)| *a == Action::PassOn(hup)).collect();
    assert_eq!(passed, [hups(0), hups(2), hups(16), hups(45)]);
}

#[test]
fn rule_2_a_second_stop_signal_ends_the_delay() {
    let config = config(&DELAY_15_OF_45);
    assert_eq!(
        play(&config, &[(0, TERM), (3, QUIT)]),
        [(0, announce(Signal::TERM, 15, Some(44))), (3, forward(Cause::SecondSignal))]
    );
}

#[test]
fn rule_2_the_grace_counts_from_the_signal_that_was_sent_early() {
    let mut early = DELAY_15_OF_45.to_vec();
    early.push((Setting::Grace, "10"));
    let config = config(&early);
    let mut sequence = StopSequence::new(&config);
    sequence.on_event(TERM, s(0));
    sequence.on_event(TERM, s(3));
    assert_eq!(sequence.next_deadline(), Some(s(13)));
}

#[test]
fn rule_2_a_grace_that_is_the_rest_of_the_budget_is_not_shortened() {
    let config = config(&DELAY_15_OF_45);
    let mut sequence = StopSequence::new(&config);
    sequence.on_event(TERM, s(0));
    sequence.on_event(TERM, s(3));
    assert_eq!(sequence.next_deadline(), Some(s(44)));
}

#[test]
fn rule_3_a_stop_signal_after_the_graceful_one_passes_through_unchanged() {
    let config = config(&[(Setting::Delay, "15"), (Setting::Signal, "INT")]);
    let played = play(&config, &[(0, TERM), (15, Event::Tick), (16, TERM), (17, QUIT)]);
    assert_eq!(
        played[1..],
        [(15, forward(Cause::Delay)), (16, Action::PassOn(Signal::TERM)), (17, Action::PassOn(Signal::QUIT))]
    );
}

#[test]
fn rule_4_what_is_left_is_killed_at_kill_at() {
    let config = config(&DELAY_15_OF_45);
    let played = play(&config, &[(0, TERM), (15, Event::Tick), (43, Event::Tick), (44, Event::Tick)]);
    assert_eq!(played[1..], [(15, forward(Cause::Delay)), (44, Action::Kill)]);
}

#[test]
fn rule_4_after_the_kill_it_ends_when_nobody_is_left() {
    let config = config(&DELAY_15_OF_45);
    let script = [(0, TERM), (15, Event::Tick), (44, Event::Tick), (44, Event::Exited), (44, Event::NoneLeft)];
    assert_eq!(play(&config, &script).last(), Some(&(44, Action::End)));
    assert_eq!(play(&config, &script[..4]).last(), Some(&(44, Action::Kill)));
}

#[test]
fn rule_4_a_process_that_cannot_be_killed_does_not_keep_drainit_for_ever() {
    let config = config(&DELAY_15_OF_45);
    let script = [(0, TERM), (15, Event::Tick), (44, Event::Tick), (45, Event::Tick)];
    assert_eq!(play(&config, &script).last(), Some(&(45, Action::End)));
}

#[test]
fn rule_4_the_wait_for_the_killed_ends_inside_the_budget() {
    let config = config(&[(Setting::StopTimeout, "2")]);
    let mut sequence = StopSequence::new(&config);
    sequence.on_event(TERM, s(0));
    let ms = Duration::from_millis;
    assert_eq!(sequence.on_event(Event::Tick, ms(1_800)).as_slice(), [Action::Kill]);
    assert_eq!(sequence.next_deadline(), Some(ms(1_900)));
}

#[test]
fn rule_3_a_rewrite_leaves_later_stop_signals_as_they_are() {
    let config = config(&[(Setting::Rewrite, "TERM:INT")]);
    let played = play(&config, &[(0, TERM), (1, TERM)]);
    assert_eq!(played.last(), Some(&(1, Action::PassOn(Signal::TERM))));
}

#[test]
fn rule_5_the_commands_exit_ends_it_in_whatever_phase() {
    let config = config(&DELAY_15_OF_45);
    for script in [
        &[(1, Event::Exited)][..],
        &[(0, TERM), (1, Event::Exited)],
        &[(0, TERM), (15, Event::Tick), (16, Event::Exited)],
    ] {
        assert_eq!(play(&config, script).last().map(|(_, action)| *action), Some(Action::End), "{script:?}");
    }
}

#[test]
fn rule_5_an_exit_seen_late_comes_before_the_deadlines_that_have_passed() {
    let config = config(&DELAY_15_OF_45);
    assert_eq!(play(&config, &[(0, TERM), (900, Event::Exited)])[1..], [(900, Action::End)]);
}

#[test]
fn rule_5_with_group_or_all_it_waits_for_those_that_it_signalled() {
    for target in ["group", "all"] {
        let mut settings = DELAY_15_OF_45.to_vec();
        settings.push((Setting::ForwardTo, target));
        let config = config(&settings);
        let script = [(0, TERM), (15, Event::Tick), (16, Event::Exited), (17, Event::NoneLeft)];
        assert_eq!(play(&config, &script)[1..], [(15, forward(Cause::Delay)), (17, Action::End)]);
        let script = [(0, TERM), (15, Event::Tick), (16, Event::Exited), (44, Event::Tick), (44, Event::NoneLeft)];
        assert_eq!(play(&config, &script)[2..], [(44, Action::Kill), (44, Action::End)]);
        assert_eq!(play(&config, &[(0, TERM), (3, Event::Exited)])[1..], [(3, Action::End)], "nobody was signalled");
        assert_eq!(play(&config, &[(3, Event::Exited)]), [(3, Action::End)], "no stop");
    }
}

#[test]
fn rule_6_the_budget_cuts_the_delay() {
    let config = config(&[(Setting::Delay, "30"), (Setting::Grace, "20"), (Setting::StopTimeout, "45")]);
    assert_eq!(
        play(&config, &[(0, TERM), (23, Event::Tick), (24, Event::Tick)]),
        [(0, announce(Signal::TERM, 24, Some(44))), (24, forward(Cause::Budget))]
    );
}

#[test]
fn after_a_long_pause_the_same_happens_in_the_same_order() {
    let config = config(&DELAY_15_OF_45);
    assert_eq!(
        play(&config, &[(0, TERM), (900, Event::Tick)])[1..],
        [(900, forward(Cause::Delay)), (900, Action::Kill)]
    );
    assert_eq!(
        play(&config, &[(0, TERM), (900, TERM)])[1..],
        [(900, forward(Cause::Delay)), (900, Action::Kill), (900, Action::PassOn(Signal::TERM))],
        "a signal that came during the pause comes after what was due before it"
    );
}

#[test]
fn rewritten_signals_pass_as_what_they_were_rewritten_to() {
    let config = config(&[(Setting::Rewrite, "HUP:0,USR1:USR2")]);
    let [hup, usr1, usr2] = [1, 10, 12].map(|n| Signal::new(n).unwrap());
    let script = [(0, Event::Signal(hup)), (1, Event::Signal(usr1)), (2, Event::Signal(usr2))];
    assert_eq!(play(&config, &script), [(1, Action::PassOn(usr2)), (2, Action::PassOn(usr2))]);
}

#[test]
fn no_stop_means_no_deadline() {
    let config = config(&DELAY_15_OF_45);
    assert_eq!(StopSequence::new(&config).next_deadline(), None);
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => prop_oneof![Just(15), Just(3), Just(1), Just(10), 1..=64].prop_map(|n| Event::Signal(Signal::new(n).unwrap())),
        1 => Just(Event::Exited),
        1 => Just(Event::NoneLeft),
        4 => Just(Event::Tick),
    ]
}

/// Settings in seconds, and how far the clock moves before each event, in milliseconds.
type Run = (Vec<(Setting, String)>, Vec<(u64, Event)>);

/// Now and then the clock jumps far, or stands still.
fn any_run() -> impl Strategy<Value = Run> {
    let seconds = || proptest::option::of(0u64..60);
    let settings = (seconds(), seconds(), proptest::option::of(1u64..60), seconds(), 0..3usize).prop_map(
        |(delay, grace, stop_timeout, margin, target)| {
            let mut given = vec![(Setting::ForwardTo, ["child", "group", "all"][target].to_owned())];
            for (setting, value) in [
                (Setting::Delay, delay),
                (Setting::Grace, grace),
                (Setting::StopTimeout, stop_timeout),
                (Setting::Margin, margin),
            ] {
                given.extend(value.map(|seconds| (setting, seconds.to_string())));
            }
            given
        },
    );
    let step = prop_oneof![4 => 0u64..3_000, 2 => 0u64..60_000, 1 => Just(0), 1 => Just(1_000_000_000)];
    (settings, proptest::collection::vec((step, any_event()), 0..40))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn the_promises_of_the_contract_hold_in_every_run((given, run) in any_run()) {
        let given: Vec<(Setting, &str)> = given.iter().map(|(setting, value)| (*setting, value.as_str())).collect();
        let config = config(&given);
        let budget = config.budget;
        let get = |name| given.iter().find(|(s, _)| *s == name).map(|(_, v)| s(v.parse().unwrap()));
        let (delay, grace, stop_timeout) =
            (get(Setting::Delay).unwrap_or_default(), get(Setting::Grace), get(Setting::StopTimeout));

        let mut sequence = StopSequence::new(&config);
        let mut now = Duration::ZERO;
        let (mut began, mut forwarded, mut killed, mut ended) = (None, None, None, None);
        let mut exited = false;
        let mut stop_signals = 0;
        for (step, event) in run {
            let due = sequence.next_deadline();
            now += Duration::from_millis(step);
            let actions = sequence.on_event(event, now);
            let is_stop_signal = event == TERM || event == QUIT;
            stop_signals += usize::from(is_stop_signal && ended.is_none());
            if event == Event::Exited && ended.is_none() {
                exited = true;
            }
            if ended.is_some() {
                prop_assert!(actions.is_empty(), "nothing happens after the end");
            }
            for action in actions {
                match action {
                    Action::Announce { .. } => {
                        prop_assert!(began.is_none(), "one stop, one announcement");
                        began = Some(now);
                    }
                    Action::Forward { cause, .. } => {
                        prop_assert!(forwarded.is_none(), "the graceful signal is sent at most once");
                        prop_assert!(!exited, "nothing is sent to a command that has ended");
                        let began = began.expect("a stop");
                        let due = began + delay;
                        match cause {
                            Cause::Delay => prop_assert!(now >= due),
                            Cause::Budget => prop_assert!(budget.cuts_delay() && now >= began + budget.forward_in),
                            Cause::SecondSignal => prop_assert!(is_stop_signal && stop_signals > 1),
                        }
                        forwarded = Some(now);
                    }
                    Action::Kill => {
                        prop_assert!(killed.is_none(), "it kills once");
                        prop_assert!(grace.is_some() || stop_timeout.is_some(), "with neither, nothing is ever killed");
                        let (began, forwarded) = (began.expect("a stop"), forwarded.expect("the graceful signal first"));
                        let kill_at = sequence.stop().unwrap().kill_at.expect("a time to kill");
                        prop_assert!(now >= kill_at);
                        if let Some(kill_by) = budget.kill_by() {
                            prop_assert!(kill_at <= began + kill_by);
                        }
                        if let (Some(grace), None) = (grace, stop_timeout) {
                            prop_assert!(now >= began + delay.min(forwarded - began) + grace);
                        }
                        killed = Some(now);
                    }
                    Action::PassOn(signal) => {
                        prop_assert_eq!(event, Event::Signal(signal), "a signal passes when it comes, and as it is");
                        prop_assert!(!is_stop_signal || forwarded.is_some(), "no stop signal before the graceful one");
                        prop_assert!(!exited || config.forward_to != Target::Child, "nothing is sent to a command that has ended");
                    }
                    Action::End => {
                        prop_assert!(exited || killed.is_some(), "only the command's exit ends drainit, or a kill in vain");
                        ended = Some(now);
                    }
                }
            }
            // Whatever the event was, what was due is done, unless the exit of the command made an end of it.
            let waits = matches!(event, Event::Exited | Event::NoneLeft);
            if let (Some(due), false) = (due, waits) {
                let next = sequence.next_deadline();
                prop_assert!(due > now || next != Some(due) , "a deadline that has passed is acted on: {due:?} {now:?}");
            }
            if let (Some(began), None, None) = (began, forwarded, ended) {
                let latest = began + budget.forward_in;
                prop_assert!(now < latest || waits, "the graceful signal is not late");
                if let Some(kill_by) = budget.kill_by() {
                    let grace = grace.unwrap_or(stop_timeout.unwrap() / 10);
                    prop_assert!(sequence.next_deadline().unwrap() <= began + kill_by.saturating_sub(grace));
                }
            }
            if let (true, None) = (is_stop_signal, ended) {
                prop_assert!(began.is_some());
                prop_assert!(stop_signals < 2 || forwarded.is_some(), "a second stop signal ends the delay");
            }
        }
    }

    #[test]
    fn a_long_pause_changes_when_things_happen_and_not_what_or_in_which_order(
        (given, _) in any_run(), pauses in proptest::collection::vec(1u64..200, 1..20)
    ) {
        let given: Vec<(Setting, &str)> = given.iter().map(|(setting, value)| (*setting, value.as_str())).collect();
        let config = config(&given);
        let actions = |wakes: &mut dyn FnMut(&StopSequence<'_>, Duration) -> Option<Duration>| {
            let mut sequence = StopSequence::new(&config);
            let mut actions = sequence.on_event(TERM, Duration::ZERO);
            let mut now = Duration::ZERO;
            while let Some(wake) = wakes(&sequence, now) {
                now = wake;
                actions.extend(sequence.on_event(Event::Tick, now));
            }
            actions.into_iter().filter(|action| *action != Action::End).collect::<Vec<_>>()
        };
        let in_time = actions(&mut |sequence, _| sequence.next_deadline());
        let mut pauses = pauses.into_iter();
        let paused = actions(&mut |_, now| Some(now + s(pauses.next()?)));
        prop_assert!(in_time.starts_with(&paused));
    }
}
