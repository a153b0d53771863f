//! Share parameters of an smb.conf: conversion of single values.

use super::draft::Draft;
use super::host_lists::{HostList, ParsedHosts};
use super::meaning::{ENCRYPTION_DESIRED, REQUIRED, SmbConfConverter, is_one_of};
use super::remarks::module;
use super::text::{Parameter, boolean, items, squeezed, unquoted};

impl SmbConfConverter<'_> {
    /// Applies a share parameter; returns false if it is none.
    pub(super) fn share(&mut self, draft: &mut Draft, parameter: &Parameter) -> bool {
        self.place_and_sight(draft, parameter)
            || self.people(draft, parameter)
            || self.names_and_modes(draft, parameter)
    }

    fn place_and_sight(&mut self, draft: &mut Draft, parameter: &Parameter) -> bool {
        let value = unquoted(&parameter.value);
        match parameter.key.as_str() {
            "path" => draft.path = Some(value.into()),
            "comment" => draft.comment = self.comment(draft, parameter, value),
            "readonly" => self.flag(parameter, |yes| draft.read_only = yes),
            "writeable" => self.flag(parameter, |yes| draft.read_only = !yes),
            "browseable" => self.flag(parameter, |yes| draft.browseable = yes),
            "accessbasedshareenum" => self.flag(parameter, |yes| draft.access_based = yes),
            "available" | "-valid" => self.flag(parameter, |yes| draft.available = yes),
            "printable" => self.flag(parameter, |yes| draft.printable = yes),
            "smbencrypt" => {
                draft.encryption_required = is_one_of(value, REQUIRED);
                let is_desired = draft.name != "global" && is_one_of(value, &["desired"]);
                if is_desired {
                    self.lose(parameter, ENCRYPTION_DESIRED);
                }
            }
            "maxdisksize" => match value.parse() {
                Ok(size) => draft.size_limit_mib = size,
                Err(_) => self.lose(parameter, "not a number of MiB; set size_limit"),
            },
            "fruit:timemachine" => self.flag(parameter, |yes| draft.time_machine = yes),
            "fruit:timemachinemaxsize" => {
                draft.time_machine_max_bytes = size_of(value);
                if draft.time_machine_max_bytes.is_none() {
                    self.lose(parameter, "not a size; set time_machine_max_bytes");
                }
            }
            "vfsobjects" => self.modules(draft, parameter),
            "msdfsproxy" if !value.is_empty() => {
                let why = "msdfs proxy refers clients to another server, and DFS is not supported";
                draft.refused = Some(why.into());
            }
            key => match key.strip_prefix("shadow:") {
                Some(option) => drop(draft.shadow.insert(option.into(), value.into())),
                None => return false,
            },
        }
        true
    }

    fn people(&mut self, draft: &mut Draft, parameter: &Parameter) -> bool {
        let value = unquoted(&parameter.value);
        match parameter.key.as_str() {
            "validusers" => self.valid_users(draft, parameter),
            "invalidusers" => {
                let (accounts, dropped) = self.accounts(parameter);
                draft.denied_users = accounts;
                if !dropped.is_empty() {
                    draft.refused =
                        Some(format!("invalid users = {value} differs for each client"));
                }
            }
            "readlist" => {
                let (accounts, dropped) = self.accounts(parameter);
                draft.read_users = accounts;
                draft.has_unknown_readers = !dropped.is_empty();
            }
            "writelist" => draft.write_users = self.accounts(parameter).0,
            "hostsallow" => self.hosts_allowed(draft, parameter),
            "hostsdeny" => self.hosts_denied(draft, parameter),
            "guestok" => self.flag(parameter, |yes| draft.guest_ok = yes),
            "guestonly" => self.flag(parameter, |yes| draft.guest_only = yes),
            "forceuser" => self.force_user(draft, parameter, value),
            "forcegroup" => {
                let name = value.trim_start_matches(['+', '@', '&']);
                draft.force_group = self.force_group(parameter, name);
                draft.members_only = value.starts_with('+').then(|| parameter.clone());
            }
            _ => return false,
        }
        true
    }

    /// An empty list admits everybody, so a list of which nothing is left must not become one.
    fn valid_users(&mut self, draft: &mut Draft, parameter: &Parameter) {
        let items = items(&parameter.value);
        // The name of the user who connects.
        let is_anyone = |item: &String| matches!(item.as_str(), "%U" | "%u");
        if draft.name != "homes" && items.iter().any(is_anyone) {
            draft.users = None;
            return;
        }
        let (accounts, _) = self.accounts(parameter);
        draft.users = (!items.is_empty()).then_some(accounts);
    }

    /// All file access is by this user, exactly, or the share is omitted.
    fn force_user(&mut self, draft: &mut Draft, parameter: &Parameter, value: &str) {
        draft.force_user = None;
        draft.forced_by = None;
        let bare = value.rsplit(['\\', '/']).next().unwrap_or_default();
        let domain = value.strip_suffix(bare).unwrap_or_default().trim_end_matches(['\\', '/']);
        match bare {
            "" => {}
            // Each user acts as himself.
            "%U" | "%u" if domain.is_empty() => {
                self.need_not(parameter, "users act as themselves");
            }
            "%S" if domain.is_empty() => draft.force_user = Some(bare.to_owned()),
            _ if bare.contains('%') => {
                draft.forced_by = Some(format!("force user = {value} differs for each client"));
            }
            _ if !domain.is_empty() && !self.is_own_domain(domain) => {
                draft.forced_by = Some(format!(
                    "force user = {value} is a domain account, and domains are not supported"
                ));
            }
            _ => draft.force_user = Some(bare.to_owned()),
        }
    }

    fn force_group(&mut self, parameter: &Parameter, name: &str) -> Option<String> {
        if name != "%S" && name.contains('%') {
            self.lose(parameter, "it differs for each client; new files have the user's group");
            return None;
        }
        let bare = name.rsplit(['\\', '/']).next().unwrap_or_default();
        let domain = name.strip_suffix(bare).unwrap_or_default().trim_end_matches(['\\', '/']);
        if !domain.is_empty() && !self.is_own_domain(domain) {
            self.lose_access(
                parameter,
                "it is a domain group, and domains are not supported; new files have the user's \
                 group",
            );
            return None;
        }
        (!bare.is_empty()).then(|| bare.to_owned())
    }

    fn hosts_allowed(&mut self, draft: &mut Draft, parameter: &Parameter) {
        let ParsedHosts { list, dropped } = HostList::parse(&items(&parameter.value));
        draft.hosts.allowed = list;
        if !dropped.is_empty() {
            let what = format!(
                "{} cannot be carried over, so these clients are refused; use their networks, such as \
                 \"192.0.2.0/24\"",
                dropped.join(" ")
            );
            self.lose_access(parameter, &what);
        }
    }

    /// Denies at least the clients of the source, or omits the share.
    fn hosts_denied(&mut self, draft: &mut Draft, parameter: &Parameter) {
        let items = items(&parameter.value);
        let mut parsed = HostList::parse(&items);
        let except = items.iter().position(|item| squeezed(item) == "except");
        if let (Some(at), false) = (except, parsed.dropped.is_empty()) {
            parsed = HostList::parse(&items[..at]);
            self.lose_access(
                parameter,
                "EXCEPT has a client that cannot be carried over, so all are refused; add it to \
                 hosts_allowed",
            );
        }
        draft.hosts.denied = parsed.list;
        draft.undeniable = (!parsed.dropped.is_empty() || draft.hosts.denies_names())
            .then(|| format!("hosts deny = {} has more than addresses", parameter.value));
    }

    fn names_and_modes(&mut self, draft: &mut Draft, parameter: &Parameter) -> bool {
        let value = unquoted(&parameter.value);
        match parameter.key.as_str() {
            "createmask" => self.mode(parameter, |mode| draft.create_mask = mode),
            "forcecreatemode" => self.mode(parameter, |mode| draft.force_create_mode = mode),
            "directorymask" => self.mode(parameter, |mode| draft.directory_mask = mode),
            "forcedirectorymode" => self.mode(parameter, |mode| draft.force_directory_mode = mode),
            "hidedotfiles" => self.flag(parameter, |yes| draft.hide_dot_files = yes),
            "hidefiles" => draft.hidden_names = self.patterns(parameter, value),
            "vetofiles" => draft.veto_names = self.patterns(parameter, value),
            "hideunreadable" => self.flag(parameter, |yes| draft.hide_unreadable = yes),
            "casesensitive" => {
                // "auto" concerns SMB1 clients only.
                draft.case_sensitive = boolean(value) == Some(true);
            }
            _ => return false,
        }
        true
    }

    pub(super) fn flag(&mut self, parameter: &Parameter, set: impl FnOnce(bool)) {
        match boolean(unquoted(&parameter.value)) {
            Some(yes) => set(yes),
            None => self.lose(parameter, "neither yes nor no; it was ignored"),
        }
    }

    fn mode(&mut self, parameter: &Parameter, set: impl FnOnce(u32)) {
        let mode = u32::from_str_radix(unquoted(&parameter.value), 8).ok();
        match mode.filter(|mode| *mode <= 0o7777) {
            Some(mode) => set(mode),
            None => self.lose(parameter, "not an octal mode; it was ignored"),
        }
    }

    fn comment(&mut self, draft: &Draft, parameter: &Parameter, value: &str) -> String {
        self.substituted(draft, value).unwrap_or_else(|variable| {
            self.lose(
                parameter,
                &format!("{variable} differs for each client; the comment contains it literally"),
            );
            value.to_owned()
        })
    }

    /// Parses user and group names, and returns the items that were dropped, too. `@`, `+` and `&`
    /// all mark groups.
    fn accounts(&mut self, parameter: &Parameter) -> (Vec<String>, Vec<String>) {
        let (mut accounts, mut dropped) = (Vec::new(), Vec::new());
        for item in items(&parameter.value) {
            let is_group = item.starts_with(['@', '+', '&']);
            let name = item.trim_start_matches(['@', '+', '&']);
            // The name of the share is inserted when all sections have been read.
            if name != "%S" && name.contains('%') {
                let what = format!("{item} differs for each client; list the users");
                self.lose_access(parameter, &what);
                dropped.push(item);
                continue;
            }
            // There are no domains here, so the domain part is dropped.
            let bare = name.rsplit(['\\', '/']).next().unwrap_or_default();
            let domain = name.strip_suffix(bare).unwrap_or_default();
            if bare != name && !self.is_own_domain(domain.trim_end_matches(['\\', '/'])) {
                let what = format!("{name} is a domain account; imported as {bare} of this server");
                self.lose_access(parameter, &what);
            }
            let entry = if is_group { format!("@{bare}") } else { bare.to_owned() };
            if !bare.is_empty() && !accounts.contains(&entry) {
                accounts.push(entry);
            }
        }
        (accounts, dropped)
    }

    /// Whether a domain is this server itself.
    fn is_own_domain(&self, domain: &str) -> bool {
        let own = self.server_name().unwrap_or(&self.facts.host);
        domain.eq_ignore_ascii_case(own)
    }

    /// Parses patterns between slashes.
    fn patterns(&mut self, parameter: &Parameter, value: &str) -> Vec<String> {
        let mut patterns = Vec::new();
        for pattern in value.split('/').filter(|p| !p.is_empty()) {
            if pattern.contains('%') {
                self.lose(parameter, &format!("{pattern} differs for each client; it was omitted"));
            } else if pattern.chars().all(|c| c == '*') || pattern.contains('\\') {
                self.lose(
                    parameter,
                    &format!("{pattern} is not a supported pattern; it was omitted"),
                );
            } else {
                patterns.push(pattern.to_owned());
            }
        }
        patterns
    }

    fn modules(&mut self, draft: &mut Draft, parameter: &Parameter) {
        draft.modules = items(&parameter.value)
            .iter()
            .map(|name| name.split(':').next().unwrap_or_default().to_owned())
            .collect();
        draft.modules_place = Some(parameter.place.clone());
        for name in items(&parameter.value) {
            if let Some(what) = module(&name) {
                let needless = what == "not needed here";
                let text = format!("vfs object {name}: {what}");
                match needless {
                    true => self.need_not(parameter, &text),
                    false => self.lose(parameter, &text),
                }
            }
        }
    }

    /// Expands `%S`, `%h` and `%L`. Fails with the variable if it depends on the client.
    pub(super) fn substituted(&self, draft: &Draft, value: &str) -> Result<String, String> {
        let mut out = String::new();
        let mut letters = value.chars();
        while let Some(letter) = letters.next() {
            if letter != '%' {
                out.push(letter);
                continue;
            }
            match letters.next() {
                Some('%') | None => out.push('%'),
                Some('S') => out.push_str(&draft.name),
                Some('h' | 'L') => out.push_str(&self.facts.host),
                Some(other) => return Err(format!("%{other}")),
            }
        }
        Ok(out)
    }
}

/// Parses a size with Samba's units, powers of 1024.
fn size_of(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let power = match text[digits.len()..].trim().to_ascii_lowercase().as_str() {
        "" => 0,
        "k" | "kb" => 1,
        "m" | "mb" => 2,
        "g" | "gb" => 3,
        "t" | "tb" => 4,
        "p" | "pb" => 5,
        _ => return None,
    };
    let number: u64 = digits.trim().parse().ok()?;
    // TOML's integers have 63 bits.
    number.checked_mul(1 << (10 * power)).filter(|bytes| i64::try_from(*bytes).is_ok())
}
