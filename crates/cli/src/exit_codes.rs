//! Exit codes of the commands, as `--help` and the manual pages list them.

use clap::{Command, CommandFactory};

/// Exit code of clap.
const USAGE: &str = "2  the command line is not valid";
/// Commands without codes of their own.
const COMMON: &str = "0  success\n  1  failure, with the reason on standard error";

/// The codes of each command but [`USAGE`].
const CODES: [(&str, &str); 18] = [
    ("serve", "0  stopped by SIGTERM or SIGINT\n  1  the server could not start"),
    (
        "check",
        "0  the configuration is valid; there may be warnings\n  1  it has at least one problem",
    ),
    (
        "doctor",
        "0  all findings are ok\n  1  at least one finding is yellow, none is red\n  \
         2  at least one finding is red\n  3  the machine could not be checked",
    ),
    ("import", COMMON),
    ("status", COMMON),
    (
        "channels",
        "0  success; with a URL: each of the six steps passes\n  \
         1  failure; with a URL: at least one step fails",
    ),
    ("exports", COMMON),
    ("feature", COMMON),
    ("sessions", COMMON),
    ("share", COMMON),
    ("dashboard", COMMON),
    (
        "drain",
        "0  no client is left; with --no-wait or --cancel: the server accepted the command\n  \
         1  clients are left after the time, or the server did not accept the command",
    ),
    ("user", COMMON),
    ("state", COMMON),
    (
        "copy",
        "0  success, whatever was copied\n  1  some files were not copied\n  \
         3  the copy could not start or ended early\n\
         With --robocopy-exit-codes the sum of:\n  \
         0  nothing to do\n  1  files were copied\n  2  the target has more\n  \
         4  a file on one side is a directory on the other\n  8  some files were not copied\n  \
         16  the copy could not start or ended early, or the command line is not valid",
    ),
    ("probe", "0  no layer is broken\n  1  at least one layer is broken"),
    ("advise", COMMON),
    ("bench", COMMON),
];

/// The command line with the exit codes below the options of each command.
pub fn command() -> Command {
    CODES.iter().fold(crate::CommandLine::command(), |command, (name, codes)| {
        command.mut_subcommand(name, |of| documented(of, &text(codes)))
    })
}

/// The codes with [`USAGE`] in its place.
fn text(codes: &str) -> String {
    let mut lines: Vec<&str> = codes.lines().map(str::trim_start).collect();
    // The common codes end where another series of codes begins.
    let end = lines.iter().position(|line| line.ends_with(':')).unwrap_or(lines.len());
    let at = lines[..end].iter().take_while(|line| **line < USAGE).count();
    lines.insert(at, USAGE);
    let indented = lines.iter().map(|line| match line.ends_with(':') {
        true => format!("{line}\n"),
        false => format!("  {line}\n"),
    });
    format!("Exit code:\n{}", indented.collect::<String>().trim_end())
}

fn documented(command: Command, codes: &str) -> Command {
    let after = command.get_after_help().map(|text| format!("{text}\n\n")).unwrap_or_default();
    let nested: Vec<String> =
        command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    let command = command.after_help(format!("{after}{codes}"));
    nested
        .iter()
        .fold(command, |command, name| command.mut_subcommand(name, |of| documented(of, codes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_documents_its_exit_codes_once() {
        let whole = command();
        for one in whole.get_subcommands().filter(|one| !one.is_hide_set()) {
            let name = one.get_name();
            let after = one.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert_eq!(after.matches("Exit code:\n  0  ").count(), 1, "{name}: {after}");
            assert!(after.contains(USAGE), "{name}: {after}");
        }
    }

    #[test]
    fn usage_error_stands_between_the_other_codes() {
        assert_eq!(text("0  a\n  3  b"), format!("Exit code:\n  0  a\n  {USAGE}\n  3  b"));
        let sum = text("0  a\nThe sum of:\n  1  b");
        assert_eq!(sum, format!("Exit code:\n  0  a\n  {USAGE}\nThe sum of:\n  1  b"));
    }
}
