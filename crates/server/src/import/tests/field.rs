//! Twenty files with the shapes that administrators have. The expected imports were compared
//! with `testparm` and a running smbd 4.17.

use super::import_files;
use crate::config::ServerConfig;
use crate::import::grouped;

/// A file, and its import.
struct FieldCase {
    name: &'static str,
    conf: &'static str,
    /// The imported shares.
    shares: &'static [&'static str],
    /// Lines of the new configuration.
    has: &'static [&'static str],
    /// Texts that the new configuration does not have before its remarks.
    lacks: &'static [&'static str],
    /// Parts of the remarks.
    remarks: &'static [&'static str],
}

const CASES: &[FieldCase] = &[
    FieldCase {
        name: "Debian's stock file, of its active parameters",
        conf: "[global]\nworkgroup = WORKGROUP\nlog file = /var/log/samba/log.%m\n\
               max log size = 1000\nlogging = file\npanic action = /usr/share/samba/panic-action %d\n\
               server role = standalone server\nobey pam restrictions = yes\n\
               unix password sync = yes\npasswd program = /usr/bin/passwd %u\n\
               passwd chat = *new*\\n . *changed*\npam password change = yes\n\
               map to guest = bad user\nusershare allow guests = yes\n\
               [homes]\ncomment = Homes\nbrowseable = no\nread only = yes\ncreate mask = 0700\n\
               directory mask = 0700\nvalid users = %S\n\
               [printers]\ncomment = Printers\nbrowseable = no\npath = /var/tmp\nprintable = yes\n\
               guest ok = no\nread only = yes\ncreate mask = 0700\n\
               [print$]\ncomment = Drivers\npath = /var/lib/samba/printers\nbrowseable = yes\n\
               read only = yes\nguest ok = no\n",
        shares: &["alice", "bob"],
        has: &[
            "smb = [\"0.0.0.0:445\", \"[::]:445\"]",
            "path = \"/home/alice\"",
            "users = [\"bob\"]",
        ],
        lacks: &["print"],
        remarks: &["[homes] became one share for each imported user", "[printers] was omitted"],
    },
    FieldCase {
        name: "router with two networks",
        conf: "[global]\ninterfaces = lo br-lan\nbind interfaces only = yes\n\
               [share]\npath = /mnt\nguest ok = yes\nread only = no\nforce user = root\n",
        shares: &["share"],
        has: &["smb = [\"127.0.0.1:445\", \"[::1]:445\", \"192.0.2.1:445\"]"],
        lacks: &["0.0.0.0", "203.0.113.1"],
        remarks: &[],
    },
    FieldCase {
        name: "router whose interface is not here",
        conf: "[global]\ninterfaces = br-guest\nbind interfaces only = yes\n[s]\npath = /mnt\n",
        shares: &["s"],
        has: &["smb = [\"127.0.0.1:445\", \"[::1]:445\"]"],
        lacks: &["0.0.0.0"],
        remarks: &["\"br-guest\" is no interface", "only this machine itself is served"],
    },
    FieldCase {
        name: "pattern and network of interfaces",
        conf: "[global]\ninterfaces = br* 203.0.113.0/24;speed=1\nbind interfaces only = yes\n",
        shares: &[],
        has: &["smb = [\"192.0.2.1:445\", \"203.0.113.1:445\"]"],
        lacks: &["0.0.0.0"],
        remarks: &[],
    },
    FieldCase {
        name: "primary domain controller",
        conf: "[global]\nworkgroup = OLD\ndomain logons = yes\ndomain master = yes\nos level = 65\n\
               logon path = \\\\%L\\profiles\\%U\nlogon script = %U.bat\nlogon drive = H:\n\
               add machine script = /usr/sbin/useradd %u\npassdb backend = tdbsam\n\
               [netlogon]\npath = /srv/netlogon\nroot preexec = /usr/local/bin/login %U\n\
               [profiles]\npath = /srv/profiles\nread only = no\ncsc policy = disable\n",
        shares: &["netlogon", "profiles"],
        has: &[],
        lacks: &[],
        remarks: &["domains are not supported", "root preexec", "csc policy"],
    },
    FieldCase {
        name: "member of a domain",
        conf: "[global]\nsecurity = ADS\nrealm = AD.EXAMPLE.ORG\nserver role = member server\n\
               idmap config * : backend = tdb\nidmap config AD : range = 10000-20000\n\
               winbind use default domain = yes\ntemplate shell = /bin/bash\n\
               kerberos method = secrets and keytab\n\
               [data]\npath = /srv/data\nvalid users = @\"AD\\domain users\" AD\\carol\n\
               [only]\npath = /srv/only\nvalid users = %G\n",
        shares: &["data", "only"],
        has: &["users = [\"@domain users\", \"carol\"]", "users = []"],
        lacks: &[],
        remarks: &[
            ":2,3,4,5,6,7,8,9: idmap config * : backend, idmap config AD : range, kerberos method, \
             realm and 4 more: domains are not supported",
            "AD\\carol is a domain account",
        ],
    },
    FieldCase {
        name: "Time Machine with a limit",
        conf: "[global]\nvfs objects = catia fruit streams_xattr\nfruit:metadata = stream\n\
               fruit:model = MacSamba\nfruit:posix_rename = yes\nmin protocol = SMB2\n\
               [tm]\npath = /srv/tm\nread only = no\nfruit:time machine = yes\n\
               fruit:time machine max size = 500G\n[plain]\npath = /srv/plain\nvfs objects =\n\
               fruit:time machine = yes\n",
        shares: &["tm", "plain"],
        has: &["time_machine = true", "time_machine_max_bytes = 536870912000"],
        lacks: &[],
        remarks: &["vfs object catia"],
    },
    FieldCase {
        name: "ZFS snapshots",
        conf: "[tank]\npath = /tank/data\nvfs objects = shadow_copy2\n\
               shadow: snapdir = .zfs/snapshot\nshadow: sort = desc\nshadow: localtime = no\n\
               shadow: format = auto-%Y-%m-%d_%H-%M\n",
        shares: &["tank"],
        has: &[
            "snapshots = \"zfs\"",
            "snapshot_names = \"auto-%Y-%m-%d_%H-%M\"",
            "snapshot_root = \"/tank\"",
        ],
        lacks: &[],
        remarks: &[],
    },
    FieldCase {
        name: "snapper, and snapshots in every directory",
        conf: "[s]\npath = /srv/a\nvfs objects = snapper\n[e]\npath = /srv/e\n\
               vfs objects = shadow_copy2\nshadow:snapdirseverywhere = yes\n",
        shares: &["s", "e"],
        has: &["snapshots = \"snapper\"", "snapshot_root = \"/srv\""],
        lacks: &[],
        remarks: &["no snapshots are shown in [e]"],
    },
    FieldCase {
        name: "media centre",
        conf: "[global]\nserver string = KODI\nguest account = root\nmap to guest = Bad User\n\
               max protocol = SMB3\nload printers = no\ndisable spoolss = yes\n\
               socket options = TCP_NODELAY\nuse mmap = yes\nstrict locking = no\n\
               [Videos]\npath = /storage/videos\nguest ok = yes\nbrowseable = yes\n\
               writeable = yes\npublic = yes\nroot preexec = mkdir -p /storage/videos\n",
        shares: &["Videos"],
        has: &["guest = \"root\"", "guest_ok = true", "signing = \"offered\""],
        lacks: &["read_only"],
        remarks: &["only shares have a comment", "commands are never run"],
    },
    FieldCase {
        name: "DFS",
        conf: "[global]\nhost msdfs = yes\n[dfs]\npath = /srv/dfs\nmsdfs root = yes\n\
               [other]\npath = /srv/other\nmsdfs proxy = \\\\b\\c\n",
        shares: &["dfs"],
        has: &[],
        lacks: &["/srv/other"],
        remarks: &["[other] was omitted: msdfs proxy", "msdfs root = yes: DFS is not supported"],
    },
    FieldCase {
        name: "sections by copy, whose own parameters take precedence",
        conf: "[base]\npath = /srv/base\ncomment = Base\nread only = no\nvalid users = %S\n\
               [one]\npath = /srv/one\ncopy = base\nwriteable = no\n[two]\ncopy = one\n\
               path = /srv/two\n[base]\ncomment = Later\n[three]\npath = /srv/three\ncopy = four\n\
               [four]\npath = /srv/four\n",
        shares: &["base", "one", "two", "three", "four"],
        has: &[
            "path = \"/srv/one\"",
            "comment = \"Base\"",
            "users = [\"one\"]",
            "users = [\"two\"]",
            "comment = \"Later\"",
        ],
        lacks: &[],
        remarks: &["no such section before this one to copy"],
    },
    FieldCase {
        name: "quotes",
        conf: "[global]\nworkgroup = \"OFFICE\"\n[a]\npath = \"/srv/a b\"\ncomment = \"x\" and \"y\"\n\
               valid users = \"alice smith\", bob\nforce user = \"media\"\n[b]\npath = \"/srv/b\n",
        shares: &["a", "b"],
        has: &[
            "workgroup = \"OFFICE\"",
            "path = \"/srv/a b\"",
            "users = [\"alice smith\", \"bob\"]",
            "force_user = \"media\"",
            "path = \"/srv/b\"",
        ],
        lacks: &[],
        remarks: &[],
    },
    FieldCase {
        name: "forced users and groups",
        conf: "[a]\npath = /a\nforce user = %m\n[b]\npath = /b\nforce user = AD\\media\n\
               [c]\npath = /c\nforce user = media\nforce group = +media\n\
               [d]\npath = /d\nforce group = +staff\n[e]\npath = /e\nforce user = HOST\\media\n\
               [f]\npath = /f\nguest ok = yes\nguest only = yes\nforce user = media\n\
               [g]\npath = /g\nforce user = %U\n",
        shares: &["c", "d", "e", "f", "g"],
        has: &["force_user = \"media\"", "force_group = \"media\""],
        lacks: &["\"staff\"", "\"nobody\"\nforce"],
        remarks: &[
            "[a] was omitted: force user = %m differs for each client",
            "[b] was omitted: force user = AD\\media is a domain account",
            "for members only is not supported",
        ],
    },
    FieldCase {
        name: "clients",
        conf: "[global]\nhosts allow = 192.0.2. 127.\nhosts deny = ALL\n\
               [a]\npath = /a\nhosts allow = ALL\n\
               [b]\npath = /b\nhosts allow = 192.0.2.0/31 EXCEPT 192.0.2.1\nhosts deny =\n\
               [c]\npath = /c\nhosts allow = LOCAL\nhosts deny =\n",
        shares: &["a", "b", "c"],
        has: &[
            "hosts_allowed = [\"127.0.0.0/8\", \"192.0.2.0/24\"]",
            "hosts_allowed = [\"192.0.2.0\"]",
            "hosts_denied = [\"0.0.0.0/0\", \"::/0\"]",
        ],
        lacks: &[],
        remarks: &["LOCAL cannot be carried over, so these clients are refused"],
    },
    FieldCase {
        name: "denied clients and users that cannot be carried over",
        conf: "[a]\npath = /a\nhosts deny = pirate\n[b]\npath = /b\ninvalid users = %G\n\
               [c]\npath = /c\nread only = no\nread list = %G\n\
               [d]\npath = /d\nhosts deny = ALL EXCEPT 192.0.0.0/2\n",
        shares: &["c", "d"],
        has: &["read_only = true", "hosts_denied = [\"0.0.0.0/1\", \"128.0.0.0/2\", \"::/0\"]"],
        lacks: &["\"/a\"", "\"/b\""],
        remarks: &[
            "[a] was omitted: hosts deny",
            "[b] was omitted: invalid users",
            "[c] became read-only",
        ],
    },
    FieldCase {
        name: "recycle bin and audit",
        conf: "[d]\npath = /srv/d\nread only = no\nvfs objects = recycle full_audit\n\
               recycle:repository = .recycle/%U\nrecycle:keeptree = yes\nrecycle:versions = yes\n\
               full_audit:success = mkdirat renameat\nfull_audit:prefix = %u|%I\n",
        shares: &["d"],
        has: &[],
        lacks: &[],
        remarks: &[
            ":5,6,7: recycle:keeptree, recycle:repository, recycle:versions: deletes are final",
            ":8,9: full_audit:prefix, full_audit:success: ",
        ],
    },
    FieldCase {
        name: "encryption in each of Samba's words",
        conf: "[global]\nsmb encrypt = desired\nserver signing = enforced\n\
               [a]\npath = /a\nsmb encrypt = forced\n[b]\npath = /b\nsmb encrypt = auto\n",
        shares: &["a", "b"],
        has: &["signing = \"required\"", "encryption_required = true"],
        lacks: &["encryption = \"off\""],
        remarks: &["encryption is offered, and the client decides"],
    },
    FieldCase {
        name: "encryption that is off and required, so that nobody could connect",
        conf: "[global]\nserver smb encrypt = off\n[a]\npath = /a\nsmb encrypt = required\n\
               [b]\npath = /b\n",
        shares: &["b"],
        has: &["encryption = \"off\""],
        lacks: &["\"/a\""],
        remarks: &["[a] was omitted: it requires encryption"],
    },
    FieldCase {
        name: "parameters of clients, builds and logs",
        conf: "[global]\nclient min protocol = SMB2\nclient max protocol = SMB3\nclient signing = yes\n\
               client use spnego = yes\nclient ipc signing = auto\nunix charset = UTF-8\n\
               dos charset = CP850\nname resolve order = bcast host\nenable core files = no\n\
               state directory = /x\ncache directory = /x\nprivate dir = /x\npreload modules = x\n\
               stat cache = yes\nmax stat cache size = 512\ndebug pid = yes\nwtmp directory = /x\n\
               use spnego = yes\n[a]\npath = /a\n[late]\npath = /late\n[global]\nread only = no\n\
               [b]\npath = /b\n",
        shares: &["a", "late", "b"],
        has: &[],
        lacks: &[],
        remarks: &["use spnego = yes: unknown parameter"],
    },
];

#[test]
fn field_file_is_imported_as_samba_reads_it() {
    assert_eq!(CASES.len(), 20);
    for FieldCase { name, conf, shares, has, lacks, remarks } in CASES {
        let imported = import_files(&[("smb.conf", conf)], &["alice", "bob"]);
        let text = imported.config.split("\n# Not imported:").next().unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let said = grouped(&imported.lost);
        ServerConfig::parse(text).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
        assert_eq!(imported.shares, *shares, "{name}: {said:#?}");
        for line in *has {
            assert!(lines.contains(line), "{name}: no {line}\n{text}");
        }
        for part in *lacks {
            assert!(!text.contains(part), "{name}: has {part}\n{text}");
        }
        for part in *remarks {
            let count = said.iter().filter(|line| line.contains(part)).count();
            assert_eq!(count, 1, "{name}: {part}\n{said:#?}");
        }
        if remarks.is_empty() {
            assert_eq!(said, [""; 0], "{name}");
        }
    }
}

/// Only the last `[global]` part concerns the shares behind it.
#[test]
fn default_applies_to_the_shares_behind_it() {
    let conf = CASES.last().unwrap().conf;
    let config = ServerConfig::parse(&import_files(&[("smb.conf", conf)], &[]).config).unwrap();
    let read_only: Vec<bool> = config.shares.iter().map(|share| share.read_only).collect();
    assert_eq!(read_only, [true, true, false]);
}

/// A share that forces a guest keeps the forced user; modules are those of the share.
#[test]
fn option_of_a_module_needs_its_module() {
    let conf = CASES.iter().find(|case| case.name.starts_with("Time Machine")).unwrap().conf;
    let config = ServerConfig::parse(&import_files(&[("smb.conf", conf)], &[]).config).unwrap();
    let offered: Vec<bool> = config.shares.iter().map(|share| share.time_machine).collect();
    assert_eq!(offered, [true, false]);
}
