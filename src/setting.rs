//! The settings: each has a flag and a variable, and is read from either.

use std::ffi::{OsStr, OsString};
use std::fmt;

/// One setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Setting {
    Delay,
    Grace,
    StopTimeout,
    Margin,
    Signal,
    StopSignals,
    ForwardTo,
    Rewrite,
    OkExit,
    Log,
    LogFormat,
}

/// Variables of the contract that this version does not act on yet: they deserve a better word than "unknown".
pub const PLANNED_VARIABLES: [&str; 7] = [
    "DRAINIT_UNTIL_QUIET",
    "DRAINIT_PORTS",
    "DRAINIT_PRE_STOP",
    "DRAINIT_DRAIN_FILE",
    "DRAINIT_WAIT_FOR",
    "DRAINIT_WAIT_TIMEOUT",
    "DRAINIT_WAIT_INTERVAL",
];

impl Setting {
    pub const ALL: [Setting; 11] = [
        Setting::Delay,
        Setting::Grace,
        Setting::StopTimeout,
        Setting::Margin,
        Setting::Signal,
        Setting::StopSignals,
        Setting::ForwardTo,
        Setting::Rewrite,
        Setting::OkExit,
        Setting::Log,
        Setting::LogFormat,
    ];

    /// Its flag, without the dashes.
    pub fn flag(self) -> &'static str {
        match self {
            Setting::Delay => "delay",
            Setting::Grace => "grace",
            Setting::StopTimeout => "stop-timeout",
            Setting::Margin => "margin",
            Setting::Signal => "signal",
            Setting::StopSignals => "stop-signals",
            Setting::ForwardTo => "forward-to",
            Setting::Rewrite => "rewrite",
            Setting::OkExit => "ok-exit",
            Setting::Log => "log",
            Setting::LogFormat => "log-format",
        }
    }

    /// Its variable.
    pub fn variable(self) -> &'static str {
        match self {
            Setting::Delay => "DRAINIT_DELAY",
            Setting::Grace => "DRAINIT_GRACE",
            Setting::StopTimeout => "DRAINIT_STOP_TIMEOUT",
            Setting::Margin => "DRAINIT_MARGIN",
            Setting::Signal => "DRAINIT_SIGNAL",
            Setting::StopSignals => "DRAINIT_STOP_SIGNALS",
            Setting::ForwardTo => "DRAINIT_FORWARD_TO",
            Setting::Rewrite => "DRAINIT_REWRITE",
            Setting::OkExit => "DRAINIT_OK_EXIT",
            Setting::Log => "DRAINIT_LOG",
            Setting::LogFormat => "DRAINIT_LOG_FORMAT",
        }
    }

    /// The name of its value in the help.
    pub fn value_name(self) -> &'static str {
        match self {
            Setting::Delay | Setting::Grace | Setting::StopTimeout | Setting::Margin => "D",
            Setting::Signal => "SIG",
            Setting::StopSignals | Setting::Rewrite | Setting::OkExit => "LIST",
            Setting::ForwardTo => "child|group|all",
            Setting::Log => "LEVEL",
            Setting::LogFormat => "text|json",
        }
    }

    /// Whether it takes a list. Its flag may then be given several times, as dumb-init's `--rewrite`.
    pub fn is_list(self) -> bool {
        matches!(self, Setting::StopSignals | Setting::Rewrite | Setting::OkExit)
    }

    /// What it is for, in a line of the help.
    pub fn help(self) -> &'static str {
        match self {
            Setting::Delay => {
                "Time between the stop signal and the graceful signal; the command serves on [default: 0s]"
            }
            Setting::Grace => {
                "Time the command gets after the graceful signal, then SIGKILL [default: the rest of the budget, at \
                 least a tenth of it]"
            }
            Setting::StopTimeout => {
                "The platform's budget from its stop signal to its SIGKILL, such as ECS's stopTimeout [default: none]"
            }
            Setting::Margin => "Be done this long before the budget ends [default: 1s, at most a tenth of the budget]",
            Setting::Signal => "The graceful signal [default: the stop signal that was received]",
            Setting::StopSignals => "The signals that begin a stop [default: TERM,QUIT]",
            Setting::ForwardTo => {
                "Whom signals go to and a stop waits for: the command, its process group, every descendant \
                 [default: child]"
            }
            Setting::Rewrite => "FROM:TO pairs for signals that pass through; HUP:0 drops SIGHUP [default: none]",
            Setting::OkExit => "Exit codes to turn into 0, such as 143 [default: none]",
            Setting::Log => "off, error, warn, info or debug [default: info]",
            Setting::LogFormat => "One event a line on stderr, as text or JSON [default: text]",
        }
    }
}

/// Where a value comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    Flag,
    Variable,
}

/// A value as it was given, not yet understood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Given {
    pub setting: Setting,
    pub source: Source,
    pub value: OsString,
}

/// `--delay "15x"` or `DRAINIT_DELAY="15x"`, on one line whatever the value is.
impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.source {
            Source::Flag => write!(f, "--{} {}", self.setting.flag(), quoted(&self.value)),
            Source::Variable => write!(f, "{}={}", self.setting.variable(), quoted(&self.value)),
        }
    }
}

/// A value in quotes, escaped, and cut where it is so long that it would hide what is said of it.
pub fn quoted(value: &(impl fmt::Debug + ?Sized)) -> String {
    const LONGEST: usize = 200;
    let mut text = format!("{value:?}");
    if let Some((cut, _)) = text.char_indices().nth(LONGEST) {
        text.truncate(cut);
        text.push('…');
    }
    text
}

/// All values that were given. A flag wins over its variable; a variable that is set but empty counts as unset.
#[derive(Clone, Default, Debug)]
pub struct Settings(Vec<Given>);

impl Settings {
    /// Merges flags with the variables that `variable` looks up.
    pub fn new<'e>(flags: Vec<Given>, variable: impl Fn(&str) -> Option<&'e OsStr>) -> Settings {
        let mut given = flags;
        for setting in Setting::ALL {
            let value = variable(setting.variable()).filter(|value| !value.is_empty());
            if let Some(value) = value.filter(|_| !given.iter().any(|g| g.setting == setting)) {
                given.push(Given { setting, source: Source::Variable, value: value.to_owned() });
            }
        }
        Settings(given)
    }

    /// The value of `setting`, if it was given.
    pub fn get(&self, setting: Setting) -> Option<&Given> {
        self.0.iter().find(|given| given.setting == setting)
    }

    /// Whether nothing was set at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The name among `known` that is spelled most like `name`.
pub fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    known.into_iter().min_by_key(|candidate| strsim::levenshtein(name, candidate))
}

/// Whether `name` is probably `known` misspelt.
pub fn is_near(name: &str, known: &str) -> bool {
    let distance = strsim::levenshtein(name, known);
    distance <= (known.len() / 3).max(2) && distance < name.len()
}

/// What to say of the variable `name`, which begins with `DRAINIT_`, if it is none that drainit reads.
pub fn complaint(name: &OsStr) -> Option<String> {
    let text = name.to_string_lossy();
    if Setting::ALL.iter().any(|s| s.variable() == text) {
        return None;
    }
    if PLANNED_VARIABLES.contains(&&*text) {
        return Some(format!("{text} is not supported by this version of drainit and has no effect"));
    }
    if text == "DRAINIT_PLAN" {
        return Some("DRAINIT_PLAN has no effect; --plan has no variable".to_owned());
    }
    let nearest = nearest(&text, Setting::ALL.map(Setting::variable)).unwrap_or_default();
    Some(format!("{} is no variable of drainit and has no effect; did you mean {nearest}?", quoted(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(flags: &[(Setting, &str)], env: &'static [(&'static str, &'static str)]) -> Settings {
        let flags = flags
            .iter()
            .map(|(setting, value)| Given { setting: *setting, source: Source::Flag, value: value.into() })
            .collect();
        Settings::new(flags, |name| env.iter().find(|(n, _)| *n == name).map(|(_, v)| OsStr::new(*v)))
    }

    #[test]
    fn the_flag_wins_over_the_variable() {
        let both = settings(&[(Setting::Delay, "1")], &[("DRAINIT_DELAY", "2"), ("DRAINIT_GRACE", "3")]);
        assert_eq!(both.get(Setting::Delay).unwrap().to_string(), "--delay \"1\"");
        assert_eq!(both.get(Setting::Grace).unwrap().to_string(), "DRAINIT_GRACE=\"3\"");
    }

    #[test]
    fn a_variable_that_is_set_but_empty_counts_as_unset() {
        assert!(settings(&[], &[("DRAINIT_DELAY", "")]).is_empty());
    }

    #[test]
    fn a_misspelt_variable_is_told_the_nearest_name() {
        let complaint = |name: &str| super::complaint(OsStr::new(name));
        assert!(complaint("DRAINIT_DELY").unwrap().ends_with("did you mean DRAINIT_DELAY?"));
        assert!(complaint("DRAINIT_STOPTIMEOUT").unwrap().ends_with("did you mean DRAINIT_STOP_TIMEOUT?"));
        assert!(complaint("DRAINIT_FORWARD").unwrap().ends_with("did you mean DRAINIT_FORWARD_TO?"));
        assert!(complaint("DRAINIT_PRE_STOP").unwrap().contains("not supported by this version"));
        for name in Setting::ALL.map(Setting::variable) {
            assert_eq!(complaint(name), None);
        }
    }

    #[test]
    fn the_readme_has_a_row_for_each_setting() {
        for setting in Setting::ALL {
            let row = |line: &str| {
                line.starts_with(&format!("| `--{} ", setting.flag()))
                    && line.contains(&format!("| `{}` |", setting.variable()))
            };
            assert!(include_str!("../README.md").lines().any(row), "{setting:?}");
        }
    }

    #[test]
    fn flag_and_variable_of_a_setting_have_the_same_name() {
        for setting in Setting::ALL {
            let name = setting.flag().replace('-', "_").to_uppercase();
            assert_eq!(setting.variable(), format!("DRAINIT_{name}"));
        }
    }
}
