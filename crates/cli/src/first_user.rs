//! The first user of a server.
//!
//! In a container nobody can run `anabranch user add` before the first start. The orchestrator
//! names the user in `ANABRANCH_USER` and mounts its password as a file, `ANABRANCH_PASSWORD_FILE`,
//! because all processes of a container see its environment, and logs and `inspect` show it.
//! Without these variables the user has a random password, which is shown once, to a terminal.

use crate::user::PASSWORD_BYTES_MAX;
use crate::{quoting, start_text};
use anyhow::{Context, Result, bail};
use server::config::{ServerConfig, missing_system_user};
use server::system_users;
use server::users::Users;
use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;

/// Name of the first user.
const NAME_VARIABLE: &str = "ANABRANCH_USER";
/// Path of the file that holds the first user's password.
const PASSWORD_FILE_VARIABLE: &str = "ANABRANCH_PASSWORD_FILE";
/// Length of a generated password.
const PASSWORD_LETTERS: usize = 20;
/// Bytes of a line end after the password.
const LINE_END_BYTES_MAX: usize = 2;

/// The user of the environment variables.
#[derive(Debug, PartialEq, Eq)]
struct RequestedUser {
    name: String,
    password_file: PathBuf,
}

impl RequestedUser {
    /// The user of both variables; `None` if both are absent or empty, as an unset variable of a
    /// compose file is.
    ///
    /// # Errors
    /// A sentence with the remedy if one variable lacks the other.
    fn from_variables(
        name: Option<OsString>,
        password_file: Option<OsString>,
    ) -> Result<Option<Self>> {
        let is_set = |value: &OsString| !value.is_empty();
        match (name.filter(is_set), password_file.filter(is_set)) {
            (None, None) => Ok(None),
            (Some(name), Some(password_file)) => {
                let Ok(name) = name.into_string() else { bail!("{NAME_VARIABLE} is not UTF-8") };
                Ok(Some(Self { name, password_file: password_file.into() }))
            }
            (Some(_), None) => {
                bail!(
                    "{NAME_VARIABLE} is set; also set {PASSWORD_FILE_VARIABLE} to the path of a \
                     file that holds the password"
                )
            }
            (None, Some(_)) => {
                bail!(
                    "{PASSWORD_FILE_VARIABLE} is set; also set {NAME_VARIABLE} to the name of the \
                     user"
                )
            }
        }
    }

    /// The file's text without its last line end.
    fn password(&self) -> Result<String> {
        let path = self.password_file.display();
        let mut bytes = Vec::new();
        std::fs::File::open(&self.password_file)
            .and_then(|file| {
                file.take((PASSWORD_BYTES_MAX + LINE_END_BYTES_MAX + 1) as u64)
                    .read_to_end(&mut bytes)
            })
            .with_context(|| format!("{PASSWORD_FILE_VARIABLE}: cannot read {path}"))?;
        let Ok(mut password) = String::from_utf8(bytes) else {
            bail!("{PASSWORD_FILE_VARIABLE}: {path} is not UTF-8 text");
        };
        if password.ends_with('\n') {
            password.pop();
            if password.ends_with('\r') {
                password.pop();
            }
        }
        if password.is_empty() || password.len() > PASSWORD_BYTES_MAX || password.contains('\n') {
            bail!(
                "{PASSWORD_FILE_VARIABLE}: {path} must be one line of 1 to {PASSWORD_BYTES_MAX} \
                 bytes"
            );
        }
        Ok(password)
    }
}

/// Creates an account if the user file has none: the one of the environment if there is no user file
/// yet, else one with the name of the person who started the server and a random password, which is shown once if `is_shown`.
/// `extra` are the users of the command line.
///
/// # Errors
/// A sentence with the remedy if the variables or the password file cannot be used, or the user
/// file cannot be written.
pub fn create(config: &ServerConfig, extra: &Users, is_shown: bool) -> Result<()> {
    let requested = RequestedUser::from_variables(
        std::env::var_os(NAME_VARIABLE),
        std::env::var_os(PASSWORD_FILE_VARIABLE),
    )?;
    if !Users::load(&config.users)?.is_empty() {
        return Ok(());
    }
    match requested {
        // The last account was removed on purpose, perhaps because its password is known.
        Some(_) if config.users.exists() => Ok(()),
        Some(user) => store(config, &user),
        None if !extra.is_empty() || config.guest.is_some() || config.kerberos.is_some() => Ok(()),
        None if is_shown => generate(config),
        None => {
            let file = config.users.display();
            tracing::warn!(
                "no user can log on; add one: anabranch user add NAME --users {file}; in a container \
                 set {NAME_VARIABLE} and {PASSWORD_FILE_VARIABLE}"
            );
            Ok(())
        }
    }
}

fn store(config: &ServerConfig, user: &RequestedUser) -> Result<()> {
    let (name, password) = (&user.name, user.password()?);
    // Another server with the same user file may have added users since the check.
    let add_first = |users: &mut Users| match users.is_empty() {
        true => users.set_password(name, &password),
        false => Ok(()),
    };
    Users::update(&config.users, add_first).map_err(anyhow::Error::msg)?;
    tracing::info!(user = name, file = %config.users.display(), "first user created from {NAME_VARIABLE}");
    if rustix::process::geteuid().is_root() && system_users::identity_of(name).is_none() {
        tracing::warn!("{}", missing_system_user(name, name, &config.users));
    }
    Ok(())
}

fn generate(config: &ServerConfig) -> Result<()> {
    let name = start_text::first_user_name(
        std::env::var("SUDO_USER").ok(),
        system_users::own_name(),
        rustix::process::geteuid().is_root(),
        &|name| system_users::identity_of(name).is_some(),
    );
    let mut random = [0u8; PASSWORD_LETTERS];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    // 32 letters that cannot be mistaken for one another: 5 bits each.
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let password: String =
        random.iter().map(|b| char::from(LETTERS[usize::from(b & 31)])).collect();
    Users::update(&config.users, |users| users.set_password(&name, &password))
        .map_err(anyhow::Error::msg)?;
    let name = quoting::shell(&name);
    let file = quoting::shell(&config.users.to_string_lossy());
    outln!(
        "Created the first user (change the password with: anabranch user passwd {name} --users \
         {file}):\n"
    );
    outln!("  user      {name}\n  password  {password}\n");
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by it")]
mod tests {
    use super::*;

    fn with_file(content: &[u8]) -> Result<String> {
        let folder = tempfile::tempdir().unwrap();
        let password_file = folder.path().join("password");
        std::fs::write(&password_file, content).unwrap();
        RequestedUser { name: "alice".into(), password_file }.password()
    }

    #[test]
    fn one_variable_alone_is_refused_with_the_other() {
        let of = |name: &str, file: &str| {
            RequestedUser::from_variables(Some(name.into()), Some(file.into()))
        };
        assert_eq!(of("", "").unwrap(), None);
        assert_eq!(RequestedUser::from_variables(None, None).unwrap(), None);
        let both = of("alice", "/run/secrets/password").unwrap().unwrap();
        assert_eq!((both.name.as_str(), both.password_file.is_absolute()), ("alice", true));
        assert!(of("alice", "").unwrap_err().to_string().contains(PASSWORD_FILE_VARIABLE));
        assert!(of("", "/file").unwrap_err().to_string().contains(NAME_VARIABLE));
    }

    #[test]
    fn password_file_loses_one_line_end() {
        for content in ["secret.0", "secret.0\n", "secret.0\r\n"] {
            assert_eq!(with_file(content.as_bytes()).unwrap(), "secret.0");
        }
        // Spaces belong to the password.
        assert_eq!(with_file(b" a b \n").unwrap(), " a b ");
        let longest = "x".repeat(PASSWORD_BYTES_MAX);
        assert_eq!(with_file(format!("{longest}\r\n").as_bytes()).unwrap(), longest);
    }

    #[test]
    fn unusable_password_file_is_refused_without_its_text() {
        let too_long = "x".repeat(PASSWORD_BYTES_MAX + 1);
        for content in ["", "\n", "secret.0\n\n", "secret.0\nmore", too_long.as_str()] {
            let error = format!("{:#}", with_file(content.as_bytes()).unwrap_err());
            assert!(error.contains("one line") && !error.contains("secret"), "{error}");
        }
        assert!(with_file(b"\xff").unwrap_err().to_string().contains("UTF-8"));
        let absent = RequestedUser { name: "alice".into(), password_file: "/nonexistent".into() };
        assert!(format!("{:#}", absent.password().unwrap_err()).contains("/nonexistent"));
    }
}
