//! Converts Samba's parameters to our configuration.

use super::draft::{Draft, list_of, one_line, quoted};
use super::listening;
use super::remarks::{DOMAIN_REMEDY, ParameterFate, fate_of};
use super::text::{
    Parameter, SambaFile, SmbConfSection, SourcePosition, boolean, items, squeezed, unquoted,
};
use super::{ImportMachine, ImportRemark, ImportResult, RemarkWeight};
use crate::config::NAME_CHARS_MAX;
use std::fmt::Write;

/// Maximum number of imported shares.
const SHARES_MAX: usize = 10_000;
/// Maximum number of `copy` parameters of one section.
const COPIES_MAX: usize = 8;

/// Samba's words for required encryption or signing, and for none.
pub(super) const REQUIRED: &[&str] = &["mandatory", "required", "force", "forced", "enforced"];
const OFF: &[&str] = &["off", "disabled", "no", "false", "0"];
pub(super) const ENCRYPTION_DESIRED: &str =
    "encryption is offered, and the client decides; set required once all clients can encrypt";
const UNKNOWN: &str = "unknown parameter, ignored; check whether you relied on it";

/// The part of `[global]` that becomes `[server]`.
#[derive(Debug, Default)]
pub(super) struct ServerSection {
    name: Option<String>,
    workgroup: Option<String>,
    /// `interfaces` is set, so only its addresses are served, whether or not there is one.
    is_limited: bool,
    binds_only: bool,
    interfaces: Option<Parameter>,
    smb: Vec<String>,
    ports: Vec<u16>,
    pub(super) signing: Option<&'static str>,
    pub(super) encryption: Option<&'static str>,
    min_protocol: Option<&'static str>,
    max_protocol: Option<&'static str>,
    guest: Option<String>,
}

/// A section under construction.
struct OpenSection<'s> {
    draft: Draft,
    /// The share's parameters so far, which precede those of a copied section.
    own: Vec<&'s Parameter>,
    copies: usize,
}

/// Collects the converted parameters and the remarks on the others.
pub struct SmbConfConverter<'a> {
    pub(super) facts: &'a ImportMachine<'a>,
    pub(super) server: ServerSection,
    pub(super) lost: Vec<ImportRemark>,
    pub(super) needless: Vec<ImportRemark>,
    pub(super) shares: Vec<String>,
    pub(super) tables: String,
    pub(super) any_guests: bool,
    pub(super) global: Draft,
}

impl<'a> SmbConfConverter<'a> {
    pub fn new(facts: &'a ImportMachine<'a>) -> Self {
        let nowhere = SourcePosition { file: std::path::Path::new("").into(), line: 0 };
        Self {
            facts,
            server: ServerSection::default(),
            lost: Vec::new(),
            needless: Vec::new(),
            shares: Vec::new(),
            tables: String::new(),
            any_guests: false,
            global: Draft::new("global", nowhere),
        }
    }

    /// Converts the file. Order matters, as with Samba: a section starts with the defaults that
    /// `[global]` has at its first header, and `copy` takes what the other section has so far.
    pub fn of(mut self, file: SambaFile) -> ImportResult {
        self.lost = file.notes;
        let place = file.sections[0].place.clone();
        let template = Draft::new("global", place);
        let mut open = vec![OpenSection { draft: template, own: Vec::new(), copies: 0 }];
        if let Some(extra) = file.sections.get(SHARES_MAX + 1) {
            let text = format!("more than {SHARES_MAX} shares; the rest was omitted");
            self.lose_at(&extra.place, &text);
        }
        let sections = &file.sections[..file.sections.len().min(SHARES_MAX + 1)];
        for (at, (section, parameter)) in file.parameters.iter().enumerate() {
            Self::open_sections(&mut open, sections, at);
            if *section == 0 {
                if !self.global(parameter) && !self.share(&mut open[0].draft, parameter) {
                    self.remark(parameter);
                }
            } else if parameter.key == "copy" {
                self.copy(&mut open, *section, parameter);
            } else if let Some(one) = open.get_mut(*section) {
                one.own.push(parameter);
                if !self.share(&mut one.draft, parameter) {
                    self.remark(parameter);
                }
            }
        }
        Self::open_sections(&mut open, sections, usize::MAX);
        let mut drafts = open.into_iter().map(|one| one.draft);
        self.global = drafts.next().unwrap_or_else(|| self.global.clone());
        self.listen();
        if self.global.encryption_required {
            self.server.encryption = Some("required");
        }
        drafts.for_each(|draft| self.place(draft));
        self.finish()
    }

    /// Opens the sections whose first header precedes parameter `at`.
    fn open_sections(open: &mut Vec<OpenSection<'_>>, sections: &[SmbConfSection], at: usize) {
        while let Some(section) = sections.get(open.len()).filter(|next| next.preceding <= at) {
            let (name, place) = (section.name.clone(), section.place.clone());
            let draft = Draft { name, place, ..open[0].draft.clone() };
            open.push(OpenSection { draft, own: Vec::new(), copies: 0 });
        }
    }

    /// Copies another section's settings. Parameters of the section itself take precedence, also
    /// those before `copy`.
    fn copy(&mut self, open: &mut [OpenSection<'_>], section: usize, copy: &Parameter) {
        let name = squeezed(unquoted(&copy.value));
        let from = open.iter().skip(1).position(|one| squeezed(&one.draft.name) == name);
        let from = match from.map(|at| at + 1) {
            Some(from) if from == section => {
                return self.lose(copy, "a section cannot copy itself");
            }
            Some(from) => from,
            None => {
                let what = "there is no such section before this one to copy; Samba refuses the \
                            whole file";
                return self.lose(copy, what);
            }
        };
        let source = open[from].draft.clone();
        let Some(one) = open.get_mut(section) else { return };
        one.copies += 1;
        if one.copies > COPIES_MAX {
            return self.lose(copy, "too many sections are copied; this one was not");
        }
        let (name, place) = (one.draft.name.clone(), one.draft.place.clone());
        one.draft = Draft { name, place, ..source };
        // Remarks on these parameters were recorded when they were first read.
        let lengths = (self.lost.len(), self.needless.len());
        for parameter in &one.own {
            self.share(&mut one.draft, parameter);
        }
        self.lost.truncate(lengths.0);
        self.needless.truncate(lengths.1);
    }

    /// Applies a server parameter; returns false if it is none.
    fn global(&mut self, parameter: &Parameter) -> bool {
        let value = unquoted(&parameter.value);
        match parameter.key.as_str() {
            "workgroup" => self.server.workgroup = Some(value.into()),
            "netbiosname" => self.name(parameter, value),
            // Its quotes are those of its items.
            "interfaces" => self.server.interfaces = Some(parameter.clone()),
            "bindinterfacesonly" => {
                self.server.binds_only = boolean(value) == Some(true);
                self.need_not(parameter, "the server listens only on the addresses in smb");
            }
            "smbports" => self.ports(parameter, value),
            "serversigning" => self.server.signing = Some(signing_of(value)),
            "serverminprotocol" => {
                self.server.min_protocol = self.dialect(parameter, value, true);
            }
            "servermaxprotocol" => {
                self.server.max_protocol = self.dialect(parameter, value, false);
            }
            "smbencrypt" => return self.encryption(parameter, value),
            "serverrole" if !is_one_of(value, &["standaloneserver", "standalone", "auto"]) => {
                self.lose(parameter, DOMAIN_REMEDY);
            }
            "configfile" => self.lose_access(
                parameter,
                "Samba reads that file instead of this one; import that one",
            ),
            "guestaccount" => self.server.guest = Some(value.into()),
            "maptoguest" => self.map_to_guest(parameter, value),
            "security" if !is_one_of(value, &["user", "auto"]) => {
                self.lose(parameter, DOMAIN_REMEDY);
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

    /// Sets the global encryption; `required` is also a default of all shares.
    fn encryption(&mut self, parameter: &Parameter, value: &str) -> bool {
        self.server.encryption = is_one_of(value, OFF).then_some("off");
        if is_one_of(value, &["desired"]) {
            self.lose(parameter, ENCRYPTION_DESIRED);
        }
        false
    }

    /// Determines the addresses to listen on.
    fn listen(&mut self) {
        let Some(parameter) = self.server.interfaces.take() else { return };
        let entries = items(&parameter.value);
        self.server.is_limited = !entries.is_empty();
        for entry in &entries {
            match listening::resolve(entry, &self.facts.interfaces) {
                Some(found) => {
                    if found.is_elsewhere {
                        let what = format!("{entry} is not an address of this machine");
                        self.lose_access(&parameter, &what);
                    }
                    for address in found.addresses.iter().map(ToString::to_string) {
                        if !self.server.smb.contains(&address) {
                            self.server.smb.push(address);
                        }
                    }
                }
                None => {
                    let what = format!(
                        "{entry:?} is no interface of this machine that is up; add its addresses \
                         to smb in [server]"
                    );
                    self.lose_access(&parameter, &what);
                }
            }
        }
        if self.server.is_limited && self.server.smb.is_empty() {
            self.server.smb = vec!["127.0.0.1".into(), "::1".into()];
            let what = "none of them is here, so only this machine itself is served; set smb in \
                        [server]";
            self.lose_access(&parameter, what);
        } else if self.server.is_limited && !self.server.binds_only {
            let what = "without bind interfaces only, Samba listens on all addresses; add further \
                        ones to smb in [server]";
            self.lose_access(&parameter, what);
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

    /// Remarks on a parameter that is not converted.
    pub(super) fn remark(&mut self, parameter: &Parameter) {
        match fate_of(&parameter.key) {
            Some(ParameterFate::Needless(why)) => self.need_not(parameter, why),
            Some(ParameterFate::Always(value, why)) => {
                if boolean(unquoted(&parameter.value)) == Some(value) {
                    self.need_not(parameter, why);
                } else {
                    self.lose(parameter, why);
                }
            }
            Some(ParameterFate::Only(value, why)) => {
                if squeezed(unquoted(&parameter.value)) == value {
                    self.need_not(parameter, why);
                } else {
                    self.lose(parameter, why);
                }
            }
            Some(ParameterFate::Lost(what)) => self.lose(parameter, what),
            Some(ParameterFate::Data(what)) => {
                let remark = note(parameter, what);
                self.lost.push(ImportRemark { weight: RemarkWeight::Data, ..remark });
            }
            None => {
                let remark = note(parameter, UNKNOWN);
                self.lost.push(ImportRemark { weight: RemarkWeight::Unknown, ..remark });
            }
        }
    }

    /// The computer name, if it is set so far.
    pub(super) fn server_name(&self) -> Option<&str> {
        self.server.name.as_deref()
    }

    pub(super) fn guest(&self) -> String {
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
        let hosts = if server.smb.is_empty() && !server.is_limited {
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

    pub(super) fn lose(&mut self, parameter: &Parameter, what: &str) {
        self.lost.push(note(parameter, what));
    }

    /// As [`SmbConfConverter::lose`], of a parameter that decides who may use a share.
    pub(super) fn lose_access(&mut self, parameter: &Parameter, what: &str) {
        self.lost.push(ImportRemark { weight: RemarkWeight::Access, ..note(parameter, what) });
    }

    pub(super) fn need_not(&mut self, parameter: &Parameter, why: &str) {
        self.needless.push(note(parameter, why));
    }

    /// A remark on a share.
    pub(super) fn lose_at(&mut self, place: &SourcePosition, what: &str) {
        let remark = ImportRemark::new(place.clone(), what);
        self.lost.push(ImportRemark { weight: RemarkWeight::Access, ..remark });
    }

    pub(super) fn need_not_at(&mut self, place: &SourcePosition, why: &str) {
        self.needless.push(ImportRemark::new(place.clone(), why));
    }
}

fn note(parameter: &Parameter, what: &str) -> ImportRemark {
    let Parameter { shown, value, place, .. } = parameter;
    let setting = one_line(&format!("{shown} = {value}"));
    ImportRemark { setting, ..ImportRemark::new(place.clone(), one_line(what)) }
}

pub(super) fn is_one_of(value: &str, words: &[&str]) -> bool {
    words.contains(&squeezed(value).as_str())
}

fn signing_of(value: &str) -> &'static str {
    if is_one_of(value, REQUIRED) { "required" } else { "offered" }
}
