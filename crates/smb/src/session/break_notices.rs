//! Break notifications of a session: their header, encryption and channel. MS-SMB2 3.3.4.6, 3.3.4.7.

use crate::opens::break_router::BreakRecipient;
use crate::outgoing::notices::{AckRequirement, Notice, NoticeSubject};
use crate::outgoing::transmit::{FrameTransmit, MESSAGE_START, PREFIX, new_buffer};
use crate::session::state::SmbSession;
use wire::codec::Writer;
use wire::ntstatus::NtStatus;
use wire::smb::{Command, Flags, Header, MessageId, SessionId, TreeId};

impl BreakRecipient for SmbSession {
    fn client_guid(&self) -> [u8; 16] {
        self.client_guid
    }

    fn has_ended(&self) -> bool {
        Self::has_ended(self)
    }

    fn send_break(
        &self,
        connection: Option<u64>,
        seal: bool,
        ack: AckRequirement,
        body: &dyn Fn(&mut Writer<'_>),
    ) {
        let mut out = new_buffer(Vec::new());
        let mut w = Writer::with_origin(&mut out, MESSAGE_START);
        notice_header().encode(&mut w);
        body(&mut w);
        let subject = NoticeSubject::of_notice(&out);
        // A notification is never signed, because it belongs to no request. It is encrypted if the
        // session is.
        let sealing = self.sealing.as_ref().filter(|_| seal || self.encrypt_data);
        let transmit = match sealing {
            Some(keys) => {
                keys.seal.seal_in_place(&mut out[PREFIX..], self.id);
                FrameTransmit::sealed(out)
            }
            None => FrameTransmit::plain(out, None),
        };
        self.notify(connection, Notice { session: self.id, subject, ack, transmit });
    }
}

fn notice_header() -> Header {
    Header {
        credit_charge: 0,
        status: NtStatus::SUCCESS,
        command: Command::OPLOCK_BREAK,
        credits: 0,
        flags: Flags::RESPONSE,
        next_command: 0,
        message_id: MessageId(u64::MAX),
        process_id: 0,
        tree_id: TreeId(0),
        session_id: SessionId(0),
        signature: [0; 16],
    }
}
