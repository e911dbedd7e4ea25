//! Containers in a real Docker Engine: the images of docker/, and what `docker stop`, `kill`, `pause`, `--init` and the like make of drainit.
//!
//! No image is pulled: the base images are made of this machine's files.

mod cli;
mod container;
mod dockerfile;
mod drain;
mod elf;
mod hostile;
mod images;
mod log;
mod rust_base;
mod stop;
mod surroundings;
mod terminal;
mod tree;

use std::sync::Arc;

use crate::harness::{Need, Test, test};
use images::{Arch, Images};
use surroundings::Way;

/// The tests that need a Docker Engine.
pub fn tests() -> Vec<Test> {
    let images = Arc::new(Images::default());
    let mut tests = Vec::new();
    let mut add = |name: String, more: &[Need], run: Box<dyn FnOnce(&Images) + Send>| {
        let images = Arc::clone(&images);
        let needs = [&[Need::Docker, Need::StaticBusybox, Need::MuslTargets], more].concat();
        tests.push(test(format!("docker::{name}"), &needs, move || run(&images)));
    };

    // First those that take longest.
    for arch in [Arch::Arm64, Arch::Amd64] {
        let emulator: &[Need] = if arch == Arch::Arm64 { &[Need::Qemu] } else { &[] };
        add(format!("image::{}", arch.name()), emulator, Box::new(move |images| dockerfile::image(images, arch)));
    }
    for way in Way::ALL {
        add(
            format!("nginx_drains_on_docker_stop::{}", way.name()),
            &[Need::Nginx],
            Box::new(move |images| drain::on_docker_stop(images, way)),
        );
    }
    add("nginx_drains_on_term_turned_into_quit".to_owned(), &[Need::Nginx], Box::new(drain::on_term_turned_into_quit));
    for way in Way::ALL {
        add(
            format!("a_deaf_command_is_killed_before_docker_does::{}", way.name()),
            &[],
            Box::new(move |images| stop::deaf_command_is_killed(images, way)),
        );
        add(
            format!("orphans_are_reaped::{}", way.name()),
            &[],
            Box::new(move |images| stop::orphans_are_reaped(images, way)),
        );
        add(
            format!("a_shell_at_a_terminal_has_job_control::{}", way.name()),
            &[],
            Box::new(move |images| terminal::shell(images, way)),
        );
    }
    add(
        "a_command_that_ends_during_the_delay_ends_the_container".to_owned(),
        &[],
        Box::new(stop::ends_during_the_delay),
    );
    add("a_second_stop_signal_ends_the_delay".to_owned(), &[], Box::new(stop::second_signal_ends_the_delay));
    add(
        "stopsignal_quit_does_not_core_dump_another_program".to_owned(),
        &[],
        Box::new(stop::stopsignal_of_the_base_image),
    );
    add("paused_across_the_delay::graceful".to_owned(), &[], Box::new(stop::paused_then_graceful));
    add("paused_across_the_delay::deaf".to_owned(), &[], Box::new(stop::paused_then_deaf));
    add("dockers_own_seccomp_profile".to_owned(), &[], Box::new(hostile::default_seccomp_profile));
    add("a_limit_of_one_process".to_owned(), &[], Box::new(hostile::limit_of_one_process));
    add(
        "everything_taken_away_at_once::graceful".to_owned(),
        &[],
        Box::new(hostile::everything_taken_away_then_graceful),
    );
    add("everything_taken_away_at_once::deaf".to_owned(), &[], Box::new(hostile::everything_taken_away_then_deaf));
    add("text_log".to_owned(), &[], Box::new(stop::text_log));
    tests
}
