//! `anabranch generate`: files for packages, generated from the command line's definition.
//!
//! Manual pages, one a subcommand and one of the configuration, completions of shells, and
//! the reference of the configuration.

use crate::exit_codes;
use anyhow::{Context, Result};
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use server::config::reference::{self, ConfigKey, SECTIONS};
use std::fs::{create_dir_all, write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Shown below the options.
const EXAMPLES: &str = "\
Examples:
  anabranch generate man target/man
  anabranch generate completions target/completions
  anabranch generate configuration > docs/configuration.md";

/// Title of the manual.
const MANUAL: &str = "Anabranch";

/// Arguments of `generate`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    what: GenerateCommand,
}

#[derive(Debug, clap::Subcommand)]
enum GenerateCommand {
    /// Manual pages, one a subcommand, and anabranch.toml(5)
    Man {
        /// Directory to write them to
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// Date at the foot of each page
        #[arg(long, value_name = "YYYY-MM-DD", default_value = "")]
        date: String,
    },
    /// Completions for bash, zsh and fish
    Completions {
        /// Directory to write them to
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// The reference of the configuration, as Markdown
    Configuration,
}

/// Writes the requested files.
pub fn run(args: &Args) -> Result<ExitCode> {
    match &args.what {
        GenerateCommand::Man { folder, date } => manual(folder, date)?,
        GenerateCommand::Completions { folder } => completions(folder)?,
        GenerateCommand::Configuration => out!("{}", reference::markdown()),
    }
    Ok(ExitCode::SUCCESS)
}

fn manual(folder: &Path, date: &str) -> Result<()> {
    create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let mut command = exit_codes::command().disable_help_subcommand(true);
    command.build();
    let mut left = vec![command];
    while let Some(command) = left.pop() {
        left.extend(command.get_subcommands().filter(|sub| !sub.is_hide_set()).cloned());
        let name = name_of(&command);
        write(folder.join(format!("{name}.1")), page(command, date)?)?;
    }
    write(folder.join("anabranch.toml.5"), configuration_page(date))?;
    Ok(())
}

fn completions(folder: &Path) -> Result<()> {
    create_dir_all(folder).with_context(|| folder.display().to_string())?;
    for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
        clap_complete::generate_to(shell, &mut visible(), "anabranch", folder)?;
    }
    Ok(())
}

/// The command without its hidden subcommands, which completions would show.
fn visible() -> Command {
    let whole = exit_codes::command();
    let shown: Vec<Command> =
        whole.get_subcommands().filter(|sub| !sub.is_hide_set()).cloned().collect();
    let bare = Command::new("anabranch").version(env!("CARGO_PKG_VERSION")).subcommands(shown);
    bare.about(whole.get_about().cloned().unwrap_or_default())
}

/// `anabranch-user-add`, as its page is called.
fn name_of(command: &Command) -> String {
    command.get_display_name().unwrap_or(command.get_name()).to_owned()
}

/// Description and examples are set here: they have lines that must not be joined.
fn page(command: Command, date: &str) -> Result<String> {
    let text = |text: Option<&clap::builder::StyledStr>| text.map(ToString::to_string);
    let about = text(command.get_long_about().or(command.get_about())).unwrap_or_default();
    let after = text(command.get_after_long_help().or(command.get_after_help()));
    let is_whole = command.get_name() == "anabranch";
    let has_subcommands = command.get_subcommands().any(|sub| !sub.is_hide_set());
    let mut out = title(&name_of(&command), 1, date).into_bytes();
    let page = Man::new(command);
    page.render_name_section(&mut out)?;
    page.render_synopsis_section(&mut out)?;
    out.extend_from_slice(format!(".SH DESCRIPTION\n{}", prose(&about)).as_bytes());
    page.render_options_section(&mut out)?;
    if has_subcommands {
        page.render_subcommands_section(&mut out)?;
    }
    if let Some(after) = after {
        out.extend_from_slice(sections(&after).as_bytes());
    }
    let see = if is_whole { "anabranch.toml (5)" } else { "anabranch (1)" };
    out.extend_from_slice(format!(".SH SEE ALSO\n.BR {see}\n").as_bytes());
    // mandoc reports an empty line between two breaks as an error.
    Ok(String::from_utf8(out)?.replace("\n.br\n\n.br\n", "\n.sp\n"))
}

/// A page's first line.
fn title(name: &str, section: u8, date: &str) -> String {
    format!(".TH \"{name}\" {section} \"{date}\" \"{}\" \"{MANUAL}\"\n", version())
}

fn version() -> String {
    format!("anabranch {}", env!("CARGO_PKG_VERSION"))
}

/// The text below the options: a title such as `Examples:` begins a section.
fn sections(text: &str) -> String {
    let mut out = String::new();
    let mut inside = String::new();
    for line in text.lines() {
        let title = line.strip_suffix(':').filter(|title| {
            !title.is_empty() && title.len() <= 30 && !title.starts_with(char::is_whitespace)
        });
        match title {
            Some(title) => {
                out += &prose(&std::mem::take(&mut inside));
                out += &format!(".SH {}\n", escaped(&title.to_uppercase()));
            }
            None if out.is_empty() => out += &format!(".SH NOTES\n{}\n", escaped(line)),
            None => inside = inside + line + "\n",
        }
    }
    out + &prose(&inside)
}

/// Paragraphs; lines that are indented stay as they are.
fn prose(text: &str) -> String {
    let mut out = String::new();
    let (mut as_typed, mut is_first) = (false, true);
    for line in text.lines() {
        let indented = line.starts_with("  ");
        if indented != as_typed && !line.is_empty() {
            out += match (indented, is_first) {
                (true, true) => ".nf\n",
                (true, false) => ".PP\n.nf\n",
                (false, _) => ".fi\n.PP\n",
            };
            as_typed = indented;
        }
        if line.is_empty() {
            if !as_typed && !is_first && !out.ends_with(".PP\n") {
                out += ".PP\n";
            }
        } else {
            out += &escaped(line);
            out += "\n";
            is_first = false;
        }
    }
    // A paragraph break at the end of the text has no effect.
    let out = out.strip_suffix(".PP\n").unwrap_or(&out);
    if as_typed { format!("{out}.fi\n") } else { out.to_owned() }
}

/// Text as troff prints it: no line is a request, no letter an escape.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

/// The reference as anabranch.toml(5).
fn configuration_page(date: &str) -> String {
    let mut out = title("anabranch.toml", 5, date);
    out += ".SH NAME\nanabranch.toml \\- configuration of anabranch\n.SH DESCRIPTION\n";
    out += &prose(CONFIGURATION);
    for section in SECTIONS {
        out += &format!(".SH \"{}\"\n{}\n", section.header, spoken(section.text));
        for ConfigKey { name, form, default, counts, text } in section.keys {
            let (form, default) = (spoken(form), spoken(&default.shown()));
            out += &format!(".TP\n.B {name}\n{}\n.br\n", spoken(text));
            out +=
                &format!("Value: {form}. Default: {default}. Takes effect {}.\n", counts.shown());
        }
    }
    out + ".SH SEE ALSO\n.BR anabranch (1),\n.BR anabranch\\-check (1)\n"
}

/// Shown above the keys.
const CONFIGURATION: &str = "\
The configuration file of
  anabranch serve --config FILE
is TOML. Unknown keys are refused. After a change,
  anabranch check FILE
reports mistakes, and a reload (SIGHUP) applies the change without interrupting clients,
unless the key takes effect after a restart.";

/// Sets text between backticks in bold.
fn spoken(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let set = |(at, part): (usize, &str)| {
        let part = part.replace('\\', "\\e").replace('-', "\\-");
        if at % 2 == 1 { format!("\\fB{part}\\fR") } else { part }
    };
    parts.map(set).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subcommands_have_manual_pages_that_keep_example_lines() {
        let folder = tempfile::tempdir().expect("a folder");
        manual(folder.path(), "").expect("pages");
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect(name);
        let mut command = exit_codes::command();
        command.build();
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            if sub.get_name() != "help" {
                let page = read(&format!("anabranch-{}.1", sub.get_name()));
                assert!(page.contains(".SH DESCRIPTION\n"), "{}", sub.get_name());
                let example = format!("\n  anabranch {}", sub.get_name());
                assert!(page.contains(&example), "{} has no example", sub.get_name());
            }
        }
        assert!(read("anabranch-user-add.1").contains("SYNOPSIS"));
        assert!(!folder.path().join("anabranch-generate.1").exists(), "it is hidden");
        let serve = read("anabranch-serve.1");
        assert!(serve.contains(".nf\n  anabranch serve /srv/data\n"), "{serve}");
    }

    #[test]
    fn configuration_manual_page_has_every_key() {
        let page = configuration_page("");
        for section in SECTIONS {
            for key in section.keys {
                assert!(page.contains(&format!(".TP\n.B {}\n", key.name)), "{}", key.name);
            }
        }
    }

    #[test]
    fn manual_page_text_is_escaped_against_roff_requests() {
        assert_eq!(prose(".so /etc/passwd\n"), "\\&.so /etc/passwd\n");
        assert_eq!(escaped("a\\fB-x"), "a\\efB\\-x");
        assert_eq!(prose("a\n\nb:\n  c\n  d\ne"), "a\n.PP\nb:\n.PP\n.nf\n  c\n  d\n.fi\n.PP\ne\n");
    }

    #[test]
    fn shell_completion_omits_hidden_commands() {
        let folder = tempfile::tempdir().expect("a folder");
        completions(folder.path()).expect("completions");
        for name in ["anabranch.bash", "anabranch.fish", "_anabranch"] {
            let text = std::fs::read_to_string(folder.path().join(name)).expect(name);
            assert!(text.contains("serve"), "{name}");
            assert!(text.contains("probe") && !text.contains("generate"), "{name}");
        }
    }
}
