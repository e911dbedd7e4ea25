//! Signals as numbers, with their names for people.
//!
//! A signal is a number from 1 to 64 here, as it is in the kernel. The C libraries keep a few real-time signals for themselves and hide them
//! from their sets; an init must pass those on as well, so the sets are the kernel's own: one bit for each signal.

use std::fmt;
use std::str::FromStr;

use nix::sys::signal::Signal as Name;

/// The first real-time signal, as users count: glibc's and Docker's `RTMIN`. (musl calls 35 `SIGRTMIN`, and the kernel 32.)
const RTMIN: u8 = 34;
/// The first real-time signal, as the kernel counts.
const FIRST_REAL_TIME: u8 = 32;
/// The last signal that Linux has.
const MAX: u8 = 64;

/// A signal's number, 1 to 64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signal(u8);

impl Signal {
    pub const QUIT: Signal = Signal(libc::SIGQUIT as u8);
    pub const KILL: Signal = Signal(libc::SIGKILL as u8);
    pub const TERM: Signal = Signal(libc::SIGTERM as u8);
    pub const CHLD: Signal = Signal(libc::SIGCHLD as u8);
    pub const CONT: Signal = Signal(libc::SIGCONT as u8);
    pub const STOP: Signal = Signal(libc::SIGSTOP as u8);
    pub const TSTP: Signal = Signal(libc::SIGTSTP as u8);
    pub const TTIN: Signal = Signal(libc::SIGTTIN as u8);
    pub const TTOU: Signal = Signal(libc::SIGTTOU as u8);

    /// The signal with this number, if there is one.
    pub fn new(number: i32) -> Option<Signal> {
        u8::try_from(number).ok().filter(|n| (1..=MAX).contains(n)).map(Signal)
    }

    /// Its number, as the kernel knows it.
    pub fn number(self) -> i32 {
        i32::from(self.0)
    }

    /// All of them, in order.
    pub fn all() -> impl Iterator<Item = Signal> {
        (1..=MAX).map(Signal)
    }

    /// Whether it is one of those of which each instance is queued.
    pub fn is_real_time(self) -> bool {
        self.0 >= FIRST_REAL_TIME
    }

    /// Whether a process can catch or block it: SIGKILL and SIGSTOP it cannot, signal(7).
    pub fn can_be_caught(self) -> bool {
        self != Signal::KILL && self != Signal::STOP
    }
}

/// `SIGTERM`, `SIGRTMIN+3`; `SIG32` for the two that have no name anywhere.
impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Name::try_from(self.number()) {
            Ok(name) => f.write_str(name.as_str()),
            Err(_) if self.0 < RTMIN => write!(f, "SIG{}", self.0),
            Err(_) if self.0 == RTMIN => f.write_str("SIGRTMIN"),
            Err(_) => write!(f, "SIGRTMIN+{}", self.0 - RTMIN),
        }
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text names no signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownSignal;

/// `QUIT`, `SIGQUIT`, `quit`, `3`, `RTMIN+3`, `SIGRTMIN+3`, `RTMAX-1`.
impl FromStr for Signal {
    type Err = UnknownSignal;

    fn from_str(text: &str) -> Result<Signal, UnknownSignal> {
        let name = text.to_ascii_uppercase();
        if name.bytes().all(|b| b.is_ascii_digit()) {
            return name.parse().ok().and_then(Signal::new).ok_or(UnknownSignal);
        }
        let name = name.strip_prefix("SIG").unwrap_or(&name);
        // Other names for the same numbers, signal(7).
        let name = match name {
            "CLD" => "CHLD",
            "IOT" => "ABRT",
            "POLL" => "IO",
            other => other,
        };
        if let Some(offset) = name.strip_prefix("RTMIN") {
            return real_time(RTMIN, offset, '+');
        }
        if let Some(offset) = name.strip_prefix("RTMAX") {
            return real_time(MAX, offset, '-');
        }
        let full = format!("SIG{name}");
        Signal::all()
            .find(|s| Name::try_from(s.number()).is_ok_and(|known| known.as_str() == full))
            .ok_or(UnknownSignal)
    }
}

/// The real-time signal `offset` away from `base`, where `offset` is empty or `sign` and digits.
fn real_time(base: u8, offset: &str, sign: char) -> Result<Signal, UnknownSignal> {
    if offset.is_empty() {
        return Ok(Signal(base));
    }
    let digits = offset.strip_prefix(sign).filter(|d| d.bytes().all(|b| b.is_ascii_digit())).ok_or(UnknownSignal)?;
    let distance: u8 = digits.parse().map_err(|_| UnknownSignal)?;
    let number = if sign == '+' { base.checked_add(distance) } else { base.checked_sub(distance) };
    number.filter(|n| (RTMIN..=MAX).contains(n)).map(Signal).ok_or(UnknownSignal)
}

/// A set of signals in the kernel's layout: bit n-1 stands for signal n.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct SignalSet(u64);

impl SignalSet {
    pub const EMPTY: SignalSet = SignalSet(0);
    pub const ALL: SignalSet = SignalSet(u64::MAX);
    /// All that are no real-time signals.
    pub const STANDARD: SignalSet = SignalSet((1 << (FIRST_REAL_TIME - 1)) - 1);

    /// The set with these bits.
    pub const fn from_bits(bits: u64) -> SignalSet {
        SignalSet(bits)
    }

    /// Its bits.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether `signal` is in it.
    pub fn contains(self, signal: Signal) -> bool {
        self.0 & SignalSet::bit(signal) != 0
    }

    /// The set with `signal` in it.
    pub fn with(self, signal: Signal) -> SignalSet {
        SignalSet(self.0 | SignalSet::bit(signal))
    }

    /// The set with `signal` not in it.
    pub fn without(self, signal: Signal) -> SignalSet {
        SignalSet(self.0 & !SignalSet::bit(signal))
    }

    /// Those of its members whose numbers are higher than that of `signal`.
    pub fn above(self, signal: Signal) -> SignalSet {
        SignalSet(self.0 & !(SignalSet::bit(signal) | (SignalSet::bit(signal) - 1)))
    }

    /// Its members, in order.
    pub fn iter(self) -> impl Iterator<Item = Signal> {
        Signal::all().filter(move |s| self.contains(*s))
    }

    fn bit(signal: Signal) -> u64 {
        1 << (signal.0 - 1)
    }
}

impl FromIterator<Signal> for SignalSet {
    fn from_iter<I: IntoIterator<Item = Signal>>(signals: I) -> SignalSet {
        signals.into_iter().fold(SignalSet::EMPTY, SignalSet::with)
    }
}

impl fmt::Debug for SignalSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// `SIGTERM or SIGQUIT`.
impl fmt::Display for SignalSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, signal) in self.iter().enumerate() {
            write!(f, "{}{signal}", if i == 0 { "" } else { " or " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn parse(text: &str) -> Option<i32> {
        text.parse().ok().map(Signal::number)
    }

    #[test]
    fn every_spelling_of_the_contract_is_accepted() {
        for text in ["QUIT", "SIGQUIT", "quit", "sigquit", "3"] {
            assert_eq!(parse(text), Some(3), "{text}");
        }
        for text in ["RTMIN+3", "SIGRTMIN+3", "rtmin+3", "37"] {
            assert_eq!(parse(text), Some(37), "{text}");
        }
        assert_eq!(parse("RTMIN"), Some(34));
        assert_eq!(parse("RTMIN+30"), Some(64));
        assert_eq!(parse("RTMAX"), Some(64));
        assert_eq!(parse("SIGRTMAX-30"), Some(34));
        assert_eq!((parse("CLD"), parse("IOT"), parse("POLL"), parse("PWR")), (Some(17), Some(6), Some(29), Some(30)));
    }

    #[test]
    fn what_names_no_signal_is_refused() {
        for text in [
            "",
            "0",
            "65",
            "-1",
            "+3",
            "SIGFOO",
            "SIG",
            "SIGSIGTERM",
            "TERM ",
            " TERM",
            "RTMIN+",
            "RTMIN+31",
            "RTMIN-1",
            "RTMIN++1",
            "RTMIN+-1",
            "RTMAX+1",
            "RTMAX-31",
            "RTMAX-",
            "99999999999",
            "256",
            "SIG9",
            "TERM\0",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn names_are_those_that_docker_and_ecs_use() {
        let name = |n| Signal::new(n).unwrap().to_string();
        assert_eq!(name(15), "SIGTERM");
        assert_eq!(name(34), "SIGRTMIN");
        assert_eq!(name(37), "SIGRTMIN+3");
        assert_eq!(name(64), "SIGRTMIN+30");
        assert_eq!(name(32), "SIG32");
    }

    #[test]
    fn every_named_signal_survives_a_round_trip() {
        for signal in Signal::all().filter(|s| !matches!(s.number(), 32 | 33)) {
            assert_eq!(signal.to_string().parse(), Ok(signal));
        }
    }

    #[test]
    fn a_set_has_the_kernel_layout() {
        let set: SignalSet = [Signal::TERM, Signal(64)].into_iter().collect();
        assert_eq!(set.bits(), 1 << 14 | 1 << 63);
        assert_eq!(set.iter().collect::<Vec<_>>(), [Signal::TERM, Signal(64)]);
        assert_eq!(SignalSet::ALL.iter().count(), 64);
        assert!(SignalSet::STANDARD.iter().all(|s| !s.is_real_time()) && SignalSet::STANDARD.iter().count() == 31);
        assert_eq!(SignalSet::ALL.above(Signal(62)).iter().collect::<Vec<_>>(), [Signal(63), Signal(64)]);
        assert_eq!(
            (SignalSet::ALL.above(Signal(64)), SignalSet::ALL.above(Signal(1)).iter().count()),
            (SignalSet::EMPTY, 63)
        );
        assert_eq!([Signal::QUIT, Signal::TERM].into_iter().collect::<SignalSet>().to_string(), "SIGQUIT or SIGTERM");
    }

    /// Every name that is accepted, in capitals, with its number.
    fn names() -> BTreeMap<String, i32> {
        let mut names: Vec<(String, i32)> =
            Name::iterator().map(|name| (name.as_str().to_owned(), name as i32)).collect();
        names.extend(
            [("SIGCLD", 17), ("SIGIOT", 6), ("SIGPOLL", 29), ("SIGRTMIN", 34), ("SIGRTMAX", 64)]
                .map(|(name, n)| (name.into(), n)),
        );
        names.extend((0..=30).flat_map(|n| [(format!("SIGRTMIN+{n}"), 34 + n), (format!("SIGRTMAX-{n}"), 64 - n)]));
        let short = names.clone().into_iter().map(|(name, n)| (name["SIG".len()..].to_owned(), n));
        names.extend(short.collect::<Vec<_>>());
        names.into_iter().chain((1..=64).map(|n| (n.to_string(), n))).collect()
    }

    #[test]
    fn every_name_is_accepted_in_any_case() {
        for (name, number) in names() {
            assert_eq!((parse(&name), parse(&name.to_lowercase())), (Some(number), Some(number)), "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_other_text_is_a_signal(text in "\\PC*|(SIG)?(RTM(IN|AX))?[-+A-Z0-9]{0,6}") {
            // A number may have zeros in front of it, and so may an offset.
            prop_assume!(!text.contains('0'));
            prop_assert_eq!(parse(&text), names().get(&text.to_ascii_uppercase()).copied());
        }

        #[test]
        fn a_name_with_one_character_changed_is_another_name_or_none(
            name in any::<proptest::sample::Index>(), place in any::<proptest::sample::Index>(), change in "[-+A-Z1-9]?",
        ) {
            let names = names();
            let (name, _) = names.iter().nth(name.index(names.len())).unwrap();
            let place = place.index(name.len());
            let changed = format!("{}{change}{}", &name[..place], &name[place + 1..]);
            prop_assume!(!changed.contains('0'));
            prop_assert_eq!(parse(&changed), names.get(&changed).copied(), "{}", changed);
        }

        #[test]
        fn only_a_number_in_range_is_a_signal(n in any::<i32>()) {
            prop_assert_eq!(n.to_string().parse::<Signal>().is_ok(), (1..=64).contains(&n));
        }
    }
}
