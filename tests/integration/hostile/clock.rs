//! The wall clock set back during a stop.

use serde_json::Value;

use super::checks::{STOPPED, stops};
use crate::harness::{Need, Test, test};
use crate::sandbox::{Launch, Mode};

pub fn tests() -> Vec<Test> {
    vec![test("hostile::a_wall_clock_that_is_set_back_changes_no_deadline", &[Need::Tracer], turned_back)]
}

/// The machine's clock cannot be set for a test, and no namespace has one of its own. So drainit alone sees it go back, an hour at each look.
fn turned_back() {
    let ended = stops(Launch::new(Mode::Child).through(&["traced", "turn-back"]));
    assert_eq!(ended.event_names(), STOPPED, "{ended:?}");
    // It has seen that: the times of its lines go back.
    let times: Vec<Value> = STOPPED.map(|name| ended.event(name)["ts"].clone()).into();
    let times: Vec<&str> = times.iter().filter_map(Value::as_str).collect();
    assert!(times.is_sorted_by(|earlier, later| earlier > later), "{times:?}");
}
