//! Raw settings become a validated configuration, or errors that say what to mend.

use std::fmt;

use crate::budget::{Budget, Misfit, Wishes};
use crate::duration::{self, Seconds};
use crate::log::{Format, Level};
use crate::setting::{Given, Setting, Settings, quoted};
use crate::signal::{Signal, SignalSet};

/// Whom signals go to, and whom a stop waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// The command alone.
    Child,
    /// The command's process group.
    Group,
    /// Every descendant.
    All,
}

impl Target {
    /// Its name in the settings and in the log.
    pub fn name(self) -> &'static str {
        match self {
            Target::Child => "child",
            Target::Group => "group",
            Target::All => "all",
        }
    }
}

/// What becomes of signals that pass through.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Rewrites(Vec<(Signal, Option<Signal>)>);

impl Rewrites {
    /// What `signal` turns into; `None`: it is dropped.
    pub fn apply(&self, signal: Signal) -> Option<Signal> {
        self.0.iter().find(|(from, _)| *from == signal).map_or(Some(signal), |(_, to)| *to)
    }
}

/// Everything that the user decides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    pub budget: Budget,
    /// What of it does not fit into the stop timeout, if anything does not.
    pub misfit: Option<Misfit>,
    /// The graceful signal, if one was set.
    pub graceful: Option<Signal>,
    pub stop_signals: SignalSet,
    pub forward_to: Target,
    pub rewrites: Rewrites,
    /// Exit codes that become 0.
    pub ok_exit: Vec<u8>,
    pub log_level: Level,
    pub log_format: Format,
    /// Whether any setting was given; with none, drainit is as quiet as other inits.
    pub is_configured: bool,
}

/// A value that was not understood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError {
    given: Given,
    reason: String,
    takes: &'static str,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; it takes {}", self.given, self.reason, self.takes)
    }
}

impl Config {
    /// Understands the settings. Returns what the user should know of besides, as warnings.
    ///
    /// # Errors
    ///
    /// One for each value that was not understood.
    pub fn new(settings: &Settings) -> Result<(Config, Vec<String>), Vec<ConfigError>> {
        let mut reader = Reader { settings, errors: Vec::new() };
        let wishes = Wishes {
            delay: reader.read(Setting::Delay, duration::TAKES, duration).unwrap_or_default(),
            grace: reader.read(Setting::Grace, duration::TAKES, duration),
            stop_timeout: reader.read(Setting::StopTimeout, "a duration above 0, such as 45s or 45", |text| {
                duration(text).and_then(|d| if d.is_zero() { Err("it leaves no time".to_owned()) } else { Ok(d) })
            }),
            margin: reader.read(Setting::Margin, duration::TAKES, duration),
        };
        let budget = Budget::new(wishes);
        let config = Config {
            budget,
            misfit: budget.misfit(wishes),
            graceful: reader.read(Setting::Signal, GRACEFUL_TAKES, graceful_signal),
            stop_signals: reader
                .read(Setting::StopSignals, STOP_SIGNALS_TAKE, stop_signals)
                .unwrap_or_else(|| [Signal::TERM, Signal::QUIT].into_iter().collect()),
            forward_to: reader.read(Setting::ForwardTo, "child, group or all", target).unwrap_or(Target::Child),
            rewrites: reader.read(Setting::Rewrite, REWRITE_TAKES, rewrites).unwrap_or_default(),
            ok_exit: reader.read(Setting::OkExit, OK_EXIT_TAKES, exit_codes).unwrap_or_default(),
            log_level: reader.read(Setting::Log, "off, error, warn, info or debug", level).unwrap_or(Level::Info),
            log_format: reader.read(Setting::LogFormat, "text or json", format).unwrap_or(Format::Text),
            is_configured: !settings.is_empty(),
        };
        if !reader.errors.is_empty() {
            return Err(reader.errors);
        }
        let mut warnings: Vec<String> = config.misfit.iter().map(ToString::to_string).collect();
        if let (Some(margin), None) = (wishes.margin, wishes.stop_timeout) {
            warnings.push(format!("margin {} has no effect without a stop timeout", Seconds(margin)));
        }
        for signal in config.stop_signals.iter().filter(|signal| config.rewrites.apply(*signal).is_none()) {
            warnings.push(format!(
                "{signal} begins a stop, so rewriting it to 0 does not drop it; take it out of the stop signals instead"
            ));
        }
        Ok((config, warnings))
    }

    /// The log format that the settings ask for, as far as it can be told: errors in the settings are reported in it.
    pub fn format_for_errors(settings: &Settings) -> Format {
        let given = settings.get(Setting::LogFormat).and_then(|given| given.value.to_str());
        given.and_then(|text| format(text).ok()).unwrap_or(Format::Text)
    }

    /// The graceful signal for a stop that `received` began, and whether the user chose it: then it is sent whatever the command catches.
    ///
    /// A rewrite counts as a choice: who had `--rewrite 15:3` for dumb-init means the same here.
    pub fn graceful_signal(&self, received: Signal) -> (Signal, bool) {
        match (self.graceful, self.rewrites.apply(received)) {
            (Some(set), _) => (set, true),
            (None, Some(rewritten)) => (rewritten, rewritten != received),
            (None, None) => (received, false),
        }
    }
}

/// Reads settings one by one and keeps their errors.
struct Reader<'s> {
    settings: &'s Settings,
    errors: Vec<ConfigError>,
}

impl Reader<'_> {
    fn read<T>(
        &mut self,
        setting: Setting,
        takes: &'static str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let given = self.settings.get(setting)?;
        let parsed = given.value.to_str().ok_or_else(|| "it is not UTF-8".to_owned()).and_then(parse);
        parsed.map_err(|reason| self.errors.push(ConfigError { given: given.clone(), reason, takes })).ok()
    }
}

const GRACEFUL_TAKES: &str = "a signal other than STOP, such as QUIT, SIGQUIT, 3 or RTMIN+3";
const STOP_SIGNALS_TAKE: &str = "signals with commas between, such as TERM,QUIT, other than KILL, STOP and CHLD";
const REWRITE_TAKES: &str =
    "FROM:TO pairs with commas between, such as TERM:QUIT,HUP:0, each FROM once and not KILL, STOP or CHLD";
const OK_EXIT_TAKES: &str = "exit codes from 0 to 255 with commas between, such as 143,130";

fn duration(text: &str) -> Result<std::time::Duration, String> {
    duration::parse(text).map_err(|error| error.to_string())
}

fn signal(text: &str) -> Result<Signal, String> {
    text.parse().map_err(|_| format!("there is no signal {}", quoted(text)))
}

fn graceful_signal(text: &str) -> Result<Signal, String> {
    match signal(text.trim())? {
        Signal::STOP => Err("SIGSTOP would freeze the command instead of ending it".to_owned()),
        graceful => Ok(graceful),
    }
}

/// A signal that drainit itself can receive and pass on.
fn receivable(text: &str) -> Result<Signal, String> {
    match signal(text)? {
        Signal::CHLD => Err("SIGCHLD tells an init that a child has ended and is never passed on".to_owned()),
        caught if caught.can_be_caught() => Ok(caught),
        other => Err(format!("{other} cannot be caught")),
    }
}

/// The items of a list with commas between.
fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim)
}

fn stop_signals(text: &str) -> Result<SignalSet, String> {
    items(text).map(receivable).collect()
}

fn target(text: &str) -> Result<Target, String> {
    [Target::Child, Target::Group, Target::All]
        .into_iter()
        .find(|target| target.name().eq_ignore_ascii_case(text.trim()))
        .ok_or_else(|| "there is no such target".to_owned())
}

fn rewrites(text: &str) -> Result<Rewrites, String> {
    let mut pairs: Vec<(Signal, Option<Signal>)> = Vec::new();
    for item in items(text) {
        let (from, to) = item.split_once(':').ok_or_else(|| format!("{} is no pair", quoted(item)))?;
        let from = receivable(from.trim())?;
        let to = if to.trim() == "0" { None } else { Some(signal(to.trim())?) };
        if pairs.iter().any(|(known, _)| *known == from) {
            return Err(format!("{from} is rewritten twice"));
        }
        pairs.push((from, to));
    }
    Ok(Rewrites(pairs))
}

fn exit_codes(text: &str) -> Result<Vec<u8>, String> {
    let code = |item: &str| {
        let digits = item.bytes().all(|b| b.is_ascii_digit());
        item.parse().ok().filter(|_| digits).ok_or_else(|| format!("{} is no exit code", quoted(item)))
    };
    items(text).map(code).collect()
}

fn level(text: &str) -> Result<Level, String> {
    Level::ALL
        .into_iter()
        .find(|level| level.name().eq_ignore_ascii_case(text.trim()))
        .ok_or_else(|| "there is no such level".to_owned())
}

fn format(text: &str) -> Result<Format, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "text" => Ok(Format::Text),
        "json" => Ok(Format::Json),
        _ => Err("there is no such format".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::Source;
    use proptest::prelude::*;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    use std::time::Duration;

    fn settings(given: &[(Setting, &str)]) -> Settings {
        let flags = given
            .iter()
            .map(|(setting, value)| Given { setting: *setting, source: Source::Flag, value: value.into() })
            .collect();
        Settings::new(flags, |_| None)
    }

    fn config(given: &[(Setting, &str)]) -> Config {
        Config::new(&settings(given)).expect("good settings").0
    }

    fn error(setting: Setting, value: impl Into<OsString>) -> String {
        let flags = vec![Given { setting, source: Source::Variable, value: value.into() }];
        let errors = Config::new(&Settings::new(flags, |_| None)).expect_err("a bad setting");
        assert_eq!(errors.len(), 1);
        errors[0].to_string()
    }

    #[test]
    fn with_no_settings_it_behaves_like_tini() {
        let config = config(&[]);
        assert_eq!(config.budget.forward_in, Duration::ZERO);
        assert_eq!(config.budget.kill_in, None);
        assert_eq!(config.stop_signals, [Signal::TERM, Signal::QUIT].into_iter().collect());
        assert_eq!((config.forward_to, config.graceful, config.is_configured), (Target::Child, None, false));
    }

    #[test]
    fn an_error_names_the_setting_the_value_and_what_it_takes() {
        assert_eq!(
            error(Setting::Delay, "15x"),
            "DRAINIT_DELAY=\"15x\": there is no unit \"x\"; it takes a duration such as 15s, 1m 30s or 500ms, or \
             seconds such as 45 or 0.5, up to 365d"
        );
        assert_eq!(
            error(Setting::Signal, "SIGFOO"),
            "DRAINIT_SIGNAL=\"SIGFOO\": there is no signal \"SIGFOO\"; it takes a signal other than STOP, such as QUIT, \
             SIGQUIT, 3 or RTMIN+3"
        );
        assert!(error(Setting::Grace, "-5s").starts_with("DRAINIT_GRACE=\"-5s\": it is negative; it takes"));
        assert!(error(Setting::Margin, "99999999999999999999s").contains("it is too long"));
        assert!(error(Setting::StopTimeout, "0").contains("it leaves no time"));
        let binary = error(Setting::Delay, OsString::from_vec(b"1\xffs".to_vec()));
        assert!(binary.starts_with("DRAINIT_DELAY=\"1\\xFFs\": it is not UTF-8"), "{binary}");
    }

    #[test]
    fn an_error_stays_on_one_line() {
        assert!(!error(Setting::Delay, "1\n2").contains('\n'));
        assert!(!error(Setting::Rewrite, "a\nb:c").contains('\n'));
    }

    #[test]
    fn every_bad_setting_is_reported() {
        let bad = settings(&[(Setting::Delay, "x"), (Setting::Log, "loud"), (Setting::LogFormat, "xml")]);
        assert_eq!(Config::new(&bad).expect_err("bad settings").len(), 3);
    }

    #[test]
    fn lists_are_read_with_or_without_blanks() {
        let config = config(&[
            (Setting::StopSignals, "TERM, int"),
            (Setting::OkExit, "143 ,0"),
            (Setting::Rewrite, "HUP:0, 15:SIGQUIT"),
        ]);
        let int = Signal::new(2).unwrap();
        assert_eq!(config.stop_signals, [Signal::TERM, int].into_iter().collect());
        assert_eq!(config.ok_exit, [143, 0]);
        let hup = Signal::new(1).unwrap();
        assert_eq!((config.rewrites.apply(hup), config.rewrites.apply(Signal::TERM)), (None, Some(Signal::QUIT)));
        assert_eq!(config.rewrites.apply(int), Some(int));
    }

    #[test]
    fn lists_with_a_bad_item_are_refused() {
        for text in ["", ",", "TERM,", "TERM,,QUIT", "KILL", "STOP", "CHLD", "TERM QUIT", "0"] {
            assert!(!error(Setting::StopSignals, text).is_empty());
        }
        for text in ["HUP", "HUP:", ":HUP", "HUP:0:0", "HUP:65", "0:HUP", "KILL:TERM", "CHLD:0", "HUP:0,1:2"] {
            assert!(!error(Setting::Rewrite, text).is_empty());
        }
        for text in ["256", "-1", "+1", "", "1;2", "0x1"] {
            assert!(!error(Setting::OkExit, text).is_empty());
        }
    }

    #[test]
    fn the_graceful_signal_is_the_one_set_or_rewritten_or_received() {
        let set = config(&[(Setting::Signal, "INT"), (Setting::Rewrite, "TERM:QUIT")]);
        assert_eq!(set.graceful_signal(Signal::TERM), (Signal::new(2).unwrap(), true));
        let rewritten = config(&[(Setting::Rewrite, "TERM:QUIT")]);
        assert_eq!(rewritten.graceful_signal(Signal::TERM), (Signal::QUIT, true));
        assert_eq!(config(&[]).graceful_signal(Signal::TERM), (Signal::TERM, false));
    }

    #[test]
    fn settings_that_do_nothing_or_do_not_fit_are_warned_of() {
        let warnings = |given| Config::new(&settings(given)).expect("good settings").1;
        assert_eq!(
            warnings(&[(Setting::Delay, "30"), (Setting::Grace, "20"), (Setting::StopTimeout, "45")]),
            [
                "delay 30s + grace 20s + margin 1s = 51s do not fit into the stop timeout of 45s: the delay is cut to 24s"
            ]
        );
        assert!(warnings(&[(Setting::Margin, "1")])[0].contains("no effect without a stop timeout"));
        assert!(warnings(&[(Setting::Rewrite, "TERM:0")])[0].starts_with("SIGTERM begins a stop"));
        assert!(warnings(&[(Setting::Delay, "15"), (Setting::StopTimeout, "45")]).is_empty());
    }

    /// A list of `items` with commas and blanks between.
    fn list(items: impl IntoIterator<Item = String>, blank: &str) -> String {
        items.into_iter().collect::<Vec<_>>().join(&format!("{blank},{blank}"))
    }

    proptest! {
        #[test]
        fn a_list_of_signals_is_the_set_of_those_that_can_be_received(
            numbers in proptest::collection::vec(0i32..70, 1..6), blank in " ?",
        ) {
            let signals: Option<Vec<Signal>> = numbers.iter().map(|n| Signal::new(*n)).collect();
            let receivable = |signal: &Signal| ![9, 17, 19].contains(&signal.number());
            let expected = signals.filter(|all| all.iter().all(receivable)).map(SignalSet::from_iter);
            let text = list(numbers.iter().map(i32::to_string), &blank);
            prop_assert_eq!(stop_signals(&text).ok(), expected, "{}", text);
        }

        #[test]
        fn rewrite_pairs_mean_what_they_say_and_each_signal_only_once(
            pairs in proptest::collection::vec((0i32..70, 0i32..70), 1..6), blank in " ?",
        ) {
            let text = list(pairs.iter().map(|(from, to)| format!("{from}{blank}:{blank}{to}")), &blank);
            let froms: std::collections::BTreeSet<i32> = pairs.iter().map(|(from, _)| *from).collect();
            let is_good = froms.len() == pairs.len()
                && pairs.iter().all(|(from, to)| (1..65).contains(from) && ![9, 17, 19].contains(from) && *to < 65);
            let parsed = rewrites(&text);
            prop_assert_eq!(parsed.is_ok(), is_good, "{}", text);
            for signal in parsed.iter().flat_map(|_| Signal::all()) {
                let expected = pairs.iter().find(|(from, _)| *from == signal.number()).map_or(Some(signal), |(_, to)| Signal::new(*to));
                prop_assert_eq!(parsed.as_ref().unwrap().apply(signal), expected, "{}", text);
            }
        }

        #[test]
        fn exit_codes_are_numbers_of_one_byte(codes in proptest::collection::vec(0u32..300, 1..6), blank in " ?") {
            let text = list(codes.iter().map(u32::to_string), &blank);
            let expected: Option<Vec<u8>> = codes.iter().map(|code| u8::try_from(*code).ok()).collect();
            prop_assert_eq!(exit_codes(&text).ok(), expected, "{}", text);
        }

        #[test]
        fn what_is_between_the_commas_is_never_left_out(text in "[-+:,0-9A-Z ]{0,12}") {
            let count = text.split(',').count();
            prop_assert!(exit_codes(&text).is_ok_and(|codes| codes.len() == count) || exit_codes(&text).is_err());
            prop_assert!(rewrites(&text).is_ok_and(|pairs| pairs.0.len() == count) || rewrites(&text).is_err());
        }

        #[test]
        fn no_value_panics(index in 0..Setting::ALL.len(), value in "[-:,0-9A-Za-z+ ]{0,20}|\\PC*") {
            let _ = Config::new(&settings(&[(Setting::ALL[index], &value)]));
        }
    }
}
