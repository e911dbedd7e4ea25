//! The command line: which options were given, and where the command begins.

use std::ffi::{OsStr, OsString};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command, value_parser};

use crate::setting::{Given, Setting, Source, is_near, nearest};

/// How drainit is called, for the error of somebody who called it otherwise.
const USAGE: &str = "drainit [OPTIONS] [--] COMMAND [ARG]...";

/// What the command line asks for.
#[derive(Debug)]
pub enum Invocation {
    /// To run the command, or to show the plan.
    Run {
        /// The options, raw.
        flags: Vec<Given>,
        /// Whether `--plan` was among them.
        plan: bool,
        /// How many words at the end of the command line are the command's.
        command_words: usize,
    },
    /// To print this text and end.
    Print(String),
}

/// Reads the command line, program name included.
///
/// # Errors
///
/// What is wrong with it, in one line.
pub fn parse(args: &[&OsStr]) -> Result<Invocation, String> {
    let words = args.len().saturating_sub(1);
    // In an image the options come from the environment, and the command follows at once. That is told without clap, which would take
    // longer than everything else at start and touch a good part of the binary.
    let invocation = match args.get(1) {
        Some(&first) if first == "--" => run(Vec::new(), false, words - 1),
        Some(first) if first.len() < 2 || !first.as_encoded_bytes().starts_with(b"-") => run(Vec::new(), false, words),
        _ => options(args)?,
    };
    match invocation {
        Invocation::Run { plan: false, command_words: 0, .. } => Err(format!(
            "no COMMAND was given (an image that sets ENTRYPOINT loses the CMD of its base image); usage: {USAGE}"
        )),
        other => Ok(other),
    }
}

fn run(flags: Vec<Given>, plan: bool, command_words: usize) -> Invocation {
    Invocation::Run { flags, plan, command_words }
}

// Inlined, it would have its callers touch 16 KiB of stack for clap's arguments, also where there are none.
#[cold]
#[inline(never)]
fn options(args: &[&OsStr]) -> Result<Invocation, String> {
    let matches = command().try_get_matches_from(args).map_err(|error| one_line(&error))?;
    if matches.get_flag("help") {
        return Ok(Invocation::Print(help()));
    }
    if matches.get_flag("version") {
        return Ok(Invocation::Print(format!("drainit {}\n", env!("CARGO_PKG_VERSION"))));
    }
    let mut flags = Vec::new();
    for setting in Setting::ALL {
        if let Some(values) = matches.get_many::<OsString>(setting.flag()) {
            let values: Vec<&OsStr> = values.map(OsString::as_os_str).collect();
            flags.push(Given { setting, source: Source::Flag, value: values.join(OsStr::new(",")) });
        }
    }
    let command_words = matches.get_many::<OsString>("COMMAND").map_or(0, |words| words.len());
    Ok(run(flags, matches.get_flag("plan"), command_words))
}

/// The options that take no value, with what they do.
const SWITCHES: [(&str, Option<char>, &str); 3] = [
    ("plan", None, "Print the stop plan that these settings give, with a time line, and start nothing"),
    ("help", Some('h'), "Print this help"),
    ("version", Some('V'), "Print the version"),
];

/// What those type who come from tini, catatonit or dumb-init, and what it is called here.
const OF_OTHER_INITS: [(&str, &str); 6] = [
    ("-g", "--forward-to group here"),
    ("-c", "the default here"),
    ("-e", "--ok-exit here"),
    ("-r", "--rewrite here"),
    ("-s", "the default here"),
    ("-v", "--log debug here"),
];

fn command() -> Command {
    let switches = SWITCHES.map(|(name, short, _)| {
        let switch = Arg::new(name).long(name).action(ArgAction::SetTrue);
        short.map_or(switch.clone(), |letter| switch.short(letter))
    });
    let settings = Setting::ALL.map(|setting| {
        Arg::new(setting.flag())
            .long(setting.flag())
            .value_parser(value_parser!(OsString))
            .action(if setting.is_list() { ArgAction::Append } else { ArgAction::Set })
            // `--delay -5s` is a negative duration, not a delay without a value and an option `-5s`.
            .allow_hyphen_values(true)
    });
    Command::new("drainit").disable_help_flag(true).args(settings).args(switches).arg(
        Arg::new("COMMAND")
            .value_parser(value_parser!(OsString))
            .num_args(1..)
            // Options end at the first word that is none; what follows is the command's, dashes and all.
            .trailing_var_arg(true),
    )
}

fn help() -> String {
    let mut text = format!(
        "Usage: {USAGE}\n\n\
         Runs COMMAND as the init of a container. On a stop signal it lets COMMAND serve on for\n\
         the delay, then sends the graceful signal, and kills what is left before the platform does.\n\n\
         Each option that takes a value can be set by its variable as well; the option wins.\n\
         D is a duration such as 15s, 1m 30s or 500ms, or a number of seconds such as 45 or 0.5.\n\n\
         Options:\n"
    );
    for setting in Setting::ALL {
        text += &format!("  --{} {}   {}\n", setting.flag(), setting.value_name(), setting.variable());
        text += &format!("          {}\n", setting.help());
    }
    for (name, short, what) in SWITCHES {
        let short = short.map_or(String::new(), |letter| format!(", -{letter}"));
        text += &format!("  --{name}{short}\n          {what}\n");
    }
    text
}

/// clap's error without the advice that follows, and the option that was probably meant.
fn one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let paragraph = text.split("\n\n").next().unwrap_or_default().trim_end();
    let mut line = paragraph.strip_prefix("error: ").unwrap_or(paragraph).to_owned();
    if let (ErrorKind::UnknownArgument, Some(ContextValue::String(unknown))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
    {
        let flags = Setting::ALL.map(Setting::flag).into_iter().chain(SWITCHES.map(|(name, ..)| name));
        let name = unknown.trim_start_matches('-');
        if let Some((_, ours)) = OF_OTHER_INITS.iter().find(|(theirs, _)| theirs == unknown) {
            line.push_str(&format!("; what other inits mean by it is {ours}"));
        } else if let Some(flag) = nearest(name, flags).filter(|flag| is_near(name, flag)) {
            line.push_str(&format!("; did you mean --{flag}?"));
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Invocation, String> {
        let args: Vec<&OsStr> = ["drainit"].iter().chain(words).map(OsStr::new).collect();
        super::parse(&args)
    }

    /// The options as text, and the number of the command's words.
    fn parsed(words: &[&str]) -> (Vec<String>, usize) {
        match parse(words) {
            Ok(Invocation::Run { flags, command_words, .. }) => {
                (flags.iter().map(ToString::to_string).collect(), command_words)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_end_at_the_first_word_that_is_none_or_at_two_dashes() {
        assert_eq!(parsed(&["sleep", "--delay", "5"]), (vec![], 3));
        assert_eq!(parsed(&["--", "sleep", "5"]), (vec![], 2));
        assert_eq!(parsed(&["--", "--delay", "5"]), (vec![], 2));
        assert_eq!(parsed(&["--delay", "5", "sleep", "--grace", "5"]), (vec!["--delay \"5\"".to_owned()], 3));
        assert_eq!(parsed(&["--delay=5", "--", "--", "x"]), (vec!["--delay \"5\"".to_owned()], 2));
        assert_eq!(parsed(&["--delay", "5", "sh", "-c", "x", "--", "--help"]), (vec!["--delay \"5\"".to_owned()], 5));
        assert_eq!(parsed(&["-"]).1, 1);
        assert_eq!(parsed(&[""]).1, 1);
    }

    #[test]
    fn every_setting_has_its_option() {
        for setting in Setting::ALL {
            let option = format!("--{}", setting.flag());
            assert_eq!(parsed(&[&option, "v", "x"]), (vec![format!("{option} \"v\"")], 1));
        }
    }

    #[test]
    fn a_list_may_be_given_in_parts() {
        assert_eq!(parsed(&["--rewrite", "15:3", "--rewrite=2:3,1:0", "x"]).0, ["--rewrite \"15:3,2:3,1:0\""]);
    }

    #[test]
    fn a_value_may_begin_with_a_dash_so_that_its_own_error_tells_what_is_wrong() {
        assert_eq!(parsed(&["--delay", "-5s", "x"]).0, ["--delay \"-5s\""]);
    }

    #[test]
    fn an_empty_command_line_is_told_the_usage() {
        for words in [&[][..], &["--"], &["--delay", "5"], &["--delay", "5", "--"]] {
            assert!(parse(words).unwrap_err().ends_with("usage: drainit [OPTIONS] [--] COMMAND [ARG]..."), "{words:?}");
        }
        assert!(matches!(parse(&["--plan"]), Ok(Invocation::Run { plan: true, command_words: 0, .. })));
    }

    #[test]
    fn errors_are_one_line_and_name_the_option_that_was_meant() {
        let unknown = parse(&["--dely", "5", "x"]).unwrap_err();
        assert_eq!(unknown, "unexpected argument '--dely' found; did you mean --delay?");
        for (theirs, ours) in OF_OTHER_INITS {
            let told = parse(&[theirs, "x"]).unwrap_err();
            assert_eq!(told, format!("unexpected argument '{theirs}' found; what other inits mean by it is {ours}"));
        }
        assert!(!parse(&["-q", "x"]).unwrap_err().contains("did you mean"));
        for words in [&["--delay"][..], &["--delay", "1", "--delay", "2", "x"], &["-x", "y"], &["--plan=yes", "x"]] {
            assert_eq!(parse(words).unwrap_err().lines().count(), 1, "{words:?}");
        }
    }

    #[test]
    fn help_names_every_option() {
        let Ok(Invocation::Print(help)) = parse(&["--help"]) else { panic!("no help") };
        for setting in Setting::ALL {
            assert!(help.contains(&format!("  --{} ", setting.flag())), "{setting:?}");
            assert!(help.contains(setting.variable()), "{setting:?}");
        }
        assert!(matches!(parse(&["--version"]), Ok(Invocation::Print(text)) if text.starts_with("drainit ")));
    }
}
