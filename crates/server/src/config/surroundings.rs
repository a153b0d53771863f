//! Failures of the start or of a logon that a valid file has: directories, sockets, accounts.

use super::{AdminAddress, AuditTarget, Problem, ServerConfig, ShareConfig};
use crate::accounts::system_users;
use crate::accounts::users::Users;
use crate::backend;
use crate::machine::port_holder::{self, PortHolder};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Names in one warning.
const NAMES_SHOWN_MAX: usize = 5;

/// Lines of keys of `[server]` and `[log]`, where they are set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyLines {
    /// `smb`.
    pub smb: Option<usize>,
    /// `nfs`.
    pub nfs: Option<usize>,
    /// `admin`.
    pub admin: Option<usize>,
    /// `state`, else `users`.
    pub state: Option<usize>,
    /// `guest`.
    pub guest: Option<usize>,
    /// `audit`.
    pub audit: Option<usize>,
}

/// The findings on the surroundings of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineFindings {
    /// The server would not start.
    pub problems: Vec<Problem>,
    /// The server would start, but not serve some users.
    pub warnings: Vec<Problem>,
}

impl ServerConfig {
    /// Looks at the machine: may the server listen, and write its files; do its accounts exist, and
    /// may they enter the shares? `file` is the configuration file, by which a server that runs with
    /// it is recognised.
    #[must_use]
    pub fn surroundings(&self, file: &Path, users: &Users) -> MachineFindings {
        let mut found = MachineFindings::default();
        self.check_files(&mut found);
        self.check_addresses(file, &mut found);
        if let Some(guest) = &self.guest
            && system_users::identity_of(guest).is_none()
        {
            let text = format!(
                "guest = {guest:?}: there is no system user {guest}; create it, or use \
                     \"nobody\""
            );
            found.problems.push(Problem { line: self.lines.guest, text });
        }
        self.check_accounts(users, &mut found);
        for share in &self.shares {
            share.check_lists(self, users, &mut found.warnings);
            share.check_directory(self, users, &mut found.warnings);
        }
        found
    }

    fn check_files(&self, found: &mut MachineFindings) {
        let state = self.state_folder();
        if let Some(why) = unwritable(state) {
            let text = format!(
                "the state directory {} cannot be written: {why}; create it for the server's user: \
                 install -d -m 700 {}",
                state.display(),
                state.display()
            );
            found.problems.push(Problem { line: self.lines.state, text });
        }
        if let Err(text) = crate::state::format::check(state) {
            found.problems.push(Problem { line: self.lines.state, text });
        }
        if let AuditTarget::File(path) = &self.log.audit {
            let folder = path.parent().unwrap_or(Path::new("/"));
            let why = match path.metadata() {
                Ok(metadata) if metadata.is_dir() => Some("it is a directory".to_owned()),
                Ok(_) => access_error(path, Access::WRITE_OK),
                Err(_) if !folder.is_dir() => Some(format!("{} is missing", folder.display())),
                Err(_) => unwritable(folder),
            };
            if let Some(why) = why {
                let path = path.display();
                let text =
                    format!("audit = \"{path}\" cannot be written: {why}; create its directory");
                found.problems.push(Problem { line: self.lines.audit, text });
            }
        }
        if let Some(AdminAddress::Unix(path)) = &self.admin {
            let folder = path.parent().unwrap_or(Path::new("/"));
            let why = match std::fs::symlink_metadata(path) {
                Ok(metadata) if metadata.file_type().is_socket() => None,
                Ok(_) => Some("a file of this name is there".to_owned()),
                Err(_) => unwritable(folder),
            };
            if let Some(why) = why {
                let text = format!(
                    "admin = \"unix:{}\" cannot be created: {why}; choose another path",
                    path.display()
                );
                found.problems.push(Problem { line: self.lines.admin, text });
            }
        }
    }

    /// The listening addresses with their keys, lists and lines.
    fn addresses(&self) -> Vec<(&'static str, Option<usize>, SocketAddr)> {
        let KeyLines { smb, nfs, admin, .. } = self.lines;
        let of_smb = self.smb.iter().map(|address| ("smb", smb, *address));
        let of_nfs = self.nfs.iter().map(|address| ("nfs", nfs, *address));
        let of_admin = self.admin.iter().filter_map(|address| match address {
            AdminAddress::Tcp(address) => Some(("admin", admin, *address)),
            AdminAddress::Unix(_) => None,
        });
        of_smb.chain(of_nfs).chain(of_admin).collect()
    }

    fn check_addresses(&self, file: &Path, found: &mut MachineFindings) {
        let all = self.addresses();
        for (at, (key, line, address)) in all.iter().enumerate() {
            let (key, line, address) = (*key, *line, *address);
            if address.port() == 0 {
                continue;
            }
            let clash = all[..at]
                .iter()
                .find(|(other_key, _, other)| overlap(address, *other, key == *other_key));
            if let Some((other_key, _, other)) = clash {
                let text = format!(
                    "{key}: {address} overlaps with {other} of {other_key}; remove one, or choose \
                     another port"
                );
                found.problems.push(Problem { line, text });
            } else if let Some((is_fatal, text)) = unbindable(key, address, file) {
                let list = if is_fatal { &mut found.problems } else { &mut found.warnings };
                list.push(Problem { line, text });
            }
        }
    }

    fn check_accounts(&self, users: &Users, found: &mut MachineFindings) {
        // A server that does not run as root acts as itself.
        if !rustix::process::geteuid().is_root() {
            return;
        }
        for name in users.names() {
            let Some((_, _, system_user)) = users.find(name) else { continue };
            if system_users::identity_of(system_user).is_none() {
                let text = format!(
                    "{}: {name} cannot log on: {}",
                    self.users.display(),
                    missing_system_user(name, system_user, &self.users)
                );
                found.warnings.push(Problem { line: None, text });
            }
        }
    }
}

/// The remedy for an account without a system user.
#[must_use]
pub fn missing_system_user(name: &str, system_user: &str, users: &Path) -> String {
    format!(
        "there is no system user {system_user}; create it with: useradd {system_user}, or choose \
         another with: anabranch user passwd {name} --system-user OTHER --users {}",
        users.display()
    )
}

impl ShareConfig {
    /// Users in the lists that have no account.
    fn check_lists(&self, config: &ServerConfig, users: &Users, warnings: &mut Vec<Problem>) {
        let lists = [
            ("users", self.users.as_deref().unwrap_or_default()),
            ("denied_users", &self.denied_users),
            ("read_users", &self.read_users),
            ("write_users", &self.write_users),
        ];
        for (key, list) in lists {
            let is_known = |name: &&String| {
                name.starts_with('@')
                    || users.contains(name)
                    // Kerberos admits system users.
                    || config.kerberos.is_some() && system_users::identity_of(name).is_some()
            };
            for name in list.iter().filter(|name| !is_known(name)) {
                let known: Vec<&str> = users.names().collect();
                let hint = super::suggest::similar(name, &known);
                let text = format!(
                    "share {}: {key} has {name:?}, which is no account{hint}; add it with: \
                     anabranch user add {name} --users {}",
                    self.name,
                    config.users.display()
                );
                warnings.push(Problem { line: self.line, text });
            }
        }
    }

    /// Users who may connect and may not enter the directory, and a file system that is read-only.
    fn check_directory(&self, config: &ServerConfig, users: &Users, warnings: &mut Vec<Problem>) {
        let (backend, source) = (backend::configured(), self.source());
        if backend.find_problem(&source).is_some() {
            return;
        }
        let path = self.path.display();
        let mut warn = |text: String| {
            let text = format!("share {}: {text}", self.name);
            warnings.push(Problem { line: self.line, text });
        };
        if !self.read_only
            && let Some(why) = backend.write_obstacle(&source)
        {
            warn(format!(
                "{path} cannot be written: {why}; set read_only = true, or change its mount or its \
                 permissions"
            ));
        }
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let forced = self.force_user.as_deref().map(|user| (user.to_owned(), user.to_owned()));
        let guest = config.guest.clone().filter(|_| self.guest_ok);
        let guest = guest.map(|user| (user.clone(), user));
        let accounts: Vec<(String, String)> = match forced {
            Some(forced) => vec![forced],
            None => self.admitted(users).chain(guest).collect(),
        };
        let is_shut_out = |(_, system_user): &&(String, String)| {
            system_users::identity_of(system_user)
                .is_some_and(|identity| !backend.may_enter(&source, &identity))
        };
        let names: Vec<&str> =
            accounts.iter().filter(is_shut_out).map(|(name, _)| name.as_str()).collect();
        if !names.is_empty() {
            let more = names.len().saturating_sub(NAMES_SHOWN_MAX);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let shown = names[..names.len().min(NAMES_SHOWN_MAX)].join(", ");
            warn(format!(
                "{shown}{more} may not enter {path}; permit it with: setfacl -m u:NAME:rx on each \
                 directory of the path"
            ));
        }
    }

    /// Accounts that may connect, with their system users.
    fn admitted(&self, users: &Users) -> impl Iterator<Item = (String, String)> {
        let of = |name: &str| {
            let (_, _, system_user) = users.find(name)?;
            let groups = system_users::groups_of(system_user);
            let is_in = |list: &[String]| {
                list.iter().any(|entry| match entry.strip_prefix('@') {
                    Some(group) => groups.iter().any(|own| own == group),
                    None => entry.eq_ignore_ascii_case(name),
                })
            };
            let is_admitted = self.users.as_deref().is_none_or(is_in) && !is_in(&self.denied_users);
            is_admitted.then(|| (name.to_owned(), system_user.to_owned()))
        };
        users.names().filter_map(of).collect::<Vec<_>>().into_iter()
    }
}

/// The reason for which this process may not create files in a directory that may be missing.
fn unwritable(folder: &Path) -> Option<String> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let there = folder.ancestors().find(|above| above.exists()).unwrap_or(Path::new("."));
    let there = if there.as_os_str().is_empty() { Path::new(".") } else { there };
    if !there.is_dir() {
        return Some(format!("{} is not a directory", there.display()));
    }
    let why = access_error(there, Access::WRITE_OK | Access::EXEC_OK)?;
    Some(if there == folder { why } else { format!("{}: {why}", there.display()) })
}

fn access_error(path: &Path, access: Access) -> Option<String> {
    let error = accessat(CWD, path, access, AtFlags::EACCESS).err()?;
    Some(std::io::Error::from(error).to_string())
}

/// Whether the server cannot listen on both addresses. Of one list, an IPv6 wildcard excludes IPv4.
fn overlap(one: SocketAddr, other: SocketAddr, is_one_list: bool) -> bool {
    let has_wildcard = one.ip().is_unspecified() || other.ip().is_unspecified();
    let is_one_family = one.is_ipv4() == other.is_ipv4();
    one.port() == other.port()
        && (one.ip() == other.ip() || has_wildcard && (is_one_family || !is_one_list))
}

/// The reason for which an address cannot be bound, and whether the server would not start.
fn unbindable(key: &str, address: SocketAddr, file: &Path) -> Option<(bool, String)> {
    use std::io::ErrorKind;
    let error = TcpListener::bind(address).err()?;
    let wrong = |what: String| Some((true, format!("{key}: cannot listen on {address}: {what}")));
    let port = address.port();
    match error.kind() {
        ErrorKind::AddrInUse => match port_holder::of(port, file) {
            PortHolder::ThisServer | PortHolder::ServiceManager => None,
            PortHolder::Process { pid, name } => wrong(format!(
                "{name} (process {pid}) uses port {port}; stop it with: systemctl stop {name}, or \
                 choose another port"
            )),
            PortHolder::Unknown => {
                let text = format!(
                    "{key}: a program of another user listens on {address}; if it is not this \
                     server, stop it or choose another port"
                );
                Some((false, text))
            }
        },
        ErrorKind::AddrNotAvailable => wrong(
            "this machine does not have the address; \"0.0.0.0\" and \"[::]\" stand for all of its \
             addresses"
                .into(),
        ),
        ErrorKind::PermissionDenied => {
            let text = format!(
                "{key}: {address} needs root or CAP_NET_BIND_SERVICE; ports above 1024 do not"
            );
            Some((false, text))
        }
        _ => wrong(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlap_of_addresses_is_found() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        for (one, other, is_one_list, expected) in [
            ("0.0.0.0:445", "192.0.2.1:445", true, true),
            ("0.0.0.0:445", "[::]:445", true, false),
            ("0.0.0.0:445", "[::]:445", false, true),
            ("192.0.2.1:445", "192.0.2.2:445", true, false),
            ("0.0.0.0:445", "192.0.2.1:446", true, false),
        ] {
            assert_eq!(overlap(at(one), at(other), is_one_list), expected, "{one} {other}");
        }
    }

    #[test]
    fn missing_directory_is_writable_where_it_can_be_created() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(unwritable(&folder.path().join("a/b")), None);
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(unwritable(&file.join("state")).unwrap().contains("is not a directory"));
    }
}
