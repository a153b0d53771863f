//! Many clients of one server, each served to its end before the next. For measurements of scale,
//! not for finding errors.

use crate::channels::{ChannelLink, LinkEvent, LinkRole, MessagePurpose};
use crate::environment::{ProcessEnvironment, Troubles};
use crate::messages;
use crate::process::Process;
use crate::random::Random;
use crate::server_side::ServerSide;
use std::time::Instant;
use vfs::{Actor, Case, CreateHow, FileKind, Name, RelPath, Vfs};
use wire::fscc;
use wire::ntstatus::NtStatus;
use wire::smb::{
    CloseRequest, Command, CreateRequest, Dialect, FileId, LEASE_CONTEXT, LeaseContext, LeaseV2,
    SessionId, put_context,
};

/// Files per directory.
const FOLDER_FILES: u32 = 500;

/// Parameters of a CREATE.
#[derive(Clone, Copy, Debug)]
pub struct CrowdOpen {
    /// File number.
    pub file: u32,
    /// Lease key.
    pub key: u64,
    /// Lease state: 1 read, 2 handle, 4 write caching; `None` without a lease.
    pub lease: Option<u8>,
    /// `FILE_SHARE_*` bits.
    pub share: u32,
}

/// A server and its clients.
pub struct Crowd {
    process: Process,
    clients: Vec<ChannelLink>,
}

impl Crowd {
    /// Creates a server and `count` clients with a session each.
    ///
    /// # Errors
    /// A logon is refused.
    pub fn new(count: usize) -> Result<Self, String> {
        let mut random = Random::new(1);
        let environment =
            ProcessEnvironment::new(random.fork(), Troubles::default(), Instant::now(), 0);
        let process = Process::first(environment, false)?;
        let mut crowd = Self { process, clients: Vec::new() };
        for number in 0..count {
            let mut guid = [0xC1; 16];
            guid[..8].copy_from_slice(&(number as u64).to_le_bytes());
            let client = (Dialect::Smb311, guid, "user".to_owned());
            let mut link = ChannelLink::new(number, LinkRole::New(SessionId(0)), client);
            let connection = crowd.process.accept(number as u32 + 1);
            link.side = Some(Box::new(ServerSide::without_wiretap(connection)));
            crowd.clients.push(link);
            while crowd.clients[number].has_set_up_to_do() {
                crowd.clients[number].set_up();
                crowd.serve(number)?;
            }
            if !crowd.clients[number].is_ready() {
                return Err(format!("client {number} is not let in"));
            }
        }
        Ok(crowd)
    }

    /// Creates files directly in the backend.
    ///
    /// # Errors
    /// A file cannot be created.
    pub fn make_files(&self, count: u32) -> Result<(), String> {
        let make = |path: &str, kind| {
            let how = CreateHow::plain(kind, 0o777);
            let names = path.split('\\').map(|part| Name::new(part.as_bytes().to_vec()));
            let names: Result<Vec<Name>, _> = names.collect();
            let path = RelPath::from_iter(names.map_err(|e| e.to_string())?);
            let made = self.process.vfs.create(Actor::SUPERUSER, &path, Case::Sensitive, how);
            made.map(|_| ()).map_err(|e| e.to_string())
        };
        for file in 0..count {
            if file.is_multiple_of(FOLDER_FILES) {
                make(&folder_of(file), FileKind::Directory)?;
            }
            make(&name_of(file), FileKind::File)?;
        }
        Ok(())
    }

    /// A client sends a CREATE; see [`Crowd::serve`].
    pub fn ask_open(&mut self, client: usize, request: CrowdOpen) {
        let mut contexts = Vec::new();
        if let Some(state) = request.lease {
            let v2 = Some(LeaseV2::default());
            let (key, state) = (key_of(request.key), state.into());
            let lease = LeaseContext { key, state, flags: 0, v2 };
            put_context(&mut contexts, LEASE_CONTEXT, &lease.encode());
        }
        let request = CreateRequest {
            oplock: if request.lease.is_some() { 0xFF } else { 0 },
            impersonation: 2,
            desired_access: 0x10_0083,
            attributes: 0,
            share_access: request.share,
            disposition: fscc::FILE_OPEN_IF,
            options: 0x40,
            name: &messages::utf16(&name_of(request.file)),
            contexts: &contexts,
        };
        let body = messages::body(|w| request.encode(w));
        self.clients[client].ask(Command::CREATE, &body, MessagePurpose::Ask(0), 0, false);
    }

    /// A client sends a CLOSE.
    pub fn ask_close(&mut self, client: usize, file_id: FileId) {
        let request = CloseRequest { flags: 0, file_id };
        let body = messages::body(|w| request.encode(w));
        self.clients[client].ask(Command::CLOSE, &body, MessagePurpose::Ask(0), 0, false);
    }

    /// A client acknowledges a lease break, retaining `keeps`.
    pub fn acknowledge(&mut self, client: usize, key: u64, keeps: u8) {
        let body = messages::lease_acknowledgment(key_of(key), keeps);
        self.clients[client].ask(Command::OPLOCK_BREAK, &body, MessagePurpose::Ask(0), 0, false);
    }

    /// Serves a client's requests, and collects its messages.
    ///
    /// # Errors
    /// A description of the failure.
    pub fn serve(&mut self, client: usize) -> Result<CrowdReceived, String> {
        let mut heard = CrowdReceived::default();
        let link = &mut self.clients[client];
        let now = smb::SmbHost::now(&*self.process.environment);
        let Some(side) = &mut link.side else { return Ok(heard) };
        side.input.extend(link.on_the_way.drain(..));
        loop {
            while !self.process.environment.task_weights().is_empty() {
                (self.process.environment.take_task(0).run)();
            }
            let Some(step) = side.steps(now.instant).first().copied() else { break };
            side.step(step, now).map_err(|close| format!("{close:?}"))?;
        }
        let output: Vec<u8> = side.output.drain(..).collect();
        for event in link.receive(&output)? {
            match event {
                LinkEvent::Reply(_, status, message) => {
                    let number = |at: usize| message.get(at..at + 8)?.try_into().ok();
                    let file = number(128).zip(number(136)).map(|(persistent, volatile)| FileId {
                        persistent: u64::from_le_bytes(persistent),
                        volatile: u64::from_le_bytes(volatile),
                    });
                    heard.replies.push((status, file));
                }
                LinkEvent::Notice(_) => heard.notices += 1,
                _ => {}
            }
        }
        Ok(heard)
    }

    /// Advances time a little.
    pub fn pass(&mut self) {
        self.process.environment.advance(1_000_000);
    }
}

/// The messages that a client has received.
#[derive(Debug, Default)]
pub struct CrowdReceived {
    /// Responses, each with the id of a new open.
    pub replies: Vec<(NtStatus, Option<FileId>)>,
    /// Number of break notifications.
    pub notices: usize,
}

fn folder_of(file: u32) -> String {
    format!("folder{}", file / FOLDER_FILES)
}

fn name_of(file: u32) -> String {
    format!("{}\\file{file}", folder_of(file))
}

fn key_of(key: u64) -> [u8; 16] {
    let mut bytes = [0x5A; 16];
    bytes[..8].copy_from_slice(&key.to_le_bytes());
    bytes
}
