//! `anabranch user`.

use crate::output;
use anyhow::{Context, Result, bail};
use rustix::termios::{LocalModes, OptionalActions, isatty, tcgetattr, tcsetattr};
use server::config::{default_users_file, missing_system_user};
use server::system_users;
use server::users::Users;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Longest password, in bytes.
pub(crate) const PASSWORD_BYTES_MAX: usize = 1024;

/// Shown below the options.
const EXAMPLES: &str = "\
Examples:
  anabranch user add alice
  anabranch user passwd alice --password-stdin < FILE
  anabranch user list --users /var/lib/anabranch/users.toml
  anabranch user list --json | jq -r '.items[].name'

A running server applies changes on SIGHUP: systemctl reload anabranch";

/// Arguments of `user`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Add a user; asks for the password
    Add(AccountArgs),
    /// Change a user's password
    Passwd(AccountArgs),
    /// Remove a user
    Remove(AccountName),
    /// Show all users
    List(ListArgs),
}

#[derive(Debug, clap::Args)]
struct AccountArgs {
    /// The user's name. A server that runs as root acts as the system user of this name
    name: String,
    #[command(flatten)]
    place: UsersFile,
    /// Read the password from standard input instead of asking
    #[arg(long)]
    password_stdin: bool,
    /// System user to act as, if its name differs; only for a server that runs as root
    #[arg(long, value_name = "NAME")]
    system_user: Option<String>,
}

#[derive(Debug, clap::Args)]
struct AccountName {
    /// The user's name
    name: String,
    #[command(flatten)]
    place: UsersFile,
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    #[command(flatten)]
    place: UsersFile,
    /// Print the users as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct UsersFile {
    /// File of users; for root by default /var/lib/anabranch/users.toml
    #[arg(long, value_name = "FILE", default_value_os_t = default_users_file(), hide_default_value = true)]
    users: PathBuf,
}

/// Carries out the action.
pub fn run(args: &Args) -> Result<ExitCode> {
    match &args.action {
        Action::Add(named) => set(named, false),
        Action::Passwd(named) => set(named, true),
        Action::Remove(bare) => {
            let name = &bare.name;
            let remove = |users: &mut Users| {
                users.remove(name).then_some(()).ok_or(format!("there is no user {name}"))
            };
            Users::update(&bare.place.users, remove).map_err(anyhow::Error::msg)?;
            Ok(ExitCode::SUCCESS)
        }
        Action::List(wish) => {
            let users = Users::load(&wish.place.users)?;
            if wish.json {
                output::print_json(&json(&users))?;
            } else {
                users.names().for_each(|name| outln!("{name}"));
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// All users, each with the system user that a server that runs as root acts as.
fn json(users: &Users) -> serde_json::Value {
    let one = |name| {
        let system_user = users.find(name).map_or(name, |(_, _, system_user)| system_user);
        serde_json::json!({ "name": name, "system_user": system_user })
    };
    let items: Vec<_> = users.names().map(one).collect();
    serde_json::json!({ "total": items.len(), "items": items })
}

fn set(named: &AccountArgs, exists: bool) -> Result<ExitCode> {
    // Checked before the prompt for the password, and again when it is stored.
    check(&Users::load(&named.place.users)?, named, exists).map_err(anyhow::Error::msg)?;
    let password = if named.password_stdin { read_line()? } else { ask()? };
    if password.is_empty() || password.len() > PASSWORD_BYTES_MAX {
        bail!("a password has 1 to {PASSWORD_BYTES_MAX} bytes");
    }
    let change = |users: &mut Users| {
        check(users, named, exists)?;
        users.set_password(&named.name, &password)?;
        named
            .system_user
            .as_ref()
            .map_or(Ok(()), |system_user| users.set_system_user(&named.name, system_user))
    };
    Users::update(&named.place.users, change).map_err(anyhow::Error::msg)?;
    warn_without_system_user(named);
    Ok(ExitCode::SUCCESS)
}

/// A server that runs as root acts as a system user, which may be created later. Only root adds users
/// for such a server.
fn warn_without_system_user(named: &AccountArgs) {
    let name = named.name.trim().to_lowercase();
    let system_user = named.system_user.as_deref().unwrap_or(&name);
    if rustix::process::geteuid().is_root() && system_users::identity_of(system_user).is_none() {
        let remedy = missing_system_user(&name, system_user, &named.place.users);
        errln!(
            "warning: {name} was stored and cannot log on to a server that runs as root: {remedy}"
        );
    }
}

fn check(users: &Users, named: &AccountArgs, exists: bool) -> Result<(), String> {
    let name = &named.name;
    match (users.contains(name), exists) {
        (true, false) => {
            Err(format!("{name} exists; change the password with: anabranch user passwd {name}"))
        }
        (false, true) => {
            Err(format!("there is no user {name}; add it with: anabranch user add {name}"))
        }
        _ => Ok(()),
    }
}

pub(crate) fn read_line() -> Result<String> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).context("no password on standard input")?;
    Ok(line.trim_end_matches(['\n', '\r']).to_owned())
}

/// Asks twice.
fn ask() -> Result<String> {
    let [first, second] = ask_silently(["Password: ", "Again: "])?;
    if first != second {
        bail!("the two passwords differ");
    }
    Ok(first)
}

/// Asks without showing what is typed.
pub(crate) fn ask_silently<const N: usize>(texts: [&str; N]) -> Result<[String; N]> {
    let stdin = std::io::stdin();
    if !isatty(&stdin) {
        bail!("there is no terminal for a prompt; use --password-stdin");
    }
    let before = tcgetattr(&stdin)?;
    let mut silent = before.clone();
    silent.local_modes -= LocalModes::ECHO;
    tcsetattr(&stdin, OptionalActions::Flush, &silent)?;
    let answers = texts.map(prompt);
    tcsetattr(&stdin, OptionalActions::Flush, &before)?;
    let mut typed = std::array::from_fn(|_| String::new());
    for (line, answer) in typed.iter_mut().zip(answers) {
        *line = answer?;
    }
    Ok(typed)
}

fn prompt(text: &str) -> Result<String> {
    err!("{text}");
    std::io::stderr().flush()?;
    let line = read_line();
    errln!("");
    line
}
