//! Ganesha's export permissions, from CLIENT, EXPORT and EXPORT_DEFAULTS blocks.

use vfs::Identity;

/// Ganesha's anonymous uid and gid, -2.
const ANONYMOUS: u32 = u32::MAX - 1;

/// Permissions as configured; `None` where a block does not set them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    access: Option<ExportAccess>,
    squash: Option<&'static str>,
    anonuid: Option<u32>,
    anongid: Option<u32>,
    /// AUTH_SYS is permitted, or Kerberos is required.
    security: Option<Security>,
    /// NFS version 4 is served.
    has_version_4: Option<bool>,
    privileged_port: Option<bool>,
    is_refused: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExportAccess {
    None,
    Other,
    ReadOnly,
    ReadWrite,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Security {
    Sys,
    Kerberos,
    Nobody,
}

/// The converted permissions.
#[derive(Debug, PartialEq, Eq)]
pub struct ConvertedPermissions {
    /// Options of `nfs_clients`.
    pub options: Vec<String>,
    pub is_insecure: bool,
    pub is_refused: bool,
    /// The reason of a refusal that Ganesha does not have.
    pub refusal: Option<&'static str>,
}

/// Whether a setting belongs to the permissions.
pub fn is_term(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "access_type",
        "anonymous_gid",
        "anonymous_uid",
        "clients",
        "manage_gids",
        "privilegedport",
        "protocols",
        "sectype",
        "squash",
    ];
    NAMES.iter().any(|one| name.eq_ignore_ascii_case(one))
}

/// Whether a setting requires TLS, under any of its version-dependent names.
pub fn demands_tls(name: &str, values: &[String]) -> bool {
    let name = name.to_ascii_lowercase();
    let is_about_tls = name.contains("tls") || name.contains("xprtsec");
    let is_off =
        |value: &String| boolean(value) == Some(false) || value.eq_ignore_ascii_case("none");
    is_about_tls && !values.iter().all(is_off)
}

/// Whether an unknown setting may restrict clients, by words in its name.
pub fn restricts(name: &str) -> bool {
    const WORDS: &[&str] = &[
        "access", "addr", "allow", "auth", "deny", "encrypt", "gss", "ha_proxy", "haproxy", "host",
        "krb", "protocol", "require", "restrict", "sec_",
    ];
    let name = name.to_ascii_lowercase();
    WORDS.iter().any(|word| name.contains(word))
}

/// Whether the protocols include version 4.
pub fn has_version_4(values: &[String]) -> bool {
    let is_4 = |value: &String| value.trim_start_matches(|c: char| !c.is_ascii_digit()) == "4";
    values.iter().any(is_4)
}

/// Parses a boolean.
pub fn boolean(value: &str) -> Option<bool> {
    let is = |words: [&str; 3]| words.iter().any(|word| value.eq_ignore_ascii_case(word));
    match () {
        () if is(["yes", "true", "on"]) => Some(true),
        () if is(["no", "false", "off"]) => Some(false),
        () => None,
    }
}

impl Terms {
    /// Applies a setting if it belongs to the permissions.
    ///
    /// # Errors
    /// A sentence about a value that is not carried over. An unknown value refuses the clients.
    pub fn set(&mut self, name: &str, values: &[String]) -> Result<(), String> {
        let value = values.first().map(|value| value.to_ascii_lowercase()).unwrap_or_default();
        let known = match &*name.to_ascii_lowercase() {
            "access_type" => set(&mut self.access, access_of(&value)),
            "squash" => set(&mut self.squash, squash_of(&value)),
            "anonymous_uid" => set(&mut self.anonuid, id_of(&value)),
            "anonymous_gid" => set(&mut self.anongid, id_of(&value)),
            "sectype" => set(&mut self.security, security_of(values)),
            "protocols" => set(&mut self.has_version_4, Some(has_version_4(values))),
            "privilegedport" => set(&mut self.privileged_port, boolean(&value)),
            "manage_gids" if boolean(&value) != Some(false) => {
                return Err("clients supply the users' groups; Manage_Gids is not supported".into());
            }
            _ => true,
        };
        if known {
            return Ok(());
        }
        self.refuse();
        Err(format!(
            "{name} = {:?} is unknown; its clients are omitted until then",
            values.join(", ")
        ))
    }

    /// Refuses all access.
    pub fn refuse(&mut self) {
        self.is_refused = true;
    }

    /// These permissions, completed by `others`.
    pub fn or(&self, others: &Self) -> Self {
        Self {
            access: self.access.or(others.access),
            squash: self.squash.or(others.squash),
            anonuid: self.anonuid.or(others.anonuid),
            anongid: self.anongid.or(others.anongid),
            security: self.security.or(others.security),
            has_version_4: self.has_version_4.or(others.has_version_4),
            privileged_port: self.privileged_port.or(others.privileged_port),
            is_refused: self.is_refused || others.is_refused,
        }
    }

    /// Converts the permissions; Ganesha's defaults apply to unset ones.
    pub fn meaning(&self) -> ConvertedPermissions {
        let access = self.access.unwrap_or(ExportAccess::None);
        let refusal = match (access, self.security.unwrap_or(Security::Sys)) {
            (ExportAccess::None, _) => None,
            (ExportAccess::Other, _) => {
                Some("may see metadata only, which is not supported; omitted")
            }
            (_, Security::Kerberos) => Some(
                "must authenticate its users by Kerberos, which exports here do not require; \
                 omitted",
            ),
            (_, Security::Nobody) => Some("is served without users (SecType none); omitted"),
            _ if self.has_version_4 == Some(false) => Some(
                "is not served by NFS version 4, and other versions are not supported here; \
                 omitted",
            ),
            _ => None,
        };
        let may_write = if access == ExportAccess::ReadWrite { "rw" } else { "ro" };
        let squash = self.squash.unwrap_or("root_squash");
        let mut options = vec![may_write.to_owned(), squash.to_owned()];
        options.push(format!("anonuid={}", self.anonuid.unwrap_or(ANONYMOUS)));
        options.push(format!("anongid={}", self.anongid.unwrap_or(ANONYMOUS)));
        let is_refused = self.is_refused || access == ExportAccess::None || refusal.is_some();
        let is_insecure = self.privileged_port != Some(true);
        ConvertedPermissions { options, is_insecure, is_refused, refusal }
    }
}

/// Stores a value; returns false if there is none.
fn set<T>(place: &mut Option<T>, value: Option<T>) -> bool {
    let is_known = value.is_some();
    if is_known {
        *place = value;
    }
    is_known
}

fn access_of(value: &str) -> Option<ExportAccess> {
    Some(match value {
        "none" => ExportAccess::None,
        "rw" => ExportAccess::ReadWrite,
        "ro" => ExportAccess::ReadOnly,
        "mdonly" | "mdonly_ro" => ExportAccess::Other,
        _ => return None,
    })
}

fn squash_of(value: &str) -> Option<&'static str> {
    Some(match value {
        "root" | "root_squash" | "rootsquash" | "rootid" | "root_id_squash" | "rootidsquash" => {
            "root_squash"
        }
        "all" | "all_squash" | "allsquash" | "all_anonymous" | "all_anomnymous"
        | "allanonymous" => "all_squash",
        "no_root_squash" | "none" | "noidsquash" => "no_root_squash",
        _ => return None,
    })
}

/// Parses an id; negative numbers are 32-bit. A thread must be able to assume the id.
fn id_of(value: &str) -> Option<u32> {
    let number: i64 = value.parse().ok()?;
    let id = match number {
        ..0 => i32::try_from(number).ok()?.cast_unsigned(),
        0.. => u32::try_from(number).ok()?,
    };
    Identity { uid: id, gid: id, groups: Vec::new() }.is_valid().then_some(id)
}

fn security_of(values: &[String]) -> Option<Security> {
    let has = |word: &str| values.iter().any(|value| value.eq_ignore_ascii_case(word));
    match () {
        () if has("sys") => Some(Security::Sys),
        () if ["krb5", "krb5i", "krb5p"].into_iter().any(has) => Some(Security::Kerberos),
        () if has("none") => Some(Security::Nobody),
        () => None,
    }
}
