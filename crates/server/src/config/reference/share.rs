//! Keys of `[[share]]` and `[share.limits]`.

use super::ConfigKey;
use super::DefaultValue::{Described, Is, Needed};
use super::EffectTime::{Reload, Restart};

pub(super) const SHARE: &[ConfigKey] = &[
    ConfigKey {
        name: "name",
        form: "up to 80 letters, digits, `-`, `_` and `.`",
        default: Needed,
        counts: Reload,
        text: "Name that clients use.",
    },
    ConfigKey {
        name: "path",
        form: "a path that begins with `/`",
        default: Needed,
        counts: Reload,
        text: "The directory.",
    },
    ConfigKey {
        name: "comment",
        form: "a text",
        default: Described("none"),
        counts: Reload,
        text: "Description in share lists.",
    },
    ConfigKey {
        name: "read_only",
        form: "`true` or `false`",
        default: Is("false"),
        counts: Reload,
        text: "Refuses all changes.",
    },
    ConfigKey {
        name: "encryption_required",
        form: "`true` or `false`",
        default: Is("false"),
        counts: Reload,
        text: "Requires encrypted connections. The share is then exported by NFS only with `nfs = \
               true` and `nfs_tls = \"required\"`.",
    },
    ConfigKey {
        name: "users",
        form: "a list of users, as `[\"alice\", \"@staff\"]`",
        default: Described("everyone with an account"),
        counts: Reload,
        text: "Users that may connect.",
    },
    ConfigKey {
        name: "denied_users",
        form: "a list of users",
        default: Is("[]"),
        counts: Reload,
        text: "Users that may not connect, regardless of other settings.",
    },
    ConfigKey {
        name: "read_users",
        form: "a list of users",
        default: Is("[]"),
        counts: Reload,
        text: "Users with read-only access.",
    },
    ConfigKey {
        name: "write_users",
        form: "a list of users",
        default: Is("[]"),
        counts: Reload,
        text: "Users with write access despite `read_only` or `read_users`.",
    },
    ConfigKey {
        name: "hosts_allowed",
        form: "a list of clients, as `[\"192.0.2.0/24\", \"2001:db8::/32\", \"*.example.org\"]`",
        default: Described("all, or with `hosts_denied` all others"),
        counts: Reload,
        text: "Clients that may connect: addresses, networks, and names as in `nfs_clients`. \
               Without `hosts_denied` all others are refused. A client in both lists may \
               connect.",
    },
    ConfigKey {
        name: "hosts_denied",
        form: "a list of networks",
        default: Is("[]"),
        counts: Reload,
        text: "Networks that may not connect. Names are not permitted, because a name that cannot \
               be resolved would deny no one.",
    },
    ConfigKey {
        name: "guest_ok",
        form: "`true` or `false`",
        default: Is("false"),
        counts: Reload,
        text: "Whether anonymous and guest sessions may connect, with the account `guest` of \
               `[server]`. Their messages are neither signed nor encrypted, so this requires \
               `signing = \"offered\"`. Windows refuses guest logons unless its policy is \
               changed.",
    },
    ConfigKey {
        name: "listed",
        form: "`\"everyone\"`, `\"users\"` who may connect, or `\"nobody\"`",
        default: Is("\"everyone\""),
        counts: Reload,
        text: "Clients whose share lists contain the share. Clients that know its name can still \
               connect.",
    },
    ConfigKey {
        name: "force_user",
        form: "a system user",
        default: Described("each user's own"),
        counts: Reload,
        text: "System user for all file access. Takes effect if the server runs as root.",
    },
    ConfigKey {
        name: "force_group",
        form: "a system group",
        default: Described("each user's own"),
        counts: Reload,
        text: "System group of all new files. Takes effect if the server runs as root.",
    },
    ConfigKey {
        name: "hidden_names",
        form: "a list of patterns: `*` matches any characters, `?` matches one",
        default: Is("[\".*\"]"),
        counts: Reload,
        text: "Names of files with the hidden attribute.",
    },
    ConfigKey {
        name: "veto_names",
        form: "a list of patterns",
        default: Is("[]"),
        counts: Reload,
        text: "Names that are not served: clients cannot find, list or create them. A directory \
               that contains such names cannot be deleted. A pattern is matched against the stored \
               name and against the name that Windows sees: without trailing dots and spaces, and \
               without a stream (`secret.txt.`, `secret.txt:s`). Symbolic links that the server \
               follows do not lead to them; a hard link has a name of its own.",
    },
    ConfigKey {
        name: "hide_unreadable",
        form: "`true` or `false`",
        default: Is("false"),
        counts: Reload,
        text: "Omits entries that the user may not read from directory listings.",
    },
    ConfigKey {
        name: "absolute_links",
        form: "`true` or `false`",
        default: Is("false"),
        counts: Reload,
        text: "Clients may store symbolic links to targets outside of the share: absolute ones, or \
               ones above the share's root. Otherwise such links are refused (`Operation not \
               permitted`). The server never follows them; clients that see links, and programs on \
               the server, do. Existing links are always visible.",
    },
    ConfigKey {
        name: "device_nodes",
        form: "`true` or `false`",
        default: Is("false"),
        counts: Reload,
        text: "NFS clients may create block and character devices. Only the superuser may, so \
               `nfs_squash` must not map root; no other setting permits it.",
    },
    ConfigKey {
        name: "nfs",
        form: "`true` or `false`",
        default: Described("`true`, unless its users are restricted or encryption is required"),
        counts: Reload,
        text: "Whether the share is exported by NFS.",
    },
    ConfigKey {
        name: "nfs_squash",
        form: "`\"root\"`, `\"all\"` or `\"none\"`",
        default: Is("\"root\""),
        counts: Reload,
        text: "Client identities that are mapped to the anonymous account: `root` maps the \
               superuser, `all` maps all users, `none` maps no one, so that the clients' superuser \
               is the server's.",
    },
    ConfigKey {
        name: "nfs_anonuid",
        form: "the number of a user",
        default: Is("65534"),
        counts: Reload,
        text: "Uid of anonymous (squashed) NFS users; see `nfs_squash`.",
    },
    ConfigKey {
        name: "nfs_anongid",
        form: "the number of a group",
        default: Is("65534"),
        counts: Reload,
        text: "Gid of anonymous NFS users.",
    },
    ConfigKey {
        name: "nfs_clients",
        form: "a list, as `[\"192.0.2.7(rw,no_root_squash)\", \"*.example.org(rw)\", \
               \"*(ro,all_squash)\"]`",
        default: Described("all clients by `nfs_squash`, `nfs_anonuid` and `nfs_anongid`"),
        counts: Reload,
        text: "Access of NFS clients in the form of exports(5). Each entry is an address, a \
               network, a host name, a wildcard (`*`, which also matches dots, `?`, `[a-z]`), a \
               netgroup (`@builders`) or `*` for all clients. Options in parentheses are `rw` or \
               `ro`, `root_squash`, `no_root_squash`, `all_squash` or `no_all_squash`, `anonuid=N` \
               and `anongid=N`, or `no_access`, which denies an address or a network regardless of \
               later entries. The first matching entry counts, so put hosts before networks, and \
               these before wildcards, netgroups and `*`. A client without a matching entry has no \
               access. As in exports(5), access is read-only unless an entry has `rw`, and \
               `all_squash` overrides the root options. An entry without squash options inherits \
               the share's `nfs_squash`. The system (nsswitch.conf) resolves names at the start, \
               at a reload and every five minutes. A client's name counts only if it resolves back \
               to its address. Netgroups may contain the name with or without its domain, or the \
               address. A name that cannot be resolved does not match; the last answer counts for \
               an hour.",
    },
    ConfigKey {
        name: "nfs_stable",
        form: "`\"always\"` or `\"relaxed\"`",
        default: Is("\"always\""),
        counts: Reload,
        text: "Changes that are on stable storage before an NFS client gets its reply. `always`: \
               all changes including names and attributes, as NFS requires and the kernel server's \
               `sync` does. `relaxed`: only data that the client requests to be stable. Names and \
               attributes of the last seconds may be lost after a power failure, and with them \
               files that a program believes to be safe. It is faster on slow disks, like the \
               kernel server's `async`, which does not even guarantee the data.",
    },
    ConfigKey {
        name: "nfs_tls",
        form: "`\"offered\"` or `\"required\"`",
        default: Is("\"offered\""),
        counts: Reload,
        text: "Whether NFS clients must use TLS; with `required` the share is inaccessible without \
               it. Requires `nfs_tls_certificate`.",
    },
    ConfigKey {
        name: "reserved_ports",
        form: "`true` or `false`",
        default: Described("the value of `reserved_ports` in `[server]`"),
        counts: Reload,
        text: "Whether NFS clients must connect from a source port below 1024. With `false` any \
               program on a client machine can act as any user, which user-space clients without \
               root need.",
    },
    ConfigKey {
        name: "size_limit",
        form: "a size, as `\"500 GiB\"`",
        default: Described("none"),
        counts: Reload,
        text: "Upper bound of the size that clients see; writes are not limited by it.",
    },
    ConfigKey {
        name: "class",
        form: "`\"premium\"`, `\"standard\"` or `\"custom\"`",
        default: Described("`\"custom\"`"),
        counts: Reload,
        text: "Performance class: `premium` behaves like solid-state drives, `standard` like hard \
               disks and without Multichannel; their limits follow from the size. `custom` has \
               only the limits that are set explicitly.",
    },
    ConfigKey {
        name: "provisioned_gib",
        form: "a number from 100 to 262144, from 1 for class `\"custom\"`",
        default: Described("none"),
        counts: Reload,
        text: "Size of the share in GiB: clients see it and cannot write beyond it. It may be \
               lowered 24 hours after the last increase.",
    },
    ConfigKey {
        name: "provisioned_iops",
        form: "a number from 10 to 100000000",
        default: Described("derived from the size"),
        counts: Reload,
        text: "Operations per second, independent of the size; then no burst credits accrue.",
    },
    ConfigKey {
        name: "provisioned_mib_per_second",
        form: "a number from 1 to 1048576",
        default: Described("derived from the size"),
        counts: Reload,
        text: "Throughput in MiB per second for both directions together, independent of the size; \
               then no burst credits accrue.",
    },
    ConfigKey {
        name: "limits",
        form: "a table, see below",
        default: Described("derived from the class"),
        counts: Reload,
        text: "Explicit limits that replace the class's. On the command line: `limits.iops=500`.",
    },
    ConfigKey {
        name: "metadata_cache",
        form: "a size up to 4 GiB, or `\"off\"`",
        default: Is("\"128 MiB\""),
        counts: Reload,
        text: "Budget of the metadata cache: names in directories and attributes of files. Cached \
               directories are not read to look up a name; 128 MiB hold the names of two million \
               files.",
    },
    ConfigKey {
        name: "backend_latency_us",
        form: "a number up to 1000000",
        default: Is("0"),
        counts: Restart,
        text: "For measurements only: artificial latency in microseconds of each path lookup and \
               each change of a name, as if the disk were slow. `anabranch status` and the log \
               report it.",
    },
    ConfigKey {
        name: "case_sensitive",
        form: "`true` or `false`",
        default: Is("false"),
        counts: Reload,
        text: "Names are case-sensitive. Windows clients expect case-insensitive names.",
    },
    ConfigKey {
        name: "posix",
        form: "`true` or `false`",
        default: Is("true"),
        counts: Reload,
        text: "Offers the SMB 3.1.1 POSIX extensions (Linux: `mount -o posix`): modes, owners, \
               byte-exact names.",
    },
    ConfigKey {
        name: "time_machine",
        form: "`true` or `false`",
        default: Is("false"),
        counts: Reload,
        text: "Offers the share to Macs for Time Machine backups.",
    },
    ConfigKey {
        name: "time_machine_max_bytes",
        form: "a number",
        default: Described("as much as there is"),
        counts: Reload,
        text: "Maximum size of all backups together in bytes.",
    },
    ConfigKey {
        name: "continuously_available",
        form: "`true` or `false`",
        default: Is("false"),
        counts: Restart,
        text: "Persistent handles: opens of clients survive a restart or crash of the server. Each \
               open, close and lock waits for the disk.",
    },
    ConfigKey {
        name: "smb_stable",
        form: "`\"requested\"` or `\"always\"`",
        default: Is("\"requested\""),
        counts: Reload,
        text: "Changes that are on stable storage before an SMB client gets its reply. \
               `requested`: flushed data and write-through opens only, as with Windows and \
               Samba. `always`: all \
               changes; each write waits for the disk, like Samba's `sync always`. Shares with \
               `continuously_available` always behave like `always`.",
    },
    ConfigKey {
        name: "show_symlinks",
        form: "`true` or `false`",
        default: Is("false"),
        counts: Restart,
        text: "Clients see symbolic links and resolve them themselves, as Linux and macOS can. \
               Otherwise the server follows them within the share.",
    },
    ConfigKey {
        name: "named_streams",
        form: "`true` or `false`",
        default: Is("true"),
        counts: Reload,
        text: "Files may have named streams. Streams that exceed an extended attribute are stored \
               in `.anabranch-streams` in the share; backups must include it.",
    },
    ConfigKey {
        name: "snapshots",
        form: "`\"zfs\"`, `\"cephfs\"`, `\"snapper\"`, or a path",
        default: Described("none"),
        counts: Reload,
        text: "Location of snapshots, which clients see as previous versions.",
    },
    ConfigKey {
        name: "snapshot_names",
        form: "a format of strftime(3), as `\"daily-%Y-%m-%d\"`",
        default: Described("well-known names"),
        counts: Reload,
        text: "Name format of the snapshots, in UTC.",
    },
    ConfigKey {
        name: "snapshot_root",
        form: "a path",
        default: Described("the share's"),
        counts: Reload,
        text: "Directory of which the snapshots are, if it is above the share's.",
    },
    ConfigKey {
        name: "file_mode",
        form: "octal digits, as `\"0644\"`",
        default: Is("\"0644\""),
        counts: Reload,
        text: "Permission bits of new files.",
    },
    ConfigKey {
        name: "directory_mode",
        form: "octal digits, as `\"0755\"`",
        default: Is("\"0755\""),
        counts: Reload,
        text: "Permission bits of new directories.",
    },
];

const COUNT: &str = "a number from 10 to 100000000";
const FLOW: &str = "a size per second, as `\"100 MiB\"`, from 1 MiB to 1 TiB";
const HANDLES: &str = "a number from 1 to 1048576";

const fn limit(name: &'static str, form: &'static str, text: &'static str) -> ConfigKey {
    ConfigKey { name, form, default: Described("that of the class, if any"), counts: Reload, text }
}

pub(super) const LIMITS: &[ConfigKey] = &[
    limit("iops", COUNT, "Operations per second."),
    limit(
        "burst_iops",
        COUNT,
        "Operations per second while burst credits last, which accrue below `iops`.",
    ),
    limit("read_iops", COUNT, "Reads per second."),
    limit("write_iops", COUNT, "Writes per second."),
    limit("metadata_iops", COUNT, "Metadata operations (names and attributes) per second."),
    limit("bandwidth", FLOW, "Bytes read and written per second."),
    limit("ingress", FLOW, "Bytes written per second."),
    limit("egress", FLOW, "Bytes read per second."),
    limit("file_iops", COUNT, "Operations per second on one file."),
    limit("file_read_iops", COUNT, "Reads per second of one file."),
    limit("file_write_iops", COUNT, "Writes per second to one file."),
    limit("file_bandwidth", FLOW, "Bytes read from and written to one file per second."),
    limit("file_ingress", FLOW, "Bytes written to one file per second."),
    limit("file_egress", FLOW, "Bytes read from one file per second."),
    limit("root_handles", HANDLES, "Concurrent opens of the share's root."),
    limit("file_handles", HANDLES, "Concurrent opens of any other file or directory."),
];
