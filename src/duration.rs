//! Durations as users write and read them.

use std::fmt;
use std::time::Duration;

use crate::setting::quoted;

/// The longest duration that is accepted. Nobody drains for longer, and deadlines cannot overflow.
pub const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// What a setting that is a duration takes.
pub const TAKES: &str = "a duration such as 15s, 1m 30s or 500ms, or seconds such as 45 or 0.5, up to 365d";

/// Why a text is no duration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DurationError {
    Negative,
    TooLong,
    UnknownUnit(String),
    Malformed,
}

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DurationError::Negative => f.write_str("it is negative"),
            DurationError::TooLong => f.write_str("it is too long"),
            DurationError::UnknownUnit(unit) => write!(f, "there is no unit {}", quoted(unit)),
            DurationError::Malformed => f.write_str("it is no duration"),
        }
    }
}

/// Reads `15s`, `1m 30s`, `500ms` (humantime's grammar), or a bare number of seconds: `45`, `0.5`.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let text = text.trim();
    if text.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.')) {
        return Err(DurationError::Negative);
    }
    let duration = match seconds(text) {
        Some(parsed) => parsed?,
        None => with_units(text)?,
    };
    if duration > LONGEST { Err(DurationError::TooLong) } else { Ok(duration) }
}

/// A bare number of seconds, whole or with a decimal fraction; `None` if the text is something else.
/// Digits below a nanosecond are cut.
fn seconds(text: &str) -> Option<Result<Duration, DurationError>> {
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let nanos: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let parsed = whole.parse().ok().zip(nanos.parse().ok()).map(|(secs, nanos)| Duration::new(secs, nanos));
    Some(parsed.ok_or(DurationError::TooLong))
}

fn with_units(text: &str) -> Result<Duration, DurationError> {
    // humantime adds its terms up to one Duration and panics when the last carry overflows (`18446744073709551615s 1000ms`).
    // Whole numbers of at most ten digits, and not many of them, stay far away from that even as years.
    if text.len() > 64 || longest_whole_number(text) > 10 {
        return Err(DurationError::TooLong);
    }
    humantime::parse_duration(text).map_err(|error| match error {
        humantime::DurationError::UnknownUnit { unit, .. } if !unit.is_empty() => DurationError::UnknownUnit(unit),
        humantime::DurationError::NumberOverflow => DurationError::TooLong,
        _ => DurationError::Malformed,
    })
}

/// The number of digits in the longest number in front of a decimal point.
fn longest_whole_number(text: &str) -> usize {
    text.split(|c: char| !c.is_ascii_digit() && c != '.' && !c.is_whitespace())
        .map(|number| number.split('.').next().unwrap_or(number).chars().filter(char::is_ascii_digit).count())
        .max()
        .unwrap_or(0)
}

/// A duration in seconds, as ECS counts: `15s`, `0.25s`, `14.375s`; to the millisecond, without needless digits.
#[derive(Clone, Copy)]
pub struct Seconds(pub Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, millis) = (self.0.as_secs(), self.0.subsec_millis());
        match millis {
            0 => write!(f, "{whole}s"),
            _ if millis % 100 == 0 => write!(f, "{whole}.{}s", millis / 100),
            _ if millis % 10 == 0 => write!(f, "{whole}.{:02}s", millis / 10),
            _ => write!(f, "{whole}.{millis:03}s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(text: &str) -> Result<u128, DurationError> {
        parse(text).map(|duration| duration.as_millis())
    }

    #[test]
    fn every_spelling_of_the_contract_is_accepted() {
        assert_eq!(ms("15s"), Ok(15_000));
        assert_eq!(ms("1m 30s"), Ok(90_000));
        assert_eq!(ms("1m30s"), Ok(90_000));
        assert_eq!(ms("500ms"), Ok(500));
        assert_eq!(ms("1.5s"), Ok(1_500));
        assert_eq!(ms("45"), Ok(45_000));
        assert_eq!(ms("0.5"), Ok(500));
        assert_eq!(ms("0.333333333333333"), Ok(333));
        assert_eq!(ms("0"), Ok(0));
        assert_eq!(ms(" 15s\n"), Ok(15_000));
        assert_eq!(ms("365d"), Ok(31_536_000_000));
    }

    #[test]
    fn what_is_no_duration_is_refused_with_its_reason() {
        for (text, unit) in [("15x", "x"), ("1e3", "e"), ("0x10", "x"), ("15S", "S")] {
            assert_eq!(ms(text), Err(DurationError::UnknownUnit(unit.into())), "{text}");
        }
        for text in ["-5s", "-5", "-0.5", "-.5"] {
            assert_eq!(ms(text), Err(DurationError::Negative), "{text}");
        }
        for text in ["366d", "99999999999999999999s", "99999999999999999999", "31536001", "18446744073709551615"] {
            assert_eq!(ms(text), Err(DurationError::TooLong), "{text}");
        }
        for text in ["", " ", "s", "1.", ".5", "+5", "--5", "5 5", "NaN", "inf", "1,5s", "15s;", "١٥"] {
            assert_eq!(ms(text), Err(DurationError::Malformed), "{text}");
        }
    }

    #[test]
    fn the_sum_that_overflows_humantime_is_an_error_and_no_panic() {
        for text in ["18446744073709551615s 1000ms", "307445734561825860m 15s 1000ms", "1 8446744073709551615s 1000ms"]
        {
            assert_eq!(ms(text), Err(DurationError::TooLong), "{text}");
        }
    }

    #[test]
    fn seconds_are_written_without_needless_digits() {
        let shown = |ms| Seconds(Duration::from_millis(ms)).to_string();
        assert_eq!(
            [shown(0), shown(15_000), shown(500), shown(14_250), shown(61_007)],
            ["0s", "15s", "0.5s", "14.25s", "61.007s"]
        );
    }

    /// The units of humantime's grammar that users write, in nanoseconds.
    const UNITS: [(&str, u64); 8] = [
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("min", 60_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
        ("d", 86_400_000_000_000),
    ];

    /// What a sum of whole numbers with units means, worked out in another way; `None` for any other text.
    fn model(text: &str) -> Option<u128> {
        let mut rest = text.trim();
        let mut sum = 0u128;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit())?;
            let number: u128 = rest[..digits].parse().ok()?;
            rest = rest[digits..].trim_start();
            let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
            let (_, unit) = UNITS.iter().find(|(name, _)| *name == &rest[..letters])?;
            sum += number * u128::from(*unit);
            rest = rest[letters..].trim_start();
        }
        (text.trim() != "").then_some(sum)
    }

    proptest! {
        #[test]
        fn terms_with_units_mean_their_sum_and_with_one_character_changed_nothing_else(
            terms in proptest::collection::vec((0u64..100_000, 0..UNITS.len(), " ?"), 1..5),
            place in any::<proptest::sample::Index>(),
            change in "[-+.,0-9a-z ]?",
        ) {
            let text: String = terms.iter().map(|(n, unit, blank)| format!("{n}{}{blank}", UNITS[*unit].0)).collect();
            let within = |nanos: &u128| *nanos <= LONGEST.as_nanos();
            prop_assert_eq!(parse(&text).ok().map(|d| d.as_nanos()), model(&text).filter(within), "{}", text);
            let place = place.index(text.len());
            let changed = format!("{}{change}{}", &text[..place], &text[place + 1..]);
            // A decimal point and a bare number are other grammars, and humantime has more units.
            let meant = model(&changed);
            if let (Ok(accepted), Some(meant)) = (parse(&changed), meant) {
                prop_assert_eq!(accepted.as_nanos(), meant, "{}", changed);
            }
            if meant.is_some_and(|nanos| within(&nanos)) {
                prop_assert!(parse(&changed).is_ok(), "{}", changed);
            }
            if changed.contains(['-', '+', ',']) {
                prop_assert!(parse(&changed).is_err(), "{}", changed);
            }
        }

        #[test]
        fn any_text_gives_a_bounded_duration_or_an_error(text in "[-+.0-9a-zµ ]{0,70}|\\PC*") {
            if let Ok(duration) = parse(&text) {
                prop_assert!(duration <= LONGEST);
            }
        }

        #[test]
        fn terms_near_every_limit_never_panic(
            terms in proptest::collection::vec((any::<u64>(), "(ns|us|ms|s|m|h|d|w|M|y|years) ?"), 1..5)
        ) {
            let text: String = terms.iter().map(|(n, unit)| format!("{n}{unit}")).collect();
            let _ = parse(&text);
        }

        #[test]
        fn what_is_shown_can_be_read_back(ms in 0u64..=31_536_000_000) {
            let shown = Seconds(Duration::from_millis(ms)).to_string();
            prop_assert_eq!(parse(&shown), Ok(Duration::from_millis(ms)));
        }

        #[test]
        fn a_bare_number_is_seconds(n in 0u64..100_000, f in 0u32..1000) {
            prop_assert_eq!(parse(&format!("{n}.{f:03}")), Ok(Duration::new(n, f * 1_000_000)));
        }
    }
}
