//! Remarks on Samba parameters that have no direct counterpart.

/// Treatment of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterFate {
    /// No action is needed, for this reason.
    Needless(&'static str),
    /// The server always behaves as with this value; the other value cannot be carried over.
    Always(bool, &'static str),
    /// The server always behaves as with this value, in lower case without spaces.
    Only(&'static str, &'static str),
    /// The parameter cannot be carried over; the remedy.
    Lost(&'static str),
    /// As `Lost`, and data that clients saw is missing or looks different.
    Data(&'static str),
}

use ParameterFate::{Always, Data, Lost, Needless, Only};

/// The remedy for settings of domains.
pub const DOMAIN_REMEDY: &str =
    "domains are not supported: users log on with passwords of this server (anabranch user add)";

const LOGS: ParameterFate =
    Needless("the log goes to standard error, so to the journal; ANABRANCH_LOG=debug shows more");
const TUNING: ParameterFate = Needless("the server chooses it automatically");
const NETBIOS: ParameterFate =
    Needless("NetBIOS is not supported; clients find the server by DNS, mDNS or its address");
const PRINTING: ParameterFate = Needless("printers are not supported; use CUPS with IPP");
const PASSWORDS: ParameterFate =
    Needless("passwords are in the users file; change them with: anabranch user passwd");
const DOMAIN: ParameterFate = Lost(DOMAIN_REMEDY);
const SCRIPTS: ParameterFate =
    Lost("commands are never run for clients; use systemd units or cron instead");
const CLIENTS: ParameterFate = Needless("only clients and tools of Samba use it");
const OWN_FILES: ParameterFate = Needless("it concerns files and processes of Samba itself");
const DNS: ParameterFate = Lost("no DNS server is part of this server");
const SEARCH: ParameterFate =
    Lost("clients cannot search by an index of this server; Finder and Explorer search by listing");
const ACLS: ParameterFate =
    Lost("permissions and inheritance follow the ACLs alone; set them on the directories");
const USER_SHARES: ParameterFate = Needless("user shares are not supported; add a [[share]]");
const FINDER: ParameterFate = Needless("the server behaves so towards macOS without an option");
const FINDER_STREAMS: &str = "Finder information is read from streams (AFP_AfpInfo); what fruit stored elsewhere is not \
     found";
const ALWAYS_ATTRIBUTES: &str = "DOS attributes are stored in user.DOSATTRIB only";

/// By normalised name.
const FATES: &[(&str, ParameterFate)] = &[
    ("abortshutdownscript", SCRIPTS),
    ("acl:searchdirectories", TUNING),
    (
        "aclallowexecutealways",
        Lost("executing a file needs execute permission; set the mode or the ACL"),
    ),
    ("aclcheckpermissions", Always(true, "ACLs decide who may open a file")),
    ("aclflaginheritedcanonicalization", ACLS),
    ("aclgroupcontrol", Lost("only the owner and users whom the ACL permits change it")),
    ("aclmapfullcontrol", ACLS),
    ("addgroupscript", SCRIPTS),
    ("additionaldnshostnames", NETBIOS),
    ("addmachinescript", DOMAIN),
    ("addportcommand", PRINTING),
    ("addprintercommand", PRINTING),
    ("addsharecommand", SCRIPTS),
    ("adduserscript", SCRIPTS),
    ("addusertogroupscript", SCRIPTS),
    ("administrativeshare", Lost("every share is an ordinary one")),
    (
        "adminusers",
        Lost("no user acts as root; give those users the permissions they need on the files"),
    ),
    ("afsshare", Lost("AFS is not supported")),
    ("afstokenlifetime", Lost("AFS is not supported")),
    ("afsusernamemap", Lost("AFS is not supported")),
    ("aioreadsize", TUNING),
    ("aiowritesize", TUNING),
    ("algorithmicridbase", DOMAIN),
    ("allocationroundupsize", TUNING),
    ("allowdcerpcauthlevelconnect", OWN_FILES),
    ("allowdnsupdates", DNS),
    (
        "allowinsecurewidelinks",
        Lost("symbolic links never lead out of a share; bind-mount the target instead"),
    ),
    ("allownt4crypto", DOMAIN),
    ("allowtrusteddomains", DOMAIN),
    ("allowunsafeclusterupgrade", OWN_FILES),
    ("announceversion", NETBIOS),
    ("applygrouppolicies", DOMAIN),
    ("asyncdnstimeout", OWN_FILES),
    ("asyncsmbechohandler", OWN_FILES),
    ("autheventnotification", DOMAIN),
    ("autoservices", NETBIOS),
    ("binddnsdir", OWN_FILES),
    ("bindinterfacesonly", Needless("the server listens only on the addresses in smb")),
    ("blockinglocks", Always(true, "blocking locks are supported")),
    ("blocksize", TUNING),
    ("browselist", NETBIOS),
    ("cachedirectory", OWN_FILES),
    ("changenotify", Always(true, "change notification is supported")),
    ("changesharecommand", SCRIPTS),
    ("checkparentdirectorydeleteonclose", TUNING),
    ("checkpasswordscript", SCRIPTS),
    ("cldapport", DOMAIN),
    ("clientipcmaxprotocol", CLIENTS),
    ("clientipcminprotocol", CLIENTS),
    ("clientipcsigning", TUNING),
    ("clientlanmanauth", CLIENTS),
    ("clientldapsaslwrapping", CLIENTS),
    ("clientmaxprotocol", TUNING),
    ("clientminprotocol", TUNING),
    ("clientnetlogonpingprotocol", CLIENTS),
    ("clientntlmv2auth", CLIENTS),
    ("clientplaintextauth", CLIENTS),
    ("clientprotection", CLIENTS),
    ("clientschannel", CLIENTS),
    ("clientsigning", TUNING),
    ("clientsmb3encryptionalgorithms", CLIENTS),
    ("clientsmb3signingalgorithms", CLIENTS),
    ("clientsmbencrypt", CLIENTS),
    ("clientusekerberos", CLIENTS),
    ("clientusespnego", CLIENTS),
    ("clientusespnegoprincipal", CLIENTS),
    ("clusteraddresses", Lost("clustering is not supported")),
    ("clustering", Lost("clustering is not supported")),
    ("createkrb5conf", CLIENTS),
    ("cscpolicy", Lost("clients decide which files they make available offline")),
    ("cupsconnectiontimeout", PRINTING),
    ("cupsencrypt", PRINTING),
    ("cupsoptions", PRINTING),
    ("cupsserver", PRINTING),
    ("dcerpcendpointservers", DOMAIN),
    ("deadtime", Needless("idle clients stay connected; stall_seconds ends dead connections")),
    ("debugclass", LOGS),
    ("debugencryption", LOGS),
    ("debughirestimestamp", LOGS),
    ("debuglevel", LOGS),
    ("debugpid", LOGS),
    ("debugprefixtimestamp", LOGS),
    ("debugsyslogformat", LOGS),
    ("debugtimestamp", LOGS),
    ("debuguid", LOGS),
    ("dedicatedkeytabfile", DOMAIN),
    ("defaultcase", Lost("names keep the case they were created with")),
    ("defaultdevmode", PRINTING),
    ("defaultservice", Lost("an unknown share is refused; add a [[share]] for it")),
    ("defersharingviolations", Always(true, "the client tries again after a sharing violation")),
    ("deletegroupscript", SCRIPTS),
    ("deleteprintercommand", PRINTING),
    (
        "deletereadonly",
        Always(false, "read-only files must be made writable before they are deleted"),
    ),
    ("deletesharecommand", SCRIPTS),
    ("deleteuserfromgroupscript", SCRIPTS),
    ("deleteuserscript", SCRIPTS),
    (
        "deletevetofiles",
        Always(
            false,
            "a directory with vetoed names is not deleted; remove the names from veto_names to \
             delete it",
        ),
    ),
    ("dfreecachetime", TUNING),
    ("dfreecommand", Lost("free space is that of the file system; size_limit reports less")),
    ("dgramport", NETBIOS),
    ("directorynamecachesize", OWN_FILES),
    ("directorysecuritymask", ACLS),
    ("disablenetbios", NETBIOS),
    ("disablespoolss", PRINTING),
    ("dmapisupport", Always(false, "DMAPI is not supported")),
    ("dnsforwarder", DNS),
    ("dnsport", DNS),
    ("dnsproxy", NETBIOS),
    ("dnsupdatecommand", DNS),
    ("dnszonescavenging", DNS),
    ("dnszonetransferclientsallow", DNS),
    ("dnszonetransferclientsdeny", DNS),
    ("domainlogons", DOMAIN),
    ("domainmaster", NETBIOS),
    (
        "dontdescend",
        Lost("directories are listed in full; hide names by hidden_names or veto_names"),
    ),
    ("doscharset", Needless("only SMB1 uses it")),
    ("dosfilemode", Lost("owner and ACL decide who may change permissions")),
    ("dosfiletimeresolution", TUNING),
    ("dosfiletimes", Always(true, "write permission permits setting times")),
    ("dsdbeventnotification", DOMAIN),
    ("dsdbgroupchangenotification", DOMAIN),
    ("dsdbpasswordeventnotification", DOMAIN),
    ("durablehandles", Always(true, "durable handles are supported")),
    ("easupport", Always(true, "extended attributes are supported")),
    ("elasticsearch:address", SEARCH),
    ("enableasusupport", Needless("there is no share ADMIN$")),
    ("enablecorefiles", OWN_FILES),
    ("enableprivileges", OWN_FILES),
    ("enablespoolss", PRINTING),
    ("encryptpasswords", Always(true, "plaintext passwords are not supported")),
    ("enhancedbrowsing", NETBIOS),
    ("enumportscommand", PRINTING),
    ("eventloglist", OWN_FILES),
    ("fakedirectorycreatetimes", Always(false, "directories have their real creation time")),
    ("fakeoplocks", Always(false, "oplocks are real")),
    ("followsymlinks", Always(true, "symbolic links are followed within a share")),
    ("forcedirectorysecuritymode", ACLS),
    ("forceprintername", PRINTING),
    ("forcesecuritymode", ACLS),
    ("forceunknownacluser", ACLS),
    ("fruit:aapl", Always(true, "the server offers Apple's extensions")),
    ("fruit:convert_adouble", FINDER),
    ("fruit:copyfile", FINDER),
    ("fruit:delete_empty_adfiles", FINDER),
    (
        "fruit:encoding",
        Only("native", "characters that Windows forbids are mapped to private ones, as on macOS"),
    ),
    (
        "fruit:locking",
        Only("none", "locks of netatalk are not seen: serve a directory by one server at a time"),
    ),
    ("fruit:metadata", Only("stream", FINDER_STREAMS)),
    ("fruit:model", FINDER),
    ("fruit:nfs_aces", FINDER),
    ("fruit:posix_opens", FINDER),
    ("fruit:posix_rename", FINDER),
    ("fruit:resource", Only("stream", FINDER_STREAMS)),
    ("fruit:veto_appledouble", FINDER),
    ("fruit:wipe_intentionally_left_blank_rfork", FINDER),
    ("fruit:zero_file_id", FINDER),
    ("fss:prunestale", Needless("snapshots by clients' request are not supported")),
    ("fss:sequencetimeout", Needless("snapshots by clients' request are not supported")),
    ("fstype", Needless("the file system is reported as NTFS")),
    ("getquotacommand", SCRIPTS),
    ("getwdcache", TUNING),
    ("gpoupdatecommand", SCRIPTS),
    ("hidenewfilestimeout", Lost("new files are visible at once")),
    (
        "hidespecialfiles",
        Lost("sockets and pipes are listed; move them, or list them in veto_names"),
    ),
    (
        "hideunwriteablefiles",
        Lost("unwritable files are listed; hide_unreadable hides unreadable ones"),
    ),
    ("honorchangenotifyprivilege", Always(false, "users need the right to traverse directories")),
    ("hostmsdfs", Needless("DFS roots are shares of their own; see msdfs root")),
    ("hostnamelookups", Needless("names in hosts_allowed are resolved")),
    ("idmapbackend", DOMAIN),
    ("includesystemkrb5conf", CLIENTS),
    ("inheritacls", Needless("the file system inherits default ACLs")),
    ("inheritowner", Lost("a file's creator owns it; force_user makes one user own all")),
    (
        "inheritpermissions",
        Lost(
            "modes are not inherited; set file_mode and directory_mode, or default ACLs on the \
             directories (setfacl -d)",
        ),
    ),
    ("initlogondelay", DOMAIN),
    ("initlogondelayedhosts", DOMAIN),
    ("iprintserver", PRINTING),
    ("kdcdefaultdomainsupportedenctypes", DOMAIN),
    ("kdcenablefast", DOMAIN),
    ("kdcforceenablerc4weaksessionkeys", DOMAIN),
    ("kdcsupportedenctypes", DOMAIN),
    ("keepalive", Needless("stall_seconds limits how long a client may be silent")),
    ("kerberosencryptiontypes", DOMAIN),
    ("kerberosmethod", DOMAIN),
    ("kernelchangenotify", Always(true, "changes by local programs are notified, too")),
    ("kerneloplocks", Needless("kernel oplocks are not used")),
    (
        "kernelsharemodes",
        Needless(
            "share modes apply within this server only: serve a directory by one server at a time",
        ),
    ),
    ("kpasswdport", DOMAIN),
    ("krb5port", DOMAIN),
    ("lanmanauth", Always(false, "only NTLMv2 is supported")),
    ("largereadwrite", TUNING),
    ("level2oplocks", Always(true, "level 2 oplocks are supported")),
    ("lmannounce", NETBIOS),
    ("lminterval", NETBIOS),
    ("loadprinters", PRINTING),
    ("localmaster", NETBIOS),
    ("lockdirectory", TUNING),
    ("locking", Always(true, "byte-range locks are supported")),
    ("lockspintime", OWN_FILES),
    ("logfile", LOGS),
    ("logging", LOGS),
    ("loglevel", LOGS),
    ("lognttokencommand", SCRIPTS),
    ("logondrive", DOMAIN),
    ("logonhome", DOMAIN),
    ("logonpath", DOMAIN),
    ("logonscript", DOMAIN),
    ("logwriteablefilesonexit", LOGS),
    ("lppausecommand", PRINTING),
    ("lpqcachetime", PRINTING),
    ("lpqcommand", PRINTING),
    ("lpresumecommand", PRINTING),
    ("lprmcommand", PRINTING),
    ("lsaovernetlogon", DOMAIN),
    ("machinepasswordtimeout", DOMAIN),
    ("magicoutput", SCRIPTS),
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
    ("mangleprefix", Needless("8.3 names are not supported")),
    ("manglingchar", Needless("8.3 names are not supported")),
    ("manglingmethod", Needless("8.3 names are not supported")),
    ("mapaclinherit", ACLS),
    ("maparchive", Needless(ALWAYS_ATTRIBUTES)),
    ("maphidden", Needless(ALWAYS_ATTRIBUTES)),
    ("mapreadonly", Needless(ALWAYS_ATTRIBUTES)),
    ("mapsystem", Needless(ALWAYS_ATTRIBUTES)),
    ("maxconnections", Lost("there is no limit per share; connections_max in [server] is for all")),
    ("maxlogsize", LOGS),
    ("maxmux", TUNING),
    ("maxopenfiles", TUNING),
    ("maxprintjobs", PRINTING),
    ("maxreportedprintjobs", PRINTING),
    (
        "maxsmbdprocesses",
        Needless("connections_max in [server] limits connections; there is one process"),
    ),
    ("maxstatcachesize", OWN_FILES),
    ("maxttl", NETBIOS),
    ("maxwinsttl", NETBIOS),
    ("maxxmit", TUNING),
    ("mdnsname", NETBIOS),
    ("messagecommand", SCRIPTS),
    ("mindomainuid", DOMAIN),
    ("minprintspace", PRINTING),
    ("minreceivefilesize", TUNING),
    ("minwinsttl", NETBIOS),
    ("mitkdccommand", DOMAIN),
    (
        "msdfsproxy",
        Lost("DFS is not supported; mount the other server, or configure clients to use it"),
    ),
    ("msdfsroot", Always(false, "DFS is not supported; configure clients to use the other shares")),
    ("msdfsshufflereferrals", Needless("DFS is not supported; see msdfs root")),
    ("multicastdnsregister", NETBIOS),
    ("namecachetimeout", CLIENTS),
    ("nameresolveorder", NETBIOS),
    ("nbtclientsocketaddress", NETBIOS),
    ("nbtport", NETBIOS),
    ("ncalrpcdir", OWN_FILES),
    ("netbiosaliases", Needless("clients may use any name that resolves to this server")),
    ("netbiosscope", NETBIOS),
    ("neutralizent4emulation", DOMAIN),
    ("nmbdbindexplicitbroadcast", NETBIOS),
    ("nsupdatecommand", DNS),
    ("ntaclsupport", Always(true, "ACLs are supported")),
    ("nthashstore", OWN_FILES),
    ("ntlmauth", Needless("only NTLMv2 is supported")),
    ("ntpipesupport", TUNING),
    ("ntpsigndsocketdirectory", OWN_FILES),
    ("ntstatussupport", TUNING),
    ("ntvfshandler", OWN_FILES),
    ("nullpasswords", Always(false, "every logon needs a password; guest_ok permits guests")),
    ("obeypamrestrictions", PASSWORDS),
    ("oldpasswordallowedperiod", CLIENTS),
    ("oplockbreakwaittime", TUNING),
    ("oplocks", Always(true, "oplocks are supported")),
    ("os2drivermap", PRINTING),
    ("oslevel", NETBIOS),
    ("pampasswordchange", PASSWORDS),
    ("panicaction", LOGS),
    ("passdbexpandexplicit", OWN_FILES),
    ("passwdchat", PASSWORDS),
    ("passwdchatdebug", PASSWORDS),
    ("passwdchattimeout", PASSWORDS),
    ("passwdprogram", PASSWORDS),
    ("passwordhashgpgkeyids", OWN_FILES),
    ("passwordserver", DOMAIN),
    ("perfcountmodule", OWN_FILES),
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
    ("preforkbackoffincrement", OWN_FILES),
    ("preforkchildren", OWN_FILES),
    ("preforkmaximumbackoff", OWN_FILES),
    ("preloadmodules", OWN_FILES),
    ("preservecase", Always(true, "names keep the case they were created with")),
    ("printcapcachetime", PRINTING),
    ("printcapname", PRINTING),
    ("printcommand", PRINTING),
    ("printername", PRINTING),
    ("printing", PRINTING),
    ("printjobusername", PRINTING),
    ("printnotifybackchannel", PRINTING),
    ("queuepausecommand", PRINTING),
    ("queueresumecommand", PRINTING),
    ("readraw", TUNING),
    ("realm", DOMAIN),
    ("rejectmd5clients", DOMAIN),
    ("rejectmd5servers", DOMAIN),
    ("remoteannounce", NETBIOS),
    ("remotebrowsesync", NETBIOS),
    ("renameuserscript", SCRIPTS),
    ("requirestrongkey", DOMAIN),
    ("resetonzerovc", NETBIOS),
    ("restrictanonymous", Needless("anonymous sessions are refused where guest is unset")),
    (
        "rootdirectory",
        Lost("paths are those of the whole system; put that directory before each path"),
    ),
    ("rootpostexec", SCRIPTS),
    ("rootpreexec", SCRIPTS),
    ("rootpreexecclose", SCRIPTS),
    ("rpc_daemon:spoolssd", PRINTING),
    ("rpc_server:spoolss", PRINTING),
    ("rpcbigendian", OWN_FILES),
    ("rpcserverdynamicportrange", OWN_FILES),
    ("rpcserverport", OWN_FILES),
    ("rpcstartondemandhelpers", OWN_FILES),
    ("sambakcccommand", DOMAIN),
    ("securitymask", ACLS),
    ("servermultichannelsupport", Always(true, "Multichannel is supported")),
    ("serverrole", Needless("this is a standalone server")),
    ("serverschannel", DOMAIN),
    ("serverschannelrequireseal", DOMAIN),
    ("serverservices", Needless("the server has one process for all")),
    (
        "serversmb3encryptionalgorithms",
        Needless("the client's and the server's best common algorithm is used"),
    ),
    (
        "serversmb3signingalgorithms",
        Needless("the client's and the server's best common algorithm is used"),
    ),
    ("serverstring", Lost("only shares have a comment")),
    ("setprimarygroupscript", SCRIPTS),
    ("setquotacommand", SCRIPTS),
    ("share:fake_fscaps", OWN_FILES),
    ("shortpreservecase", Always(true, "names keep the case they were created with")),
    ("showaddprinterwizard", OWN_FILES),
    ("shutdownscript", SCRIPTS),
    ("smb1unixextensions", Needless("SMB1 is not supported")),
    ("smbdasyncdosmode", TUNING),
    ("smbdforceprocesslocks", TUNING),
    ("smbdgetinfoasksharemode", TUNING),
    ("smbdmaxasyncdosmode", TUNING),
    ("smbdmaxxattrsize", TUNING),
    ("smbdsearchasksharemode", TUNING),
    ("smbpasswdfile", Needless("import that file with --passwords")),
    ("socketaddress", Lost("it is obsolete; set smb in [server]")),
    ("socketoptions", TUNING),
    ("spnupdatecommand", DOMAIN),
    ("spoolss:architecture", PRINTING),
    ("spoolss:os_build", PRINTING),
    ("spoolss:os_major", PRINTING),
    ("spoolss:os_minor", PRINTING),
    ("spoolss_client:os_build", PRINTING),
    ("spoolss_client:os_major", PRINTING),
    ("spoolss_client:os_minor", PRINTING),
    ("spotlight", Always(false, "clients cannot search by an index of this server")),
    ("statcache", OWN_FILES),
    ("statedirectory", OWN_FILES),
    ("storedosattributes", Always(true, ALWAYS_ATTRIBUTES)),
    ("strictallocate", TUNING),
    ("strictlocking", Needless("every read and write checks locks")),
    ("strictrename", TUNING),
    ("strictsync", Needless("the server always honors flush requests")),
    ("svcctllist", OWN_FILES),
    (
        "syncalways",
        Always(false, "data is made durable when a client requests it (write-through, flush)"),
    ),
    ("syncmachinepasswordscript", DOMAIN),
    ("syncmachinepasswordtokeytab", DOMAIN),
    ("syslog", LOGS),
    ("syslogonly", LOGS),
    ("templatehomedir", DOMAIN),
    ("templateshell", DOMAIN),
    ("timeserver", NETBIOS),
    ("timestamplogs", LOGS),
    ("tlsenabled", DOMAIN),
    ("unicode", CLIENTS),
    ("unixcharset", Only("utf-8", "names of files are UTF-8; convert others with convmv")),
    ("unixextensions", Needless("SMB1 extensions are not supported")),
    ("unixpasswordsync", PASSWORDS),
    ("useclientdriver", PRINTING),
    ("usekerberoskeytab", DOMAIN),
    ("usemmap", TUNING),
    ("username", Lost("it has no effect, since users log on by name; use users")),
    ("usernamelevel", Needless("names of users are case-insensitive")),
    (
        "usernamemap",
        Lost(
            "names are not mapped; assign another system user with: anabranch user passwd NAME \
             --system-user OTHER",
        ),
    ),
    ("usernamemapcachetime", OWN_FILES),
    ("usernamemapscript", SCRIPTS),
    ("usershareallowguests", Needless("user shares are not supported")),
    ("usersharemaxshares", Needless("user shares are not supported; add a [[share]] for each")),
    ("usershareowneronly", USER_SHARES),
    (
        "usersharepath",
        Lost("user shares are not supported; add a [[share]] for each file in that directory"),
    ),
    ("usershareprefixallowlist", USER_SHARES),
    ("usershareprefixdenylist", USER_SHARES),
    ("usersharetemplateshare", USER_SHARES),
    ("usesendfile", TUNING),
    ("utmp", LOGS),
    ("utmpdirectory", LOGS),
    (
        "vetooplockfiles",
        Lost("oplocks are granted on all files; local changes to files do not break them"),
    ),
    ("volume", Needless("the volume is named after the share")),
    ("volumeserialnumber", Needless("each share has a serial number of its own")),
    (
        "widelinks",
        Always(false, "symbolic links never lead out of a share; bind-mount the target instead"),
    ),
    ("winshook", SCRIPTS),
    ("winsproxy", NETBIOS),
    ("winsserver", NETBIOS),
    ("winssupport", NETBIOS),
    ("writecachesize", TUNING),
    ("writeraw", TUNING),
    ("wtmpdirectory", LOGS),
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
        Data(
            "characters are mapped to the private ones that macOS and Windows use; other mappings \
             are not supported",
        ),
    ),
    ("ctdb", Lost("clustering is not supported")),
    ("elasticsearch:", SEARCH),
    ("spotlight", SEARCH),
    ("winsdb:", DOMAIN),
    ("wreplsrv:", DOMAIN),
    ("client", CLIENTS),
    ("dsdb:", DOMAIN),
    ("kccsrv:", DOMAIN),
    ("drs:", DOMAIN),
    ("nfs4:", ACLS),
    ("virusfilter:", Lost("files are not scanned; scan the directory itself")),
    ("worm:", Lost("files do not become immutable by age; use chattr +i")),
    ("snapper:", Needless("snapshots = \"snapper\" has no options")),
    (
        "fruit:",
        Data(
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
    ("recycle:", Data("deletes are final, without a recycle bin; use snapshots or backups")),
    ("rpc_", TUNING),
    ("smb2", TUNING),
    ("smb3directoryleases", TUNING),
    (
        "smb3unixextensions",
        Needless("POSIX extensions are on; set posix = false to switch them off for a share"),
    ),
    ("smbdprofiling", LOGS),
    (
        "streams_depot:",
        Data(
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
        // Stored in the same place and format, or converted to keys of the share.
        "streams_xattr" | "acl_xattr" | "shadow_copy2" | "snapper" => return None,
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
        "btrfs" | "shadow_copy" => "this module's snapshots are not shown; set snapshots",
        "cap" | "catia" => {
            "characters that Windows forbids are mapped to private ones, as on macOS; names that \
             were stored mapped stay mapped"
        }
        "ceph" | "ceph_new" | "glusterfs" | "gpfs" | "nfs4acl_xattr" | "zfsacl" => {
            "the file system is served through its mount, without this module's features"
        }
        "ceph_snapshots" => "set snapshots = \"cephfs\" and, for other names, snapshot_names",
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
            let (Needless(text) | Always(_, text) | Only(_, text) | Lost(text) | Data(text)) = fate;
            assert!(text.len() > 15 && !text.ends_with('.'), "{name}");
        }
    }
}
