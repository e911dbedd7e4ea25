//! drainit's JSON log, read back.

use serde_json::{Map, Value};

/// One line of the log.
#[derive(Clone, Debug)]
pub struct Event(Map<String, Value>);

impl Event {
    /// The events in `stderr`. Other programs write there too; but whatever begins like JSON has to be an event.
    pub fn parse_all(stderr: &str) -> Vec<Event> {
        let lines = stderr.lines().filter(|line| line.starts_with('{'));
        lines.map(|line| Event(serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))).collect()
    }

    pub fn name(&self) -> &str {
        self.text("event")
    }

    pub fn text(&self, field: &str) -> &str {
        self.field(field).as_str().unwrap_or_else(|| panic!("{field} is no text: {self:?}"))
    }

    pub fn number(&self, field: &str) -> i64 {
        self.field(field).as_i64().unwrap_or_else(|| panic!("{field} is no whole number: {self:?}"))
    }

    pub fn flag(&self, field: &str) -> bool {
        self.field(field).as_bool().unwrap_or_else(|| panic!("{field} is neither true nor false: {self:?}"))
    }

    fn field(&self, field: &str) -> &Value {
        self.0.get(field).unwrap_or_else(|| panic!("no {field}: {self:?}"))
    }
}

/// What the log tells of a stop, event by event.
pub fn story(events: &[Event]) -> Vec<&str> {
    const STORY: [&str; 5] = ["stop_requested", "signal_forwarded", "killed", "stopped", "exited"];
    events.iter().map(Event::name).filter(|name| STORY.contains(name)).collect()
}
