//! Samba's modules `audit`, `extd_audit` and `full_audit` as kinds of audited file operations.

use super::text::items;
use files::FileAuditKind;
use std::collections::BTreeMap;

/// The kinds of operations that a share's audit modules record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConvertedAudit {
    /// The kinds, in the order of their names.
    pub kinds: Vec<String>,
    /// Operations of `full_audit` without a kind.
    pub unknown: Vec<String>,
}

/// Operations of `full_audit` by kind: functions of Samba's file system interface, of all versions.
const OPERATIONS: &[(FileAuditKind, &[&str])] = &[
    (
        FileAuditKind::Attributes,
        &[
            "fntimes",
            "ntimes",
            "set_dos_attributes",
            "fset_dos_attributes",
            "setxattr",
            "fsetxattr",
            "removexattr",
            "fremovexattr",
            "chflags",
            "fchflags",
        ],
    ),
    (
        FileAuditKind::Create,
        &["mkdir", "mkdirat", "link", "linkat", "symlink", "symlinkat", "mknod", "mknodat"],
    ),
    (FileAuditKind::Delete, &["unlink", "unlinkat", "rmdir"]),
    (FileAuditKind::Open, &["open", "openat", "create_file", "opendir", "fdopendir"]),
    (
        FileAuditKind::Permissions,
        &[
            "chmod",
            "fchmod",
            "chown",
            "fchown",
            "lchown",
            "fset_nt_acl",
            "set_nt_acl",
            "sys_acl_set_file",
            "sys_acl_set_fd",
            "sys_acl_delete_def_file",
            "sys_acl_delete_def_fd",
        ],
    ),
    (FileAuditKind::Read, &["read", "pread", "pread_send", "pread_recv", "sendfile"]),
    (FileAuditKind::Rename, &["rename", "renameat"]),
    (
        FileAuditKind::Write,
        &[
            "write",
            "pwrite",
            "pwrite_send",
            "pwrite_recv",
            "recvfile",
            "ftruncate",
            "fallocate",
            "offload_write_send",
            "offload_write_recv",
        ],
    ),
];

/// Operations whose records the audit log of sessions has, or that only serve others.
const NEEDLESS: &[&str] = &["connect", "disconnect", "close", "closedir", "none"];

/// Kinds of the modules `audit` and `extd_audit`.
const OF_AUDIT: [FileAuditKind; 5] = [
    FileAuditKind::Create,
    FileAuditKind::Delete,
    FileAuditKind::Open,
    FileAuditKind::Permissions,
    FileAuditKind::Rename,
];

/// Converts the modules of a share; `options` are those of `full_audit` without their prefix. None
/// if the share audits nothing.
pub fn of_modules(
    modules: &[String],
    options: &BTreeMap<String, String>,
) -> Option<ConvertedAudit> {
    let has = |name: &str| modules.iter().any(|module| module == name);
    let mut selected = Vec::new();
    let mut unknown = Vec::new();
    if has("audit") || has("extd_audit") {
        selected.extend(OF_AUDIT);
    }
    if has("full_audit") {
        // Without these options the module records nothing.
        let list = |name: &str| items(options.get(name).map_or("", String::as_str));
        select(&list("success"), &mut selected, &mut unknown);
        let fails = list("failure");
        if fails.iter().any(|operation| operation != "none" && !operation.starts_with('!')) {
            selected.push(FileAuditKind::Refused);
        }
    }
    let kinds = FileAuditKind::ALL.iter().filter(|kind| selected.contains(kind));
    let kinds: Vec<String> = kinds.map(|kind| kind.name().to_owned()).collect();
    (!kinds.is_empty() || !unknown.is_empty()).then_some(ConvertedAudit { kinds, unknown })
}

fn select(list: &[String], selected: &mut Vec<FileAuditKind>, unknown: &mut Vec<String>) {
    for item in list {
        let (name, is_excluded) = match item.strip_prefix('!') {
            Some(name) => (name, true),
            None => (item.as_str(), false),
        };
        let of_name = OPERATIONS.iter().filter(|(_, names)| name == "all" || names.contains(&name));
        let kinds: Vec<FileAuditKind> = of_name.map(|(kind, _)| *kind).collect();
        match (kinds.is_empty(), is_excluded) {
            // A kind stays if another of its operations was selected.
            (false, true) => {}
            (false, false) => selected.extend(kinds),
            (true, false) if !NEEDLESS.contains(&name) => unknown.push(name.to_owned()),
            (true, _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(modules: &[&str], options: &[(&str, &str)]) -> Option<ConvertedAudit> {
        let modules: Vec<String> = modules.iter().map(|name| (*name).to_owned()).collect();
        let options = options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        of_modules(&modules, &options.collect())
    }

    #[test]
    fn operations_of_full_audit_become_kinds() {
        let options = [("success", "mkdirat renameat unlinkat pwrite connect"), ("failure", "all")];
        let converted = of(&["acl_xattr", "full_audit"], &options).unwrap();
        assert_eq!(converted.kinds, ["create", "delete", "refused", "rename", "write"]);
        assert!(converted.unknown.is_empty());
    }

    #[test]
    fn module_without_operations_audits_nothing() {
        assert_eq!(of(&["full_audit"], &[]), None);
        assert_eq!(of(&["full_audit"], &[("success", "none"), ("failure", "none")]), None);
        assert_eq!(of(&["recycle"], &[("success", "all")]), None);
    }

    #[test]
    fn all_is_every_kind_and_foreign_operations_are_named() {
        let converted = of(&["full_audit"], &[("success", "all !readdir quotactl")]).unwrap();
        assert_eq!(converted.kinds.len(), FileAuditKind::ALL.len() - 1);
        assert_eq!(converted.unknown, ["quotactl"]);
    }

    #[test]
    fn older_audit_modules_have_fixed_kinds() {
        let kinds = ["create", "delete", "open", "permissions", "rename"];
        assert_eq!(of(&["extd_audit"], &[]).unwrap().kinds, kinds);
    }
}
