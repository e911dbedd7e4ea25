//! nginx below drainit: it serves on during the delay, then finishes what it has begun.

use std::time::{Duration, Instant};

use super::container::{Container, PATIENCE};
use super::images::Images;
use super::stop::settings;
use super::surroundings::{Surroundings, Way};
use crate::harness::eventually;
use crate::load::{self, Download, Load};
use crate::port;

const DELAY: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_millis(10);

/// `docker stop` sends the `STOPSIGNAL` of nginx's image, SIGQUIT, which is nginx's graceful one.
pub fn on_docker_stop(images: &Images, way: Way) {
    drains(images, way, &[], "SIGQUIT", |nginx| nginx.stop(30));
}

/// A platform that always sends SIGTERM, which nginx takes as the order to drop everything.
pub fn on_term_turned_into_quit(images: &Images) {
    drains(images, Way::Plain, &[("SIGNAL", "QUIT")], "SIGTERM", |nginx| nginx.signal("TERM"));
}

fn drains(images: &Images, way: Way, more: &[(&str, &str)], received: &str, stop: impl FnOnce(&Container)) {
    let surroundings = Surroundings::new(way, images);
    let port = port::free();
    let mut options = surroundings.options(settings(&[("DELAY", "1s"), ("STOP_TIMEOUT", "25s")]));
    options.extend(settings(more));
    options.extend(["--network", "host", "--env"].map(String::from));
    options.push(format!("NGINX_PORT={port}"));
    let nginx = Container::start(images.nginx(), &options, &[]);
    nginx.wait_until("serves", || load::get(port, "/").outcome.is_ok());
    assert_eq!(nginx.wait_for_event("started").flag("pid1"), way.is_pid1());

    let load = Load::start(port, "/", INTERVAL);
    eventually("the load is on", PATIENCE, || load.served() >= 10);
    let slow = Download::start(port, "/slow");
    let asked = Instant::now();
    stop(&nginx);
    let code = nginx.exit_code();
    let report = load.finish();
    let slow = slow.finish();

    // The signal reaches drainit later than we asked for it, so nobody may have been turned away before this.
    let delay_ends = asked + DELAY;
    let failed = report.failed_by(delay_ends);
    assert!(failed.is_empty(), "{} requests failed during the delay, such as {:?}", failed.len(), failed[0]);
    let served = report.served_between(asked, delay_ends);
    assert!(served >= 50, "only {served} requests were made and served during the delay");
    assert!(report.refused() > 0, "the load did not outlast the server, so it may have missed failures");
    // What was in flight at the graceful signal arrived whole.
    assert!(slow.ended > delay_ends, "the slow response was not in flight at the graceful signal: {slow:?}");
    assert_eq!(slow.outcome.as_ref().map(Vec::len).map_err(ToString::to_string), Ok(100_000));

    assert_eq!(code, 0);
    let requested = nginx.wait_for_event("stop_requested");
    assert_eq!(requested.text("signal"), received);
    assert_eq!(requested.number("forward_in_ms"), 1000);
    let forwarded = nginx.wait_for_event("signal_forwarded");
    assert_eq!((forwarded.text("signal"), forwarded.text("cause")), ("SIGQUIT", "delay"));
    assert!(forwarded.number("after_ms") >= 1000, "{forwarded:?}");
    let stopped = nginx.wait_for_event("stopped");
    assert!(stopped.flag("clean"), "{stopped:?}");
    assert_eq!((stopped.number("exit_code"), stopped.number("killed")), (0, 0), "{stopped:?}");
    surroundings.assert_unharmed();
}
