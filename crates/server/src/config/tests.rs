//! Tests of accepted configurations and of errors.

use super::*;

fn wrong(text: &str) -> String {
    ServerConfig::parse(text).unwrap_err().to_string()
}

/// Each message has the line, the mistake and the remedy.
#[test]
fn mistake_is_reported_with_its_line_and_remedy() {
    for (text, said) in [
        (
            "[server]\nsignin = \"required\"\n",
            "line 2: unknown key `signin`; did you mean `signing`?",
        ),
        ("[sever]\n", "line 1: unknown key `sever`; did you mean `server`?"),
        (
            "[server]\n\nsigning = \"require\"\n",
            "line 3: `require` is not a value of this key; did you mean `required`?",
        ),
        ("[[share]]\nname = \"a\"\n", "line 1: the key `path` is missing here"),
        (
            "[server]\nname = \"a b\"\n",
            "line 2: \"a b\" cannot be a computer's name; use 1 to 15 letters, digits, - and _",
        ),
        (
            "[server]\nadmin = \"no\"\n",
            "line 2: admin: \"no\" is neither an address, such as \"127.0.0.1:4480\", nor a socket, such as \"unix:/run/anabranch/admin.sock\", nor \"off\"",
        ),
        (
            "[server]\nmin_protocol = \"4\"\n",
            "line 2: \"4\" is not a dialect; there are 2.0.2, 2.1, 3.0, 3.0.2 and 3.1.1",
        ),
        (
            "[server]\nmin_protocol = \"3.1.1\"\nmax_protocol = \"2.1\"\n",
            "line 2: min_protocol is above max_protocol",
        ),
        (
            "[server]\nmax_protocol = \"2.1\"\nencryption = \"required\"\n",
            "line 3: encryption needs max_protocol 3.0 or later; raise it",
        ),
        (
            "[server]\nconnections_max = 0\n",
            "line 2: connections_max = 0 is not between 1 and 1000000",
        ),
        ("[server]\nlogon_seconds = 601\n", "line 2: logon_seconds = 601 is not between 1 and 600"),
        ("[server]\nstall_seconds = 0\n", "line 2: stall_seconds = 0 is not between 1 and 3600"),
        (
            "[server]\nrequest_memory_mib = 31\n",
            "line 2: request_memory_mib = 31 is not between 32 and 1048576",
        ),
        ("[server]\nworkers = 5000\n", "line 2: workers = 5000 is not between 1 and 4096"),
        (
            "[[share]]\nname = \"a/b\"\npath = \"/x\"\n",
            "line 2: \"a/b\" cannot be a share's name; use up to 80 letters, digits, -, _ and .",
        ),
        (
            "[[share]]\nname = \"ipc$\"\npath = \"/x\"\n",
            "line 2: \"IPC$\" cannot be a share's name: it is always there, for named pipes",
        ),
        ("[[share]]\nname = \"a\"\npath = \"x\"\n", "line 3: path = \"x\" must begin with /"),
        (
            "[[share]]\nname = \"a\"\npath = \"/x\"\nfile_mode = \"9\"\n",
            "line 4: \"9\" is not an octal mode; write it as \"0644\"",
        ),
        (
            "[server]\nencryption = \"off\"\n[[share]]\nname = \"a\"\npath = \"/x\"\nencryption_required = true\n",
            "line 4: share a: encryption_required needs encryption in [server], where it is \"off\"",
        ),
    ] {
        assert_eq!(wrong(text), said, "in {text:?}");
    }
}

#[test]
fn value_of_wrong_type_has_its_form_and_example() {
    for (text, said) in [
        (
            "[server]\nsmb = \"0.0.0.0:445\"\n",
            "line 2: smb is the string \"0.0.0.0:445\"; it must be a list of addresses, as [\"0.0.0.0:445\", \"[::]:445\"]",
        ),
        (
            "[server]\nsmb = [\"0.0.0.0\"]\n",
            "line 2: smb: invalid socket address syntax; it must be a list of addresses, as [\"0.0.0.0:445\", \"[::]:445\"]",
        ),
    ] {
        assert_eq!(wrong(text), said, "in {text:?}");
    }
}

#[test]
fn mistake_in_share_options_is_reported_with_line_and_remedy() {
    for (text, said) in [
        (
            "[[share]]\nname = \"a\"\npath = \"/x\"\nhosts_allowed = [\"192.0.2.0/99\"]\n",
            "line 4: hosts_allowed: \"192.0.2.0/99\" is not an address or a network, such as \"192.0.2.0/24\"",
        ),
        (
            "[[share]]\nname = \"a\"\npath = \"/x\"\nhosts_denied = [\"host\"]\n",
            "line 4: hosts_denied: \"host\" is not an address or a network, such as \"192.0.2.0/24\"",
        ),
        (
            "[[share]]\nname = \"a\"\npath = \"/x\"\nhidden_names = [\"a/b\"]\n",
            "line 4: hidden_names has \"a/b\"; a pattern matches one name: no /, * for any \
             characters, ? for one",
        ),
        (
            "[[share]]\nname = \"a\"\npath = \"/x\"\nveto_names = [\"**\"]\n",
            "line 4: veto_names has \"**\", which matches every name",
        ),
        (
            "[[share]]\nname = \"a\"\npath = \"/x\"\nlisted = \"no\"\n",
            "line 4: listed = \"no\" is none of everyone, users and nobody",
        ),
        (
            "[[share]]\nname = \"a\"\npath = \"/x\"\nsize_limit = \"much\"\n",
            "line 4: size_limit = \"much\" is not a size, such as \"500 GiB\"",
        ),
        (
            "[server]\nsigning = \"offered\"\n[[share]]\nname = \"a\"\npath = \"/x\"\nguest_ok = true\n",
            "line 4: share a: guest_ok needs guest in [server], the system user that guests act as, such as \"nobody\"",
        ),
        (
            "[server]\nsigning = \"offered\"\nguest = \"nobody\"\n[[share]]\nname = \"a\"\npath = \"/x\"\nguest_ok = true\nencryption_required = true\n",
            "line 5: share a: guest_ok and required encryption exclude each other: guests have no key",
        ),
        (
            "[server]\nguest = \"nobody\"\n[[share]]\nname = \"a\"\npath = \"/x\"\nguest_ok = true\n",
            "line 4: share a: guest_ok and required signing exclude each other: guests have no \
             key; set signing = \"offered\" in [server], or remove guest_ok",
        ),
        (
            "[server]\nntlm = \"off\"\n",
            "line 2: ntlm = \"off\" leaves no way to log on; set kerberos_keytab and kerberos_realm",
        ),
        (
            "[[share]]\nname = \"a\"\npath = \"/x\"\nvetonames = []\n",
            "line 4: unknown key `vetonames`; did you mean `veto_names`?",
        ),
    ] {
        assert_eq!(wrong(text), said, "in {text:?}");
    }
}

#[test]
fn all_mistakes_are_reported_in_line_order() {
    let text = "[[share]]\nname = \"a\"\npath = \"x\"\n[[share]]\nname = \"A\"\npath = \"/y\"\n[server]\nworkers = 0\n";
    let lines: Vec<Option<usize>> =
        ServerConfig::parse(text).unwrap_err().problems.iter().map(|p| p.line).collect();
    assert_eq!(lines, [Some(3), Some(5), Some(8)]);
}

#[test]
fn unreadable_file_is_reported_with_its_path() {
    let error =
        ServerConfig::load(Path::new("/nonexistent/anabranch.toml")).unwrap_err().to_string();
    assert!(error.starts_with("/nonexistent/anabranch.toml: cannot be read: "), "{error}");
}

#[test]
fn missing_share_directory_is_reported_with_its_line() {
    let config =
        ServerConfig::parse("[[share]]\nname = \"a\"\n\npath = \"/nonexistent/a\"\n").unwrap();
    let text = "share a: /nonexistent/a does not exist; create it with: mkdir -p /nonexistent/a";
    assert_eq!(config.problems_outside(), [Problem { line: Some(4), text: text.into() }]);
}

#[test]
fn missing_system_users_and_groups_are_reported() {
    let config = ServerConfig::parse(
        "[[share]]\nname = \"a\"\npath = \"/\"\nusers = [\"x\", \"@no-such-group\"]\nforce_user = \"no-such-user\"\n",
    );
    let texts: Vec<String> =
        config.unwrap().problems_outside().into_iter().map(|p| p.text).collect();
    assert_eq!(
        texts,
        [
            "share a: there is no system group no-such-group; create it with: groupadd \
             no-such-group",
            "share a: there is no system user no-such-user, which force_user refers to",
        ]
    );
}

#[test]
fn guest_access_has_a_warning() {
    let text = "[server]\nsigning = \"offered\"\nguest = \"nobody\"\n[[share]]\nname = \"a\"\npath = \"/x\"\nguest_ok = true\n";
    let warnings = ServerConfig::parse(text).unwrap().warnings();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].text.contains("neither signed nor encrypted"), "{warnings:?}");
    let unused = ServerConfig::parse("[server]\nguest = \"nobody\"\n").unwrap().warnings();
    assert_eq!(
        unused.into_iter().map(|problem| problem.text).collect::<Vec<_>>(),
        ["guest has no effect: signing = \"required\" refuses anonymous and guest sessions"]
    );
    assert!(ServerConfig::parse("[server]\n").unwrap().warnings().is_empty());
}

/// The example is the starting point for administrators; `reference` checks that it has every key.
#[test]
fn packaged_example_is_valid_also_with_every_key_set() {
    let text = include_str!("../../../../packaging/anabranch.toml");
    ServerConfig::parse(text).unwrap();
    // Unset keys are in the example as comments; the test sets them all.
    let all: String = text
        .lines()
        .map(|l| l.strip_prefix("#: ").unwrap_or(l))
        .fold(String::new(), |s, l| s + l + "\n");
    let config = ServerConfig::parse(&all).unwrap();
    assert_eq!((config.shares.len(), config.guest.as_deref()), (2, Some("nobody")));
}

#[test]
fn command_line_sets_the_same_keys_as_the_file() {
    let mut config = ServerConfig::empty();
    let share = config.add_share("a", Path::new("/a")).unwrap();
    for (key, value) in [
        ("read_only", "yes"),
        ("encryption_required", "true"),
        ("hide_unreadable", "no"),
        ("device_nodes", "yes"),
        ("absolute_links", "yes"),
        ("case_sensitive", "yes"),
        ("posix", "no"),
        ("time_machine", "yes"),
        ("continuously_available", "yes"),
        ("comment", "hello"),
        ("users", "alice+bob"),
        ("file_mode", "0600"),
        ("directory_mode", "0700"),
        ("denied_users", "mallory"),
        ("read_users", "@readers"),
        ("write_users", "alice+@writers"),
        ("hosts_allowed", "192.0.2.0/24+2001:db8::/32"),
        ("hosts_denied", "192.0.2.66"),
        ("hidden_names", ".*+hidefile"),
        ("veto_names", "*.exe"),
        ("guest_ok", "no"),
        ("reserved_ports", "no"),
        ("nfs_anonuid", "1000"),
        ("nfs_anongid", "100"),
        ("listed", "users"),
        ("force_user", "nobody"),
        ("force_group", "users"),
        ("size_limit", "10 GiB"),
        ("metadata_cache", "1 GiB"),
        ("backend_latency_us", "1000"),
    ] {
        share.set(key, value).unwrap();
    }
    assert_eq!((share.file_mode, share.directory_mode, share.read_only), (0o600, 0o700, true));
    assert_eq!((share.posix, share.time_machine), (false, true));
    assert!(share.absolute_links && share.device_nodes);
    assert_eq!(share.users.as_deref(), Some(&["alice".to_owned(), "bob".to_owned()][..]));
    assert_eq!(share.write_users, ["alice", "@writers"]);
    assert_eq!(share.reserved_ports, Some(false));
    assert_eq!((share.nfs_anonuid, share.nfs_anongid), (1000, 100));
    assert_eq!((share.hosts_allowed.len(), share.hosts_denied.len()), (2, 1));
    assert_eq!(share.hidden_names, [".*", "hidefile"]);
    assert_eq!((share.size_limit_bytes, share.metadata_cache_bytes), (Some(10 << 30), 1 << 30));
    assert_eq!(share.backend_latency_us, 1000);
    let said = share.set("backend_latency_us", "1000001").unwrap_err().to_string();
    assert_eq!(said, "backend_latency_us = 1000001 is more than 1000000: a second");
    let said = share.set("backend_latency_us", "1ms").unwrap_err().to_string();
    assert_eq!(said, "backend_latency_us = \"1ms\" is not a number of microseconds");
    share.set("metadata_cache", "off").unwrap();
    assert_eq!(share.metadata_cache_bytes, 0);
    let said = share.set("metadata_cache", "5 GiB").unwrap_err().to_string();
    assert_eq!(said, "metadata_cache = \"5 GiB\" is more than 4 GiB, or \"off\"");
    let said = share.set("readonly", "yes").unwrap_err().to_string();
    assert_eq!(said, "a share has no key `readonly`; did you mean `read_only`?");
    assert_eq!(
        share.set("read_only", "1").unwrap_err().to_string(),
        "read_only is yes or no, not \"1\""
    );
    let twice = config.add_share("A", Path::new("/b")).unwrap_err().to_string();
    assert_eq!(twice, "there are two shares named \"A\"; rename one");
}

#[test]
fn multichannel_mistakes_are_reported() {
    for (text, said) in [
        (
            "[multichannel]\nchannels_max = 33\n",
            "line 2: channels_max = 33 is not between 1 and 32",
        ),
        (
            "[multichannel]\n\nmin_protocol = \"2.1\"\n",
            "line 3: Multichannel needs min_protocol 3.0 or later; raise it",
        ),
        (
            "[multichannel]\nexclude = [\"docker*\", \"192.0.2.0/33\"]\n",
            "line 2: \"192.0.2.0/33\" is neither an interface's name nor ADDRESS/BITS",
        ),
        (
            "[[multichannel.interface]]\naddress = \"eth0\"\n",
            "line 2: address: invalid IP address syntax; it must be an IP address, as address = \"192.0.2.1\"",
        ),
    ] {
        assert_eq!(wrong(text), said);
    }
}

#[test]
fn unusual_channel_count_has_a_warning_with_its_line() {
    let warned = |text: &str| ServerConfig::parse(text).unwrap().warnings();
    assert_eq!(warned("[multichannel]\nchannels_max = 4\n"), []);
    assert_eq!(warned("[multichannel]\nenabled = false\nchannels_max = 9\n"), []);
    let warnings = warned("[multichannel]\n\nchannels_max = 9\n");
    assert_eq!(warnings.iter().map(|w| w.line).collect::<Vec<_>>(), [Some(3)]);
    assert!(warnings[0].text.starts_with("channels_max = 9: more than 4 connections"));
}

#[test]
fn tls_mistakes_are_reported() {
    for (text, said) in [
        (
            "[server]\nnfs_tls_key = \"k\"\n",
            "line 2: NFS with TLS needs nfs_tls_certificate and nfs_tls_key; set both",
        ),
        (
            "[server]\nnfs_tls_client_ca = \"c\"\nnfs_tls_certificate = \"c\"\n",
            "line 3: NFS with TLS needs nfs_tls_certificate and nfs_tls_key; set both",
        ),
        (
            "[server]\nnfs = [\"127.0.0.1:2049\"]\n[[share]]\nname = \"a\"\npath = \"/x\"\nencryption_required = true\nnfs = true\n",
            "line 4: share a: encryption_required conflicts with NFS without TLS; set nfs_tls = \
             \"required\", or remove nfs",
        ),
        (
            "[[share]]\nname = \"a\"\npath = \"/x\"\nnfs_tls = \"required\"\n",
            "line 2: share a: nfs_tls = \"required\" needs nfs_tls_certificate and nfs_tls_key in [server]",
        ),
    ] {
        assert_eq!(wrong(text), said);
    }
}

#[test]
fn nfs_client_options_are_parsed_and_mistakes_have_a_line() {
    let share = "[[share]]\nname = \"a\"\npath = \"/x\"\n";
    let said = "nfs_anonuid = 1000\nnfs_clients = [\"192.0.2.7(rw)\", \"*\"]\n";
    let config = ServerConfig::parse(&format!("{share}{said}")).unwrap();
    let found = &config.shares[0];
    assert_eq!((found.nfs_anonuid, found.nfs_anongid), (1000, 65_534));
    let may_write = found.nfs_clients.iter().map(|one| one.may_write);
    assert_eq!(may_write.collect::<Vec<_>>(), [true, false]);
    let text = format!("{share}nfs_anongid = 4294967295\n");
    let said = "line 4: nfs_anongid = \"4294967295\" is not the number of a user or group";
    assert_eq!(wrong(&text), said);
    let text = format!("{share}nfs_clients = [\"*(fast)\"]\n");
    assert!(wrong(&text).starts_with("line 4: nfs_clients: \"fast\" is not an option"), "{text}");
}

#[test]
fn tls_is_offered_with_a_certificate_and_required_by_share() {
    let text = "[server]\nnfs_tls_key = \"k\"\nnfs_tls_certificate = \"c\"\n[[share]]\nname = \"a\"\npath = \"/x\"\n";
    let config = ServerConfig::parse(text).unwrap();
    let files = config.nfs_tls.as_ref().unwrap();
    assert_eq!((files.certificate.to_str(), files.key.to_str()), (Some("c"), Some("k")));
    assert_eq!((&files.client_ca, files.line), (&None, Some(3)));
    assert_eq!(config.shares[0].nfs_tls, NfsTls::Offered);
    let config = ServerConfig::parse(&format!("{text}nfs_tls = \"required\"\n")).unwrap();
    assert_eq!(config.shares[0].nfs_tls, NfsTls::Required);
    assert_eq!(ServerConfig::parse("").unwrap().nfs_tls, None);
    let mut share = config.shares[0].clone();
    share.set("nfs_tls", "offered").unwrap();
    assert_eq!(share.nfs_tls, NfsTls::Offered);
    let said = share.set("nfs_tls", "yes").unwrap_err().to_string();
    assert_eq!(said, "nfs_tls is offered or required, not \"yes\"");
}

#[test]
fn former_value_of_smb_stable_is_still_read() {
    let text = "[[share]]\nname = \"a\"\npath = \"/x\"\nsmb_stable = ";
    for value in ["requested", "asked"] {
        let config = ServerConfig::parse(&format!("{text}\"{value}\"\n")).unwrap();
        let mut share = config.shares[0].clone();
        assert_eq!(share.smb_stable, SmbStable::Requested, "{value}");
        share.set("smb_stable", "always").unwrap();
        share.set("smb_stable", value).unwrap();
        assert_eq!(share.smb_stable, SmbStable::Requested, "{value}");
    }
}

#[test]
fn default_state_folder_is_that_of_the_service_manager() {
    type Variables = &'static [(&'static str, &'static str)];
    const HOME: (&str, &str) = ("HOME", "/home/alice");
    let folder = |is_root, set: Variables| {
        let set: Vec<_> = set.iter().map(|(n, v)| ((*n).to_owned(), OsString::from(v))).collect();
        default_state_folder(is_root, |name| {
            set.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone())
        })
    };
    let cases: [(bool, Variables, &str); 8] = [
        (true, &[HOME], "/var/lib/anabranch"),
        (false, &[HOME], "/home/alice/.local/state/anabranch"),
        (false, &[HOME, ("XDG_STATE_HOME", "/s")], "/s/anabranch"),
        (false, &[], "./anabranch"),
        (true, &[("STATE_DIRECTORY", "/state")], "/state"),
        (false, &[HOME, ("STATE_DIRECTORY", "/state:/other")], "/state"),
        (true, &[("STATE_DIRECTORY", "")], "/var/lib/anabranch"),
        (true, &[("STATE_DIRECTORY", "relative")], "/var/lib/anabranch"),
    ];
    for (is_root, set, expected) in cases {
        assert_eq!(folder(is_root, set), Path::new(expected), "{set:?}");
    }
}
