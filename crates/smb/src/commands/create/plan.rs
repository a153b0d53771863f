//! Decoding of a CREATE: every refusal that needs no look at a file happens here.

use crate::conversion::dot_names;
use crate::conversion::extended_attributes;
use crate::conversion::names::{SmbPath, SmbStreamName, names_directory, parse_path};
use crate::conversion::status::status_of;
use crate::extensions::posix::{mode_of, parse_posix_path};
use crate::extensions::previous_versions::take_token;
use crate::opens::app_instances::AppInstance;
use crate::opens::create_guids::Guid;
use crate::opens::durability::Durability;
use crate::opens::durable::Reconnect;
use crate::opens::lease::LEVEL_LEASE;
use crate::opens::oplock::{LEVEL_NONE, caching_of};
use crate::request::context::{Request, malformed};
use crate::shares::tree::TreeConnect;
use files::private_use::AmbiguousPath;
use files::{
    Access, CachingRights, Descriptor, IfExists, IfMissing, OpenPlan, RequestedKind, Semantics,
    ShareMode,
};
use vfs::{Timestamp, XattrName};
use wire::codec::{Reader, utf16_units};
use wire::fscc::{self, FileTime, POSIX_EXTENSIONS, decode_posix_mode};
use wire::ntstatus::NtStatus;
use wire::smb::{
    APP_INSTANCE_ID, APP_INSTANCE_VERSION, AppInstanceVersion, AppleQuery, CreateContexts,
    CreateRequest, Dialect, DurableReconnectV2, DurableRequestV2, Flags, Header, LEASE_CONTEXT,
    LeaseContext, decode_app_instance_id, decode_durable_reconnect,
};

/// A decoded CREATE.
#[derive(Debug)]
pub struct CreatePlan {
    /// The request to the file layer.
    pub open: OpenPlan,
    /// Present while the path has two readings.
    pub ambiguous: Option<Box<AmbiguousPath>>,
    /// The requested oplock, as caching.
    pub oplock: CachingRights,
    /// The path refers to the state of this time.
    pub as_of: Option<Timestamp>,
    /// Mode flags for queries; FILE_WRITE_THROUGH makes every change stable.
    pub mode: u32,
    /// The disposition creates a missing file.
    pub creates: bool,
    /// The path ends in a separator, and no option states the kind. Only an existing directory is
    /// acceptable then.
    pub names_directory: bool,
    /// The contents of the response.
    pub requested: RequestedContexts,
}

/// The parts of a CREATE that its response depends on.
#[derive(Debug, Default)]
pub struct RequestedContexts {
    /// Space to reserve, in bytes.
    pub allocation_bytes: Option<u64>,
    /// The requested durability.
    pub durable: Option<DurableRequest>,
    /// Maximal access (MxAc), with the timestamp of the client's cached value.
    pub maximal_access: Option<Option<u64>>,
    /// Ids of file and volume (QFid).
    pub disk_id: bool,
    /// Link count, mode and owners.
    pub posix: bool,
    /// The application instance.
    pub app_instance: Option<AppInstance>,
    /// The AAPL query of an Apple client.
    pub apple: Option<AppleQuery>,
    /// The requested lease (RqLs).
    pub lease: Option<LeaseContext>,
    /// The lease is also requested of a directory.
    pub leases_directory: bool,
}

/// The requested durability of an open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurableRequest {
    /// The durability to grant, if possible.
    pub durability: Durability,
    /// CreateGuid; none in version 1.
    pub create_guid: Option<Guid>,
    /// The client requests a persistent open.
    pub persistent: bool,
}

/// A CREATE that refers to an earlier one. Most of its other fields are meaningless then.
#[derive(Debug)]
pub enum Resumption {
    /// The client reconnects an open. MS-SMB2 2.2.13.2.4, .12.
    Reconnect(Reconnect, RequestedContexts),
    /// The CREATE has a CreateGuid, and may have been processed already. MS-SMB2 2.2.13.2.11.
    Replayable(Guid, RequestedContexts),
}

/// Detects a CREATE that refers to an earlier one.
///
/// # Errors
/// `INVALID_PARAMETER` for malformed or contradicting contexts.
pub fn resumption(
    body: &CreateRequest<'_>,
    policy: ContextPolicy,
) -> Result<Option<Resumption>, NtStatus> {
    let contexts = Contexts::decode(body.contexts, policy)?;
    let mut requested = contexts.requested(body);
    if let Some(mut reconnect) = contexts.reconnects {
        requested.durable = None;
        // The oplock level is among the meaningless fields.
        requested.lease = contexts.lease;
        reconnect.lease_key = contexts.lease.map(|lease| lease.key);
        return Ok(Some(Resumption::Reconnect(reconnect, requested)));
    }
    let named = requested.durable.and_then(|wish| wish.create_guid);
    Ok(named.map(|guid| Resumption::Replayable(guid, requested)))
}

/// The create contexts that a request may use.
#[derive(Clone, Copy, Debug)]
pub struct ContextPolicy {
    /// Dialect of the connection.
    dialect: Dialect,
    /// The POSIX extensions are negotiated and enabled for the share.
    posix: bool,
    /// The share has previous versions, so times in paths are meaningful.
    snapshots: bool,
    /// The share has named streams.
    streams: bool,
}

impl ContextPolicy {
    /// The policy for requests on `tree`.
    pub fn on(request: &Request<'_>, tree: &TreeConnect) -> Self {
        let posix = request.negotiated.posix && tree.share.posix;
        let streams = tree.share.volume.as_ref().is_none_or(|volume| volume.options.streams);
        let snapshots =
            tree.share.volume.as_ref().is_some_and(|volume| volume.options.snapshots.is_some());
        Self { dialect: request.negotiated.dialect, posix, snapshots, streams }
    }
}

/// Name of the POSIX create context.
const POSIX: &[u8] = &POSIX_EXTENSIONS;
const APP_INSTANCE: &[u8] = &APP_INSTANCE_ID;
const APP_VERSION: &[u8] = &APP_INSTANCE_VERSION;

/// The supported create contexts. MS-SMB2 2.2.13.2.
#[derive(Debug, Default)]
struct Contexts {
    allocation: Option<u64>,
    descriptor: Option<Vec<u8>>,
    xattrs: Vec<(XattrName, Vec<u8>)>,
    maximal_access: Option<Option<u64>>,
    disk_id: bool,
    snapshot: Option<Timestamp>,
    durable: Option<DurableRequest>,
    durable_v2: Option<DurableRequest>,
    reconnects: Option<Reconnect>,
    reconnects_v2: Option<Reconnect>,
    /// Version 2 contexts are present, whether the dialect knows them or not.
    names_durable_v2: bool,
    names_reconnect_v2: bool,
    /// The POSIX context, with the mode for a new file, if present.
    posix_mode: Option<Option<u32>>,
    app_instance: Option<Guid>,
    app_version: Option<AppInstanceVersion>,
    apple: Option<AppleQuery>,
    /// Only of a version that the dialect supports.
    lease: Option<LeaseContext>,
}

/// The defined create options (MS-SMB2 2.2.13: the other bits are reserved).
const OPTIONS_KNOWN: u32 = 0x00FF_FFFF;
/// Mode flags of FILE_MODE_INFORMATION. MS-FSCC 2.4.31.
const MODE_FLAGS: u32 = fscc::FILE_WRITE_THROUGH
    | fscc::FILE_SEQUENTIAL_ONLY
    | fscc::FILE_NO_INTERMEDIATE_BUFFERING
    | fscc::FILE_SYNCHRONOUS_IO_ALERT
    | fscc::FILE_SYNCHRONOUS_IO_NONALERT
    | fscc::FILE_DELETE_ON_CLOSE;
/// Undefined access bits.
const ACCESS_UNKNOWN: u32 = 0x0CE0_FE00;
/// Size of DHnQ, which is all reserved. MS-SMB2 2.2.13.2.3.
const DURABLE_REQUEST_BYTES: usize = 16;
/// Attributes that a CREATE may carry: all of MS-FSCC 2.6. MS-SMB2 2.2.13 lets clients send
/// attributes that they copy from OneDrive, ReFS or another server. The server ignores
/// attributes that it does not store.
const ATTRIBUTES_KNOWN: u32 = 0x0000_7FB7
    | fscc::FILE_ATTRIBUTE_INTEGRITY_STREAM
    | fscc::FILE_ATTRIBUTE_NO_SCRUB_DATA
    | fscc::FILE_ATTRIBUTE_RECALL_ON_OPEN
    | fscc::FILE_ATTRIBUTE_PINNED
    | fscc::FILE_ATTRIBUTE_UNPINNED
    | fscc::FILE_ATTRIBUTE_RECALL_ON_DATA_ACCESS;

impl CreatePlan {
    /// Decodes a request. Times in paths are decoded where there are snapshots.
    ///
    /// # Errors
    /// `INVALID_PARAMETER`, `ACCESS_DENIED`, `NOT_SUPPORTED`, `OBJECT_NAME_INVALID`,
    /// `BAD_IMPERSONATION_LEVEL`.
    pub fn of(
        body: &CreateRequest<'_>,
        header: &Header,
        policy: ContextPolicy,
    ) -> Result<Self, NtStatus> {
        if body.impersonation > 3 {
            return Err(NtStatus::BAD_IMPERSONATION_LEVEL);
        }
        check_options(body)?;
        let (if_exists, if_missing) = disposition(body.disposition)?;
        let mut contexts = Contexts::decode(body.contexts, policy)?;
        let mode = contexts.take_mode();
        let units = utf16_units(body.name, "name").map_err(malformed)?;
        let is_posix = contexts.posix_mode.is_some();
        // A POSIX client may use such a name for a file of its own.
        let token = take_token(&units).filter(|_| policy.snapshots && !is_posix);
        let (units, as_of) = match token {
            Some((rest, at)) => (rest, Some(at)),
            None => (units, contexts.snapshot),
        };
        let parsed = path_of(&units, header, is_posix)?;
        if parsed.stream.is_some() && !policy.streams {
            return Err(NtStatus::OBJECT_NAME_INVALID);
        }
        let names_directory = !is_posix && names_directory_alone(&units, &parsed, body.options)?;
        let kind = wished_kind(body, &parsed, names_directory)?;
        let stream = match parsed.stream {
            Some(SmbStreamName::Named(name)) => Some(name),
            Some(SmbStreamName::Default | SmbStreamName::Index) | None => None,
        };
        let requested = contexts.requested(body);
        let open = OpenPlan {
            path: parsed.path,
            stream,
            desired: Access(body.desired_access),
            share: ShareMode(body.share_access & 7),
            if_exists,
            if_missing: if names_directory { IfMissing::Fail } else { if_missing },
            kind,
            delete_on_close: body.options & fscc::FILE_DELETE_ON_CLOSE != 0,
            dos_bits: body.attributes,
            allocation_bytes: contexts.allocation,
            descriptor: contexts.descriptor,
            xattrs: contexts.xattrs,
            no_follow: body.options & fscc::FILE_OPEN_REPARSE_POINT != 0,
            uncompressed: body.options & fscc::FILE_NO_COMPRESSION != 0,
            caching: None,
            semantics: match contexts.posix_mode {
                Some(_) => Semantics::Posix,
                None => Semantics::Windows,
            },
            mode: mode.map(files::NewMode::exactly),
        };
        Ok(Self {
            open,
            ambiguous: parsed.ambiguous,
            as_of,
            // An invalid oplock level requests no oplock.
            oplock: caching_of(body.oplock).unwrap_or(CachingRights::NONE),
            mode: body.options & MODE_FLAGS,
            creates: if_missing == IfMissing::Create,
            names_directory,
            requested,
        })
    }
}

/// The kind of node that an open asks for.
///
/// # Errors
/// `NOT_A_DIRECTORY` for a stream of data that is to be a directory, and those of [`index_kind`].
fn wished_kind(
    body: &CreateRequest<'_>,
    parsed: &SmbPath,
    names_directory: bool,
) -> Result<RequestedKind, NtStatus> {
    let wants = |option| body.options & option != 0;
    Ok(match &parsed.stream {
        Some(SmbStreamName::Index) => index_kind(body)?,
        // Data streams belong to files. MS-FSA 2.1.5.1.
        Some(_) if wants(fscc::FILE_DIRECTORY_FILE) => return Err(NtStatus::NOT_A_DIRECTORY),
        Some(SmbStreamName::Default) => RequestedKind::File,
        _ if wants(fscc::FILE_DIRECTORY_FILE) || names_directory => RequestedKind::Directory,
        _ if wants(fscc::FILE_NON_DIRECTORY_FILE) => RequestedKind::File,
        _ => RequestedKind::Any,
    })
}

/// True if a path ends in a separator or a dot directory name, and no option states the kind.
///
/// # Errors
/// `OBJECT_NAME_INVALID` for such a path of a file or stream. MS-FSA 2.1.5.1.
fn names_directory_alone(units: &[u16], parsed: &SmbPath, options: u32) -> Result<bool, NtStatus> {
    if !names_directory(units) && !dot_names::ends_in_dots(units) {
        return Ok(false);
    }
    if parsed.stream.is_some() || options & fscc::FILE_NON_DIRECTORY_FILE != 0 {
        return Err(NtStatus::OBJECT_NAME_INVALID);
    }
    Ok(options & fscc::FILE_DIRECTORY_FILE == 0)
}

/// The kind of node that a directory's index refers to: the directory. MS-FSA 2.1.5.1.
///
/// # Errors
/// `FILE_IS_A_DIRECTORY` for an open of a file, `INVALID_PARAMETER` for an overwriting one.
fn index_kind(body: &CreateRequest<'_>) -> Result<RequestedKind, NtStatus> {
    if body.options & fscc::FILE_NON_DIRECTORY_FILE != 0 {
        return Err(NtStatus::FILE_IS_A_DIRECTORY);
    }
    if replaces(body.disposition) {
        Err(NtStatus::INVALID_PARAMETER)
    } else {
        Ok(RequestedKind::Directory)
    }
}

/// True if the disposition overwrites an existing file.
fn replaces(disposition: u32) -> bool {
    [fscc::FILE_SUPERSEDE, fscc::FILE_OVERWRITE, fscc::FILE_OVERWRITE_IF].contains(&disposition)
}

/// Parses the path of a request.
///
/// # Errors
/// `INVALID_PARAMETER` for a path that begins with a separator or with `name\..\`,
/// `OBJECT_NAME_INVALID`, `OBJECT_PATH_SYNTAX_BAD`.
fn path_of(units: &[u16], header: &Header, is_posix: bool) -> Result<SmbPath, NtStatus> {
    let units = if header.flags.contains(Flags::DFS) { strip_dfs(units) } else { units };
    if is_posix {
        return parse_posix_path(units).map_err(status_of);
    }
    if units.first() == Some(&u16::from(b'\\')) {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    let units = dot_names::normalize(units)?;
    parse_path(&units).map_err(status_of)
}

/// True if the dialect supports this lease version. MS-SMB2 3.3.5.9.8, 3.3.5.9.11.
fn knows_lease(lease: &LeaseContext, dialect: Dialect) -> bool {
    dialect >= if lease.v2.is_some() { Dialect::Smb300 } else { Dialect::Smb210 }
}

/// Refuses contradictions among options, access and attributes. MS-SMB2 3.3.5.9, MS-FSA 2.1.5.1.
fn check_options(body: &CreateRequest<'_>) -> Result<(), NtStatus> {
    if body.desired_access == 0 || body.desired_access & ACCESS_UNKNOWN != 0 {
        return Err(NtStatus::ACCESS_DENIED);
    }
    let has = |option| body.options & option != 0;
    if body.options & !OPTIONS_KNOWN != 0 {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    if has(fscc::FILE_CREATE_TREE_CONNECTION)
        || has(fscc::FILE_OPEN_BY_FILE_ID)
        || has(fscc::FILE_RESERVE_OPFILTER)
    {
        return Err(NtStatus::NOT_SUPPORTED);
    }
    if has(fscc::FILE_DIRECTORY_FILE) && has(fscc::FILE_NON_DIRECTORY_FILE) {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    if has(fscc::FILE_DIRECTORY_FILE) && replaces(body.disposition) {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    if body.share_access & !7 != 0 || body.attributes & !ATTRIBUTES_KNOWN != 0 {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    Ok(())
}

fn disposition(number: u32) -> Result<(IfExists, IfMissing), NtStatus> {
    Ok(match number {
        fscc::FILE_SUPERSEDE => (IfExists::Supersede, IfMissing::Create),
        fscc::FILE_OPEN => (IfExists::Open, IfMissing::Fail),
        fscc::FILE_CREATE => (IfExists::Fail, IfMissing::Create),
        fscc::FILE_OPEN_IF => (IfExists::Open, IfMissing::Create),
        fscc::FILE_OVERWRITE => (IfExists::Overwrite, IfMissing::Fail),
        fscc::FILE_OVERWRITE_IF => (IfExists::Overwrite, IfMissing::Create),
        _ => return Err(NtStatus::INVALID_PARAMETER),
    })
}

/// Strips `server\share\` from a DFS path. MS-SMB2 3.3.5.9.
fn strip_dfs(units: &[u16]) -> &[u16] {
    let mut rest = units;
    for _ in 0..2 {
        match rest.iter().position(|&u| u == u16::from(b'\\')) {
            Some(at) => rest = &rest[at + 1..],
            None => return &[],
        }
    }
    rest
}

impl Contexts {
    /// The mode for a new file of a POSIX client, if it sends one. A descriptor that repeats the
    /// mode, as the Linux client sends with `idsfromsid`, is not stored: the owner is the user.
    fn take_mode(&mut self) -> Option<u32> {
        let mode = self.posix_mode?;
        let descriptor = self.descriptor.as_deref().map(Descriptor::decode);
        let descriptor = descriptor.and_then(Result::ok);
        let Some(stated) = descriptor.as_ref().and_then(|sent| mode_of(sent, &[])) else {
            return mode;
        };
        self.descriptor = None;
        mode.or(Some(stated))
    }

    fn requested(&self, body: &CreateRequest<'_>) -> RequestedContexts {
        RequestedContexts {
            allocation_bytes: self.allocation,
            durable: self.durable,
            maximal_access: self.maximal_access,
            disk_id: self.disk_id,
            posix: self.posix_mode.is_some(),
            app_instance: self.app_instance.map(|id| AppInstance { id, version: self.app_version }),
            apple: self.apple,
            lease: self.lease.filter(|lease| self.counts(lease, body)),
            leases_directory: body.oplock == LEVEL_LEASE,
        }
    }

    /// True if the lease context requests a lease at the oplock level of the CREATE.
    ///
    /// MS-SMB2 3.3.5.9.8 advises to ignore it at every level but that of leases. 3.3.5.9.6 and
    /// 3.3.5.9.10 have a lease context with handle caching make an open durable, whatever the
    /// level. To retain such an open, the lease is granted if no oplock is requested instead; not
    /// for a directory ([`RequestedContexts::leases_directory`]), which is not opened durably.
    fn counts(&self, lease: &LeaseContext, body: &CreateRequest<'_>) -> bool {
        let retains = lease.state & u32::from(CachingRights::HANDLE.0) != 0;
        let is_durable = self.durable.is_some() && retains;
        body.oplock == LEVEL_LEASE || (body.oplock == LEVEL_NONE && is_durable)
    }

    fn decode(list: &[u8], policy: ContextPolicy) -> Result<Self, NtStatus> {
        let mut found = Self::default();
        let has_v2 = policy.dialect >= Dialect::Smb300;
        for context in CreateContexts::new(list) {
            let (name, data) = context.map_err(malformed)?;
            match name {
                b"AlSi" => {
                    found.allocation = Some(Reader::new(data).u64("AlSi").map_err(malformed)?)
                }
                b"SecD" => found.descriptor = Some(data.to_vec()),
                b"ExtA" => found.xattrs = decode_xattrs(data)?,
                b"MxAc" => found.maximal_access = Some(decode_time(data)?),
                b"QFid" => found.disk_id = true,
                b"TWrp" => found.snapshot = Some(decode_snapshot(data)?),
                b"DHnQ" => found.durable = Some(durable(data)?),
                b"DHnC" => found.reconnects = Some(reconnect(data)?),
                b"DH2Q" => {
                    found.names_durable_v2 = true;
                    found.durable_v2 = has_v2.then(|| durable_v2(data)).transpose()?;
                }
                b"DH2C" => {
                    found.names_reconnect_v2 = true;
                    found.reconnects_v2 = has_v2.then(|| reconnect_v2(data)).transpose()?;
                }
                b"AAPL" => found.apple = Some(AppleQuery::decode(data).map_err(malformed)?),
                APP_INSTANCE if has_v2 => {
                    found.app_instance = Some(decode_app_instance_id(data).map_err(malformed)?);
                }
                APP_VERSION if policy.dialect >= Dialect::Smb311 => {
                    found.app_version = Some(AppInstanceVersion::decode(data).map_err(malformed)?);
                }
                POSIX if policy.posix => {
                    found.posix_mode = Some(decode_posix_mode(data).map_err(malformed)?);
                }
                LEASE_CONTEXT => {
                    let lease = LeaseContext::decode(data).map_err(malformed)?;
                    found.lease = Some(lease).filter(|lease| knows_lease(lease, policy.dialect));
                }
                // Unknown contexts are ignored.
                _ => {}
            }
        }
        found.settle_durable()?;
        Ok(found)
    }

    /// Selects the effective one of the four durable contexts. At most one is allowed, except that
    /// a version 1 reconnect may carry a version 1 request. MS-SMB2 3.3.5.9.6, .7, .10, .12.
    ///
    /// Version 2 contexts contradict the others also in dialects that do not know them, because the
    /// sections make no exception. Alone they are ignored there.
    fn settle_durable(&mut self) -> Result<(), NtStatus> {
        let is_v1 = self.durable.is_some() || self.reconnects.is_some();
        let is_v2 = self.names_durable_v2 || self.names_reconnect_v2;
        if (is_v1 && is_v2) || (self.names_durable_v2 && self.names_reconnect_v2) {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        self.durable = self.durable.or(self.durable_v2);
        self.reconnects = self.reconnects.or(self.reconnects_v2);
        Ok(())
    }
}

fn durable(data: &[u8]) -> Result<DurableRequest, NtStatus> {
    if data.len() != DURABLE_REQUEST_BYTES {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    Ok(DurableRequest { durability: Durability::DURABLE, create_guid: None, persistent: false })
}

fn durable_v2(data: &[u8]) -> Result<DurableRequest, NtStatus> {
    let requested = DurableRequestV2::decode(data).map_err(malformed)?;
    Ok(DurableRequest {
        durability: Durability::durable_v2(requested.timeout_ms),
        create_guid: Some(requested.create_guid),
        persistent: requested.persistent,
    })
}

fn reconnect(data: &[u8]) -> Result<Reconnect, NtStatus> {
    let id = decode_durable_reconnect(data).map_err(malformed)?;
    Ok(Reconnect { id, create_guid: None, persistent: false, lease_key: None })
}

fn reconnect_v2(data: &[u8]) -> Result<Reconnect, NtStatus> {
    let requested = DurableReconnectV2::decode(data).map_err(malformed)?;
    Ok(Reconnect {
        id: requested.file_id.persistent,
        create_guid: Some(requested.create_guid),
        persistent: requested.persistent,
        lease_key: None,
    })
}

fn decode_snapshot(data: &[u8]) -> Result<Timestamp, NtStatus> {
    let time = FileTime(Reader::new(data).u64("TWrp").map_err(malformed)?);
    // Snapshots differ in whole seconds.
    let second = 1_000_000_000;
    Ok(Timestamp(time.to_unix_nanos().div_euclid(second) * second))
}

fn decode_time(data: &[u8]) -> Result<Option<u64>, NtStatus> {
    match data.len() {
        0 => Ok(None),
        8 => Reader::new(data).u64("MxAc").map(Some).map_err(malformed),
        _ => Err(NtStatus::INVALID_PARAMETER),
    }
}

/// MS-SMB2 2.2.13.2.1: the format of SET_INFO. Removals are dropped, because a new file has no
/// attributes.
fn decode_xattrs(data: &[u8]) -> Result<Vec<(XattrName, Vec<u8>)>, NtStatus> {
    let entries = extended_attributes::decode(data).map_err(|status| match status {
        NtStatus::EA_LIST_INCONSISTENT => NtStatus::INVALID_PARAMETER,
        other => other,
    })?;
    Ok(entries.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::smb::put_context;

    type DurableContexts = Result<(bool, bool), NtStatus>;

    /// True, if a CREATE with these contexts reconnects; and if it requests durability.
    fn wanted(names: &[&[u8; 4]], dialect: Dialect) -> DurableContexts {
        let mut list = Vec::new();
        for name in names {
            let length = match *name {
                b"DH2Q" => 32,
                b"DH2C" => 36,
                _ => 16,
            };
            put_context(&mut list, *name, &vec![0; length]);
        }
        let contexts = Contexts::decode(
            &list,
            ContextPolicy { dialect, posix: false, snapshots: false, streams: true },
        )?;
        Ok((contexts.reconnects.is_some(), contexts.durable.is_some()))
    }

    #[test]
    fn contradicting_durable_contexts_are_refused() {
        let refused = Err(NtStatus::INVALID_PARAMETER);
        for (names, expected) in [
            (&[b"DHnQ"][..], Ok((false, true))),
            (&[b"DHnC"], Ok((true, false))),
            (&[b"DH2Q"], Ok((false, true))),
            (&[b"DH2C"], Ok((true, false))),
            (&[b"DHnQ", b"DHnC"], Ok((true, true))),
            (&[b"DHnQ", b"DH2Q"], refused),
            (&[b"DHnQ", b"DH2C"], refused),
            (&[b"DHnC", b"DH2Q"], refused),
            (&[b"DHnC", b"DH2C"], refused),
            (&[b"DH2Q", b"DH2C"], refused),
            (&[b"DHnQ", b"DHnC", b"DH2Q"], refused),
        ] {
            assert_eq!(wanted(names, Dialect::Smb311), expected, "{names:?}");
            let mut turned = names.to_vec();
            turned.reverse();
            assert_eq!(wanted(&turned, Dialect::Smb300), expected, "{turned:?}");
        }
    }

    #[test]
    fn durable_v2_contexts_before_dialect_3_are_ignored_alone_only() {
        let refused = Err(NtStatus::INVALID_PARAMETER);
        for dialect in [Dialect::Smb202, Dialect::Smb210] {
            assert_eq!(wanted(&[b"DH2Q"], dialect), Ok((false, false)));
            assert_eq!(wanted(&[b"DH2C"], dialect), Ok((false, false)));
            for both in
                [[b"DHnQ", b"DH2Q"], [b"DHnQ", b"DH2C"], [b"DHnC", b"DH2Q"], [b"DHnC", b"DH2C"]]
            {
                assert_eq!(wanted(&both, dialect), refused, "{both:?}");
            }
        }
    }

    #[test]
    fn durable_timeout_is_clamped_to_its_limits() {
        for (requested, granted) in [(0, 60_000), (1, 1), (300_000, 300_000), (u32::MAX, 300_000)] {
            assert_eq!(Durability::durable_v2(requested).timeout_ms(), granted);
        }
        let resilient = |requested| Durability::resilient(requested).map(Durability::timeout_ms);
        assert_eq!(resilient(0), Ok(120_000));
        assert_eq!(resilient(300_000), Ok(300_000));
        assert_eq!(resilient(300_001), Err(NtStatus::INVALID_PARAMETER));
    }
}
