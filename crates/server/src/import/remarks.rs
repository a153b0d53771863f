//! Remarks on Samba parameters that have no direct counterpart.

/// Treatment of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// No action is needed, for this reason.
    Needless(&'static str),
    /// The server always behaves as with this value; the other value cannot be carried over.
    Always(bool, &'static str),
    /// The parameter cannot be carried over; the remedy.
    Lost(&'static str),
}

use Fate::{Always, Lost, Needless};

const LOGS: Fate = Needless(
    "the log goes to standard error, and so to the journal; ANABRANCH_LOG=debug shows more",
);
const TUNING: Fate = Needless("this server chooses it by itself");
const NETBIOS: Fate =
    Needless("there is no NetBIOS; clients find the server by DNS, mDNS or its address");
const PRINTING: Fate = Needless("printers are not served; CUPS does that itself, by IPP");
const PASSWORDS: Fate =
    Needless("passwords are in the users' file; change them with: anabranch user passwd");
const DOMAIN: Fate =
    Lost("domains are not joined: users log on with passwords of this server (anabranch user add)");
const SCRIPTS: Fate =
    Lost("no commands are run for clients; use systemd units or cron for what they did");
const ALWAYS_ATTRIBUTES: &str = "DOS attributes are kept in user.DOSATTRIB only";

/// By normalised name.
const FATES: &[(&str, Fate)] = &[
    ("acl:searchdirectories", TUNING),
    (
        "aclallowexecutealways",
        Lost("executing a file takes the right to execute it; set the mode or the access list"),
    ),
    ("aclgroupcontrol", Lost("only the owner and those whom the access list names change it")),
    ("addmachinescript", DOMAIN),
    ("addsharecommand", SCRIPTS),
    ("adduserscript", SCRIPTS),
    (
        "adminusers",
        Lost(
            "nobody acts as root by being named; give those users the rights they need on the files",
        ),
    ),
    ("aioreadsize", TUNING),
    ("aiowritesize", TUNING),
    ("allocationroundupsize", TUNING),
    (
        "allowinsecurewidelinks",
        Lost("no symbolic link leads out of a share; bind-mount what is to be seen"),
    ),
    ("allowtrusteddomains", DOMAIN),
    ("announceversion", NETBIOS),
    ("autoservices", NETBIOS),
    ("bindinterfacesonly", Needless("the addresses in smb are the only ones")),
    ("blockinglocks", Always(true, "a lock that is waited for is granted when it is free")),
    ("blocksize", TUNING),
    ("browselist", NETBIOS),
    ("changenotify", Always(true, "changes are told")),
    ("clientipcsigning", TUNING),
    ("clientmaxprotocol", TUNING),
    ("clientminprotocol", TUNING),
    ("clientsigning", TUNING),
    ("cupsoptions", PRINTING),
    ("cupsserver", PRINTING),
    ("deadtime", Needless("idle clients are kept; stall_seconds ends those that are gone")),
    ("debuglevel", LOGS),
    ("debugtimestamp", LOGS),
    ("dedicatedkeytabfile", DOMAIN),
    ("defaultcase", Lost("names keep the case they were made with")),
    (
        "deletevetofiles",
        Always(
            false,
            "a directory that holds vetoed names is not deleted; take the names from veto_names to delete it",
        ),
    ),
    ("dfreecommand", Lost("free space is the file system's; size_limit shows less")),
    ("disablenetbios", NETBIOS),
    ("disablespoolss", PRINTING),
    ("dnsproxy", NETBIOS),
    ("domainlogons", DOMAIN),
    ("domainmaster", NETBIOS),
    ("dosfilemode", Lost("who may change permissions is said by owner and access list")),
    ("dosfiletimeresolution", TUNING),
    ("dosfiletimes", Always(true, "who may write may set times")),
    ("durablehandles", Always(true, "durable handles are given")),
    ("easupport", Always(true, "extended attributes are served")),
    ("encryptpasswords", Always(true, "plain passwords are not taken")),
    ("fakeoplocks", Always(false, "oplocks are true ones")),
    ("followsymlinks", Always(true, "symbolic links are followed within a share")),
    ("getwdcache", TUNING),
    (
        "hidespecialfiles",
        Lost("sockets and pipes are listed; keep them elsewhere, or name them in veto_names"),
    ),
    (
        "hideunwriteablefiles",
        Lost("names that cannot be written are listed; hide_unreadable hides what cannot be read"),
    ),
    ("idmapbackend", DOMAIN),
    ("inheritacls", Needless("the system's default access lists are inherited by itself")),
    ("inheritowner", Lost("who makes a file owns it; force_user makes one user own all")),
    (
        "inheritpermissions",
        Lost(
            "modes are not inherited; set file_mode and directory_mode, or default access lists on the directories (setfacl -d)",
        ),
    ),
    ("keepalive", Needless("stall_seconds says when a silent client is gone")),
    ("kerberosmethod", DOMAIN),
    ("kerneloplocks", Needless("oplocks are not the kernel's")),
    (
        "kernelsharemodes",
        Needless(
            "share modes are kept by this server alone: serve a directory by one server at a time",
        ),
    ),
    ("lanmanauth", Always(false, "only NTLM version 2 is taken")),
    ("level2oplocks", Always(true, "oplocks of level 2 are given")),
    ("lmannounce", NETBIOS),
    ("lminterval", NETBIOS),
    ("loadprinters", PRINTING),
    ("localmaster", NETBIOS),
    ("lockdirectory", TUNING),
    ("locking", Always(true, "byte ranges are locked")),
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
    ("mangledmap", Needless("no 8.3 names are made up")),
    ("mangledname", Needless("no 8.3 names are made up")),
    (
        "manglednames",
        Needless(
            "no 8.3 names are made up; what Windows cannot hold in a name is shown as private characters",
        ),
    ),
    ("manglingmethod", Needless("no 8.3 names are made up")),
    ("maparchive", Needless(ALWAYS_ATTRIBUTES)),
    ("maphidden", Needless(ALWAYS_ATTRIBUTES)),
    ("mapreadonly", Needless(ALWAYS_ATTRIBUTES)),
    ("mapsystem", Needless(ALWAYS_ATTRIBUTES)),
    ("maxconnections", Lost("there is no limit by share; connections_max in [server] is for all")),
    ("maxlogsize", LOGS),
    ("maxmux", TUNING),
    ("maxopenfiles", TUNING),
    ("maxprintjobs", PRINTING),
    (
        "maxsmbdprocesses",
        Needless("connections_max in [server] bounds connections; there is one process"),
    ),
    ("maxttl", NETBIOS),
    ("maxwinsttl", NETBIOS),
    ("maxxmit", TUNING),
    ("messagecommand", SCRIPTS),
    ("minreceivefilesize", TUNING),
    ("msdfsproxy", Lost("no DFS is served; mount the other server, or point clients at it")),
    ("msdfsroot", Always(false, "no DFS is served; point clients at the other shares")),
    ("multicastdnsregister", NETBIOS),
    ("nameresolveorder", NETBIOS),
    ("netbiosaliases", Needless("clients may use any name that leads here")),
    ("ntaclsupport", Always(true, "access lists are shown")),
    ("ntlmauth", Needless("only NTLM version 2 is taken")),
    ("nullpasswords", Always(false, "nobody logs on without a password; guest_ok lets guests in")),
    ("obeypamrestrictions", PASSWORDS),
    ("oplocks", Always(true, "oplocks are given to who asks")),
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
            "locks of clients are not seen by local processes: let them use the share, or stop them from writing meanwhile",
        ),
    ),
    ("postexec", SCRIPTS),
    ("preexec", SCRIPTS),
    ("preexecclose", SCRIPTS),
    ("preferredmaster", NETBIOS),
    ("preservecase", Always(true, "names keep the case they were made with")),
    ("printcapcachetime", PRINTING),
    ("printcapname", PRINTING),
    ("printcommand", PRINTING),
    ("printername", PRINTING),
    ("printing", PRINTING),
    ("printnotifybackchannel", PRINTING),
    ("readraw", TUNING),
    ("realm", DOMAIN),
    ("restrictanonymous", Needless("sessions without a name are refused where no guest is set")),
    ("rootpostexec", SCRIPTS),
    ("rootpreexec", SCRIPTS),
    ("rootpreexecclose", SCRIPTS),
    ("rpc_daemon:spoolssd", PRINTING),
    ("rpc_server:spoolss", PRINTING),
    ("servermultichannelsupport", Always(true, "Multichannel is offered")),
    ("serverrole", Needless("this server stands alone")),
    ("serverstring", Lost("a server has no comment; shares have")),
    ("shortpreservecase", Always(true, "names keep the case they were made with")),
    ("smbpasswdfile", Needless("give that file to this command with --passwords")),
    ("socketoptions", TUNING),
    ("spoolss:architecture", PRINTING),
    ("storedosattributes", Always(true, ALWAYS_ATTRIBUTES)),
    ("strictallocate", TUNING),
    ("strictlocking", Needless("locks are looked at by every read and write")),
    ("strictsync", Needless("a flush that a client asks for is done")),
    (
        "syncalways",
        Always(false, "data is made durable when a client asks for it (write-through, flush)"),
    ),
    ("syslog", LOGS),
    ("syslogonly", LOGS),
    ("templatehomedir", DOMAIN),
    ("templateshell", DOMAIN),
    ("timeserver", NETBIOS),
    ("tlsenabled", DOMAIN),
    ("unixextensions", Needless("extensions of SMB1 are not served")),
    ("unixpasswordsync", PASSWORDS),
    ("usekerberoskeytab", DOMAIN),
    ("usemmap", TUNING),
    ("username", Lost("this says nothing since users log on by name; use users")),
    (
        "usernamemap",
        Lost(
            "names are not mapped; give a user another system user with: anabranch user passwd NAME --system-user OTHER",
        ),
    ),
    ("usernamemapscript", SCRIPTS),
    ("usershareallowguests", Needless("there are no user shares")),
    ("usersharemaxshares", Needless("there are no user shares; add a [[share]] for each")),
    (
        "usersharepath",
        Lost("there are no user shares; add a [[share]] for each file in that directory"),
    ),
    ("usesendfile", TUNING),
    ("utmp", LOGS),
    ("utmpdirectory", LOGS),
    (
        "vetooplockfiles",
        Lost("oplocks are given on all files; local processes that change files do not break them"),
    ),
    ("volume", Needless("the volume is called as the share")),
    (
        "widelinks",
        Always(false, "no symbolic link leads out of a share; bind-mount what is to be seen"),
    ),
    ("winsproxy", NETBIOS),
    ("winsserver", NETBIOS),
    ("winssupport", NETBIOS),
    ("writecachesize", TUNING),
    ("writeraw", TUNING),
];

/// By prefix of the normalised name.
const FAMILIES: &[(&str, Fate)] = &[
    (
        "aclxattr:",
        Lost("access lists are read where Samba keeps them (security.NTACL), without its options"),
    ),
    ("aio", TUNING),
    (
        "catia:",
        Lost("characters are mapped to the private ones that macOS and Windows use, no others"),
    ),
    ("ctdb", Lost("there is no cluster")),
    (
        "fruit:",
        Lost(
            "Macs are served without fruit's options; Finder's information is read from streams (AFP_AfpInfo), not from where fruit:metadata and fruit:resource say",
        ),
    ),
    (
        "full_audit:",
        Lost("no log of operations is kept; use the kernel's audit (auditctl) on the directory"),
    ),
    ("idmap", DOMAIN),
    ("io_uring:", TUNING),
    ("ldap", DOMAIN),
    ("recycle:", Lost("deleted files are gone; use snapshots or backups")),
    ("rpc_", TUNING),
    ("shadow:", Lost("no snapshots are shown")),
    ("smb2", TUNING),
    ("smb3directoryleases", TUNING),
    (
        "smb3unixextensions",
        Needless("POSIX extensions are offered; posix = false for a share without"),
    ),
    ("smbdprofiling", LOGS),
    (
        "streams_depot:",
        Lost(
            "streams are kept in extended attributes, long ones in .anabranch-streams; those in .streams are not found",
        ),
    ),
    ("tls", DOMAIN),
    ("winbind", DOMAIN),
];

/// The treatment of a parameter without a direct counterpart.
#[must_use]
pub fn fate_of(key: &str) -> Option<Fate> {
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
        | "syncops" => "its work is not needed here",
        "acl_tdb" | "xattr_tdb" => {
            "what it keeps in a database is not found; while Samba runs, copy the files through it to a share with acl_xattr"
        }
        "audit" | "extd_audit" | "full_audit" => {
            "no log of operations is kept; use the kernel's audit (auditctl) on the directory"
        }
        "btrfs" | "shadow_copy" | "shadow_copy2" | "snapper" => "no snapshots are shown by it",
        "cap" | "catia" => {
            "characters that Windows cannot hold are shown as private ones, as macOS has them; names that were stored mapped stay so"
        }
        "ceph" | "ceph_new" | "ceph_snapshots" | "glusterfs" | "gpfs" | "nfs4acl_xattr"
        | "zfsacl" => {
            "the file system is served through its mount, without what this module knows of it"
        }
        "fruit" => {
            "Macs have Finder's information from streams (AFP_AfpInfo); what it kept elsewhere, as it does unless fruit:metadata = stream, is not found"
        }
        "media_harmony" | "unityed_media" => "Avid's names are not changed by user",
        "recycle" => "deleted files are gone; use snapshots or backups",
        "scannedonly" | "virusfilter" => "files are not scanned; scan the directory itself",
        "streams_depot" => {
            "streams are kept in extended attributes, long ones in .anabranch-streams; those in .streams are not found"
        }
        "worm" => "files do not become unchangeable by age; use chattr +i",
        _ => "this module is not known here; see what it did for you",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_squeezed_in_order_and_say_what_to_do() {
        assert!(FATES.is_sorted_by(|a, b| a.0 < b.0));
        for (name, fate) in FATES.iter().chain(FAMILIES) {
            assert_eq!(*name, super::super::text::squeezed(name));
            let (Needless(text) | Always(_, text) | Lost(text)) = fate;
            assert!(text.len() > 15 && !text.ends_with('.'), "{name}");
        }
    }
}
