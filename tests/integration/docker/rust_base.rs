//! The base image that docker/Dockerfile compiles in, made of the toolchain that compiled these tests.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cli;
use super::tree::Tree;

const CARGO_HOME: &str = "/usr/local/cargo";

/// Imports the image `tag`: cargo, rustc, a C linker for the build scripts, and the crates of Cargo.lock. Nothing in there asks the
/// network, so the build neither depends on it nor on how this machine reaches it. The image, and the layers built on it, bear `label`.
pub fn import(tag: &str, label: &str) {
    let sysroot = PathBuf::from(line_of(Command::new("rustc").args(["--print", "sysroot"])));
    let tree = Tree::new();
    tree.busybox();
    tree.write("/tmp/.keep", "", 0o644);
    c_linker(&tree);
    for program in ["bin/cargo", "bin/rustc"] {
        tree.libraries_of(&sysroot.join(program));
    }
    crates(&tree);

    // The toolchain, a gigabyte, goes from where it is straight into the engine. ldd has named its own libraries too, and the engine takes
    // no file twice.
    let inside = sysroot.strip_prefix("/").expect("rustc names an absolute path");
    fs::remove_dir_all(tree.root().join(inside)).expect("rustc loads libraries of its own");
    let mut tar: Vec<OsString> = ["--mode=a+rX", "-c"].map(OsString::from).into();
    tar.extend(["share", "libexec", "etc"].map(|needless| excluding(inside, needless)));
    tar.extend(["-C".into(), tree.root().into(), ".".into()]);
    tar.extend(["-C".into(), "/".into(), inside.into()]);
    let path = format!("{}/bin:/usr/sbin:/usr/bin:/sbin:/bin", sysroot.display());
    cli::tar_into_docker(
        tar,
        [
            "import",
            "--change",
            &format!("ENV PATH={path} CARGO_HOME={CARGO_HOME} CARGO_NET_OFFLINE=true"),
            "--change",
            &format!("LABEL {label}"),
            "-",
            tag,
        ],
    );
}

fn excluding(sysroot: &Path, directory: &str) -> OsString {
    let mut option = OsString::from("--exclude=");
    option.push(sysroot.join(directory));
    option
}

/// What rustc needs of a C toolchain to link a build script for its own machine: the linker itself comes with Rust.
fn c_linker(tree: &Tree) {
    tree.program("cc");
    for program in ["collect2", "lto-wrapper"] {
        let path = PathBuf::from(line_of(Command::new("cc").arg(format!("-print-prog-name={program}"))));
        tree.program(path.to_str().expect("a path in UTF-8"));
    }
    let files = [
        "liblto_plugin.so",
        "Scrt1.o",
        "crti.o",
        "crtn.o",
        "crtbeginS.o",
        "crtendS.o",
        "libc.so",
        "libc_nonshared.a",
        "libm.so",
        "libmvec.so.1",
        "libgcc.a",
        "libgcc_s.so",
        "libgcc_s.so.1",
        "libdl.a",
        "libpthread.a",
        "librt.a",
        "libutil.a",
    ];
    for file in files {
        let path = PathBuf::from(line_of(Command::new("cc").arg(format!("-print-file-name={file}"))));
        assert!(path.is_absolute(), "{file} is not installed: libc6-dev and gcc have it");
        tree.copy(&path);
    }
}

/// Copies what cargo has of the crates in Cargo.lock, after it has fetched what is not there yet.
fn crates(tree: &Tree) {
    let lock = cli::repository().join("Cargo.lock");
    let mut fetch = Command::new(env!("CARGO"));
    fetch.args(["fetch", "--locked", "--manifest-path"]).arg(cli::repository().join("Cargo.toml"));
    fetch.args(["--target", "x86_64-unknown-linux-musl", "--target", "aarch64-unknown-linux-musl"]);
    cli::output(&mut fetch);

    let lock = fs::read_to_string(&lock).unwrap_or_else(|e| panic!("{}: {e}", lock.display()));
    let mut wanted = HashSet::from(["config.json".to_owned()]);
    let mut name = "";
    for (key, value) in lock.lines().filter_map(|line| line.split_once(" = ")) {
        match key {
            "name" => {
                name = value.trim_matches('"');
                wanted.insert(name.to_owned());
            }
            "version" => drop(wanted.insert(format!("{name}-{}.crate", value.trim_matches('"')))),
            _ => {}
        }
    }
    let home = std::env::var_os("CARGO_HOME").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").expect("cargo has a home")).join(".cargo"),
        PathBuf::from,
    );
    // A mirror in place of crates.io has its own names for these directories, and is named in here.
    for config in ["config.toml", "config"].map(|file| home.join(file)).iter().filter(|file| file.is_file()) {
        tree.copy_to(config, &Path::new(CARGO_HOME).join(config.file_name().expect("a file")));
    }
    for part in ["registry/index", "registry/cache"] {
        copy_wanted(tree, &home, Path::new(part), &wanted);
    }
}

/// Copies the files below `directory` of cargo's home whose names are wanted.
fn copy_wanted(tree: &Tree, home: &Path, directory: &Path, wanted: &HashSet<String>) {
    let entries = fs::read_dir(home.join(directory)).unwrap_or_else(|e| panic!("{}: {e}", directory.display()));
    for entry in entries.map(|entry| entry.expect("cargo's home can be read")) {
        let path = directory.join(entry.file_name());
        if entry.file_type().expect("cargo's home can be read").is_dir() {
            copy_wanted(tree, home, &path, wanted);
        } else if entry.file_name().to_str().is_some_and(|name| wanted.contains(name)) {
            tree.copy_to(&entry.path(), &Path::new(CARGO_HOME).join(path));
        }
    }
}

/// The one line that `command` writes.
fn line_of(command: &mut Command) -> String {
    cli::output(command).trim_end().to_owned()
}
