//! Converts Samba's parameters to our configuration.

use super::draft::{Draft, list_of, one_line, quoted};
use super::remarks::{ParameterFate, fate_of, module};
use super::text::{Parameter, SmbConfSection, SourcePosition, boolean, items, squeezed, unquoted};
use super::{ImportMachine, ImportRemark, ImportResult};
use crate::config::{NAME_CHARS_MAX, check_share_name};
use smb::Network;
use std::fmt::Write;

/// Maximum number of imported shares.
const SHARES_MAX: usize = 10_000;

/// The part of `[global]` that becomes `[server]`.
#[derive(Debug, Default)]
struct ServerSection {
    name: Option<String>,
    workgroup: Option<String>,
    smb: Vec<String>,
    ports: Vec<u16>,
    signing: Option<&'static str>,
    encryption: Option<&'static str>,
    min_protocol: Option<&'static str>,
    max_protocol: Option<&'static str>,
    guest: Option<String>,
}

/// Collects the converted parameters and the remarks on the others.
pub struct SmbConfConverter<'a> {
    facts: &'a ImportMachine<'a>,
    server: ServerSection,
    lost: Vec<ImportRemark>,
    needless: Vec<ImportRemark>,
    shares: Vec<String>,
    tables: String,
    any_guests: bool,
}

impl<'a> SmbConfConverter<'a> {
    pub fn new(facts: &'a ImportMachine<'a>, lost: Vec<ImportRemark>) -> Self {
        Self {
            facts,
            server: ServerSection::default(),
            lost,
            needless: Vec::new(),
            shares: Vec::new(),
            tables: String::new(),
            any_guests: false,
        }
    }

    /// Converts the sections to a configuration.
    pub fn of(mut self, sections: &[SmbConfSection]) -> ImportResult {
        let Some((global, others)) = sections.split_first() else {
            return self.finish();
        };
        // Share parameters in [global] are defaults of all shares.
        let mut template = Draft::new("global", global.place.clone());
        for parameter in &global.parameters {
            if !self.global(parameter) && !self.share(&mut template, parameter) {
                self.remark(parameter);
            }
        }
        if template.encryption_required {
            self.server.encryption = Some("required");
            template.encryption_required = false;
        }
        for section in others.iter().take(SHARES_MAX) {
            let mut draft = Draft {
                name: section.name.clone(),
                place: section.place.clone(),
                ..template.clone()
            };
            for parameter in &section.parameters {
                if parameter.key == "copy" {
                    self.copy(&mut draft, parameter, sections);
                } else if !self.share(&mut draft, parameter) {
                    self.remark(parameter);
                }
            }
            self.place(draft);
        }
        self.finish()
    }

    fn copy(&mut self, draft: &mut Draft, copy: &Parameter, sections: &[SmbConfSection]) {
        let Some(from) = sections.iter().skip(1).find(|section| section.is(&copy.value)) else {
            return self.lose(copy, "there is no such section to copy");
        };
        for parameter in from.parameters.iter().filter(|p| p.key != "copy") {
            // Remarks on these parameters were recorded in their own section.
            let lengths = (self.lost.len(), self.needless.len());
            self.share(draft, parameter);
            self.lost.truncate(lengths.0);
            self.needless.truncate(lengths.1);
        }
    }

    /// Applies a server parameter; returns false if it is none.
    fn global(&mut self, parameter: &Parameter) -> bool {
        let value = unquoted(&parameter.value);
        match parameter.key.as_str() {
            "workgroup" => self.server.workgroup = Some(value.into()),
            "netbiosname" => self.name(parameter, value),
            "interfaces" => self.interfaces(parameter, value),
            "smbports" => self.ports(parameter, value),
            "serversigning" => self.server.signing = Some(signing_of(value)),
            "serverminprotocol" => {
                self.server.min_protocol = self.dialect(parameter, value, true);
            }
            "servermaxprotocol" => {
                self.server.max_protocol = self.dialect(parameter, value, false);
            }
            "smbencrypt" if is_one_of(value, &["off", "disabled"]) => {
                self.server.encryption = Some("off");
            }
            "guestaccount" => self.server.guest = Some(value.into()),
            "maptoguest" => self.map_to_guest(parameter, value),
            "security" if !is_one_of(value, &["user", "auto"]) => {
                self.lose(
                    parameter,
                    "domains are not supported: users log on with passwords of \
                                      this server (anabranch user add)",
                );
            }
            "security" => {}
            "passdbbackend" if value.starts_with("ldap") => {
                self.lose(parameter, "users are not read from LDAP; give the output of `pdbedit -L -w` to this command with --passwords");
            }
            "passdbbackend" | "privatedir" => {}
            "configbackend" if squeezed(value) == "registry" => {
                self.lose(
                    parameter,
                    "the registry was not read; import the output of `net conf list`",
                );
            }
            "registryshares" if boolean(value) == Some(true) => {
                self.lose(
                    parameter,
                    "the registry was not read; import the output of `net conf list`",
                );
            }
            "configbackend" | "registryshares" => {}
            _ => return false,
        }
        true
    }

    fn name(&mut self, parameter: &Parameter, value: &str) {
        let bad = |c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_');
        if value.is_empty() || value.len() > NAME_CHARS_MAX || value.contains(bad) {
            return self.lose(parameter, "it is not a valid computer name; set name in [server]");
        }
        self.server.name = Some(value.to_uppercase());
    }

    fn interfaces(&mut self, parameter: &Parameter, value: &str) {
        for item in items(value) {
            let address = item.split_once('/').map_or(item.as_str(), |(address, _)| address);
            match address.parse::<std::net::IpAddr>() {
                Ok(address) => self.server.smb.push(address.to_string()),
                Err(_) => {
                    let what = format!(
                        "{item:?} is not an address; list the interface's addresses in smb in \
                         [server]"
                    );
                    self.lose(parameter, &what);
                }
            }
        }
    }

    fn ports(&mut self, parameter: &Parameter, value: &str) {
        for item in items(value) {
            match item.parse() {
                Ok(139) => {
                    self.need_not(parameter, "port 139 is for NetBIOS, which is not supported")
                }
                Ok(port) => self.server.ports.push(port),
                Err(_) => self.lose(parameter, &format!("{item:?} is not a port")),
            }
        }
    }

    fn dialect(
        &mut self,
        parameter: &Parameter,
        value: &str,
        is_min: bool,
    ) -> Option<&'static str> {
        let dialect = match squeezed(value).as_str() {
            "smb2_02" => "2.0.2",
            "smb2" | "smb2_10" | "smb2_22" | "smb2_24" => "2.1",
            "smb3_00" => "3.0",
            "smb3_02" => "3.0.2",
            "smb3" | "smb3_10" | "smb3_11" | "default" => "3.1.1",
            _ => {
                self.lose(
                    parameter,
                    "SMB1 and older are not supported; update the clients that need them",
                );
                return None;
            }
        };
        // As a lower bound these names mean the first dialect of their family.
        Some(match squeezed(value).as_str() {
            "smb2" if is_min => "2.0.2",
            "smb3" if is_min => "3.0",
            "default" if is_min => "2.0.2",
            _ => dialect,
        })
    }

    fn map_to_guest(&mut self, parameter: &Parameter, value: &str) {
        match squeezed(value).as_str() {
            "baduser" => {}
            "never" => self.lose(
                parameter,
                "where a share has guest_ok, an unknown user name logs on as guest",
            ),
            _ => self.lose(
                parameter,
                "a wrong password is always refused; only an unknown user name logs on as guest",
            ),
        }
    }

    /// Applies a share parameter; returns false if it is none.
    fn share(&mut self, draft: &mut Draft, parameter: &Parameter) -> bool {
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
            "available" => self.flag(parameter, |yes| draft.available = yes),
            "printable" => self.flag(parameter, |yes| draft.printable = yes),
            "smbencrypt" => {
                draft.encryption_required = is_one_of(value, &["required", "mandatory"])
            }
            "maxdisksize" => match value.parse() {
                Ok(size) => draft.size_limit_mib = size,
                Err(_) => self.lose(parameter, "not a number of MiB; set size_limit"),
            },
            "fruit:timemachine" => self.flag(parameter, |yes| draft.time_machine = yes),
            "vfsobjects" => self.modules(parameter),
            _ => return false,
        }
        true
    }

    fn people(&mut self, draft: &mut Draft, parameter: &Parameter) -> bool {
        let value = unquoted(&parameter.value);
        match parameter.key.as_str() {
            "validusers" => draft.users = self.accounts(draft, parameter),
            "invalidusers" => draft.denied_users = self.accounts(draft, parameter),
            "readlist" => draft.read_users = self.accounts(draft, parameter),
            "writelist" => draft.write_users = self.accounts(draft, parameter),
            "hostsallow" => draft.hosts_allowed = self.networks(parameter),
            "hostsdeny" => draft.hosts_denied = self.networks(parameter),
            "guestok" => self.flag(parameter, |yes| draft.guest_ok = yes),
            "guestonly" => self.flag(parameter, |yes| draft.guest_only = yes),
            "forceuser" => draft.force_user = self.forced(parameter, value),
            "forcegroup" => {
                if value.starts_with('+') {
                    self.lose(parameter, "force_group applies to all users, members or not");
                }
                let name = value.trim_start_matches(['+', '@', '&']);
                draft.force_group = self.forced(parameter, name);
            }
            _ => return false,
        }
        true
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

    fn flag(&mut self, parameter: &Parameter, set: impl FnOnce(bool)) {
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

    fn forced(&mut self, parameter: &Parameter, value: &str) -> Option<String> {
        if value.contains('%') {
            self.lose(parameter, "it differs for each client; users act as themselves");
            return None;
        }
        (!value.is_empty()).then(|| value.to_owned())
    }

    /// Parses user and group names. `@`, `+` and `&` all mark groups.
    fn accounts(&mut self, draft: &Draft, parameter: &Parameter) -> Vec<String> {
        let mut accounts = Vec::new();
        for item in items(&parameter.value) {
            let is_group = item.starts_with(['@', '+', '&']);
            let name = item.trim_start_matches(['@', '+', '&']);
            let name = if name == "%S" { draft.name.as_str() } else { name };
            if name.contains('%') {
                self.lose(parameter, &format!("{item} differs for each client; list the users"));
                continue;
            }
            // There are no domains here, so the domain part is dropped.
            let bare = name.rsplit(['\\', '/']).next().unwrap_or_default();
            if bare != name {
                self.lose(
                    parameter,
                    &format!("{name} is a domain account; imported as {bare} of this server"),
                );
            }
            let entry = if is_group { format!("@{bare}") } else { bare.to_owned() };
            if !bare.is_empty() && !accounts.contains(&entry) {
                accounts.push(entry);
            }
        }
        accounts
    }

    fn networks(&mut self, parameter: &Parameter) -> Vec<String> {
        let mut networks = Vec::new();
        let mut all = items(&parameter.value).into_iter();
        while let Some(item) = all.next() {
            if squeezed(&item) == "except" {
                let rest: Vec<String> = all.collect();
                let what = format!(
                    "EXCEPT {} was omitted; add it to the other of hosts_allowed and hosts_denied",
                    rest.join(" ")
                );
                self.lose(parameter, &what);
                break;
            }
            match networks_of(&item) {
                Some(found) => networks.extend(found),
                None => self.lose(
                    parameter,
                    &format!("{item} is not an address; use its network, such as \"192.0.2.0/24\""),
                ),
            }
        }
        networks
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

    fn modules(&mut self, parameter: &Parameter) {
        for name in items(&parameter.value) {
            if let Some(what) = module(&name) {
                let needless = what == "not needed here";
                let text = format!("vfs object {name}: {what}");
                if needless { self.need_not(parameter, &text) } else { self.lose(parameter, &text) }
            }
        }
    }

    /// Remarks on a parameter that is not converted.
    fn remark(&mut self, parameter: &Parameter) {
        match fate_of(&parameter.key) {
            Some(ParameterFate::Needless(why)) => self.need_not(parameter, why),
            Some(ParameterFate::Always(value, why)) => {
                if boolean(unquoted(&parameter.value)) == Some(value) {
                    self.need_not(parameter, why);
                } else {
                    self.lose(parameter, why);
                }
            }
            Some(ParameterFate::Lost(what)) => self.lose(parameter, what),
            None => {
                self.lose(parameter, "unknown parameter, ignored; check whether you relied on it")
            }
        }
    }

    /// Expands `%S`, `%h` and `%L`. Fails with the variable if it depends on the client.
    fn substituted(&self, draft: &Draft, value: &str) -> Result<String, String> {
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

    /// Adds a share to the configuration, or remarks why not.
    fn place(&mut self, mut draft: Draft) {
        let is = |name: &str| squeezed(&draft.name) == name;
        if is("homes") {
            return self.homes(&draft);
        }
        if is("ipc$") {
            return self.need_not_at(&draft.place, "[IPC$] always exists");
        }
        if is("printers") || is("print$") || draft.printable {
            let what = format!(
                "[{}] was omitted: printers are not supported; use CUPS with IPP",
                draft.name
            );
            return self.lose_at(&draft.place, &what);
        }
        if !draft.available {
            let what = format!("[{}] was omitted: it is not available", draft.name);
            return self.lose_at(&draft.place, &what);
        }
        let path = draft.path.take().filter(|path| !path.is_empty());
        let Some(path) = path else {
            let what = format!("[{}] was omitted: it has no path", draft.name);
            return self.lose_at(&draft.place, &what);
        };
        match self.substituted(&draft, &path) {
            Ok(path) => self.put(draft, &path),
            Err(variable) => {
                let what = format!(
                    "[{}] was omitted: {variable} in its path differs for each client; add a \
                     [[share]] for each",
                    draft.name
                );
                self.lose_at(&draft.place, &what);
            }
        }
    }

    /// Shares do not depend on the user, so [homes] becomes one share for each known home.
    fn homes(&mut self, homes: &Draft) {
        let users: Vec<&String> = self.facts.users.iter().collect();
        let what =
            "[homes] became one share for each imported user; add a [[share]] for each later user";
        self.lose_at(&homes.place, what);
        for user in users {
            let home = match &homes.path {
                Some(path) => {
                    let path =
                        ["%S", "%U", "%u"].iter().fold(path.clone(), |p, v| p.replace(v, user));
                    self.substituted(homes, &path).ok()
                }
                None => (self.facts.home_of)(user).map(|path| path.display().to_string()),
            };
            let Some(home) = home else {
                self.lose_at(
                    &homes.place,
                    &format!("the home directory of {user} is unknown; add a [[share]] for it"),
                );
                continue;
            };
            let browseable = false;
            let own = Draft {
                name: user.clone(),
                users: vec![user.clone()],
                browseable,
                access_based: true,
                ..homes.clone()
            };
            self.put(own, &home);
        }
    }

    fn put(&mut self, mut draft: Draft, path: &str) {
        if let Err(what) = check_share_name(&draft.name) {
            return self.lose_at(&draft.place, &format!("{}; it was omitted", one_line(&what)));
        }
        if self.shares.iter().any(|name| name.eq_ignore_ascii_case(&draft.name)) {
            return self.lose_at(
                &draft.place,
                &format!("there is a share {} already; this one was omitted", draft.name),
            );
        }
        if !path.starts_with('/') {
            let what =
                format!("[{}] was omitted: its path {path:?} does not begin with /", draft.name);
            return self.lose_at(&draft.place, &what);
        }
        let sealed = draft.encryption_required || self.server.encryption == Some("required");
        let signed = self.server.signing == Some("required");
        if draft.guest_ok && (sealed || signed) {
            draft.guest_ok = false;
            let demand = if sealed { "encryption" } else { "signing" };
            let what =
                format!("guest access was omitted: {demand} is required, and guests have no key");
            self.lose_at(&draft.place, &what);
        }
        if draft.guest_ok && draft.guest_only {
            draft.force_user = Some(self.guest());
        }
        self.any_guests |= draft.guest_ok;
        let path = if path.len() > 1 { path.trim_end_matches('/') } else { path };
        let path = if path.is_empty() { "/" } else { path };
        self.tables.push_str(&draft.table(path));
        self.shares.push(draft.name);
    }

    fn guest(&self) -> String {
        self.server.guest.clone().unwrap_or_else(|| "nobody".into())
    }

    fn finish(mut self) -> ImportResult {
        let by_line = |note: &ImportRemark| (note.place.file.to_path_buf(), note.place.line);
        self.lost.sort_by_key(by_line);
        self.needless.sort_by_key(by_line);
        let config = self.server_table() + &self.tables + &self.left_over();
        ImportResult { config, shares: self.shares, lost: self.lost, needless: self.needless }
    }

    fn server_table(&self) -> String {
        let mut out = "# Written by `anabranch import` from an smb.conf. Review what could not be \
                       imported, at the\n# end, then run: anabranch check \
                       FILE\n\n[server]\n"
            .to_owned();
        let server = &self.server;
        let ports = if server.ports.is_empty() { vec![445] } else { server.ports.clone() };
        let hosts = if server.smb.is_empty() {
            vec!["0.0.0.0".to_owned(), "::".to_owned()]
        } else {
            server.smb.clone()
        };
        let host =
            |host: &String| if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let mut addresses = Vec::new();
        for port in &ports {
            addresses.extend(hosts.iter().map(|name| format!("{}:{port}", host(name))));
        }
        let mut key = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                // Writing to a string does not fail.
                let _ = writeln!(out, "{name} = {value}");
            }
        };
        key("smb", Some(list_of(&addresses)));
        key("admin", Some(quoted("127.0.0.1:4480")));
        key("name", server.name.as_deref().map(quoted));
        key("workgroup", server.workgroup.as_deref().map(quoted));
        // Guests have no signing key.
        let signing = server.signing.or(self.any_guests.then_some("offered"));
        key("signing", signing.map(quoted));
        key("encryption", server.encryption.map(quoted));
        key("min_protocol", server.min_protocol.map(quoted));
        key("max_protocol", server.max_protocol.map(quoted));
        key("users", Some(quoted(&self.facts.users_file.display().to_string())));
        key("guest", self.any_guests.then(|| quoted(&self.guest())));
        out
    }

    /// Comments on parameters that were not carried over, for later readers of the file.
    fn left_over(&self) -> String {
        let mut out = String::new();
        if !self.lost.is_empty() {
            out.push_str("\n# Not imported:\n");
        }
        for note in &self.lost {
            out.push_str(&format!("#   {}\n", one_line(&note.to_string())));
        }
        out
    }

    fn lose(&mut self, parameter: &Parameter, what: &str) {
        self.lost.push(note(parameter, what));
    }

    fn need_not(&mut self, parameter: &Parameter, why: &str) {
        self.needless.push(note(parameter, why));
    }

    fn lose_at(&mut self, place: &SourcePosition, what: &str) {
        self.lost.push(ImportRemark { place: place.clone(), text: what.to_owned() });
    }

    fn need_not_at(&mut self, place: &SourcePosition, why: &str) {
        self.needless.push(ImportRemark { place: place.clone(), text: why.to_owned() });
    }
}

fn note(parameter: &Parameter, what: &str) -> ImportRemark {
    let Parameter { shown, value, place, .. } = parameter;
    ImportRemark { place: place.clone(), text: one_line(&format!("{shown} = {value}: {what}")) }
}

fn is_one_of(value: &str, words: &[&str]) -> bool {
    words.contains(&squeezed(value).as_str())
}

fn signing_of(value: &str) -> &'static str {
    if is_one_of(value, &["mandatory", "required", "force", "forced", "enforced"]) {
        "required"
    } else {
        "offered"
    }
}

/// Parses `ALL`, `192.0.2.`, `192.0.2.0/255.255.255.0`, `192.0.2.0/24` or an address.
fn networks_of(item: &str) -> Option<Vec<String>> {
    if squeezed(item) == "all" {
        return Some(vec!["0.0.0.0/0".into(), "::/0".into()]);
    }
    if squeezed(item) == "localhost" {
        return Some(vec!["127.0.0.0/8".into(), "::1".into()]);
    }
    let text = match (item.strip_suffix('.'), item.split_once('/')) {
        (Some(start), _) => {
            let count = start.split('.').count();
            let zeros = ".0".repeat(4usize.checked_sub(count)?);
            format!("{start}{zeros}/{}", 8 * count)
        }
        (None, Some((address, mask))) if mask.contains('.') => {
            let mask: std::net::Ipv4Addr = mask.parse().ok()?;
            let ones = mask.to_bits().leading_ones();
            (mask.to_bits().count_ones() == ones).then_some(())?;
            format!("{address}/{ones}")
        }
        _ => item.trim_matches(['[', ']']).to_owned(),
    };
    Network::parse(&text).ok().map(|_| vec![text])
}
