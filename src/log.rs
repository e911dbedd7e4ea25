//! Events as lines of text or JSON.

use std::fmt::Write;
use std::io::ErrorKind;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::sys::stderr::Stderr;

/// How much is said.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    Off,
    Error,
    Warn,
    Info,
    Debug,
}

impl Level {
    pub const ALL: [Level; 5] = [Level::Off, Level::Error, Level::Warn, Level::Info, Level::Debug];

    /// Its name in the settings and in the log.
    pub fn name(self) -> &'static str {
        match self {
            Level::Off => "off",
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
        }
    }
}

/// What a line looks like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    Text,
    Json,
}

/// The value of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value<'a> {
    Int(i64),
    Bool(bool),
    Text(&'a str),
    /// Nothing applies, such as the time of a kill that never comes.
    None,
}

impl From<Duration> for Value<'_> {
    /// Whole milliseconds.
    fn from(duration: Duration) -> Self {
        Value::Int(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
    }
}

impl From<usize> for Value<'_> {
    fn from(count: usize) -> Self {
        Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Value::Text(text)
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::None, Into::into)
    }
}

/// One event.
#[derive(Debug)]
pub struct Event<'a> {
    pub level: Level,
    pub name: &'static str,
    /// The event in one sentence, for people.
    pub message: &'a str,
    pub fields: &'a [(&'static str, Value<'a>)],
}

/// A line is written whole or not at all only up to PIPE_BUF bytes (4096 on Linux, pipe(7)); texts are cut to stay below it.
const LONGEST_MESSAGE: usize = 2000;
const LONGEST_FIELD: usize = 500;

impl Event<'_> {
    /// `drainit: stopped: …`, `drainit: warning: …`.
    pub fn to_text(&self) -> String {
        let mut line = String::from("drainit: ");
        line.push_str(match self.level {
            Level::Error => "error",
            Level::Warn => "warning",
            _ => self.name,
        });
        line.push_str(": ");
        push_printable(&mut line, self.message, LONGEST_MESSAGE);
        line.push('\n');
        line
    }

    /// One JSON object, at the wall-clock time `at`.
    pub fn to_json(&self, at: SystemTime) -> String {
        let mut line = String::from("{\"ts\":\"");
        let _ = write!(line, "{}", humantime::format_rfc3339_millis(representable(at)));
        for (key, text) in [("level", self.level.name()), ("event", self.name)] {
            let _ = write!(line, "\",\"{key}\":\"{text}");
        }
        line.push_str("\",\"msg\":\"");
        push_json(&mut line, self.message, LONGEST_MESSAGE);
        line.push('"');
        for (name, value) in self.fields {
            let _ = write!(line, ",\"{name}\":");
            match value {
                Value::Int(number) => _ = write!(line, "{number}"),
                Value::Bool(truth) => _ = write!(line, "{truth}"),
                Value::None => line.push_str("null"),
                Value::Text(text) => {
                    line.push('"');
                    push_json(&mut line, text, LONGEST_FIELD);
                    line.push('"');
                }
            }
        }
        line.push_str("}\n");
        line
    }
}

/// The nearest time that RFC 3339 and humantime, which panics beyond, can write: a machine's clock may be set to anything.
fn representable(at: SystemTime) -> SystemTime {
    const LAST_SECOND_OF_9999: Duration = Duration::from_secs(253_402_300_799);
    let since_1970 = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    UNIX_EPOCH + since_1970.min(LAST_SECOND_OF_9999)
}

/// Appends `text` with its control characters escaped, so that it stays on its line.
fn push_printable(line: &mut String, text: &str, limit: usize) {
    push_within(line, text, limit, |line, c| match c {
        c if c.is_control() => line.extend(c.escape_default()),
        c => line.push(c),
    });
}

/// Appends `text` as the inside of a JSON string.
fn push_json(line: &mut String, text: &str, limit: usize) {
    push_within(line, text, limit, |line, c| match c {
        '"' | '\\' => line.extend(['\\', c]),
        '\n' => line.push_str("\\n"),
        c if c.is_control() => _ = write!(line, "\\u{:04x}", u32::from(c)),
        c => line.push(c),
    });
}

/// Appends `text` through `push`, and cuts it when it has taken `limit` bytes of the line.
fn push_within(line: &mut String, text: &str, limit: usize, mut push: impl FnMut(&mut String, char)) {
    let end = line.len() + limit;
    for c in text.chars() {
        if line.len() >= end {
            line.push('…');
            return;
        }
        push(line, c);
    }
}

/// Writes the events of a chosen level and above, and counts the lines that nobody took.
#[derive(Debug)]
pub struct Log {
    level: Level,
    format: Format,
    /// Standard error, once there was something to say.
    stderr: Option<Stderr>,
    dropped: usize,
    /// Whether the last line was written in part.
    is_torn: bool,
}

impl Log {
    /// A log on standard error.
    pub fn new(level: Level, format: Format) -> Log {
        Log { level, format, stderr: None, dropped: 0, is_torn: false }
    }

    /// Writes `event` at once, or drops it: never blocks.
    pub fn write(&mut self, event: &Event<'_>) {
        if event.level > self.level {
            return;
        }
        let mut line = match self.format {
            Format::Text => event.to_text(),
            Format::Json => event.to_json(SystemTime::now()),
        };
        if self.is_torn {
            line.insert(0, '\n');
        }
        match self.stderr.get_or_insert_with(Stderr::new).write_line(line.as_bytes()) {
            Ok(()) => self.is_torn = false,
            Err(error) => {
                self.dropped = self.dropped.saturating_add(1);
                self.is_torn |= error.kind() == ErrorKind::WriteZero;
            }
        }
    }

    /// Says what the user should mend.
    pub fn warn(&mut self, message: &str) {
        self.write(&Event { level: Level::Warn, name: "warning", message, fields: &[] });
    }

    /// Says why drainit cannot do its work.
    pub fn error(&mut self, message: &str) {
        self.write(&Event { level: Level::Error, name: "error", message, fields: &[] });
    }

    /// How many lines were dropped so far.
    pub fn dropped(&self) -> usize {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event<'a>(message: &'a str, fields: &'a [(&'static str, Value<'a>)]) -> Event<'a> {
        Event { level: Level::Info, name: "stopped", message, fields }
    }

    #[test]
    fn json_has_the_contracts_keys_first() {
        let fields = [("clean", Value::Bool(true)), ("total_ms", Value::Int(5)), ("graceful_signal", Value::None)];
        let at = UNIX_EPOCH + Duration::from_millis(1_234);
        assert_eq!(
            event("it \"ended\"", &fields).to_json(at),
            "{\"ts\":\"1970-01-01T00:00:01.234Z\",\"level\":\"info\",\"event\":\"stopped\",\
             \"msg\":\"it \\\"ended\\\"\",\"clean\":true,\"total_ms\":5,\"graceful_signal\":null}\n"
        );
    }

    #[test]
    fn text_names_the_event_or_how_bad_it_is() {
        assert_eq!(event("fine", &[]).to_text(), "drainit: stopped: fine\n");
        let warning = Event { level: Level::Warn, name: "warning", message: "mend it", fields: &[] };
        assert_eq!(warning.to_text(), "drainit: warning: mend it\n");
    }

    #[test]
    fn a_clock_set_to_anything_is_written_as_something() {
        for at in [UNIX_EPOCH - Duration::from_secs(1), UNIX_EPOCH + Duration::from_secs(1 << 40)] {
            assert!(event("", &[]).to_json(at).starts_with("{\"ts\":\""));
        }
    }

    proptest! {
        #[test]
        fn a_line_is_one_line_of_valid_json_below_pipe_buf(message in any::<String>(), field in any::<String>(), times in 1..500usize) {
            let message = message.repeat(times);
            let field = field.repeat(times);
            let fields = [("command", Value::Text(&field)), ("n", Value::Int(i64::MIN)), ("m", Value::Int(i64::MIN))];
            let line = event(&message, &fields).to_json(UNIX_EPOCH);
            prop_assert!(line.len() < 4096);
            prop_assert_eq!(line.matches('\n').count(), 1);
            let parsed: serde_json::Value = serde_json::from_str(&line).expect("JSON");
            let shown = parsed["command"].as_str().unwrap();
            prop_assert!(shown == field || field.starts_with(shown.strip_suffix('…').unwrap()));
            let text = event(&message, &fields).to_text();
            prop_assert!(text.len() < 4096 && text.matches('\n').count() == 1);
        }
    }
}
