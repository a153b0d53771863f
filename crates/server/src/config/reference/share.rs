//! Keys of `[[share]]` and `[share.limits]`.

use super::Absent::{Is, Needed, Said};
use super::Counts::{Reload, Restart};
use super::Key;

pub(super) const SHARE: &[Key] = &[
    Key {
        name: "name",
        form: "up to 80 letters, digits, `-`, `_` and `.`",
        default: Needed,
        counts: Reload,
        text: "Name that clients use.",
    },
    Key {
        name: "path",
        form: "a path that begins with `/`",
        default: Needed,
        counts: Reload,
        text: "The directory.",
    },
    Key {
        name: "comment",
        form: "a text",
        default: Said("none"),
        counts: Reload,
        text: "Shown beside the name.",
    },
    Key {
        name: "read_only",
        form: "`true` or `false`",
        default: Is("false"),
        counts: Reload,
        text: "Nothing may be changed.",
    },
    Key {
        name: "encryption_required",
        form: "`true` or `false`",
        default: Is("false"),
        counts: Reload,
        text: "Only encrypted connections. NFS clients see the share then only where `nfs` and \
               `nfs_tls = \"required\"` say so.",
    },
    Key {
        name: "users",
        form: "a list of users, as `[\"alice\", \"@staff\"]`",
        default: Said("everyone with an account"),
        counts: Reload,
        text: "Who may connect.",
    },
    Key {
        name: "denied_users",
        form: "a list of users",
        default: Is("[]"),
        counts: Reload,
        text: "Who may not connect, whatever else is said.",
    },
    Key {
        name: "read_users",
        form: "a list of users",
        default: Is("[]"),
        counts: Reload,
        text: "Who may only read.",
    },
    Key {
        name: "write_users",
        form: "a list of users",
        default: Is("[]"),
        counts: Reload,
        text: "Who may write though `read_only` or `read_users` say otherwise.",
    },
    Key {
        name: "hosts_allowed",
        form: "a list of clients, as `[\"192.0.2.0/24\", \"2001:db8::/32\", \"*.example.org\"]`",
        default: Said("all, or with `hosts_denied` all others"),
        counts: Reload,
        text: "Clients that may connect: addresses, networks, and by name as in `nfs_clients`. With it \
               alone all others may not; one that is also in `hosts_denied` may.",
    },
    Key {
        name: "hosts_denied",
        form: "a list of networks",
        default: Is("[]"),
        counts: Reload,
        text: "Networks that may not connect. They have no names: one that cannot be looked up would deny \
               nobody.",
    },
    Key {
        name: "guest_ok",
        form: "`true` or `false`",
        default: Is("false"),
        counts: Reload,
        text: "Whether those may connect who have proven nothing, acting as `guest` of `[server]`. \
               Their messages are neither signed nor encrypted, so it needs `signing = \"offered\"`, and \
               Windows refuses to be a guest unless its policy is changed.",
    },
    Key {
        name: "listed",
        form: "`\"everyone\"`, `\"users\"` who may connect, or `\"nobody\"`",
        default: Is("\"everyone\""),
        counts: Reload,
        text: "Whom lists of shares show it to. Who knows its name may connect all the same.",
    },
    Key {
        name: "force_user",
        form: "a system user",
        default: Said("each user is themselves"),
        counts: Reload,
        text: "System user that everyone touches files as. Matters when the server runs as root.",
    },
    Key {
        name: "force_group",
        form: "a system group",
        default: Said("each user's own"),
        counts: Reload,
        text: "System group that everyone's files are made with. Matters when the server runs as root.",
    },
    Key {
        name: "hidden_names",
        form: "a list of patterns: `*` is any letters, `?` is one",
        default: Is("[\".*\"]"),
        counts: Reload,
        text: "Names that are shown with the hidden attribute.",
    },
    Key {
        name: "veto_names",
        form: "a list of patterns",
        default: Is("[]"),
        counts: Reload,
        text: "Names that are not served: not found, not listed, and not to be made. A directory that \
               holds some cannot be deleted. A pattern matches a name as it is stored and as Windows \
               sees it: without dots and spaces at its end, and without a stream (`secret.txt.`, \
               `secret.txt:s`). Symbolic links that the server follows do not lead to them; a \
               hard link has a name of its own.",
    },
    Key {
        name: "hide_unreadable",
        form: "`true` or `false`",
        default: Is("false"),
        counts: Reload,
        text: "Leave out of listings what the user may not read.",
    },
    Key {
        name: "absolute_links",
        form: "`true` or `false`",
        default: Is("false"),
        counts: Reload,
        text: "Clients may store symbolic links that lead out of the share: an absolute target, or \
               one that climbs above the share's root. Such a link is refused otherwise (`Operation \
               not permitted`). The server follows none of them; clients that see links, and \
               programs on the server, do. Links that exist are shown in any case.",
    },
    Key {
        name: "device_nodes",
        form: "`true` or `false`",
        default: Is("false"),
        counts: Reload,
        text: "NFS clients may create block and character devices. Only the superuser may, so \
               `nfs_squash` has to let it through, too; nothing else lets a user create one.",
    },
    Key {
        name: "nfs",
        form: "`true` or `false`",
        default: Said("`true`, unless its users are restricted or it must be encrypted"),
        counts: Reload,
        text: "NFS clients see the share.",
    },
    Key {
        name: "nfs_squash",
        form: "`\"root\"`, `\"all\"` or `\"none\"`",
        default: Is("\"root\""),
        counts: Reload,
        text: "Whom NFS clients may not be: their superuser, anyone in particular, or none of both: \
               their superuser is ours.",
    },
    Key {
        name: "nfs_anonuid",
        form: "the number of a user",
        default: Is("65534"),
        counts: Reload,
        text: "User id of anonymous (squashed) NFS users: see `nfs_squash`.",
    },
    Key {
        name: "nfs_anongid",
        form: "the number of a group",
        default: Is("65534"),
        counts: Reload,
        text: "Group id of anonymous NFS users.",
    },
    Key {
        name: "nfs_clients",
        form: "a list, as `[\"192.0.2.7(rw,no_root_squash)\", \"*.example.org(rw)\", \"*(ro,all_squash)\"]`",
        default: Said("all clients by `nfs_squash`, `nfs_anonuid` and `nfs_anongid`"),
        counts: Reload,
        text: "Access of NFS clients, in the words of exports(5): an address, a network, a host's name, a \
               wildcard of names (`*`, which matches dots too, `?`, `[a-z]`), a netgroup (`@builders`) or \
               `*` for all, and in brackets `rw` or `ro`, `root_squash`, `no_root_squash`, `all_squash` or \
               `no_all_squash`, `anonuid=N` and `anongid=N`, or `no_access`, which keeps \
               out an address or a network whatever comes behind it. The first matching entry counts, \
               so put hosts before networks, and these before wildcards, netgroups and `*`; a client \
               without one does not reach the share. As in exports(5), a client may only read unless its \
               entry says `rw`, and `all_squash` holds whatever is said of root. An entry that says \
               nothing of squashing has the share's `nfs_squash`. Names are looked up by the system \
               (nsswitch.conf) at the start, at a reload and every five minutes. A client's own name \
               counts only if it leads back to its address, and netgroups have it with or without its \
               domain, or have the address. What cannot be looked up is no match; the last answer \
               counts for an hour.",
    },
    Key {
        name: "nfs_stable",
        form: "`\"always\"` or `\"relaxed\"`",
        default: Is("\"always\""),
        counts: Reload,
        text: "What survives a loss of power once an NFS client has its answer. `always`: everything that \
               was changed, names and attributes too, as NFS promises and the kernel server's `sync` does. \
               `relaxed`: only data that the client has asked to be stable; names and attributes of the last \
               seconds may be lost, and with them files that a program believes to be safe. Faster on \
               slow disks, like the kernel server's `async`, which keeps not even the data.",
    },
    Key {
        name: "nfs_tls",
        form: "`\"offered\"` or `\"required\"`",
        default: Is("\"offered\""),
        counts: Reload,
        text: "Whether NFS clients must come under TLS: then nothing of the share is reached without. \
               Needs `nfs_tls_certificate`.",
    },
    Key {
        name: "reserved_ports",
        form: "`true` or `false`",
        default: Said("what `reserved_ports` in `[server]` says"),
        counts: Reload,
        text: "Whether NFS clients must connect from a source port below 1024. With `false` every \
               program on every client's machine can be any user, as for user-space clients without \
               root.",
    },
    Key {
        name: "size_limit",
        form: "a size, as `\"500 GiB\"`",
        default: Said("none"),
        counts: Reload,
        text: "Space that clients are shown at most; what they write is not held to it.",
    },
    Key {
        name: "class",
        form: "`\"premium\"`, `\"standard\"` or `\"custom\"`",
        default: Said("`\"custom\"`"),
        counts: Reload,
        text: "What the share is like: as on solid-state drives, as on disks and without \
               Multichannel, or as its own limits say, without any if there are none. Of the first \
               two the limits follow from the size.",
    },
    Key {
        name: "provisioned_gib",
        form: "a number from 100 to 262144, from 1 for class `\"custom\"`",
        default: Said("none"),
        counts: Reload,
        text: "The size of the share in GiB: what clients are shown, and cannot write beyond. It may \
               be lowered 24 hours after it was raised last.",
    },
    Key {
        name: "provisioned_iops",
        form: "a number from 10 to 100000000",
        default: Said("what follows from the size"),
        counts: Reload,
        text: "Operations a second that do not follow from the size; then nothing is saved up for \
               bursts.",
    },
    Key {
        name: "provisioned_mib_per_second",
        form: "a number from 1 to 1048576",
        default: Said("what follows from the size"),
        counts: Reload,
        text: "Throughput in MiB a second, both ways together, that does not follow from the size; \
               then nothing is saved up for bursts.",
    },
    Key {
        name: "limits",
        form: "a table, see below",
        default: Said("what follows from the class"),
        counts: Reload,
        text: "Limits in place of the class's. On the command line `limits.iops=500`.",
    },
    Key {
        name: "metadata_cache",
        form: "a size up to 4 GiB, or `\"off\"`",
        default: Is("\"128 MiB\""),
        counts: Reload,
        text: "Memory for names of directories and what is known of files, so that no directory is read \
               to look up a name; 128 MiB hold the names of two million files.",
    },
    Key {
        name: "backend_latency_us",
        form: "a number up to 1000000",
        default: Is("0"),
        counts: Restart,
        text: "For measurements only: each look at a path of the directory, and each change of a name in \
               it, takes so many microseconds longer, as if the disk were slow. `status` and the log say \
               so.",
    },
    Key {
        name: "case_sensitive",
        form: "`true` or `false`",
        default: Is("false"),
        counts: Reload,
        text: "Names differ by case. Windows clients expect that they do not.",
    },
    Key {
        name: "posix",
        form: "`true` or `false`",
        default: Is("true"),
        counts: Reload,
        text: "Linux may mount it with `posix`: modes, owners, names byte for byte.",
    },
    Key {
        name: "time_machine",
        form: "`true` or `false`",
        default: Is("false"),
        counts: Reload,
        text: "Macs offer it for backups with Time Machine.",
    },
    Key {
        name: "time_machine_max_bytes",
        form: "a number",
        default: Said("as much as there is"),
        counts: Reload,
        text: "Bytes that all backups together may take.",
    },
    Key {
        name: "continuously_available",
        form: "`true` or `false`",
        default: Is("false"),
        counts: Restart,
        text: "What clients have open survives a restart of the server, and its death: each open, close \
               and lock of theirs waits for the disk.",
    },
    Key {
        name: "smb_stable",
        form: "`\"asked\"` or `\"always\"`",
        default: Is("\"asked\""),
        counts: Reload,
        text: "What survives a loss of power once an SMB client has its reply. `asked`: what the client has \
               flushed or opened to be written through, as with Windows and Samba. `always`: everything, as \
               on shares with `continuously_available`, which are so whatever is said here; each write waits for \
               the disk, like Samba's `sync always`.",
    },
    Key {
        name: "show_symlinks",
        form: "`true` or `false`",
        default: Is("false"),
        counts: Restart,
        text: "Clients see symbolic links as links and follow them themselves, as Linux and macOS can; \
               else the server follows them, within the share.",
    },
    Key {
        name: "named_streams",
        form: "`true` or `false`",
        default: Is("true"),
        counts: Reload,
        text: "Files may have named streams. Those that are too long for an extended attribute are in \
               `.anabranch-streams` in the share, which a backup needs with the files.",
    },
    Key {
        name: "snapshots",
        form: "`\"zfs\"`, `\"cephfs\"`, `\"snapper\"`, or a path",
        default: Said("there are none"),
        counts: Reload,
        text: "Where previous versions are.",
    },
    Key {
        name: "snapshot_names",
        form: "a form as of strftime(3), as `\"daily-%Y-%m-%d\"`",
        default: Said("well-known names"),
        counts: Reload,
        text: "How previous versions are named, in UTC.",
    },
    Key {
        name: "snapshot_root",
        form: "a path",
        default: Said("the share's"),
        counts: Reload,
        text: "The directory that previous versions are of, if it is above the share's.",
    },
    Key {
        name: "file_mode",
        form: "octal digits, as `\"0644\"`",
        default: Is("\"0644\""),
        counts: Reload,
        text: "Permission bits of new files.",
    },
    Key {
        name: "directory_mode",
        form: "octal digits, as `\"0755\"`",
        default: Is("\"0755\""),
        counts: Reload,
        text: "Permission bits of new directories.",
    },
];

const COUNT: &str = "a number from 10 to 100000000";
const FLOW: &str = "a size a second, as `\"100 MiB\"`, from 1 MiB to 1 TiB";
const HANDLES: &str = "a number from 1 to 1048576";

const fn limit(name: &'static str, form: &'static str, text: &'static str) -> Key {
    Key { name, form, default: Said("that of the class, if it has one"), counts: Reload, text }
}

pub(super) const LIMITS: &[Key] = &[
    limit("iops", COUNT, "Operations a second."),
    limit(
        "burst_iops",
        COUNT,
        "Operations a second while credits last, which the share saves up below `iops`.",
    ),
    limit("read_iops", COUNT, "Reads a second."),
    limit("write_iops", COUNT, "Writes a second."),
    limit("metadata_iops", COUNT, "Operations on names and attributes a second."),
    limit("bandwidth", FLOW, "Bytes read and written a second."),
    limit("ingress", FLOW, "Bytes written a second."),
    limit("egress", FLOW, "Bytes read a second."),
    limit("file_iops", COUNT, "Operations on one file a second."),
    limit("file_read_iops", COUNT, "Reads of one file a second."),
    limit("file_write_iops", COUNT, "Writes to one file a second."),
    limit("file_bandwidth", FLOW, "Bytes read from and written to one file a second."),
    limit("file_ingress", FLOW, "Bytes written to one file a second."),
    limit("file_egress", FLOW, "Bytes read from one file a second."),
    limit("root_handles", HANDLES, "Opens of the share's root at once."),
    limit("file_handles", HANDLES, "Opens of any other file or directory at once."),
];
