//! Remarks on Samba parameters that have no direct counterpart.

/// Treatment of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterFate {
    /// No action is needed, for this reason.
    Needless(&'static str),
    /// The server always behaves as with this value; the other value cannot be carried over.
    Always(bool, &'static str),
    /// The parameter cannot be carried over; the remedy.
    Lost(&'static str),
}

use ParameterFate::{Always, Lost, Needless};

const LOGS: ParameterFate =
    Needless("the log goes to standard error, so to the journal; ANABRANCH_LOG=debug shows more");
const TUNING: ParameterFate = Needless("the server chooses it automatically");
const NETBIOS: ParameterFate =
    Needless("NetBIOS is not supported; clients find the server by DNS, mDNS or its address");
const PRINTING: ParameterFate = Needless("printers are not supported; use CUPS with IPP");
const PASSWORDS: ParameterFate =
    Needless("passwords are in the users file; change them with: anabranch user passwd");
const DOMAIN: ParameterFate = Lost(
    "domains are not supported: users log on with passwords of this server (anabranch user add)",
);
const SCRIPTS: ParameterFate =
    Lost("commands are never run for clients; use systemd units or cron instead");
const ALWAYS_ATTRIBUTES: &str = "DOS attributes are stored in user.DOSATTRIB only";

/// By normalised name.
const FATES: &[(&str, ParameterFate)] = &[
    ("acl:searchdirectories", TUNING),
    (
        "aclallowexecutealways",
        Lost("executing a file needs execute permission; set the mode or the ACL"),
    ),
    ("aclgroupcontrol", Lost("only the owner and users whom the ACL permits change it")),
    ("addmachinescript", DOMAIN),
    ("addsharecommand", SCRIPTS),
    ("adduserscript", SCRIPTS),
    (
        "adminusers",
        Lost("no user acts as root; give those users the permissions they need on the files"),
    ),
    ("aioreadsize", TUNING),
    ("aiowritesize", TUNING),
    ("allocationroundupsize", TUNING),
    (
        "allowinsecurewidelinks",
        Lost("symbolic links never lead out of a share; bind-mount the target instead"),
    ),
    ("allowtrusteddomains", DOMAIN),
    ("announceversion", NETBIOS),
    ("autoservices", NETBIOS),
    ("bindinterfacesonly", Needless("the server listens only on the addresses in smb")),
    ("blockinglocks", Always(true, "blocking locks are supported")),
    ("blocksize", TUNING),
    ("browselist", NETBIOS),
    ("changenotify", Always(true, "change notification is supported")),
    ("clientipcsigning", TUNING),
    ("clientmaxprotocol", TUNING),
    ("clientminprotocol", TUNING),
    ("clientsigning", TUNING),
    ("cupsoptions", PRINTING),
    ("cupsserver", PRINTING),
    ("deadtime", Needless("idle clients stay connected; stall_seconds ends dead connections")),
    ("debuglevel", LOGS),
    ("debugtimestamp", LOGS),
    ("dedicatedkeytabfile", DOMAIN),
    ("defaultcase", Lost("names keep the case they were created with")),
    (
        "deletevetofiles",
        Always(
            false,
            "a directory with vetoed names is not deleted; remove the names from veto_names to \
             delete it",
        ),
    ),
    ("dfreecommand", Lost("free space is that of the file system; size_limit reports less")),
    ("disablenetbios", NETBIOS),
    ("disablespoolss", PRINTING),
    ("dnsproxy", NETBIOS),
    ("domainlogons", DOMAIN),
    ("domainmaster", NETBIOS),
    ("dosfilemode", Lost("owner and ACL decide who may change permissions")),
    ("dosfiletimeresolution", TUNING),
    ("dosfiletimes", Always(true, "write permission permits setting times")),
    ("durablehandles", Always(true, "durable handles are supported")),
    ("easupport", Always(true, "extended attributes are supported")),
    ("encryptpasswords", Always(true, "plaintext passwords are not supported")),
    ("fakeoplocks", Always(false, "oplocks are real")),
    ("followsymlinks", Always(true, "symbolic links are followed within a share")),
    ("getwdcache", TUNING),
    (
        "hidespecialfiles",
        Lost("sockets and pipes are listed; move them, or list them in veto_names"),
    ),
    (
        "hideunwriteablefiles",
        Lost("unwritable files are listed; hide_unreadable hides unreadable ones"),
    ),
    ("idmapbackend", DOMAIN),
    ("inheritacls", Needless("the file system inherits default ACLs")),
    ("inheritowner", Lost("a file's creator owns it; force_user makes one user own all")),
    (
        "inheritpermissions",
        Lost(
            "modes are not inherited; set file_mode and directory_mode, or default ACLs on the \
             directories (setfacl -d)",
        ),
    ),
    ("keepalive", Needless("stall_seconds limits how long a client may be silent")),
    ("kerberosmethod", DOMAIN),
    ("kerneloplocks", Needless("kernel oplocks are not used")),
    (
        "kernelsharemodes",
        Needless(
            "share modes apply within this server only: serve a directory by one server at a time",
        ),
    ),
    ("lanmanauth", Always(false, "only NTLMv2 is supported")),
    ("level2oplocks", Always(true, "level 2 oplocks are supported")),
    ("lmannounce", NETBIOS),
    ("lminterval", NETBIOS),
    ("loadprinters", PRINTING),
    ("localmaster", NETBIOS),
    ("lockdirectory", TUNING),
    ("locking", Always(true, "byte-range locks are supported")),
    ("logfile", LOGS),
    ("logging", LOGS),
    ("loglevel", LOGS),
    ("logondrive", DOMAIN),
    ("logonhome", DOMAIN),
    ("logonpath", DOMAIN),
    ("logonscript", DOMAIN),
    ("lppausecommand", PRINTING),
    ("lpqcommand", PRINTING),
    ("lprmcommand", PRINTING),
    ("magicscript", SCRIPTS),
    ("mangledmap", Needless("8.3 names are not supported")),
    ("mangledname", Needless("8.3 names are not supported")),
    (
        "manglednames",
        Needless(
            "8.3 names are not supported; characters that Windows forbids in names are mapped to \
             private ones",
        ),
    ),
    ("manglingmethod", Needless("8.3 names are not supported")),
    ("maparchive", Needless(ALWAYS_ATTRIBUTES)),
    ("maphidden", Needless(ALWAYS_ATTRIBUTES)),
    ("mapreadonly", Needless(ALWAYS_ATTRIBUTES)),
    ("mapsystem", Needless(ALWAYS_ATTRIBUTES)),
    ("maxconnections", Lost("there is no limit per share; connections_max in [server] is for all")),
    ("maxlogsize", LOGS),
    ("maxmux", TUNING),
    ("maxopenfiles", TUNING),
    ("maxprintjobs", PRINTING),
    (
        "maxsmbdprocesses",
        Needless("connections_max in [server] limits connections; there is one process"),
    ),
    ("maxttl", NETBIOS),
    ("maxwinsttl", NETBIOS),
    ("maxxmit", TUNING),
    ("messagecommand", SCRIPTS),
    ("minreceivefilesize", TUNING),
    (
        "msdfsproxy",
        Lost("DFS is not supported; mount the other server, or configure clients to use it"),
    ),
    ("msdfsroot", Always(false, "DFS is not supported; configure clients to use the other shares")),
    ("multicastdnsregister", NETBIOS),
    ("nameresolveorder", NETBIOS),
    ("netbiosaliases", Needless("clients may use any name that resolves to this server")),
    ("ntaclsupport", Always(true, "ACLs are supported")),
    ("ntlmauth", Needless("only NTLMv2 is supported")),
    ("nullpasswords", Always(false, "every logon needs a password; guest_ok permits guests")),
    ("obeypamrestrictions", PASSWORDS),
    ("oplocks", Always(true, "oplocks are supported")),
    ("oslevel", NETBIOS),
    ("pampasswordchange", PASSWORDS),
    ("panicaction", LOGS),
    ("passwdchat", PASSWORDS),
    ("passwdprogram", PASSWORDS),
    ("passwordserver", DOMAIN),
    ("piddirectory", TUNING),
    (
        "posixlocking",
        Always(
            false,
            "local processes do not see clients' locks: have them use the share, or stop them from \
             writing meanwhile",
        ),
    ),
    ("postexec", SCRIPTS),
    ("preexec", SCRIPTS),
    ("preexecclose", SCRIPTS),
    ("preferredmaster", NETBIOS),
    ("preservecase", Always(true, "names keep the case they were created with")),
    ("printcapcachetime", PRINTING),
    ("printcapname", PRINTING),
    ("printcommand", PRINTING),
    ("printername", PRINTING),
    ("printing", PRINTING),
    ("printnotifybackchannel", PRINTING),
    ("readraw", TUNING),
    ("realm", DOMAIN),
    ("restrictanonymous", Needless("anonymous sessions are refused where guest is unset")),
    ("rootpostexec", SCRIPTS),
    ("rootpreexec", SCRIPTS),
    ("rootpreexecclose", SCRIPTS),
    ("rpc_daemon:spoolssd", PRINTING),
    ("rpc_server:spoolss", PRINTING),
    ("servermultichannelsupport", Always(true, "Multichannel is supported")),
    ("serverrole", Needless("this is a standalone server")),
    ("serverstring", Lost("only shares have a comment")),
    ("shortpreservecase", Always(true, "names keep the case they were created with")),
    ("smbpasswdfile", Needless("import that file with --passwords")),
    ("socketoptions", TUNING),
    ("spoolss:architecture", PRINTING),
    ("storedosattributes", Always(true, ALWAYS_ATTRIBUTES)),
    ("strictallocate", TUNING),
    ("strictlocking", Needless("every read and write checks locks")),
    ("strictsync", Needless("the server always honors flush requests")),
    (
        "syncalways",
        Always(false, "data is made durable when a client requests it (write-through, flush)"),
    ),
    ("syslog", LOGS),
    ("syslogonly", LOGS),
    ("templatehomedir", DOMAIN),
    ("templateshell", DOMAIN),
    ("timeserver", NETBIOS),
    ("tlsenabled", DOMAIN),
    ("unixextensions", Needless("SMB1 extensions are not supported")),
    ("unixpasswordsync", PASSWORDS),
    ("usekerberoskeytab", DOMAIN),
    ("usemmap", TUNING),
    ("username", Lost("it has no effect, since users log on by name; use users")),
    (
        "usernamemap",
        Lost(
            "names are not mapped; assign another system user with: anabranch user passwd NAME \
             --system-user OTHER",
        ),
    ),
    ("usernamemapscript", SCRIPTS),
    ("usershareallowguests", Needless("user shares are not supported")),
    ("usersharemaxshares", Needless("user shares are not supported; add a [[share]] for each")),
    (
        "usersharepath",
        Lost("user shares are not supported; add a [[share]] for each file in that directory"),
    ),
    ("usesendfile", TUNING),
    ("utmp", LOGS),
    ("utmpdirectory", LOGS),
    (
        "vetooplockfiles",
        Lost("oplocks are granted on all files; local changes to files do not break them"),
    ),
    ("volume", Needless("the volume is named after the share")),
    (
        "widelinks",
        Always(false, "symbolic links never lead out of a share; bind-mount the target instead"),
    ),
    ("winsproxy", NETBIOS),
    ("winsserver", NETBIOS),
    ("winssupport", NETBIOS),
    ("writecachesize", TUNING),
    ("writeraw", TUNING),
];

/// By prefix of the normalised name.
const FAMILIES: &[(&str, ParameterFate)] = &[
    (
        "aclxattr:",
        Lost("ACLs are read where Samba stores them (security.NTACL), without its options"),
    ),
    ("aio", TUNING),
    (
        "catia:",
        Lost(
            "characters are mapped to the private ones that macOS and Windows use; other mappings \
             are not supported",
        ),
    ),
    ("ctdb", Lost("clustering is not supported")),
    (
        "fruit:",
        Lost(
            "fruit's options are ignored; Finder information is read from streams (AFP_AfpInfo), \
             not from the places that fruit:metadata and fruit:resource set",
        ),
    ),
    (
        "full_audit:",
        Lost("file operations are not logged; use the kernel's audit (auditctl) on the directory"),
    ),
    ("idmap", DOMAIN),
    ("io_uring:", TUNING),
    ("ldap", DOMAIN),
    ("recycle:", Lost("deletes are final, without a recycle bin; use snapshots or backups")),
    ("rpc_", TUNING),
    ("shadow:", Lost("snapshots are not shown")),
    ("smb2", TUNING),
    ("smb3directoryleases", TUNING),
    (
        "smb3unixextensions",
        Needless("POSIX extensions are on; set posix = false to switch them off for a share"),
    ),
    ("smbdprofiling", LOGS),
    (
        "streams_depot:",
        Lost(
            "streams are stored in extended attributes, long ones in .anabranch-streams; those in \
             .streams are not found",
        ),
    ),
    ("tls", DOMAIN),
    ("winbind", DOMAIN),
];

/// The treatment of a parameter without a direct counterpart.
#[must_use]
pub fn fate_of(key: &str) -> Option<ParameterFate> {
    let exact = FATES.iter().find(|(name, _)| *name == key);
    let family = || FAMILIES.iter().find(|(start, _)| key.starts_with(start));
    exact.or_else(family).map(|(_, fate)| *fate)
}

/// The remark on a Samba VFS module; `None` if the server does its work anyway.
#[must_use]
pub fn module(name: &str) -> Option<&'static str> {
    let name = name.split(':').next().unwrap_or_default();
    Some(match name {
        // Stored in the same place and format.
        "streams_xattr" | "acl_xattr" => return None,
        "aio_fork" | "aio_linux" | "aio_pthread" | "dirsort" | "io_uring" | "posix_eadb"
        | "preopen" | "readahead" | "readonly" | "default_quota" | "fileid" | "crossrename"
        | "syncops" => "not needed here",
        "acl_tdb" | "xattr_tdb" => {
            "its database is not read; while Samba runs, copy the files through it to a share with \
             acl_xattr"
        }
        "audit" | "extd_audit" | "full_audit" => {
            "file operations are not logged; use the kernel's audit (auditctl) on the directory"
        }
        "btrfs" | "shadow_copy" | "shadow_copy2" | "snapper" => {
            "this module's snapshots are not shown"
        }
        "cap" | "catia" => {
            "characters that Windows forbids are mapped to private ones, as on macOS; names that \
             were stored mapped stay mapped"
        }
        "ceph" | "ceph_new" | "ceph_snapshots" | "glusterfs" | "gpfs" | "nfs4acl_xattr"
        | "zfsacl" => "the file system is served through its mount, without this module's features",
        "fruit" => {
            "Finder information is read from streams (AFP_AfpInfo); data stored elsewhere, the \
             default unless fruit:metadata = stream, is not found"
        }
        "media_harmony" | "unityed_media" => "Avid's names are not changed per user",
        "recycle" => "deletes are final, without a recycle bin; use snapshots or backups",
        "scannedonly" | "virusfilter" => "files are not scanned; scan the directory itself",
        "streams_depot" => {
            "streams are stored in extended attributes, long ones in .anabranch-streams; those in \
             .streams are not found"
        }
        "worm" => "files do not become immutable by age; use chattr +i",
        _ => "unknown module, ignored; check whether you relied on it",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remark_names_are_normalized_sorted_and_have_a_remedy() {
        assert!(FATES.is_sorted_by(|a, b| a.0 < b.0));
        for (name, fate) in FATES.iter().chain(FAMILIES) {
            assert_eq!(*name, super::super::text::squeezed(name));
            let (Needless(text) | Always(_, text) | Lost(text)) = fate;
            assert!(text.len() > 15 && !text.ends_with('.'), "{name}");
        }
    }
}
