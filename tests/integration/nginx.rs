//! Real nginx under drainit as PID 1: it serves on during the delay, then finishes what it has begun.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{Need, Test, eventually, test};
use crate::load::{self, Download, Load};
use crate::port;
use crate::sandbox::{Launch, Mode, PATIENCE, descendants, status};

pub fn tests() -> Vec<Test> {
    let needs = [Need::PidNamespace, Need::Nginx];
    vec![
        test("nginx::on_sigquit_no_request_fails_during_the_delay", &needs, || drains(libc::SIGQUIT, "")),
        test("nginx::on_sigterm_with_signal_quit_no_request_fails_during_the_delay", &needs, || {
            drains(libc::SIGTERM, "QUIT")
        }),
        test("nginx::without_a_delay_requests_fail_at_once", &needs, fails_without_delay),
    ]
}

const DELAY: Duration = Duration::from_millis(700);
const SLOW_BYTES: usize = 100_000;

/// A configuration with everything in `folder`, and a file that takes longer than the delay to send.
fn configure(folder: &Path, port: u16) -> String {
    let root = folder.join("html");
    std::fs::create_dir(&root).expect("a folder");
    std::fs::write(root.join("index.html"), "hello\n").expect("a file");
    std::fs::write(root.join("slow"), vec![b'x'; SLOW_BYTES]).expect("a file");
    let path = folder.join("nginx.conf");
    let dir = folder.display();
    let config = format!(
        // Without root's privileges, in a user namespace, there is nobody else for the workers to be.
        "user root;\n\
         worker_processes 2;\n\
         pid {dir}/nginx.pid;\n\
         error_log stderr warn;\n\
         events {{ worker_connections 512; }}\n\
         http {{\n\
             access_log off;\n\
             client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi;\n\
             uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;\n\
             server {{\n\
                 listen 127.0.0.1:{port};\n\
                 root {root};\n\
                 location /slow {{ limit_rate 60k; }}\n\
             }}\n\
         }}\n",
        root = root.display()
    );
    std::fs::write(&path, config).expect("a configuration");
    path.display().to_string()
}

fn drains(signal: i32, graceful: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let port = port::free();
    let config = configure(folder.path(), port);
    let running = Launch::new(Mode::Pid1)
        .env("DRAINIT_DELAY", "700ms")
        .env("DRAINIT_STOP_TIMEOUT", "20")
        .env("DRAINIT_SIGNAL", graceful)
        .args(["--", "nginx", "-c", &config, "-g", "daemon off;"])
        .start();
    eventually("nginx to serve", PATIENCE, || load::get(port, "/").outcome.is_ok());
    eventually("a master and two workers", PATIENCE, || descendants(running.pid()).len() == 3);
    let tree = descendants(running.pid());

    let load = Load::start(port, "/", Duration::from_millis(5));
    eventually("the load to be on", PATIENCE, || load.served() >= 20);
    let slow = Download::start(port, "/slow");
    let signalled = Instant::now();
    running.signal(signal);
    let ended = running.wait();
    let report = load.finish();
    let slow = slow.finish();

    let failed = report.failed_by(signalled + DELAY);
    assert!(failed.is_empty(), "{} requests failed during the delay, such as {:?}", failed.len(), failed[0]);
    assert!(report.served_between(signalled, signalled + DELAY) >= 50, "the load went on during the delay");
    assert!(report.refused() > 0, "the load outlasted the server, so failures would have been seen");
    assert!(slow.ended > signalled + DELAY, "the slow response was in flight at the graceful signal");
    assert_eq!(slow.outcome.as_ref().map(Vec::len).map_err(ToString::to_string), Ok(SLOW_BYTES), "it arrived whole");

    assert_eq!(ended.code(), 0, "{ended:?}");
    assert_eq!(ended.event("signal_forwarded")["signal"], "SIGQUIT");
    let stopped = ended.event("stopped");
    assert_eq!([&stopped["clean"], &stopped["killed"]], [&json!(true), &json!(0)], "{stopped}");
    assert!(!tree.iter().any(|pid| status(&pid.to_string(), "Name").is_some()), "no process is left");
}

/// What the delay is for: without it, requests are refused as soon as the signal is there. So the test above can fail.
fn fails_without_delay() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let port = port::free();
    let config = configure(folder.path(), port);
    let running = Launch::new(Mode::Pid1).args(["--", "nginx", "-c", &config, "-g", "daemon off;"]).start();
    eventually("nginx to serve", PATIENCE, || load::get(port, "/").outcome.is_ok());
    let load = Load::start(port, "/", Duration::from_millis(5));
    let slow = Download::start(port, "/slow");
    let signalled = Instant::now();
    running.signal(libc::SIGQUIT);
    // The slow response keeps nginx for longer than the delay would have been.
    assert!(slow.finish().outcome.is_ok());
    assert_eq!(running.wait().code(), 0);
    assert!(!load.finish().failed_by(signalled + DELAY).is_empty());
}
