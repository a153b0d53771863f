//! Tests with realistic configurations.

use super::*;
use crate::config::ServerConfig;
use crate::import::tests::clients_of;
use proptest::prelude::*;
use std::io::{Error, ErrorKind};

fn import_files(files: &[(&str, &str)]) -> Result<ImportResult, String> {
    let read = |path: &Path| {
        let found = files.iter().find(|(name, _)| Path::new(name) == path);
        found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| Error::from(ErrorKind::NotFound))
    };
    import(Path::new(files[0].0), &read)
}

const MAIN: &str = "/etc/ganesha/ganesha.conf";

/// The imported configuration, which must be valid, and the remarks.
fn imported(text: &str) -> (ServerConfig, Vec<String>) {
    let imported = import_files(&[(MAIN, text)]).unwrap();
    let config = ServerConfig::parse(&imported.config)
        .unwrap_or_else(|e| panic!("{e}\n{}", imported.config));
    (config, imported.lost.iter().map(ToString::to_string).collect())
}

#[test]
fn ganesha_exports_become_shares_with_options_by_client() {
    let (config, lost) = imported(
        "NFS_CORE_PARAM { NFS_Port = 20490; Bind_addr = 127.0.0.1; }\n\
         EXPORT_DEFAULTS { Access_Type = RO; Anonymous_Uid = 1000; SecType = sys; }\n\
         EXPORT {\n Export_Id = 1; Path = /srv/data; Pseudo = /data; FSAL { Name = VFS; }\n\
         Squash = All; PrivilegedPort = true;\n\
         CLIENT { Clients = 192.0.2.7, *.lab.example; Access_Type = RW; Squash = No_Root_Squash; }\n\
         CLIENT { Clients = 192.0.2.0/24; Access_Type = None; }\n\
         CLIENT { Clients = @builders; Anonymous_Gid = -2; }\n}\n",
    );
    assert_eq!(config.nfs.iter().map(ToString::to_string).collect::<Vec<_>>(), ["127.0.0.1:20490"]);
    let share = &config.shares[0];
    assert_eq!((&*share.name, share.path.as_path()), ("data", Path::new("/srv/data")));
    let anonymous = "anonuid=1000,anongid=4294967294";
    assert_eq!(
        clients_of(share),
        [
            format!("192.0.2.7(rw,no_root_squash,{anonymous})"),
            format!("*.lab.example(rw,no_root_squash,{anonymous})"),
            "192.0.2.0/24(no_access)".into(),
            format!("@builders(ro,all_squash,{anonymous})"),
            format!("*(ro,all_squash,{anonymous})"),
        ]
    );
    assert_eq!(share.reserved_ports, None, "they stay privileged");
    assert!(share.is_exported() && share.users.as_ref().is_some_and(Vec::is_empty));
    assert_eq!(lost, [""; 0]);
}

#[test]
fn export_without_access_type_serves_only_its_clients() {
    let (config, _) = imported(
        "EXPORT { Path = /srv/a; FSAL { Name = VFS; } CLIENT { Clients = 192.0.2.1; Access_Type = RW; } }",
    );
    assert_eq!(clients_of(&config.shares[0]).len(), 1);
    assert_eq!(config.shares[0].reserved_ports, Some(false), "Ganesha asks for none");
    let imported =
        import_files(&[(MAIN, "EXPORT { Path = /srv/a; FSAL { Name = VFS; } }")]).unwrap();
    assert!(imported.shares.is_empty());
}

#[test]
fn export_that_requires_kerberos_or_tls_is_not_served_plainly() {
    let export = |inner: &str| {
        format!("EXPORT {{ Path = /srv/a; Access_Type = RW; FSAL {{ Name = VFS; }} {inner} }}")
    };
    for refused in [
        "SecType = krb5, krb5p;",
        "Enable_TLS = true;",
        "XprtSec = tls, mtls;",
        "Protocols = 3;",
        "SecType = none;",
        "SecType = sy;",
        "Access_Type = MDONLY;",
        "Squash = some;",
        "Anonymous_Uid = -1;",
        "Anonymous_Gid = -3;",
    ] {
        let imported = import_files(&[(MAIN, &export(refused))]).unwrap();
        assert!(imported.shares.is_empty(), "{refused}\n{}", imported.config);
        assert!(!imported.lost.is_empty(), "{refused}");
    }
}

#[test]
fn global_restriction_applies_to_each_export() {
    let export = "EXPORT { Path = /srv/a; Access_Type = RW; FSAL { Name = VFS; } }\n";
    for refused in [
        "EXPORT_DEFAULTS { XprtSec = tls; }",
        "EXPORT_DEFAULTS { HAProxy_Hosts = 192.0.2.1; }",
        "NFS_CORE_PARAM { Protocols = 3; }",
        "NFS_CORE_PARAM { Enable_TLS = true; }",
    ] {
        let imported = import_files(&[(MAIN, &format!("{export}{refused}"))]).unwrap();
        assert!(imported.shares.is_empty(), "{refused}\n{}", imported.config);
        assert!(!imported.lost.is_empty(), "{refused}");
    }
    let text = format!(
        "{export}NFS_CORE_PARAM {{ Protocols = 3, 4; Enable_TLS = false; }}\nEXPORT_DEFAULTS {{ Odd = 1; }}"
    );
    let (config, lost) = imported(&text);
    assert_eq!(config.shares.len(), 1);
    assert!(lost[0].contains("\"Odd\" is not supported"), "{lost:?}");
}

#[test]
fn restricting_setting_is_never_dropped_silently() {
    let of_export = "EXPORT { Path = /srv/a; Access_Type = RW; Server_Addrs = 192.0.2.1; FSAL { Name = VFS; } }";
    let of_client = "EXPORT { Path = /srv/a; FSAL { Name = VFS; } CLIENT { Clients = *; Access_Type = RW; HA_Proxy = 192.0.2.1; } }";
    for text in [of_export, of_client] {
        let imported = import_files(&[(MAIN, text)]).unwrap();
        assert!(imported.shares.is_empty(), "{text}\n{}", imported.config);
    }
}

#[test]
fn all_of_ipv4_is_not_all_and_wildcard_of_addresses_is_refused() {
    let of = |clients: &str| {
        let text = format!(
            "EXPORT {{ Path = /srv/a; FSAL {{ Name = VFS; }} CLIENT {{ Clients = 192.0.2.1; Access_Type = RW; }} \
             CLIENT {{ Clients = {clients}; Access_Type = RO; }} CLIENT {{ Clients = 198.51.100.0/24; Access_Type = RW; }} }}"
        );
        clients_of(&imported(&text).0.shares[0])
            .iter()
            .map(|word| word.split('(').next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(of("0.0.0.0/0"), ["192.0.2.1", "0.0.0.0/0", "198.51.100.0/24"]);
    for clients in ["fd*", "0.0.0.0", "192.0.2.*"] {
        assert_eq!(of(clients), ["192.0.2.1"], "{clients}: refused, and so is what is behind");
    }
}

#[test]
fn outer_export_that_widens_access_to_an_inner_one_is_omitted() {
    let inner = |terms: &str| {
        let outer =
            "EXPORT { Path = /srv; Pseudo = /all; Access_Type = RW; FSAL { Name = VFS; } }\n";
        let text =
            format!("{outer}EXPORT {{ Path = /srv/secret; FSAL {{ Name = VFS; }} {terms} }}");
        let imported = import_files(&[(MAIN, &text)]).unwrap();
        assert!(
            imported.lost.iter().any(|note| note.text.contains("/srv/secret is inside")),
            "{terms}"
        );
        imported.shares
    };
    assert_eq!(inner("CLIENT { Clients = 192.0.2.7; Access_Type = RW; }"), ["secret"]);
    assert_eq!(inner("Access_Type = RO;"), ["secret"]);
    assert_eq!(inner("Access_Type = RW; SecType = krb5p;"), [""; 0]);
    assert_eq!(inner("Access_Type = RW; XprtSec = tls;"), [""; 0]);
    assert_eq!(inner("Access_Type = RW;"), ["all", "secret"], "as wide: a note alone");
}

#[test]
fn client_that_needs_kerberos_gets_no_wildcard_options() {
    let clients = "CLIENT { Clients = 192.0.2.8; SecType = krb5p; }";
    let text =
        format!("EXPORT {{ Path = /srv/a; Access_Type = RO; FSAL {{ Name = VFS; }} {clients} }}");
    let (config, lost) = imported(&text);
    let words = clients_of(&config.shares[0]);
    assert_eq!((words.len(), &*words[0]), (2, "192.0.2.8(no_access)"));
    assert!(
        lost.iter().any(|line| line.contains("192.0.2.8 must authenticate its users by Kerberos"))
    );
    let (config, lost) = {
        let text = text.replace("192.0.2.8", "a.example, 192.0.2.8");
        let imported = import_files(&[(MAIN, &text)]).unwrap();
        (imported.config, imported.lost)
    };
    assert!(!config.contains("[[share]]"), "a name cannot be kept out for certain: {config}");
    assert!(lost.iter().any(|note| note.text.contains("is refused by name")));
}

#[test]
fn unsupported_setting_is_reported_with_its_line() {
    let (config, lost) = imported(
        "EXPORT {\n Path = /ceph;\n Access_Type = RW;\n FSAL { Name = CEPH; }\n}\n\
         EXPORT {\n Path = /srv/a; Pseudo = /deep/other; FSAL { Name = VFS; } Access_Type = RW;\n\
         Manage_Gids = true;\n Odd = 1;\n}\nODD { }\n%dir /etc/ganesha/more\n",
    );
    assert_eq!(config.shares.len(), 1);
    for said in [
        ":1: /ceph: FSAL \"CEPH\" is not a local directory",
        ":6: \"/deep/other\" is mounted as SERVER:/other here",
        ":8: clients supply the users' groups",
        ":9: \"Odd\" is not supported",
        ":11: \"ODD\" is not supported",
        ":12: %dir /etc/ganesha/more was not read",
    ] {
        assert!(
            lost.iter().any(|line| line.starts_with(&format!("{MAIN}{said}"))),
            "{said} in {lost:?}"
        );
    }
}

#[test]
fn ganesha_file_is_distinguished_from_samba_and_exports() {
    for text in ["EXPORT\n{\n", "# c\nNFS_CORE_PARAM {", "%include \"a\"", "EXPORT{}"] {
        assert!(is_ganesha(text), "{text}");
    }
    for text in ["[global]\n a = {", "/srv *(rw)", "", "workgroup = A", "a\nb"] {
        assert!(!is_ganesha(text), "{text}");
    }
}

fn any_setting() -> impl Strategy<Value = String> {
    let names = proptest::sample::select(vec![
        "Path",
        "Pseudo",
        "Access_Type",
        "Squash",
        "SecType",
        "Protocols",
        "Clients",
        "Anonymous_Uid",
        "PrivilegedPort",
        "Odd",
    ]);
    let value = "[ -~]{0,12}";
    let known = proptest::sample::select(vec![
        "/srv/a",
        "RW",
        "RO",
        "None",
        "All",
        "krb5",
        "sys",
        "4",
        "192.0.2.0/24",
        "*.a",
        "@b",
        "*",
        "-2",
        "true",
    ]);
    let value =
        prop_oneof![value.prop_map(|v| v.replace(['\\', '"'], "")), known.prop_map(str::to_owned)];
    (names, value).prop_map(|(name, value)| format!("{name} = \"{value}\";"))
}

proptest! {
    #[test]
    fn ganesha_import_always_yields_a_valid_configuration(
        exports in proptest::collection::vec((proptest::collection::vec(any_setting(), 0..8), proptest::collection::vec(any_setting(), 0..4)), 0..4)
    ) {
        let text: String = exports
            .iter()
            .map(|(of_export, of_client)| {
                format!("EXPORT {{ {} CLIENT {{ {} }} FSAL {{ Name = VFS; }} }}\n", of_export.join(" "), of_client.join(" "))
            })
            .collect();
        let imported = import_files(&[(MAIN, &text)]).unwrap();
        if let Err(error) = ServerConfig::parse(&imported.config) {
            // An invalid path must be corrected by hand; all else must be valid.
            let is_path = error.problems.iter().all(|problem| problem.text.contains("must begin with /"));
            prop_assert!(is_path, "{}\n{}", error, imported.config);
        }
    }
}
