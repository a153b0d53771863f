//! A share of an smb.conf under construction, and its table in our configuration.

use super::host_lists::HostLists;
use super::shadow_copies::SnapshotKeys;
use super::text::{Parameter, SourcePosition};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Parameters of a share in Samba's terms, with Samba's defaults.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Name of the section.
    pub name: String,
    /// Start of the section.
    pub place: SourcePosition,
    pub path: Option<String>,
    pub comment: String,
    pub read_only: bool,
    /// `None` admits every account.
    pub users: Option<Vec<String>>,
    pub denied_users: Vec<String>,
    pub read_users: Vec<String>,
    pub write_users: Vec<String>,
    /// An entry of `read list` could not be carried over.
    pub has_unknown_readers: bool,
    /// The lists of clients as typed.
    pub hosts: HostLists,
    /// The lists of clients that result.
    pub hosts_allowed: Vec<String>,
    pub hosts_denied: Vec<String>,
    /// The reason for which `hosts deny` cannot be carried over.
    pub undeniable: Option<String>,
    /// The reason for which `force user` cannot be carried over.
    pub forced_by: Option<String>,
    /// Any other reason for which the share is omitted.
    pub refused: Option<String>,
    pub guest_ok: bool,
    pub guest_only: bool,
    pub browseable: bool,
    pub access_based: bool,
    pub force_user: Option<String>,
    pub force_group: Option<String>,
    /// The parameter, if `force_group` is for its members only.
    pub members_only: Option<Parameter>,
    pub create_mask: u32,
    pub force_create_mode: u32,
    pub directory_mask: u32,
    pub force_directory_mode: u32,
    pub hide_dot_files: bool,
    pub hidden_names: Vec<String>,
    pub veto_names: Vec<String>,
    pub hide_unreadable: bool,
    pub case_sensitive: bool,
    pub encryption_required: bool,
    pub time_machine: bool,
    pub time_machine_max_bytes: Option<u64>,
    /// VFS modules.
    pub modules: Vec<String>,
    pub modules_place: Option<SourcePosition>,
    /// Options of `shadow_copy2` without their prefix.
    pub shadow: BTreeMap<String, String>,
    pub snapshots: Option<SnapshotKeys>,
    pub size_limit_mib: u64,
    pub printable: bool,
    pub available: bool,
}

/// Mode bits of a file and of a directory before the mask.
const FILE_BITS: u32 = 0o666;
const DIRECTORY_BITS: u32 = 0o777;

impl Draft {
    /// A share with defaults only.
    pub fn new(name: &str, place: SourcePosition) -> Self {
        Self {
            name: name.into(),
            place,
            path: None,
            comment: String::new(),
            read_only: true,
            users: None,
            denied_users: Vec::new(),
            read_users: Vec::new(),
            write_users: Vec::new(),
            has_unknown_readers: false,
            hosts: HostLists::default(),
            hosts_allowed: Vec::new(),
            hosts_denied: Vec::new(),
            undeniable: None,
            forced_by: None,
            refused: None,
            guest_ok: false,
            guest_only: false,
            browseable: true,
            access_based: false,
            force_user: None,
            force_group: None,
            members_only: None,
            create_mask: 0o744,
            force_create_mode: 0,
            directory_mask: 0o755,
            force_directory_mode: 0,
            hide_dot_files: true,
            hidden_names: Vec::new(),
            veto_names: Vec::new(),
            hide_unreadable: false,
            case_sensitive: false,
            encryption_required: false,
            time_machine: false,
            time_machine_max_bytes: None,
            modules: Vec::new(),
            modules_place: None,
            shadow: BTreeMap::new(),
            snapshots: None,
            size_limit_mib: 0,
            printable: false,
            available: true,
        }
    }

    /// Replaces `%S`, which stands for the name of the share, in names of users and groups. A copied
    /// section has the name of its copy.
    pub fn insert_name(&mut self) {
        let lists = [&mut self.denied_users, &mut self.read_users, &mut self.write_users];
        let entries = lists.into_iter().chain(&mut self.users).flatten();
        for entry in entries.chain(&mut self.force_user).chain(&mut self.force_group) {
            if entry == "%S" || entry == "@%S" {
                *entry = entry.replace("%S", &self.name);
            }
        }
    }

    /// The `[[share]]` table, without keys at their default.
    pub fn table(&self, path: &str) -> String {
        let mut out =
            format!("\n# From [{}], line {}.\n[[share]]\n", one_line(&self.name), self.place.line);
        let mut key = |name: &str, value: String, is_default: bool| {
            if !is_default {
                // Writing to a string does not fail.
                let _ = writeln!(out, "{name} = {value}");
            }
        };
        key("name", quoted(&self.name), false);
        key("path", quoted(path), false);
        key("comment", quoted(&self.comment), self.comment.is_empty());
        key("read_only", "true".into(), !self.read_only);
        let users = self.users.clone().unwrap_or_default();
        key("users", list_of(&users), self.users.is_none());
        for (name, list) in [
            ("denied_users", &self.denied_users),
            ("read_users", &self.read_users),
            ("write_users", &self.write_users),
            ("hosts_allowed", &self.hosts_allowed),
            ("hosts_denied", &self.hosts_denied),
        ] {
            key(name, list_of(list), list.is_empty());
        }
        key("guest_ok", "true".into(), !self.guest_ok);
        let listed = if self.access_based { "users" } else { "nobody" };
        key("listed", quoted(listed), self.browseable && !self.access_based);
        let text = |value: &Option<String>| quoted(value.as_deref().unwrap_or_default());
        key("force_user", text(&self.force_user), self.force_user.is_none());
        key("force_group", text(&self.force_group), self.force_group.is_none());
        let mode = |mode: u32| format!("\"0{mode:03o}\"");
        let (file, directory) = self.modes();
        key("file_mode", mode(file), file == 0o644);
        key("directory_mode", mode(directory), directory == 0o755);
        let mut hidden = self.hidden_names.clone();
        if self.hide_dot_files {
            hidden.insert(0, ".*".into());
        }
        key("hidden_names", list_of(&hidden), hidden == [".*"]);
        key("veto_names", list_of(&self.veto_names), self.veto_names.is_empty());
        key("hide_unreadable", "true".into(), !self.hide_unreadable);
        key("case_sensitive", "true".into(), !self.case_sensitive);
        key("encryption_required", "true".into(), !self.encryption_required);
        key("time_machine", "true".into(), !self.time_machine);
        let size = self.time_machine_max_bytes.unwrap_or_default();
        key("time_machine_max_bytes", size.to_string(), size == 0);
        self.snapshot_keys(&mut key);
        let size = quoted(&format!("{} MiB", self.size_limit_mib));
        key("size_limit", size, self.size_limit_mib == 0);
        out
    }

    fn snapshot_keys(&self, key: &mut impl FnMut(&str, String, bool)) {
        let Some(keys) = &self.snapshots else { return };
        key("snapshots", quoted(&keys.snapshots), false);
        for (name, value) in [("snapshot_names", &keys.names), ("snapshot_root", &keys.root)] {
            let text = quoted(value.as_deref().unwrap_or_default());
            key(name, text, value.is_none());
        }
    }

    /// Effective file and directory modes after masks and forced bits.
    fn modes(&self) -> (u32, u32) {
        let file = FILE_BITS & self.create_mask | self.force_create_mode;
        let directory = DIRECTORY_BITS & self.directory_mask | self.force_directory_mode;
        (file & 0o7777, directory & 0o7777)
    }
}

/// Quotes a text for TOML.
pub fn quoted(text: &str) -> String {
    toml::Value::String(text.into()).to_string()
}

pub fn list_of(items: &[String]) -> String {
    let items: Vec<String> = items.iter().map(|item| quoted(item)).collect();
    format!("[{}]", items.join(", "))
}

/// Replaces control characters, for a comment.
pub fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
