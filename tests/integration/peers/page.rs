//! The table in `docs/peers.md`, made from what is declared beside the behaviours.

use std::fmt::Write;
use std::path::Path;

use super::{Behaviour, Init, behaviours};

const BEGIN: &str =
    "<!-- The tests make this: DRAINIT_TEST_WRITE=1 cargo test --test integration -- peers::the_page -->\n";
const END: &str = "<!-- end -->\n";

pub fn is_up_to_date() {
    let is_among_the_failing = |behaviour: &Behaviour| behaviour.failure(Init::Drainit).is_some();
    assert!(!behaviours().any(is_among_the_failing), "drainit has to do what all inits should do");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/peers.md");
    let page = std::fs::read_to_string(&path).expect("docs/peers.md");
    let (before, rest) = page.split_once(BEGIN).expect("the line where the table begins");
    let (table, after) = rest.split_once(END).expect("the line where the table ends");
    let declared = table_of_all();
    if std::env::var_os("DRAINIT_TEST_WRITE").is_some_and(|value| !value.is_empty()) {
        std::fs::write(&path, format!("{before}{BEGIN}{declared}{END}{after}")).expect("docs/peers.md written");
    } else {
        assert!(table == declared, "docs/peers.md differs from what the tests declare:\n{declared}");
    }
}

fn table_of_all() -> String {
    let mut text = String::from("\n| an init |");
    Init::ALL.iter().for_each(|init| write!(text, " {} |", init.name()).expect("text"));
    text += "\n|---|";
    Init::ALL.iter().for_each(|_| text += "---|");
    text += "\n";
    for behaviour in behaviours() {
        write!(text, "| {} |", behaviour.name).expect("text");
        for init in Init::ALL {
            text += if behaviour.failure(init).is_some() { " no |" } else { " yes |" };
        }
        text += "\n";
    }
    text += "\nWhat each `no` means:\n\n";
    behaviours().filter(|behaviour| !behaviour.fails.is_empty()).for_each(|behaviour| text += &reasons(behaviour));
    text + "\n"
}

/// A line on who fails, and how; those who fail in the same way together.
fn reasons(behaviour: &Behaviour) -> String {
    let groups: Vec<String> = behaviour
        .fails
        .chunk_by(|one, next| one.1 == next.1)
        .map(|group| {
            let names: Vec<&str> = group.iter().map(|(init, _)| init.name()).collect();
            format!("{}: {}", names.join(", "), group[0].1)
        })
        .collect();
    format!("- *{}*: {}.\n", behaviour.name, groups.join("; "))
}
