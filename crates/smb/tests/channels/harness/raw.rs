//! Requests of any form, and requests that disconnect.

use super::{ConnectedClient, Net, open_or_create, put_durable, put_lease, put_reconnect};
use crate::agreement;
use smb::{Dialect, SmbCloseReason};
use wire::codec::{Writer, put_utf16};
use wire::ntstatus::NtStatus;
use wire::smb::fsctl::{QUERY_NETWORK_INTERFACE_INFO, VALIDATE_NEGOTIATE_INFO, ValidateNegotiate};
use wire::smb::{
    APP_INSTANCE_ID, Command, CreateRequest, FileId, Flags, IoctlRequest, MessageId, put_context,
};

impl Net {
    /// A connection of the client with this GUID, which offers one dialect before 3.1.1.
    pub fn connect_of(&self, guid: u8, dialect: Dialect) -> ConnectedClient {
        let mut request = agreement::request(dialect, 0, &[]);
        request.client_guid = [guid; 16];
        self.negotiate(dialect, &request)
    }
}

impl ConnectedClient {
    /// Like [`ConnectedClient::log_on`], with the session of `former` as PreviousSessionId.
    pub fn log_on_after(&mut self, former: &Self, user: &str) -> NtStatus {
        self.previous = former.session;
        self.log_on(user)
    }

    /// Sends a request that may disconnect, and returns the reason if it does.
    pub fn send_last(
        &mut self,
        command: Command,
        is_signed: bool,
        body: impl FnOnce(&mut Writer<'_>),
    ) -> Result<MessageId, SmbCloseReason> {
        let header = self.header(command);
        let key = self.signing.clone().filter(|_| is_signed);
        self.try_put(header, key.as_deref(), body)?;
        Ok(header.message_id)
    }

    /// Queries the server's interfaces.
    pub fn query_interfaces(&mut self) -> super::ParsedResponse {
        self.ioctl(QUERY_NETWORK_INTERFACE_INFO, FileId::RELATED)
    }

    /// Sends a control code without input.
    pub fn ioctl(&mut self, code: u32, file_id: FileId) -> super::ParsedResponse {
        let request = ioctl_request(code, file_id);
        self.call(Command::IOCTL, |w| request.encode(w))
    }

    /// Like [`ConnectedClient::ioctl`], with an output buffer of so many bytes.
    pub fn ioctl_with_room(
        &mut self,
        code: u32,
        file_id: FileId,
        room: u32,
    ) -> super::ParsedResponse {
        let request = IoctlRequest { output_bytes_max: room, ..ioctl_request(code, file_id) };
        self.call(Command::IOCTL, |w| request.encode(w))
    }

    /// Sends VALIDATE_NEGOTIATE_INFO with an output buffer of so many bytes.
    pub fn validate(
        &mut self,
        said: &ValidateNegotiate,
        output_bytes_max: u32,
    ) -> Result<MessageId, SmbCloseReason> {
        let input = said.encode();
        let base = ioctl_request(VALIDATE_NEGOTIATE_INFO, FileId::RELATED);
        let request = IoctlRequest { input: &input, output_bytes_max, ..base };
        self.send_last(Command::IOCTL, true, |w| request.encode(w))
    }

    /// Sends a CREATE that `change` derives from the usual one.
    pub fn create_by(
        &mut self,
        name: &str,
        contexts: &[u8],
        change: impl FnOnce(&mut CreateRequest<'_>),
    ) -> super::ParsedResponse {
        let mut units = Vec::new();
        put_utf16(&mut units, name);
        let mut request = open_or_create(&units, 0, contexts);
        change(&mut request);
        self.call(Command::CREATE, |w| request.encode(w))
    }

    /// As [`Client::create_by`], said to be a replay.
    pub fn replay_by(
        &mut self,
        name: &str,
        contexts: &[u8],
        change: impl FnOnce(&mut CreateRequest<'_>),
    ) -> super::ParsedResponse {
        let mut units = Vec::new();
        put_utf16(&mut units, name);
        let mut request = open_or_create(&units, 0, contexts);
        change(&mut request);
        let mut header = self.header(Command::CREATE);
        header.flags = header.flags | Flags::REPLAY;
        let key = self.signing.take();
        self.put(header, key.as_deref(), |w| request.encode(w));
        self.signing = key;
        self.reply_to(header.message_id).expect("a reply")
    }

    /// Creates a file with a full lease and a durable request, for the application instance `id`.
    pub fn create_leased_for(&mut self, name: &str, create_guid: [u8; 16], id: u8) -> FileId {
        let reply = self.create_leased_at(0xFF, name, create_guid, id);
        assert_eq!(reply.header.status, NtStatus::SUCCESS);
        reply.file()
    }

    /// Like [`ConnectedClient::create_leased_for`], with this oplock level.
    pub fn create_leased_at(
        &mut self,
        level: u8,
        name: &str,
        create_guid: [u8; 16],
        id: u8,
    ) -> super::ParsedResponse {
        let mut contexts = app_instance(id);
        put_durable(&mut contexts, create_guid);
        put_lease(&mut contexts, 7);
        self.create_by(name, &contexts, |request| request.oplock = level)
    }

    /// Reconnects an open of [`ConnectedClient::create_leased_for`], as that application instance.
    pub fn return_leased_for(
        &mut self,
        file_id: FileId,
        create_guid: [u8; 16],
        name: &str,
        id: u8,
    ) -> NtStatus {
        self.return_leased_at(0xFF, file_id, create_guid, name, id)
    }

    /// Like [`ConnectedClient::return_leased_for`], with this oplock level.
    pub fn return_leased_at(
        &mut self,
        level: u8,
        file_id: FileId,
        create_guid: [u8; 16],
        name: &str,
        id: u8,
    ) -> NtStatus {
        let mut contexts = app_instance(id);
        put_reconnect(&mut contexts, file_id, create_guid);
        put_lease(&mut contexts, 7);
        self.create_by(name, &contexts, |request| request.oplock = level).header.status
    }

    /// The status of an unchanged [`ConnectedClient::create_by`].
    pub fn status_of_create(&mut self, name: &str, contexts: &[u8]) -> NtStatus {
        self.create_by(name, contexts, |_| {}).header.status
    }
}

/// SMB2_CREATE_APP_INSTANCE_ID. MS-SMB2 2.2.13.2.13.
pub fn app_instance(id: u8) -> Vec<u8> {
    let mut contexts = Vec::new();
    put_context(&mut contexts, &APP_INSTANCE_ID, &[&[20, 0, 0, 0][..], &[id; 16]].concat());
    contexts
}

/// A lease context of this state, beside a durable request if there is a CreateGuid.
pub fn lease_contexts(create_guid: Option<[u8; 16]>, state: u32) -> Vec<u8> {
    let mut contexts = Vec::new();
    if let Some(create_guid) = create_guid {
        put_durable(&mut contexts, create_guid);
    }
    put_lease(&mut contexts, state);
    contexts
}

fn ioctl_request(code: u32, file_id: FileId) -> IoctlRequest<'static> {
    IoctlRequest {
        code,
        file_id,
        input: &[],
        input_bytes_max: 0,
        output_bytes_max: 65_536,
        is_fsctl: true,
    }
}
