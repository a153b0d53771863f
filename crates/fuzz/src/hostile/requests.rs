//! Well-formed requests of hostile clients, on their own and on the victim's objects.

use super::link::{KnownOpen, percent, pick};
use super::surroundings::EpisodeUser;
use super::victim::{
    APP_INSTANCE, CLIENT_GUID, CREATE_GUID, LEASE_KEY, LEASED_KEY, put_durability,
};
use crate::mutate::Rng;
use acl::{Access, Ace, Descriptor, Sid};
use wire::codec::{Writer, put_utf16};
use wire::fscc::POSIX_EXTENSIONS;
use wire::smb::{
    APP_INSTANCE_ID, ChangeNotifyRequest, CloseRequest, Command, CreateRequest, EmptyBody, FileId,
    FlushRequest, InfoType, IoctlRequest, LeaseContext, LeaseV2, LockElement, LockRequest,
    OplockBreakAck, QueryDirectoryRequest, QueryFlags, QueryInfoRequest, ReadRequest,
    SetInfoRequest, WriteRequest, fsctl, put_context,
};

/// Names for CREATE. Names beginning with `v` are the victim's alone.
pub const NAMES: [&str; 19] = [
    "",
    "v",
    "v\\private",
    "V\\PRIVATE",
    "v\\private:stream",
    "v\\new",
    "pub",
    "pub\\shared",
    "PUB\\Shared",
    "pub\\shared:stream",
    "pub\\new",
    "pub\\cached",
    "pub\\..\\v\\private",
    "mine0",
    "mine1",
    "mine2",
    "folder",
    "folder\\mine3",
    "mine0\\private",
];

const ACCESS: [u32; 12] = [
    0x12_0089,
    0x12_019F,
    0x12_0116,
    0x1F_01FF,
    0x0200_0000,
    0x1000_0000,
    0x80,
    0x1_0000,
    0x4_0000,
    0x8_0000,
    0x100,
    0x0100_0000,
];

const OPTIONS: [u32; 9] = [0, 0, 0x40, 0x40, 0x1, 0x1000, 0x4000, 0x20_0000, 0x1000 | 0x4000];

const CODES: [u32; 22] = [
    fsctl::SRV_REQUEST_RESUME_KEY,
    fsctl::SRV_COPYCHUNK,
    fsctl::SRV_COPYCHUNK_WRITE,
    fsctl::SRV_ENUMERATE_SNAPSHOTS,
    fsctl::LMR_REQUEST_RESILIENCY,
    fsctl::QUERY_NETWORK_INTERFACE_INFO,
    fsctl::VALIDATE_NEGOTIATE_INFO,
    fsctl::GET_REPARSE_POINT,
    fsctl::SET_REPARSE_POINT,
    fsctl::DELETE_REPARSE_POINT,
    fsctl::SET_SPARSE,
    fsctl::SET_ZERO_DATA,
    fsctl::QUERY_ALLOCATED_RANGES,
    fsctl::FILE_LEVEL_TRIM,
    fsctl::CREATE_OR_GET_OBJECT_ID,
    fsctl::SET_COMPRESSION,
    fsctl::SET_INTEGRITY_INFORMATION,
    fsctl::DUPLICATE_EXTENTS_TO_FILE,
    fsctl::DUPLICATE_EXTENTS_TO_FILE_EX,
    fsctl::QUERY_FILE_REGIONS,
    fsctl::PIPE_TRANSCEIVE,
    fsctl::DFS_GET_REFERRALS,
];

/// FileBasicInformation and other classes of SET_INFO. MS-FSCC 2.4.
const CLASSES: [u8; 11] = [4, 10, 11, 13, 15, 19, 20, 40, 64, 65, 72];

/// Appends a request's body.
pub type BodyWriter = Box<dyn Fn(&mut Writer<'_>)>;

/// A request without its header.
pub struct HostileRequest {
    pub command: Command,
    pub body: BodyWriter,
    /// For a CREATE: the client's knowledge of the resulting open.
    pub open: Option<KnownOpen>,
}

impl HostileRequest {
    fn new(command: Command, body: impl Fn(&mut Writer<'_>) + 'static) -> Self {
        Self { command, body: Box::new(body), open: None }
    }
}

/// The opens that a request may refer to.
pub struct OpenTargets<'a> {
    pub user: EpisodeUser,
    /// The client's own opens.
    pub own: &'a [KnownOpen],
    /// The victim's opens.
    pub victim: &'a [FileId],
}

impl OpenTargets<'_> {
    pub fn file_id(&self, rng: &mut Rng) -> FileId {
        let own = |rng: &mut Rng| self.own.get(rng.below(self.own.len())).map(|open| open.file_id);
        match rng.below(20) {
            0..=2 => pick(rng, self.victim),
            3 => FileId::RELATED,
            4 => FileId { persistent: rng.below(64) as u64, volatile: rng.below(64) as u64 },
            // Half of the victim's FileId.
            5 => FileId { persistent: pick(rng, self.victim).persistent, ..FileId::default() },
            _ => own(rng).unwrap_or(FileId::RELATED),
        }
    }
}

fn utf16(text: &str) -> Vec<u8> {
    let mut units = Vec::new();
    put_utf16(&mut units, text);
    units
}

fn guid(rng: &mut Rng) -> [u8; 16] {
    match rng.below(4) {
        0 => CREATE_GUID,
        1 => CLIENT_GUID,
        other => [other as u8 + rng.below(8) as u8; 16],
    }
}

/// A random request.
pub fn any(rng: &mut Rng, aims: &OpenTargets<'_>) -> HostileRequest {
    let file_id = aims.file_id(rng);
    if aims.own.is_empty() && percent(rng, 60) {
        return create_own(rng, aims.user);
    }
    match rng.below(26) {
        0..=2 => create_own(rng, aims.user),
        3..=6 => create(rng, aims),
        7..=9 => set_info(rng, file_id),
        10..=12 => ioctl(rng, aims),
        13 | 14 => write(rng, file_id),
        15 | 16 => read(rng, file_id),
        17 => lock(rng, file_id),
        18 => query(rng, file_id),
        19 | 20 => acknowledge(rng, file_id),
        21 => watch(rng, file_id),
        22 if percent(rng, 50) => {
            let request = CloseRequest { flags: rng.below(2) as u16, file_id };
            HostileRequest::new(Command::CLOSE, move |w| request.encode(w))
        }
        23 | 24 => HostileRequest::new(Command::FLUSH, move |w| FlushRequest { file_id }.encode(w)),
        _ => {
            let mostly = if percent(rng, 80) { Command::ECHO } else { Command::LOGOFF };
            let command = if percent(rng, 90) { mostly } else { Command::TREE_DISCONNECT };
            HostileRequest::new(command, |w| EmptyBody.encode(w))
        }
    }
}

/// A CREATE, perhaps with contexts that refer to the victim's opens.
pub fn create(rng: &mut Rng, aims: &OpenTargets<'_>) -> HostileRequest {
    let name = pick(rng, &NAMES);
    let mut open = KnownOpen {
        file_id: FileId::default(),
        name,
        create_guid: None,
        is_durable: false,
        lease_key: None,
    };
    let mut contexts = Vec::new();
    if percent(rng, 40) {
        let old = percent(rng, 40).then(|| aims.file_id(rng));
        open.create_guid = percent(rng, 60).then(|| guid(rng));
        open.is_durable = old.is_none();
        put_durability(&mut contexts, open.create_guid, old);
        if old.is_some() {
            // A reconnect ignores the name.
            open.name = "(the old one's)";
        }
    }
    if percent(rng, 40) {
        let key = if percent(rng, 40) { LEASE_KEY } else { [rng.below(4) as u8; 16] };
        let v2 = percent(rng, 60).then(LeaseV2::default);
        let lease = LeaseContext { key, state: rng.below(8) as u32, v2, flags: 0 };
        put_context(&mut contexts, b"RqLs", &lease.encode());
        open.lease_key = Some(key);
    }
    if percent(rng, 15) {
        put_context(&mut contexts, b"SecD", &descriptor(rng));
    }
    if percent(rng, 10) {
        put_context(&mut contexts, &APP_INSTANCE_ID, &[&[20, 0, 0, 0][..], &APP_INSTANCE].concat());
    }
    if percent(rng, 15) {
        let mode = pick(rng, &[0o777u32, 0o6777, 0o600]);
        put_context(&mut contexts, &POSIX_EXTENSIONS, &mode.to_le_bytes());
        // A name without separators.
        open.name = "(in the root)";
    }
    for plain in [b"MxAc", b"QFid"] {
        if percent(rng, 10) {
            put_context(&mut contexts, plain, &[]);
        }
    }
    let oplock = if open.lease_key.is_some() { 0xFF } else { pick(rng, &[0, 1, 8, 9]) };
    let (access, options) = (pick(rng, &ACCESS), pick(rng, &OPTIONS));
    let (share_access, disposition) = (rng.below(8) as u32, rng.below(6) as u32);
    let body = move |w: &mut Writer<'_>| {
        CreateRequest {
            oplock,
            impersonation: 2,
            desired_access: access,
            attributes: 0,
            share_access,
            disposition,
            options,
            name: &utf16(name),
            contexts: &contexts,
        }
        .encode(w);
    };
    HostileRequest { command: Command::CREATE, body: Box::new(body), open: Some(open) }
}

/// A CREATE of an honest client, of a private file or of one that all may read.
fn create_own(rng: &mut Rng, user: EpisodeUser) -> HostileRequest {
    let own = match user {
        EpisodeUser::Mallory => ["mine0", "mine1"],
        EpisodeUser::Trudy => ["mine2", "mine3"],
        _ => ["mine4", "mine5"],
    };
    let name =
        pick(rng, &[own[0], own[1], own[0], own[1], "pub\\shared", "pub\\cached", "folder", ""]);
    let open = KnownOpen {
        file_id: FileId::default(),
        name,
        create_guid: None,
        is_durable: false,
        lease_key: None,
    };
    let is_others = name.is_empty() || name.starts_with("pub");
    let (access, disposition) = if is_others {
        (0x12_0089, wire::fscc::FILE_OPEN)
    } else {
        (pick(rng, &[0x12_019F, 0x1F_01FF]), wire::fscc::FILE_OPEN_IF)
    };
    let options = if name == "folder" { wire::fscc::FILE_DIRECTORY_FILE } else { 0 };
    let body = move |w: &mut Writer<'_>| {
        CreateRequest {
            oplock: 0,
            impersonation: 2,
            desired_access: access,
            attributes: 0,
            share_access: 7,
            disposition,
            options,
            name: &utf16(name),
            contexts: &[],
        }
        .encode(w);
    };
    HostileRequest { command: Command::CREATE, body: Box::new(body), open: Some(open) }
}

/// A durable CREATE of the client's own file.
pub fn create_durable(open: &KnownOpen, old: Option<FileId>) -> HostileRequest {
    let mut contexts = Vec::new();
    put_durability(&mut contexts, open.create_guid, old);
    if let Some(key) = open.lease_key {
        let v2 = open.create_guid.map(|_| LeaseV2::default());
        let lease = LeaseContext { key, state: 7, v2, flags: 0 };
        put_context(&mut contexts, b"RqLs", &lease.encode());
    }
    let (name, oplock) = (open.name, if open.lease_key.is_some() { 0xFF } else { 9 });
    let body = move |w: &mut Writer<'_>| {
        CreateRequest {
            oplock,
            impersonation: 2,
            desired_access: 0x12_019F,
            attributes: 0,
            share_access: 7,
            disposition: wire::fscc::FILE_OPEN_IF,
            options: wire::fscc::FILE_NON_DIRECTORY_FILE,
            name: &utf16(name),
            contexts: &contexts,
        }
        .encode(w);
    };
    HostileRequest { command: Command::CREATE, body: Box::new(body), open: Some(open.clone()) }
}

/// A descriptor that grants everyone all access, and changes the owner.
fn descriptor(rng: &mut Rng) -> Vec<u8> {
    let user = pick(rng, &[EpisodeUser::Alice, EpisodeUser::Mallory, EpisodeUser::Trudy]);
    let everyone = Ace::allow(Sid::everyone(), Access(0x1F_01FF));
    let all = Descriptor {
        control: 4,
        owner: percent(rng, 60).then(|| Sid::unix_user(user.uid())),
        group: percent(rng, 30).then(|| Sid::unix_group(user.uid())),
        sacl: None,
        dacl: percent(rng, 80).then(|| vec![everyone]),
    };
    all.encode()
}

fn set_info(rng: &mut Rng, file_id: FileId) -> HostileRequest {
    let (kind, class, input) = match rng.below(10) {
        0..=3 => (InfoType::Security, 0, descriptor(rng)),
        4 => (InfoType::FileSystem, pick(rng, &[2, 6]), vec![0; 48]),
        5 => (InfoType::Quota, 0, vec![0; 48]),
        _ => {
            let class = pick(rng, &CLASSES);
            (InfoType::File, class, file_information(rng, class))
        }
    };
    let additional = pick(rng, &[1, 2, 4, 5, 7, 8]);
    HostileRequest::new(Command::SET_INFO, move |w| {
        SetInfoRequest { kind, class, additional, file_id, input: &input }.encode(w);
    })
}

/// Input of SET_INFO. MS-FSCC 2.4.7, 2.4.13, 2.4.15, 2.4.27, 2.4.42.
fn file_information(rng: &mut Rng, class: u8) -> Vec<u8> {
    let name = utf16(pick(rng, &NAMES));
    match class {
        // A rename or a link.
        10 | 11 | 65 | 72 => {
            let replaces = rng.below(2) as u8;
            let length = (name.len() as u32).to_le_bytes();
            [&[replaces, 0, 0, 0, 0, 0, 0, 0][..], &[0; 8], &length, &name].concat()
        }
        13 => vec![rng.below(2) as u8],
        64 => vec![rng.below(32) as u8, 0, 0, 0],
        19 | 20 => (rng.below(4096) as u64).to_le_bytes().to_vec(),
        15 => [&[0, 0, 0, 0, 0, 1, 1, 0][..], b"a\0b"].concat(),
        4 => {
            let mut basic = vec![1; 40];
            basic[32..36].copy_from_slice(&pick(rng, &[1u32, 2, 0x20, 0x80]).to_le_bytes());
            basic[36..].fill(0);
            basic
        }
        _ => [&(name.len() as u32).to_le_bytes()[..], &name].concat(),
    }
}

fn ioctl(rng: &mut Rng, aims: &OpenTargets<'_>) -> HostileRequest {
    let (code, file_id, other) = (pick(rng, &CODES), aims.file_id(rng), aims.file_id(rng));
    let mut id = Vec::new();
    other.encode(&mut Writer::new(&mut id));
    let number = |value: u64| value.to_le_bytes();
    let input = match code {
        fsctl::SRV_COPYCHUNK | fsctl::SRV_COPYCHUNK_WRITE => {
            // A resume key made of the other open's id, and one chunk.
            let chunk = [number(0), number(rng.below(64) as u64), number(256)].concat();
            [&id[..], &[0; 8], &[1, 0, 0, 0, 0, 0, 0, 0], &chunk].concat()
        }
        fsctl::SET_REPARSE_POINT => {
            let target = pick(rng, &["v/private", "pub/shared", "/etc/passwd", "../.."]);
            let data = [&[2, 0, 0, 0][..], target.as_bytes()].concat();
            let length = (data.len() as u32).to_le_bytes();
            [&0xA000_001Du32.to_le_bytes()[..], &length, &data].concat()
        }
        fsctl::SET_ZERO_DATA | fsctl::QUERY_ALLOCATED_RANGES => {
            [number(0), number(rng.below(1024) as u64)].concat()
        }
        fsctl::DUPLICATE_EXTENTS_TO_FILE => {
            [&id[..], &number(0), &number(0), &number(4096)].concat()
        }
        fsctl::LMR_REQUEST_RESILIENCY => vec![0x10, 0x27, 0, 0, 0, 0, 0, 0],
        _ => vec![0; rng.below(64)],
    };
    HostileRequest::new(Command::IOCTL, move |w| {
        IoctlRequest {
            code,
            file_id,
            input: &input,
            input_bytes_max: 0,
            output_bytes_max: 4096,
            is_fsctl: true,
        }
        .encode(w);
    })
}

fn write(rng: &mut Rng, file_id: FileId) -> HostileRequest {
    let (offset_bytes, fill) = (rng.below(512) as u64, rng.number() as u8);
    let data = vec![fill; rng.below(600)];
    HostileRequest::new(Command::WRITE, move |w| {
        WriteRequest { offset_bytes, file_id, flags: 0, data: &data }.encode(w);
    })
}

fn read(rng: &mut Rng, file_id: FileId) -> HostileRequest {
    let request = ReadRequest {
        flags: 0,
        length_bytes: 1024,
        offset_bytes: rng.below(64) as u64,
        file_id,
        minimum_bytes: 0,
    };
    HostileRequest::new(Command::READ, move |w| request.encode(w))
}

fn lock(rng: &mut Rng, file_id: FileId) -> HostileRequest {
    let now = if percent(rng, 80) { LockElement::FAIL_IMMEDIATELY } else { 0 };
    let flags = match pick(rng, &[LockElement::SHARED, LockElement::EXCLUSIVE, LockElement::UNLOCK])
    {
        LockElement::UNLOCK => LockElement::UNLOCK,
        other => other | now,
    };
    let (offset_bytes, length_bytes) = (pick(rng, &[0, 200, 250]), pick(rng, &[1, 100, 1 << 40]));
    let element = LockElement { offset_bytes, length_bytes, flags };
    let request = LockRequest { sequence: 0, file_id, elements: vec![element] };
    HostileRequest::new(Command::LOCK, move |w| request.encode(w))
}

fn query(rng: &mut Rng, file_id: FileId) -> HostileRequest {
    if percent(rng, 30) {
        let class = pick(rng, &[1, 2, 3, 12, 37, 38, 100]);
        let flags = QueryFlags(rng.below(8) as u8);
        let pattern = utf16("*");
        return HostileRequest::new(Command::QUERY_DIRECTORY, move |w| {
            let output_bytes = 8192;
            QueryDirectoryRequest {
                class,
                flags,
                index: 0,
                file_id,
                pattern: &pattern,
                output_bytes,
            }
            .encode(w);
        });
    }
    let kinds = [InfoType::File, InfoType::FileSystem, InfoType::Security, InfoType::Quota];
    let (kind, class) = (pick(rng, &kinds), pick(rng, &[4, 5, 9, 15, 18, 21, 22, 34, 100]));
    let class = if kind == InfoType::Security { 0 } else { class };
    HostileRequest::new(Command::QUERY_INFO, move |w| {
        let (output_bytes, additional) = (8192, 7);
        QueryInfoRequest { kind, class, output_bytes, additional, flags: 0, file_id, input: &[] }
            .encode(w);
    })
}

fn acknowledge(rng: &mut Rng, file_id: FileId) -> HostileRequest {
    let state = rng.below(8) as u32;
    let any = [rng.below(4) as u8; 16];
    let key = pick(rng, &[LEASE_KEY, LEASED_KEY, LEASED_KEY, any]);
    let request = match rng.below(2) {
        0 => OplockBreakAck::Oplock { level: pick(rng, &[0, 1]), file_id },
        _ => OplockBreakAck::Lease { key, state },
    };
    HostileRequest::new(Command::OPLOCK_BREAK, move |w| request.encode(w))
}

fn watch(rng: &mut Rng, file_id: FileId) -> HostileRequest {
    let flags = rng.below(2) as u16;
    let request = ChangeNotifyRequest { flags, output_bytes: 1024, file_id, filter: 0xFFF };
    HostileRequest::new(Command::CHANGE_NOTIFY, move |w| {
        w.u16(32);
        w.u16(request.flags);
        w.u32(request.output_bytes);
        request.file_id.encode(w);
        w.u32(request.filter);
        w.u32(0);
    })
}
