//! The stop sequence: what to do about each event, and when to look again.
//!
//! It knows no clock and makes no system call. Each time is a `Duration` since some fixed moment on the monotonic clock.

use std::time::Duration;

use crate::config::{Config, Target};
use crate::signal::Signal;

/// How long to wait for killed processes to be gone before drainit ends without them. Only a process that hangs in the kernel takes that long,
/// and at the end of the margin the platform kills drainit itself.
const KILL_PATIENCE: Duration = Duration::from_millis(500);

/// Something that happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// drainit received this signal.
    Signal(Signal),
    /// The command has ended.
    Exited,
    /// Nobody is left that the end of the stop has to wait for.
    NoneLeft,
    /// Time has passed.
    Tick,
}

/// Something to do now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Send this signal on.
    PassOn(Signal),
    /// A stop begins: tell the user.
    Announce { signal: Signal, forward_in: Duration, kill_in: Option<Duration> },
    /// Send the graceful signal for a stop that `received` began.
    Forward { received: Signal, cause: Cause },
    /// Send SIGKILL to everything that is left.
    Kill,
    /// Nothing is left to do: end.
    End,
}

/// Why the graceful signal is sent now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The delay has passed.
    Delay,
    /// The budget leaves no more time, though the delay has not passed.
    Budget,
    /// A second stop signal asked for it.
    SecondSignal,
}

impl Cause {
    /// Its name in the log.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Delay => "delay",
            Cause::Budget => "budget",
            Cause::SecondSignal => "second_signal",
        }
    }
}

/// A stop that is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stop {
    /// The signal that began it.
    pub signal: Signal,
    /// When it began: T0.
    pub began: Duration,
    /// When the graceful signal is due.
    forward_at: Duration,
    /// When it was really sent.
    pub forwarded: Option<Duration>,
    /// When SIGKILL is due; `None`: never.
    pub kill_at: Option<Duration>,
    /// When SIGKILL was really sent.
    pub killed: Option<Duration>,
}

/// The state machine of a stop.
#[derive(Clone, Debug)]
pub struct StopSequence<'c> {
    config: &'c Config,
    stop: Option<Stop>,
    command_has_ended: bool,
    ended: bool,
}

impl<'c> StopSequence<'c> {
    /// The sequence before any stop signal, with the command running.
    pub fn new(config: &'c Config) -> StopSequence<'c> {
        StopSequence { config, stop: None, command_has_ended: false, ended: false }
    }

    /// The stop that is under way, if one is.
    pub fn stop(&self) -> Option<&Stop> {
        self.stop.as_ref()
    }

    /// Whether the command has ended and the end waits for other processes: who asks has to say when there are none, with
    /// [`Event::NoneLeft`].
    pub fn waits_for_others(&self) -> bool {
        self.command_has_ended && !self.ended
    }

    /// What to do about `event` at the time `now`, in this order.
    pub fn on_event(&mut self, event: Event, now: Duration) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.ended {
            return actions;
        }
        match event {
            Event::Signal(signal) => {
                // What was due before the signal came is done before it, however late we are.
                self.advance(now, &mut actions);
                self.on_signal(signal, now, &mut actions);
                self.advance(now, &mut actions);
            }
            // The command is gone, so a deadline that has passed meanwhile has nobody left to signal.
            Event::Exited => {
                self.command_has_ended = true;
                if !self.has_others_to_wait_for() {
                    self.end(&mut actions);
                }
            }
            Event::NoneLeft if self.waits_for_others() => self.end(&mut actions),
            Event::NoneLeft => {}
            Event::Tick => self.advance(now, &mut actions),
        }
        actions
    }

    /// When [`Event::Tick`] is next due, if nothing happens before; `None`: never.
    pub fn next_deadline(&self) -> Option<Duration> {
        let stop = self.stop.filter(|_| !self.ended)?;
        match (stop.forwarded, stop.killed) {
            (None, _) => Some(stop.forward_at),
            (Some(_), None) => stop.kill_at,
            (Some(_), Some(killed)) => Some(killed.saturating_add(KILL_PATIENCE)),
        }
    }

    fn on_signal(&mut self, signal: Signal, now: Duration, actions: &mut Vec<Action>) {
        if self.ended {
            return;
        }
        if !self.config.stop_signals.contains(signal) {
            self.pass_on(signal, actions);
            return;
        }
        match &self.stop {
            None => {
                let budget = &self.config.budget;
                let kill_at = budget.kill_in.map(|kill_in| now.saturating_add(kill_in));
                let forward_at = now.saturating_add(budget.forward_in);
                self.stop = Some(Stop { signal, began: now, forward_at, forwarded: None, kill_at, killed: None });
                actions.push(Action::Announce { signal, forward_in: budget.forward_in, kill_in: budget.kill_in });
            }
            Some(stop) if stop.forwarded.is_none() => self.forward(Cause::SecondSignal, now, actions),
            Some(_) => self.pass_on(signal, actions),
        }
    }

    fn pass_on(&self, signal: Signal, actions: &mut Vec<Action>) {
        if self.command_has_ended && self.config.forward_to == Target::Child {
            return;
        }
        actions.extend(self.config.rewrites.apply(signal).map(Action::PassOn));
    }

    /// Does what is due by `now`. After a pause of the whole container several deadlines may have passed at once.
    fn advance(&mut self, now: Duration, actions: &mut Vec<Action>) {
        while let Some(stop) = self.stop.filter(|_| self.next_deadline().is_some_and(|deadline| deadline <= now)) {
            match (stop.forwarded, stop.killed) {
                (None, _) => {
                    let cause = if self.config.budget.cuts_delay() { Cause::Budget } else { Cause::Delay };
                    self.forward(cause, now, actions);
                }
                (Some(_), None) => {
                    self.stop = Some(Stop { killed: Some(now), ..stop });
                    actions.push(Action::Kill);
                }
                (Some(_), Some(_)) => self.end(actions),
            }
        }
    }

    fn forward(&mut self, cause: Cause, now: Duration, actions: &mut Vec<Action>) {
        if let Some(stop) = &mut self.stop {
            if cause == Cause::SecondSignal {
                let kill_in = self.config.budget.kill_in_after(now.saturating_sub(stop.began));
                stop.kill_at = kill_in.map(|kill_in| stop.began.saturating_add(kill_in));
            }
            stop.forwarded = Some(now);
            actions.push(Action::Forward { received: stop.signal, cause });
        }
    }

    /// Whether others than the command keep drainit from ending: those that got the graceful signal with it, or SIGKILL.
    fn has_others_to_wait_for(&self) -> bool {
        self.stop.is_some_and(|stop| {
            stop.killed.is_some() || (stop.forwarded.is_some() && self.config.forward_to != Target::Child)
        })
    }

    fn end(&mut self, actions: &mut Vec<Action>) {
        self.ended = true;
        actions.push(Action::End);
    }
}

#[cfg(test)]
mod tests {
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
            assert_eq!(
                play(&config, &[(0, TERM), (3, Event::Exited)])[1..],
                [(3, Action::End)],
                "nobody was signalled"
            );
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
}
