//! The images that the tests run, each built once when the first test asks for it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use super::cli::{self, docker, repository};
use super::elf;
use super::rust_base;
use super::tree::Tree;
use crate::harness;

/// An architecture that drainit is built for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arch {
    Amd64,
    Arm64,
}

impl Arch {
    /// Its name in Docker.
    pub fn name(self) -> &'static str {
        match self {
            Arch::Amd64 => "amd64",
            Arch::Arm64 => "arm64",
        }
    }

    /// Its number in an ELF header.
    pub fn machine(self) -> u16 {
        match self {
            Arch::Amd64 => elf::X86_64,
            Arch::Arm64 => elf::AARCH64,
        }
    }
}

/// The images of one run of the tests. They go with the last test that holds them, whatever it was.
#[derive(Default)]
pub struct Images {
    drainit: OnceLock<String>,
    compiled: [OnceLock<String>; 2],
    rust_base: OnceLock<String>,
    app_base: OnceLock<String>,
    app: OnceLock<String>,
    nginx_base: OnceLock<String>,
    nginx: OnceLock<String>,
}

impl Images {
    /// drainit and nothing else, for `COPY --from`: the binary under test, if it can run in an image without a C library; one compiled from
    /// the same sources, if it cannot.
    pub fn drainit(&self) -> &str {
        if !elf::read(harness::drainit()).is_static {
            return self.compiled(Arch::Amd64);
        }
        once(&self.drainit, "drainit", |tag| {
            let tree = Tree::new();
            tree.copy_to(harness::drainit(), "/drainit".as_ref());
            tree.build(tag, "ENTRYPOINT [\"/drainit\"]\n");
        })
    }

    /// What docker/Dockerfile makes of these sources: amd64 with the builder that `docker build` is here, arm64 with BuildKit if there is one.
    pub fn compiled(&self, arch: Arch) -> &str {
        let base = once(&self.rust_base, "rust", |tag| rust_base::import(tag, &label()));
        once(&self.compiled[arch as usize], &format!("compiled-{}", arch.name()), |tag| {
            let mut build = match (arch, buildkit()) {
                (Arch::Arm64, Some(cli)) => {
                    let mut build = Command::new(cli);
                    build.env("DOCKER_BUILDKIT", "1").args(["build", "--platform", "linux/arm64"]);
                    build
                }
                _ => {
                    let mut build = Command::new("docker");
                    build.args(["build", "--force-rm", "--build-arg", &format!("TARGETARCH={}", arch.name())]);
                    build
                }
            };
            build.args(["--network", "none", "--build-arg", &format!("RUST_IMAGE={base}"), "--tag", tag]);
            build.arg("--file").arg(repository().join("docker/Dockerfile")).arg(repository());
            cli::output(&mut build);
        })
    }

    /// busybox, for services that are shell scripts.
    pub fn app_base(&self) -> &str {
        once(&self.app_base, "app-base", |tag| {
            let tree = Tree::new();
            tree.busybox();
            tree.build(tag, "CMD [\"sh\"]\n");
        })
    }

    /// The same with drainit, by docker/app/Dockerfile.
    pub fn app(&self) -> &str {
        once(&self.app, "app", |tag| {
            adopt("app", &[("APP_IMAGE", self.app_base()), ("DRAINIT_IMAGE", self.drainit())], tag);
        })
    }

    /// Debian's nginx in an image like the official one, with drainit, by docker/nginx/Dockerfile. It listens on `NGINX_PORT` of 127.0.0.1.
    pub fn nginx(&self) -> &str {
        let base = once(&self.nginx_base, "nginx-base", nginx_base);
        once(&self.nginx, "nginx", |tag| {
            adopt("nginx", &[("NGINX_IMAGE", base), ("DRAINIT_IMAGE", self.drainit())], tag);
        })
    }
}

impl Drop for Images {
    fn drop(&mut self) {
        let images = [&self.drainit, &self.rust_base, &self.app_base, &self.app, &self.nginx_base, &self.nginx];
        for tag in images.into_iter().chain(&self.compiled).filter_map(OnceLock::get) {
            quietly(&["rmi", "--force", tag]);
        }
        if self.rust_base.get().is_some() {
            // What the classic builder leaves of the stage that compiles.
            quietly(&["image", "prune", "--force", "--filter", &format!("label={}", label())]);
        }
    }
}

/// The image in `slot`, made by `build` under a tag of this run's own if it is not there yet.
fn once<'a>(slot: &'a OnceLock<String>, name: &str, build: impl FnOnce(&str)) -> &'a str {
    slot.get_or_init(|| {
        let tag = format!("drainit-test/{name}:{}", std::process::id());
        build(&tag);
        tag
    })
}

/// What this run's leftovers bear, and no other run's.
fn label() -> String {
    format!("drainit-test={}", std::process::id())
}

/// Builds docker/SERVICE/Dockerfile.
fn adopt(service: &str, images: &[(&str, &str)], tag: &str) {
    let directory = repository().join("docker").join(service);
    let mut args: Vec<String> = ["build", "--quiet", "--tag", tag].map(String::from).into();
    args.extend(images.iter().flat_map(|(name, image)| ["--build-arg".to_owned(), format!("{name}={image}")]));
    args.push(directory.to_str().expect("a path in UTF-8").to_owned());
    docker(args);
}

fn nginx_base(tag: &str) {
    /// What the limit in nginx.conf takes about four seconds over.
    const SLOW: usize = 100_000;
    let files = repository().join("tests/integration/docker/nginx");
    let tree = Tree::new();
    tree.busybox();
    tree.program("nginx");
    tree.write("/etc/nginx/nginx.conf", fs::read(files.join("nginx.conf")).expect("our file"), 0o644);
    tree.write("/docker-entrypoint.sh", fs::read(files.join("docker-entrypoint.sh")).expect("our file"), 0o755);
    // Started by root, nginx serves as nobody.
    tree.write("/etc/passwd", "root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n", 0o644);
    tree.write("/etc/group", "root:x:0:\nnogroup:x:65534:\n", 0o644);
    tree.write("/srv/index.html", "served\n", 0o644);
    tree.write("/srv/slow", vec![b'.'; SLOW], 0o644);
    let settings = "STOPSIGNAL SIGQUIT\n\
                    ENTRYPOINT [\"/docker-entrypoint.sh\"]\n\
                    CMD [\"nginx\", \"-g\", \"daemon off;\"]\n";
    tree.build(tag, settings);
}

/// A Docker CLI that builds with BuildKit. The newer ones need buildx for that, which is a package of its own; Debian's of old does not.
pub fn buildkit() -> Option<PathBuf> {
    let builds = |cli: &PathBuf| {
        let mut build = Command::new(cli);
        let output = build.env("DOCKER_BUILDKIT", "1").args(["build", "--help"]).output();
        output.is_ok_and(|output| output.status.success())
    };
    ["docker", "/usr/bin/docker"].map(PathBuf::from).into_iter().find(builds)
}

/// Runs `docker ARGS` where a panic would hide another.
fn quietly(args: &[&str]) {
    let output = Command::new("docker").args(args).output();
    if !output.as_ref().is_ok_and(|output| output.status.success()) {
        eprintln!("docker {args:?}: {output:?}");
    }
}
