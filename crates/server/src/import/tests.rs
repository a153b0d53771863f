//! Tests with realistic files.

mod field;

use super::*;
use crate::config::{ExportLine, NfsSquash, ShareConfig};
use proptest::prelude::*;
use smb::ShareVisibility;
use std::io::{Error, ErrorKind};

/// Imports files from a map of names; the first one is the main file.
fn import_files(files: &[(&str, &str)], users: &[&str]) -> ImportResult {
    let read = |path: &Path| {
        let found = files.iter().find(|(name, _)| Path::new(name) == path);
        found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| Error::from(ErrorKind::NotFound))
    };
    let facts = ImportMachine {
        read: &read,
        home_of: &|user| (user != "stranger").then(|| format!("/home/{user}").into()),
        groups_of: &|user| if user == "media" { vec!["media".into()] } else { Vec::new() },
        mount_point_of: &|path| {
            let at = path.ancestors().find(|at| at.parent() == Some(Path::new("/")))?;
            Some(at.to_path_buf())
        },
        has_directory: &|path| path == Path::new("/srv/.snapshots"),
        interfaces: vec![
            ("lo".into(), vec![[127, 0, 0, 1].into(), std::net::Ipv6Addr::LOCALHOST.into()]),
            ("br-lan".into(), vec![[192, 0, 2, 1].into()]),
            ("wan".into(), vec![[203, 0, 113, 1].into()]),
        ],
        is_utc: true,
        host: "host".into(),
        users: users.iter().map(|user| (*user).to_owned()).collect(),
        users_file: "/var/lib/anabranch/users.toml".into(),
    };
    import(Path::new(files[0].0), &facts).unwrap()
}

/// The imported configuration, which must be valid, and the remarks.
fn imported(text: &str) -> (ServerConfig, Vec<String>) {
    let imported = import_files(&[("smb.conf", text)], &["alice", "bob"]);
    let config = ServerConfig::parse(&imported.config)
        .unwrap_or_else(|e| panic!("{e}\n{}", imported.config));
    (config, imported.lost.iter().map(ToString::to_string).collect())
}

fn share<'a>(config: &'a ServerConfig, name: &str) -> &'a ShareConfig {
    config.shares.iter().find(|share| share.name == name).unwrap_or_else(|| panic!("no {name}"))
}

fn has(lost: &[String], line: usize, part: &str) -> bool {
    lost.iter().any(|l| l.starts_with(&format!("smb.conf:{line}: ")) && l.contains(part))
}

const OFFICE: &str = "\
# An office.
[global]
   workgroup = OFFICE
   netbios name = files
   server string = Our %h server
   map to guest = Bad User
   log file = /var/log/samba/log.%m
   server min protocol = SMB2_10
   interfaces = 192.0.2.1/24 lo
   socket options = TCP_NODELAY

[homes]
   comment = Home Directories
   browseable = no
   writable = yes
   create mask = 0700
   directory mask = 0700
   valid users = %S

[printers]
   path = /var/spool/samba
   printable = yes

[print$]
   path = /var/lib/samba/printers

[Projects]
   comment = Work
   path = /srv/projects/
   read only = no
   valid users = @staff, +interns \"DOM\\carol\" dave
   invalid users = mallory
   write list = @staff
   force group = staff
   create mask = 0664
   force directory mode = 2770
   directory mask = 0770
   veto files = /*.exe/Thumbs.db/
   hide files = /desktop.ini/
   hosts allow = 192.0.2. 10.0.0.0/255.0.0.0 127.0.0.1
   hosts deny = ALL

[public]
   path = /srv/public
   guest ok = yes
   guest only = yes
   force create mode = 0666
   hide dot files = no
";

#[test]
fn samba_configuration_of_a_small_office_is_imported() {
    let (config, _) = imported(OFFICE);
    assert_eq!((config.workgroup.as_str(), config.name.as_str()), ("OFFICE", "FILES"));
    let listening = ["192.0.2.1:445", "127.0.0.1:445", "[::1]:445"];
    assert_eq!(config.smb, listening.map(|address| address.parse().unwrap()));
    assert_eq!(config.dialect_min, smb::Dialect::Smb210);
    assert_eq!(config.guest.as_deref(), Some("nobody"));
    assert_eq!(config.signing, crate::config::SigningSetting::Offered, "guests have no key");
    let names: Vec<&str> = config.shares.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["alice", "bob", "Projects", "public"]);
    let home = share(&config, "bob");
    assert_eq!(
        (home.path.as_path(), home.users.as_deref()),
        (Path::new("/home/bob"), Some(&["bob".to_owned()][..]))
    );
    assert_eq!(
        (home.listed, home.read_only, home.file_mode, home.directory_mode),
        (ShareVisibility::Users, false, 0o600, 0o700)
    );
    let projects = share(&config, "Projects");
    assert_eq!(projects.path, Path::new("/srv/projects"));
    assert_eq!(projects.users.as_deref().unwrap(), ["@staff", "@interns", "carol", "dave"]);
    assert_eq!(
        (&projects.denied_users[..], &projects.write_users[..]),
        (&["mallory".to_owned()][..], &["@staff".to_owned()][..])
    );
    assert_eq!(projects.force_group.as_deref(), Some("staff"));
    assert_eq!((projects.file_mode, projects.directory_mode), (0o664, 0o2770));
    assert_eq!(projects.veto_names, ["*.exe", "Thumbs.db"]);
    assert_eq!(projects.hidden_names, [".*", "desktop.ini"]);
    assert_eq!((projects.hosts_allowed.len(), projects.hosts_denied.len()), (3, 2));
    let public = share(&config, "public");
    assert_eq!(
        (public.guest_ok, public.read_only, public.force_user.as_deref()),
        (true, true, Some("nobody"))
    );
    assert_eq!((public.file_mode, public.hidden_names.len()), (0o666, 0));
}

#[test]
fn lost_setting_is_reported_with_its_line() {
    let (_, lost) = imported(OFFICE);
    for (line, part) in [
        (5, "only shares have a comment"),
        (9, "without bind interfaces only"),
        (12, "[homes] became one share for each imported user"),
        (20, "[printers] was omitted"),
        (24, "[print$] was omitted"),
        (31, "carol is a domain account"),
    ] {
        assert!(has(&lost, line, part), "line {line}: {part}\n{lost:#?}");
    }
    assert_eq!(lost.len(), 6, "{lost:#?}");
}

#[test]
fn samba_module_has_a_remark() {
    let imported = import_files(
        &[(
            "smb.conf",
            "\
[global]
vfs objects = acl_xattr streams_xattr
[a]
path = /a
vfs objects = fruit streams_xattr recycle full_audit shadow_copy2 aio_pthread strange
fruit:metadata = stream
recycle:repository = .recycle/%U
shadow:snapdir = .snapshots
full_audit:success = mkdir
acl_xattr:ignore system acls = yes
fruit:time machine = yes
",
        )],
        &[],
    );
    let lost: Vec<String> = imported.lost.iter().map(ToString::to_string).collect();
    for (line, part) in [
        (5, "vfs object fruit: "),
        (5, "vfs object recycle: deletes are final"),
        (5, "vfs object full_audit: file operations are not logged"),
        (5, "vfs object strange: unknown module"),
        (7, "recycle:repository"),
        (9, "full_audit:success"),
        (10, "acl_xattr:ignore system acls"),
    ] {
        assert!(has(&lost, line, part), "line {line}: {part}\n{lost:#?}");
    }
    assert_eq!(lost.len(), 7, "{lost:#?}");
    let needless: Vec<String> = imported.needless.iter().map(ToString::to_string).collect();
    assert_eq!(needless.len(), 2, "{needless:?}");
    let config = ServerConfig::parse(&imported.config).unwrap();
    assert!(share(&config, "a").time_machine && share(&config, "a").snapshots.is_some());
    // Later readers of the file find all remarks in it.
    assert!(imported.config.contains("\n# Not imported:\n#   smb.conf:5: vfs objects = fruit "));
}

#[test]
fn samba_syntax_is_parsed_as_samba_does() {
    let main = "\
; a comment
path = /of/global
[ My Share ]
 P A T H = \\
   /srv/my \\
   share
 WriteAble = TRUE
 Public = 0
include = more.conf
include = %m.conf
include = registry
this is nothing
[unclosed
";
    let more = "browsable = off\n[other]\ncopy = my share\npath = /srv/other\ncomment = %S on %h, %U\n[my share]\ncomment = \"later\"\n";
    let imported = import_files(&[("smb.conf", main), ("more.conf", more)], &[]);
    let config = ServerConfig::parse(&imported.config).unwrap();
    let my = share(&config, "My Share");
    assert_eq!(
        (my.path.as_path(), my.read_only, my.guest_ok),
        (Path::new("/srv/my share"), false, false)
    );
    assert_eq!((my.listed, my.comment.as_str()), (ShareVisibility::Nobody, "later"));
    let other = share(&config, "other");
    assert_eq!((other.path.as_path(), other.read_only), (Path::new("/srv/other"), false));
    assert_eq!(other.comment, "%S on %h, %U");
    let lost: Vec<String> = imported.lost.iter().map(ToString::to_string).collect();
    assert!(has(&lost, 10, "differs for each client"));
    assert!(has(&lost, 11, "net conf list"));
    assert!(
        has(&lost, 12, "is not a parameter") && has(&lost, 13, "is not a section"),
        "{lost:#?}"
    );
    assert!(lost.iter().any(|l| l.starts_with("more.conf:5: ") && l.contains("%U differs")));
    assert_eq!(lost.len(), 5, "{lost:#?}");
}

#[test]
fn impossible_share_is_omitted_with_a_reason() {
    let (config, lost) = imported(
        "[by-client]\npath = /srv/%m\n[nowhere]\n[closed]\npath = /a\navailable = no\n[a:b]\npath = /a\n[relative]\npath = a\n[good]\npath = /srv/%S\n",
    );
    assert_eq!((config.shares.len(), config.shares[0].path.as_path()), (1, Path::new("/srv/good")));
    for (line, part) in [
        (1, "%m in its path differs for each client"),
        (3, "it has no path"),
        (4, "it is not available"),
        (7, "cannot be a share's name"),
        (9, "does not begin with /"),
    ] {
        assert!(has(&lost, line, part), "{part}\n{lost:#?}");
    }
}

#[test]
fn encryption_signing_and_dialects_are_translated() {
    let (config, lost) = imported(
        "[global]\nsmb encrypt = required\nserver signing = auto\nserver max protocol = SMB3\nmin protocol = NT1\nsmb ports = 445 139 4450\n[a]\npath = /a\nguest ok = yes\n",
    );
    assert_eq!(config.encryption, crate::config::EncryptionSetting::Required);
    assert_eq!(config.signing, crate::config::SigningSetting::Offered);
    assert_eq!(
        (config.dialect_min, config.dialect_max),
        (smb::Dialect::Smb202, smb::Dialect::Smb311)
    );
    assert_eq!(config.smb.len(), 4);
    assert!(!config.shares[0].guest_ok && config.guest.is_none());
    assert!(has(&lost, 5, "SMB1 and older are not supported"));
    assert!(has(&lost, 7, "guest access was omitted: encryption is required"));
    let signed = "[global]\nserver signing = mandatory\n[a]\npath = /a\nguest ok = yes\n";
    let (config, lost) = imported(signed);
    assert!(!config.shares[0].guest_ok && config.guest.is_none());
    assert!(has(&lost, 3, "guest access was omitted: signing is required"));
    let (config, _) =
        imported("[global]\nsmb encrypt = off\n[a]\npath = /a\nsmb encrypt = desired\n");
    assert_eq!(config.encryption, crate::config::EncryptionSetting::Off);
}

#[test]
fn samba_example_has_no_unknown_parameter() {
    let text = "[global]\nrestrict anonymous = 2\nunix password sync = yes\npasswd chat = *x* %n\\n .\npam password change = yes\nusershare allow guests = yes\nobey pam restrictions = yes\nserver role = standalone server\npanic action = /x %d\nlogging = file\nmax log size = 1000\nlog file = /var/log/samba/log.%m\ndns proxy = no\nwins support = no\npasswd program = /usr/bin/passwd %u\nusershare path =\n";
    let imported = import_files(&[("smb.conf", text)], &[]);
    let unknown: Vec<String> = imported
        .lost
        .iter()
        .map(ToString::to_string)
        .filter(|l| l.contains("unknown parameter"))
        .collect();
    assert_eq!(unknown, [""; 0]);
    assert!(imported.needless.len() > 10);
}

#[test]
fn cyclic_include_terminates() {
    let imported = import_files(&[("smb.conf", "[a]\npath = /a\ninclude = smb.conf\n")], &[]);
    assert!(imported.lost.iter().any(|l| l.text.contains("too many files")));
}

/// Lines with known parameter names, among others.
fn any_line() -> impl Strategy<Value = String> {
    const WORDS: &[&str] = &[
        "path",
        "comment",
        "valid users",
        "hosts allow",
        "veto files",
        "create mask",
        "copy",
        "include",
        "vfs objects",
        "smb encrypt",
        "guest ok",
        "netbios name",
        "interfaces",
        "max disk size",
        "force user",
    ];
    prop_oneof![
        "\\PC{0,30}",
        ("\\[", "[a-z%:$\"]{0,12}", "\\]?").prop_map(|(a, b, c)| a + &b + &c),
        (proptest::sample::select(WORDS), "\\PC{0,20}").prop_map(|(w, v)| format!("{w} = {v}")),
        (proptest::sample::select(WORDS), "[%@+&/ \\\\.\"0-9a-zA-Z*,]{0,20}")
            .prop_map(|(w, v)| format!("{w} = {v}")),
    ]
}

proptest! {
    #[test]
    fn samba_import_always_yields_a_valid_configuration(lines in proptest::collection::vec(any_line(), 0..30)) {
        let imported = import_files(&[("smb.conf", &lines.join("\n"))], &["alice", "b\\\"c"]);
        if let Err(error) = ServerConfig::parse(&imported.config) {
            panic!("{error}\n{}", imported.config);
        }
    }
}

const EXPORTS: &str = r#"
# The kernel's.
/srv/data 192.0.2.7(rw,no_root_squash,sync) 192.0.2.0/255.255.255.0(ro,all_squash,anonuid=1000)
"/srv/with blank" -rw,insecure *(async) build.example.org @machines
/srv/other/data\
    (ro,no_subtree_check) 192.0.2.10(rw,xprtsec=mtls)
/srv/closed *.example.org "a b"(rw)
/srv/all
/srv/order *(rw,no_root_squash,insecure) 192.0.2.0/24(rw,secure) 192.0.2.66(ro,all_squash)
/srv/kerberos 192.0.2.8(rw,sec=krb5p) 192.0.2.9(rw,sec=sys:krb5)
"#;

#[test]
fn kernel_exports_become_shares_with_options_by_client() {
    let imported = import_files(&[("/etc/exports", EXPORTS)], &[]);
    let config = ServerConfig::parse(&imported.config)
        .unwrap_or_else(|e| panic!("{e}\n{}", imported.config));
    let expected = ["data", "with blank", "data-2", "all", "order", "kerberos"];
    assert_eq!(imported.shares, expected);
    let other = clients_of(share(&config, "data-2"));
    assert_eq!(other, ["192.0.2.10(no_access)", "*(ro,root_squash)"], "not served in the clear");
    let data = share(&config, "data");
    assert_eq!(data.path, Path::new("/srv/data"));
    let clients: Vec<_> = data.nfs_clients.iter().map(|one| (one.may_write, one.anonuid)).collect();
    assert_eq!(clients, [(true, None), (false, Some(1000))]);
    assert_eq!(data.nfs_clients[1].hosts.to_string(), "192.0.2.0/24");
    assert!(data.is_exported() && data.users.as_ref().is_some_and(Vec::is_empty));
    let blank = share(&config, "with blank");
    assert_eq!(blank.reserved_ports, Some(false));
    let named =
        ["build.example.org", "@machines", "*"].map(|host| format!("{host}(rw,async,root_squash)"));
    assert_eq!(clients_of(blank), named);
    assert!(!share(&config, "all").nfs_clients[0].may_write, "exports are read-only unless said");
    let lost: Vec<_> = imported.lost.iter().map(ToString::to_string).collect();
    for said in [
        "/etc/exports:5: \"192.0.2.10\" must use TLS: ",
        "/etc/exports:9: /srv/order: insecure for some clients: ",
        "/etc/exports:9: /srv/order has no crossmnt: ",
        "/etc/exports:10: \"192.0.2.8\" must authenticate its users by Kerberos, ",
        "/etc/exports:7: \"a b\" is not a client",
    ] {
        assert!(lost.iter().any(|line| line.starts_with(said)), "{said} in {lost:?}");
    }
    assert!(imported.needless.iter().any(|note| note.text.starts_with("no_subtree_check")));
    assert_eq!(
        clients_of(share(&config, "kerberos")),
        ["192.0.2.8(no_access)", "192.0.2.9(rw,root_squash)"]
    );
}

/// The clients of a share with their options in exports(5) form.
pub(super) fn clients_of(share: &ShareConfig) -> Vec<String> {
    let ExportLine { clients, .. } = ExportLine::new(share, false, true);
    let is_usual = |option: &&String| {
        !matches!(&***option, "sync" | "secure" | "anonuid=65534" | "anongid=65534")
    };
    let word = |(hosts, options): (String, Vec<String>)| {
        format!(
            "{hosts}({})",
            options.iter().filter(is_usual).cloned().collect::<Vec<_>>().join(",")
        )
    };
    clients.into_iter().map(word).collect()
}

/// Here the first entry counts; the kernel's server chooses by kind in any order.
#[test]
fn export_hosts_precede_networks_and_wildcards() {
    let imported = import_files(&[("/etc/exports", EXPORTS)], &[]);
    let config = ServerConfig::parse(&imported.config).unwrap_or_else(|e| panic!("{e}"));
    let order = share(&config, "order");
    let found: Vec<_> = order.nfs_clients.iter().map(|one| (one.may_write, one.squash)).collect();
    let expected = [(false, Some(NfsSquash::All)), (true, None), (true, Some(NfsSquash::None))];
    assert_eq!(found, expected);
    assert_eq!(order.reserved_ports, None, "insecure for some is insecure for none");
}

/// The clients of the imported shares, and the remarks.
fn exported(text: &str) -> (Vec<Vec<String>>, Vec<String>) {
    let imported = import_files(&[("/etc/exports", text)], &[]);
    let config = ServerConfig::parse(&imported.config)
        .unwrap_or_else(|e| panic!("{e}\n{}", imported.config));
    let lost = imported.lost.iter().map(ToString::to_string).collect();
    (config.shares.iter().map(clients_of).collect(), lost)
}

#[test]
fn unknown_client_also_drops_the_wider_ones() {
    for (text, expected) in [
        ("/srv 192.0.2.7(rw) 10.0.0.*(ro) *(rw)", vec!["192.0.2.7(rw,root_squash)"]),
        ("/srv 192.0.2.7(rw) 10.0.0.0/255.0.255.0(ro) *(rw)", vec!["192.0.2.7(rw,root_squash)"]),
        ("/srv a_!(ro) *(rw)", vec![]),
        ("/srv fd*(ro) *(rw)", vec![]),
        ("/srv *(rw,refer=/srv@192.0.2.9)", vec![]),
        ("/srv gss/krb5(rw) *(ro)", vec!["*(ro,root_squash)"]),
        (
            "/srv 192.0.2.0/24(ro) 10.*(rw) 192.0.2.7(rw,all_squash)",
            vec!["192.0.2.0/24(ro,root_squash)", "192.0.2.7(rw,all_squash)"],
        ),
    ] {
        let (shares, lost) = exported(text);
        assert_eq!(shares.into_iter().flatten().collect::<Vec<_>>(), expected, "{text}");
        assert!(lost.iter().any(|line| line.starts_with("/etc/exports:1: ")), "{lost:?}");
    }
}

#[test]
fn export_lines_of_one_path_are_merged() {
    let (shares, _) = exported("/srv *(rw)\n/srv/ 192.0.2.7(ro)\n");
    assert_eq!(shares, [["192.0.2.7(ro,root_squash)", "*(rw,root_squash)"]]);
}

#[test]
fn single_address_network_sorts_as_a_network() {
    let (shares, _) = exported("/srv 192.0.2.0/24(ro) 192.0.2.7/32(rw)\n");
    assert_eq!(shares, [["192.0.2.0/24(ro,root_squash)", "192.0.2.7(rw,root_squash)"]]);
}

#[test]
fn export_that_widens_access_to_an_inner_one_is_omitted() {
    for (inner, expected) in [
        ("192.0.2.7(rw)", vec!["192.0.2.7(rw,root_squash)"]),
        ("*(rw,sec=krb5)", vec![]),
        ("*(rw,xprtsec=tls)", vec![]),
        ("*(rw)", vec!["*(ro,root_squash)", "*(rw,root_squash)"]),
    ] {
        let (shares, lost) = exported(&format!("/srv *(ro)\n/srv/secret {inner}\n"));
        assert_eq!(shares.into_iter().flatten().collect::<Vec<_>>(), expected, "{inner}");
        assert!(lost.iter().any(|line| line.contains("/srv/secret is inside")), "{lost:?}");
    }
}

/// An include may name any file, even an endless device.
#[test]
fn file_beyond_the_limit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("exports");
    std::fs::write(&at, vec![b'#'; text::FILE_BYTES_MAX]).unwrap();
    assert_eq!(read_file(&at).map(|text| text.len()).unwrap(), text::FILE_BYTES_MAX);
    std::fs::write(&at, vec![b'#'; text::FILE_BYTES_MAX + 1]).unwrap();
    assert!(read_file(&at).unwrap_err().to_string().contains("longer than 1048576 bytes"));
    assert!(read_file(Path::new("/dev/zero")).is_err());
}
