//! Keys of `[server]`, `[multichannel]` and `[log]`.

use super::Absent::{Is, Needed, Said};
use super::Counts::{Reload, Restart};
use super::Key;

pub(super) const SERVER: &[Key] = &[
    Key {
        name: "smb",
        form: "a list of addresses, as `[\"0.0.0.0:445\", \"[::]:445\"]`",
        default: Said("port 445 of all IPv4 addresses, or 4450 where that cannot be had"),
        counts: Restart,
        text: "Addresses to serve SMB on. Sockets that systemd passes with the name `smb` are used instead.",
    },
    Key {
        name: "nfs",
        form: "a list of addresses, as `[\"0.0.0.0:2049\"]`",
        default: Is("[]"),
        counts: Restart,
        text: "Addresses to serve NFSv4.1 and 4.2 on. An NFS client's machine says itself who its users \
               are: serve NFS where you trust the machines. Sockets that systemd passes with the name \
               `nfs` are used instead.",
    },
    Key {
        name: "nfs_lease_seconds",
        form: "a number from 5 to 3600",
        default: Is("90"),
        counts: Reload,
        text: "Seconds after which an NFS client that says nothing may lose what it holds.",
    },
    Key {
        name: "nfs_paths",
        form: "`true` or `false`",
        default: Is("true"),
        counts: Reload,
        text: "NFS clients mount a share by the path of its directory, too, as from the Linux kernel's \
               server: with `path = \"/srv/data\"` both `SERVER:/data` and `SERVER:/srv/data` are the share \
               `data`. A share's name counts before the first part of a path, and of a share within \
               another the outer one is reached by the path, if the client may reach that. A client \
               finds those directories alone that lead to its shares; the root of all shares lists their \
               names, not paths. With `false` there are names alone.",
    },
    Key {
        name: "nfs_tls_certificate",
        form: "a path of a PEM file",
        default: Said("none: TLS is not offered below NFS"),
        counts: Reload,
        text: "The server's certificate for NFS under TLS, and behind it those between it and one that \
               clients trust. Linux clients ask for TLS with `mount -o xprtsec=tls`, with tlshd running. \
               The file is read again at a reload.",
    },
    Key {
        name: "nfs_tls_key",
        form: "a path of a PEM file",
        default: Said("none"),
        counts: Reload,
        text: "The certificate's key.",
    },
    Key {
        name: "nfs_tls_client_ca",
        form: "a path of a PEM file",
        default: Said("none: clients need no certificate"),
        counts: Reload,
        text: "Clients that come under TLS must show a certificate that one of these has signed.",
    },
    Key {
        name: "reserved_ports",
        form: "`true` or `false`",
        default: Is("true"),
        counts: Reload,
        text: "NFS clients must connect from a source port below 1024, as with `secure` in \
               /etc/exports: only the kernel and root of a client can, so that none of its other \
               users passes for somebody else. Kernels do so unless mounted with `noresvport`. \
               A share can say otherwise.",
    },
    Key {
        name: "admin",
        form: "an address, `\"unix:PATH\"`, or `\"off\"`",
        default: Is("\"off\""),
        counts: Restart,
        text: "Where `anabranch status`, the dashboard and collectors of metrics look: an address of \
               this machine, or a Unix socket. Who asks shows the token that is made at the first \
               start in the state directory: `admin-token`, or `metrics-token` for `/metrics` alone. \
               A socket that systemd passes with the name `admin` is used instead.",
    },
    Key {
        name: "name",
        form: "1 to 15 letters, digits, `-` and `_`",
        default: Said("the host's name"),
        counts: Reload,
        text: "Computer name that clients see.",
    },
    Key {
        name: "workgroup",
        form: "a name",
        default: Is("\"WORKGROUP\""),
        counts: Reload,
        text: "Workgroup that clients see.",
    },
    Key {
        name: "signing",
        form: "`\"required\"` or `\"offered\"`",
        default: Is("\"required\""),
        counts: Reload,
        text: "Whether every message must be signed, or is if the client asks for it.",
    },
    Key {
        name: "ntlm",
        form: "`\"on\"` or `\"off\"`",
        default: Is("\"on\""),
        counts: Reload,
        text: "Whether clients may log on by NTLM. With `\"off\"` Kerberos is the one way in: it proves the \
               server to the client, and nothing of it can be relayed to another server. Needs \
               `kerberos_keytab` and `kerberos_realm`; guests and sessions without a name are refused.",
    },
    Key {
        name: "encryption",
        form: "`\"off\"`, `\"offered\"` or `\"required\"`",
        default: Is("\"offered\""),
        counts: Reload,
        text: "Whether messages are encrypted: never, for clients and shares that ask for it, or always.",
    },
    Key {
        name: "confinement",
        form: "`\"on\"` or `\"off\"`",
        default: Is("\"on\""),
        counts: Restart,
        text: "Whether the process gives up, before it serves, all capabilities, system calls and TCP ports that \
               serving does not need: a defect in it then gives less than root. `anabranch status` \
               says which layers hold.",
    },
    Key {
        name: "users",
        form: "a path",
        default: Said("`/var/lib/anabranch/users.toml`, or below the home of who is not root"),
        counts: Reload,
        text: "File of users; see `anabranch user`.",
    },
    Key {
        name: "state",
        form: "a path of a directory",
        default: Said("that of the file of users"),
        counts: Restart,
        text: "Directory for what must survive the server: persistent opens, which NFS clients were \
               here, and which addresses accounts have logged on from.",
    },
    Key {
        name: "min_protocol",
        form: "`\"2.0.2\"`, `\"2.1\"`, `\"3.0\"`, `\"3.0.2\"` or `\"3.1.1\"`",
        default: Is("\"2.0.2\""),
        counts: Reload,
        text: "Lowest dialect of SMB.",
    },
    Key {
        name: "max_protocol",
        form: "as `min_protocol`",
        default: Is("\"3.1.1\""),
        counts: Reload,
        text: "Highest dialect of SMB.",
    },
    Key {
        name: "kerberos_keytab",
        form: "a path",
        default: Said("none: Kerberos is not offered"),
        counts: Reload,
        text: "File with the keys of `cifs/HOST`, by which Kerberos tickets of SMB clients are judged, as \
               `\"/etc/krb5.keytab\"`. Needs `kerberos_realm`, and the package libgssapi-krb5-2.",
    },
    Key {
        name: "kerberos_realm",
        form: "a realm, as `\"EXAMPLE.ORG\"`",
        default: Said("none"),
        counts: Reload,
        text: "Whose users may show tickets: `alice@EXAMPLE.ORG` is `alice` among the users here.",
    },
    Key {
        name: "guest",
        form: "a system user, as `\"nobody\"`",
        default: Said("none: they are refused"),
        counts: Reload,
        text: "System user that those act as who prove nothing: sessions without a name, and, once a share \
               has `guest_ok`, with a name that nobody here has. They have no key, so it needs \
               `signing = \"offered\"`, `encryption` that is not required, and `ntlm = \"on\"`.",
    },
    Key {
        name: "connections_max",
        form: "a number from 1 to 1000000",
        default: Is("100000"),
        counts: Reload,
        text: "Connections at once.",
    },
    Key {
        name: "logon_seconds",
        form: "a number from 1 to 600",
        default: Is("30"),
        counts: Reload,
        text: "Seconds that a connection has to log on.",
    },
    Key {
        name: "stall_seconds",
        form: "a number from 1 to 3600",
        default: Is("120"),
        counts: Reload,
        text: "Seconds after which a client is taken for gone that does not finish what it sends, takes \
               none of its answers, or whose network confirms nothing.",
    },
    Key {
        name: "request_memory_mib",
        form: "a number from 32 to 1048576",
        default: Is("512"),
        counts: Reload,
        text: "MiB of memory for requests that are half here or under way, and for answers until clients \
               have taken them, of all connections together. One user, or one address that nobody has \
               logged on from, may use as much as would still be free: half, if nobody else uses any. A \
               client that may not use more waits. Raise it for hundreds of clients that write or read \
               8 MiB at once over slow links.",
    },
    Key {
        name: "workers",
        form: "a number from 1 to 4096",
        default: Is("64"),
        counts: Restart,
        text: "Threads for calls that wait for a disk. Users, and addresses where nobody has logged on, take \
               turns at them, and one of them has three quarters at most.",
    },
];

pub(super) const MULTICHANNEL: &[Key] = &[
    Key {
        name: "enabled",
        form: "`true` or `false`",
        default: Is("true"),
        counts: Reload,
        text: "Whether sessions may have several connections. Clients of 3.1.1 that may have them sign by AES-CMAC; where this is off, those that can sign by AES-GMAC, which is faster.",
    },
    Key {
        name: "channels_max",
        form: "a number from 1 to 32",
        default: Is("4"),
        counts: Reload,
        text: "Connections of one session; more than 4 rarely bring more.",
    },
    Key {
        name: "min_protocol",
        form: "`\"3.0\"`, `\"3.0.2\"` or `\"3.1.1\"`",
        default: Is("\"3.0\""),
        counts: Reload,
        text: "Lowest dialect with several connections.",
    },
    Key {
        name: "include",
        form: "a list of interfaces or networks, as `[\"eth*\", \"192.0.2.0/24\"]`",
        default: Said("all"),
        counts: Reload,
        text: "Which of the addresses that are listened on clients are told, as they come and go.",
    },
    Key {
        name: "exclude",
        form: "a list of interfaces or networks, as `[\"docker*\", \"veth*\"]`",
        default: Is("[]"),
        counts: Reload,
        text: "Addresses that clients are not told.",
    },
    Key {
        name: "rss",
        form: "`true` or `false`",
        default: Said("interfaces with several queues are, and those made of software"),
        counts: Reload,
        text: "Whether interfaces are called capable of receive-side scaling, without which clients open one \
               connection for each.",
    },
    Key {
        name: "interface",
        form: "tables, see below",
        default: Said("what is found"),
        counts: Reload,
        text: "Addresses that clients are told instead of those that are found; at most 128.",
    },
];

pub(super) const INTERFACE: &[Key] = &[
    Key {
        name: "address",
        form: "an IP address",
        default: Needed,
        counts: Reload,
        text: "The address.",
    },
    Key {
        name: "speed_mbits",
        form: "a number, at least 1",
        default: Said("what is found"),
        counts: Reload,
        text: "Its speed in Mbit/s.",
    },
    Key {
        name: "rss",
        form: "`true` or `false`",
        default: Said("what is found"),
        counts: Reload,
        text: "Whether it is capable of receive-side scaling.",
    },
    Key {
        name: "index",
        form: "a number",
        default: Said("what is found"),
        counts: Reload,
        text: "The interface's index: addresses of one index are on one interface.",
    },
];

pub(super) const LOG: &[Key] = &[
    Key {
        name: "format",
        form: "`\"text\"` for people or `\"json\"`, one object a line",
        default: Is("\"text\""),
        counts: Restart,
        text: "How lines of the log look, which goes to standard error.",
    },
    Key {
        name: "level",
        form: "`\"error\"`, `\"warn\"`, `\"info\"` or `\"debug\"`",
        default: Is("\"info\""),
        counts: Restart,
        text: "What is left out of the log. ANABRANCH_LOG in the environment counts more.",
    },
    Key {
        name: "audit",
        form: "`\"off\"`, `\"log\"` or a file, as `\"/var/log/anabranch/audit.jsonl\"`",
        default: Is("\"off\""),
        counts: Restart,
        text: "Where it is written who was here: session set-ups, tree connects, what was denied, ends of \
               sessions, each a line of JSON. A source that makes too many is told by number. The file is \
               opened again at a reload, so that it can be moved away before.",
    },
    Key {
        name: "slow_request_ms",
        form: "a number of milliseconds, at least 1",
        default: Is("1000"),
        counts: Reload,
        text: "How long a request takes at least that is told as a trace.",
    },
    Key {
        name: "traces",
        form: "a URL of plain HTTP, as `\"http://127.0.0.1:4318/v1/traces\"`",
        default: Said("nowhere"),
        counts: Reload,
        text: "The collector that is told of slow requests, by OpenTelemetry's OTLP over HTTP in its JSON \
               form. While it is away they are dropped, and counted.",
    },
];
