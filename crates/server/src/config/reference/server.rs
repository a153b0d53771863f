//! Keys of `[server]`, `[multichannel]` and `[log]`.

use super::ConfigKey;
use super::DefaultValue::{Described, Is, Needed};
use super::EffectTime::{Reload, Restart};

pub(super) const SERVER: &[ConfigKey] = &[
    ConfigKey {
        name: "smb",
        form: "a list of addresses, as `[\"0.0.0.0:445\", \"[::]:445\"]`",
        default: Described("port 445 of all IPv4 addresses, or 4450 where that cannot be had"),
        counts: Restart,
        text: "Listening addresses of SMB. Sockets that systemd passes with the name `smb` replace \
               them.",
    },
    ConfigKey {
        name: "nfs",
        form: "a list of addresses, as `[\"0.0.0.0:2049\"]`",
        default: Is("[]"),
        counts: Restart,
        text: "Listening addresses of NFSv4.1 and NFSv4.2. NFS clients assert their users without \
               proof (AUTH_SYS): serve NFS only to machines that you trust. Sockets that systemd \
               passes with the name `nfs` replace them.",
    },
    ConfigKey {
        name: "nfs_lease_seconds",
        form: "a number from 5 to 3600",
        default: Is("90"),
        counts: Reload,
        text: "NFS lease time in seconds: a client that does not renew its lease within this time \
               may lose its opens, locks and delegations.",
    },
    ConfigKey {
        name: "nfs_paths",
        form: "`true` or `false`",
        default: Is("true"),
        counts: Reload,
        text: "NFS clients can also mount a share by the path of its directory, as from the Linux \
               kernel's server: with `path = \"/srv/data\"` both `SERVER:/data` and \
               `SERVER:/srv/data` are the share `data`. A share name takes precedence over the \
               first component of a path. For nested shares the path leads to the outer one, if \
               the client may access it. A client sees only directories that lead to its shares; \
               the pseudo root lists share names, not paths. With `false` only names work.",
    },
    ConfigKey {
        name: "nfs_tls_certificate",
        form: "a path of a PEM file",
        default: Described("none: NFS does not offer TLS"),
        counts: Reload,
        text: "The server's certificate for NFS under TLS, followed by the intermediate \
               certificates. Linux clients request TLS with `mount -o xprtsec=tls` and need a \
               running tlshd. A reload reads the file again.",
    },
    ConfigKey {
        name: "nfs_tls_key",
        form: "a path of a PEM file",
        default: Described("none"),
        counts: Reload,
        text: "The certificate's private key.",
    },
    ConfigKey {
        name: "nfs_tls_client_ca",
        form: "a path of a PEM file",
        default: Described("none: clients need no certificate"),
        counts: Reload,
        text: "Certificate authorities: clients that use TLS must present a certificate that one \
               of them has signed.",
    },
    ConfigKey {
        name: "reserved_ports",
        form: "`true` or `false`",
        default: Is("true"),
        counts: Reload,
        text: "NFS clients must connect from a source port below 1024, like `secure` in \
               /etc/exports. Only the kernel and root of a client machine can use such ports, so \
               its other users cannot impersonate anyone. Kernels use them unless mounted with \
               `noresvport`. A share can override this.",
    },
    ConfigKey {
        name: "admin",
        form: "an address, `\"unix:PATH\"`, or `\"off\"`",
        default: Is("\"off\""),
        counts: Restart,
        text: "Address of the admin API, which `anabranch status`, the dashboard and metrics \
               collectors use: an address of this machine, or a Unix socket. Clients present a \
               token, which the first start generates in the state directory: `admin-token`, or \
               `metrics-token` for `/metrics` only. A socket that systemd passes with the name \
               `admin` replaces the address.",
    },
    ConfigKey {
        name: "name",
        form: "1 to 15 letters, digits, `-` and `_`",
        default: Described("the host's name"),
        counts: Reload,
        text: "Computer name that clients see.",
    },
    ConfigKey {
        name: "workgroup",
        form: "a name",
        default: Is("\"WORKGROUP\""),
        counts: Reload,
        text: "Workgroup that clients see.",
    },
    ConfigKey {
        name: "signing",
        form: "`\"required\"` or `\"offered\"`",
        default: Is("\"required\""),
        counts: Reload,
        text: "Whether every SMB message must be signed, or only if the client requests it.",
    },
    ConfigKey {
        name: "ntlm",
        form: "`\"on\"` or `\"off\"`",
        default: Is("\"on\""),
        counts: Reload,
        text: "Whether clients may log on with NTLM. With `\"off\"` only Kerberos is accepted, \
               which authenticates the server to the client and cannot be relayed to another \
               server. Requires `kerberos_keytab` and `kerberos_realm`; guest and anonymous \
               sessions are refused.",
    },
    ConfigKey {
        name: "encryption",
        form: "`\"off\"`, `\"offered\"` or `\"required\"`",
        default: Is("\"offered\""),
        counts: Reload,
        text: "Whether SMB messages are encrypted: never, for clients and shares that request it, \
               or always.",
    },
    ConfigKey {
        name: "confinement",
        form: "`\"on\"` or `\"off\"`",
        default: Is("\"on\""),
        counts: Restart,
        text: "Whether the process drops all capabilities, system calls and TCP ports that it does \
               not need before it serves. An exploited defect then yields less than root. \
               `anabranch status` shows the enforced layers.",
    },
    ConfigKey {
        name: "users",
        form: "a path",
        default: Described(
            "`users.toml` in systemd's `$STATE_DIRECTORY`, else in `/var/lib/anabranch`, or in \
               the user's home directory if not root",
        ),
        counts: Reload,
        text: "The user file; see `anabranch user`.",
    },
    ConfigKey {
        name: "state",
        form: "a path of a directory",
        default: Described("the directory of the user file"),
        counts: Restart,
        text: "Directory for persistent state: persistent opens, records of NFS clients, and \
               networks from which accounts have logged on.",
    },
    ConfigKey {
        name: "min_protocol",
        form: "`\"2.0.2\"`, `\"2.1\"`, `\"3.0\"`, `\"3.0.2\"` or `\"3.1.1\"`",
        default: Is("\"2.0.2\""),
        counts: Reload,
        text: "Minimum SMB dialect.",
    },
    ConfigKey {
        name: "max_protocol",
        form: "as `min_protocol`",
        default: Is("\"3.1.1\""),
        counts: Reload,
        text: "Maximum SMB dialect.",
    },
    ConfigKey {
        name: "kerberos_keytab",
        form: "a path",
        default: Described("none: Kerberos is not offered"),
        counts: Reload,
        text: "Keytab with the keys of `cifs/HOST`, for example `\"/etc/krb5.keytab\"`. The server \
               verifies Kerberos tickets of SMB clients with them. Requires `kerberos_realm`, and \
               the package libgssapi-krb5-2.",
    },
    ConfigKey {
        name: "kerberos_realm",
        form: "a realm, as `\"EXAMPLE.ORG\"`",
        default: Described("none"),
        counts: Reload,
        text: "Kerberos realm of the users: `alice@EXAMPLE.ORG` logs on as the local user `alice`.",
    },
    ConfigKey {
        name: "guest",
        form: "a system user, as `\"nobody\"`",
        default: Described("none: such sessions are refused"),
        counts: Reload,
        text: "System account for anonymous and guest sessions: sessions without a user name, and, \
               once a share has `guest_ok`, sessions with an unknown user name. They have no \
               session key, so this requires `signing = \"offered\"`, `encryption` that is not \
               required, and `ntlm = \"on\"`.",
    },
    ConfigKey {
        name: "connections_max",
        form: "a number from 1 to 1000000",
        default: Is("100000"),
        counts: Reload,
        text: "Maximum number of connections.",
    },
    ConfigKey {
        name: "logon_seconds",
        form: "a number from 1 to 600",
        default: Is("30"),
        counts: Reload,
        text: "Seconds within which a connection must log on.",
    },
    ConfigKey {
        name: "stall_seconds",
        form: "a number from 1 to 3600",
        default: Is("120"),
        counts: Reload,
        text: "Seconds after which a stalled client is disconnected: it does not complete a \
               message, does not take its replies, or its network acknowledges nothing.",
    },
    ConfigKey {
        name: "request_memory_mib",
        form: "a number from 32 to 1048576",
        default: Is("512"),
        counts: Reload,
        text: "Memory in MiB of all connections for requests in flight, and for replies until \
               clients have taken them. One user, or one address without a logon, may use as much \
               as would remain free: half, if it is the only one. A client at its limit waits. \
               Raise it for hundreds of clients that read or write 8 MiB at once over slow \
               links.",
    },
    ConfigKey {
        name: "workers",
        form: "a number from 1 to 4096",
        default: Is("64"),
        counts: Restart,
        text: "Threads for blocking file system calls. Users, and addresses without a logon, take \
               turns; one of them has at most three quarters of the threads.",
    },
];

pub(super) const MULTICHANNEL: &[ConfigKey] = &[
    ConfigKey {
        name: "enabled",
        form: "`true` or `false`",
        default: Is("true"),
        counts: Reload,
        text: "Whether sessions may have several connections (SMB Multichannel). SMB 3.1.1 clients \
               then sign with AES-CMAC; with `false` they sign with AES-GMAC if they can, which is \
               faster.",
    },
    ConfigKey {
        name: "channels_max",
        form: "a number from 1 to 32",
        default: Is("4"),
        counts: Reload,
        text: "Connections per session; more than 4 rarely improve throughput.",
    },
    ConfigKey {
        name: "min_protocol",
        form: "`\"3.0\"`, `\"3.0.2\"` or `\"3.1.1\"`",
        default: Is("\"3.0\""),
        counts: Reload,
        text: "Minimum dialect for Multichannel.",
    },
    ConfigKey {
        name: "include",
        form: "a list of interfaces or networks, as `[\"eth*\", \"192.0.2.0/24\"]`",
        default: Described("all"),
        counts: Reload,
        text: "Listening addresses to advertise to clients; changes of the interfaces take effect \
               at once.",
    },
    ConfigKey {
        name: "exclude",
        form: "a list of interfaces or networks, as `[\"docker*\", \"veth*\"]`",
        default: Is("[]"),
        counts: Reload,
        text: "Addresses not to advertise to clients.",
    },
    ConfigKey {
        name: "rss",
        form: "`true` or `false`",
        default: Described("true for interfaces with several queues, and for virtual ones"),
        counts: Reload,
        text: "Whether interfaces are advertised as capable of receive-side scaling (RSS). Without \
               RSS clients open one connection for each interface.",
    },
    ConfigKey {
        name: "interface",
        form: "tables, see below",
        default: Described("the detected ones"),
        counts: Reload,
        text: "Addresses to advertise instead of the detected ones; at most 128.",
    },
];

pub(super) const INTERFACE: &[ConfigKey] = &[
    ConfigKey {
        name: "address",
        form: "an IP address",
        default: Needed,
        counts: Reload,
        text: "The address.",
    },
    ConfigKey {
        name: "speed_mbits",
        form: "a number, at least 1",
        default: Described("the detected ones"),
        counts: Reload,
        text: "Link speed in Mbit/s.",
    },
    ConfigKey {
        name: "rss",
        form: "`true` or `false`",
        default: Described("the detected ones"),
        counts: Reload,
        text: "Whether it is capable of receive-side scaling (RSS).",
    },
    ConfigKey {
        name: "index",
        form: "a number",
        default: Described("the detected ones"),
        counts: Reload,
        text: "Interface index: addresses with equal indices belong to one interface.",
    },
];

pub(super) const DISCOVERY: &[ConfigKey] = &[
    ConfigKey {
        name: "enabled",
        form: "`true` or `false`",
        default: Is("true"),
        counts: Reload,
        text: "Whether the server announces itself at all.",
    },
    ConfigKey {
        name: "mdns",
        form: "`true` or `false`",
        default: Is("true"),
        counts: Reload,
        text: "Whether it announces itself by multicast DNS, to macOS and Linux: UDP port 5353. The \
               announcement names the shares with `time_machine`.",
    },
    ConfigKey {
        name: "wsd",
        form: "`true` or `false`",
        default: Is("true"),
        counts: Reload,
        text: "Whether it announces itself by WS-Discovery, to Windows: UDP port 3702, and TCP port \
               5357, from which Windows reads the computer's name. Explorer connects to port 445 \
               only, so nothing is announced where SMB listens at another port.",
    },
    ConfigKey {
        name: "model",
        form: "a model, as `\"RackMac\"` or `\"TimeCapsule8,119\"`; `\"\"` for none",
        default: Is("\"MacSamba\""),
        counts: Reload,
        text: "Model in the announcement for macOS, which decides the symbol in Finder. macOS shows \
               a generic server for an unknown model.",
    },
];

pub(super) const LOG: &[ConfigKey] = &[
    ConfigKey {
        name: "format",
        form: "`\"text\"` for people or `\"json\"`, one object a line",
        default: Is("\"text\""),
        counts: Restart,
        text: "Format of the log, which goes to standard error.",
    },
    ConfigKey {
        name: "level",
        form: "`\"error\"`, `\"warn\"`, `\"info\"` or `\"debug\"`",
        default: Is("\"info\""),
        counts: Restart,
        text: "Minimum severity to log. ANABRANCH_LOG in the environment takes precedence.",
    },
    ConfigKey {
        name: "audit",
        form: "`\"off\"`, `\"log\"` or a file, as `\"/var/log/anabranch/audit.jsonl\"`",
        default: Is("\"off\""),
        counts: Restart,
        text: "Destination of the audit log: session setups, tree connects, denied accesses and \
               session ends, each as one line of JSON. Excess events of one source are only \
               counted. A reload reopens the file, so it can be rotated before.",
    },
    ConfigKey {
        name: "slow_request_ms",
        form: "a number of milliseconds, at least 1",
        default: Is("1000"),
        counts: Reload,
        text: "Minimum duration in milliseconds of a request that is exported as a trace.",
    },
    ConfigKey {
        name: "traces",
        form: "a URL of plain HTTP, as `\"http://127.0.0.1:4318/v1/traces\"`",
        default: Described("none"),
        counts: Reload,
        text: "URL of the collector for traces of slow requests, by OpenTelemetry's OTLP over HTTP \
               with JSON. While it is unreachable, traces are dropped and counted.",
    },
];
