//! Checks of SMB responses.

use super::*;

fn number<const N: usize>(message: &[u8], at: usize) -> Result<[u8; N], String> {
    let bytes = message.get(at..at + N).and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| "a reply is too short".into())
}

impl SmbClientEnd {
    pub(super) fn take_reply(
        &mut self,
        header: &Header,
        message: &[u8],
        history: &mut OperationHistory,
    ) -> Result<(), String> {
        if header.command == Command::OPLOCK_BREAK && header.message_id.0 == u64::MAX {
            return self.take_break(header, message);
        }
        let id = header.message_id.0;
        let Some(expected) = self.outstanding.remove(&id) else {
            return Err(format!("a reply nobody waits for, or a second one: {header:?}"));
        };
        if header.command != expected.command || !header.flags.contains(Flags::RESPONSE) {
            return Err(format!("not the reply to {expected:?}: {header:?}"));
        }
        self.check_signature(header, message)?;
        self.check_credits(header, &expected)?;
        let is_async = header.flags.contains(Flags::ASYNC);
        if is_async != (header.status == NtStatus::PENDING || expected.async_id.is_some()) {
            return Err(format!("asynchronous or not: {header:?} to {expected:?}"));
        }
        if header.status == NtStatus::PENDING {
            if expected.async_id.is_some() {
                return Err(format!("two interim replies: {header:?}"));
            }
            let async_id = Some(header.async_id().0);
            self.outstanding.insert(id, ExpectedReply { async_id, ..expected });
            return Ok(());
        }
        if expected.async_id.is_some_and(|id| id != header.async_id().0) {
            return Err(format!("another asynchronous id: {header:?}"));
        }
        self.answered += 1;
        match expected.purpose {
            RequestPurpose::SetUp => self.take_set_up(header, message),
            RequestPurpose::Echo if header.status == NtStatus::SUCCESS => Ok(()),
            // The open was closed meanwhile, or the acknowledgment was late.
            RequestPurpose::Acknowledge => Ok(()),
            RequestPurpose::Echo => Err(format!("ECHO failed: {header:?}")),
            RequestPurpose::Asked(request) => self.take_answer(&request, header, message, history),
        }
    }

    /// Handles an oplock break notification. MS-SMB2 2.2.23.1.
    fn take_break(&mut self, header: &Header, message: &[u8]) -> Result<(), String> {
        if header.status != NtStatus::SUCCESS || header.credits != 0 {
            return Err(format!("not a notice: {header:?}"));
        }
        let level = number::<1>(message, 66)?[0];
        let persistent = u64::from_le_bytes(number(message, 72)?);
        let volatile = u64::from_le_bytes(number(message, 80)?);
        let file = FileId { persistent, volatile };
        let open = self.opens.iter().find(|(_, known)| **known == file).map(|(open, _)| *open);
        match open {
            // A level II oplock breaks without an acknowledgment.
            Some(open) if !self.exclusive.contains(&open) => Ok(()),
            _ => {
                self.breaks.push_back((file, level));
                Ok(())
            }
        }
    }

    fn check_signature(&self, header: &Header, message: &[u8]) -> Result<(), String> {
        let Some(key) = &self.signing else { return Ok(()) };
        if header.status == NtStatus::PENDING {
            // A signed interim response would share its nonce with the final response. MS-SMB2
            // 3.3.4.1.1.
            let is_bare = !header.flags.contains(Flags::SIGNED) && header.signature == [0; 16];
            return if is_bare { Ok(()) } else { Err(format!("signed: {header:?}")) };
        }
        if header.flags.contains(Flags::SIGNED) && key.verify(message) {
            return Ok(());
        }
        Err(format!("the signature is missing or wrong: {header:?}"))
    }

    /// Checks that a request costs one credit and gets what it asked for, at least one, once.
    fn check_credits(&mut self, header: &Header, expected: &ExpectedReply) -> Result<(), String> {
        let due = if expected.async_id.is_some() { 0 } else { expected.credits.max(1) };
        self.credits += u32::from(header.credits);
        let at_limit = self.credits + 2 * u32::from(due) >= CREDITS_MAX;
        if self.credits > CREDITS_MAX || (header.credits != due && !at_limit) {
            return Err(format!("{due} credits are due to {expected:?}: {header:?}"));
        }
        Ok(())
    }

    fn take_set_up(&mut self, header: &Header, message: &[u8]) -> Result<(), String> {
        let (due, next) = match self.phase {
            SetUpPhase::Negotiate => (NtStatus::SUCCESS, SetUpPhase::Challenge),
            SetUpPhase::Challenge => (NtStatus::MORE_PROCESSING_REQUIRED, SetUpPhase::Authenticate),
            SetUpPhase::Authenticate => (NtStatus::SUCCESS, SetUpPhase::Connect),
            _ => (NtStatus::SUCCESS, SetUpPhase::Ready),
        };
        if header.status != due {
            return Err(format!("the set-up failed in {:?}: {header:?}", self.phase));
        }
        match self.phase {
            SetUpPhase::Challenge => {
                self.session_id = header.session_id;
                let offset = usize::from(u16::from_le_bytes(number(message, 68)?));
                self.challenge = number::<8>(message, offset + 24)?.to_vec();
                self.preauth.update(message);
            }
            SetUpPhase::Negotiate => self.preauth.update(message),
            SetUpPhase::Connect => self.tree_id = header.tree_id,
            _ => {}
        }
        self.phase = next;
        Ok(())
    }

    fn take_answer(
        &mut self,
        request: &ModelRequest,
        header: &Header,
        message: &[u8],
        history: &mut OperationHistory,
    ) -> Result<(), String> {
        // The preceding CREATE failed, so the operation failed unexecuted.
        let before = request.op.open().and_then(|open| self.failed.get(&open)).copied();
        if let Some(status) = before {
            if status != header.status {
                return Err(format!("{status:?} of the CREATE is due to {request:?}: {header:?}"));
            }
            return history.withdraw(request.id).map_err(|i| i.0);
        }
        let answer = answer_of(request, header.status, message)?;
        if let (FileOperation::Create { .. }, ModelAnswer::Opened(_)) = (&request.op, &answer) {
            let persistent = u64::from_le_bytes(number(message, 128)?);
            let volatile = u64::from_le_bytes(number(message, 136)?);
            self.opens.insert(request.id, FileId { persistent, volatile });
            // MS-SMB2 2.2.14: exclusive or batch.
            if number::<1>(message, 66)?[0] >= 8 {
                self.exclusive.insert(request.id);
            }
            self.opened.push(request.id);
        }
        if matches!(request.op, FileOperation::Create { .. }) && header.status.is_error() {
            self.failed.insert(request.id, header.status);
        }
        if matches!(request.op, FileOperation::Close { .. }) {
            self.forget(&request.op);
        }
        history.answer(request.id, &answer).map_err(|i| i.0)
    }
}

/// Decodes the outcome of a final response.
fn answer_of(
    request: &ModelRequest,
    status: NtStatus,
    message: &[u8],
) -> Result<ModelAnswer, String> {
    if status != NtStatus::SUCCESS {
        return Ok(ModelAnswer::Status(status.0));
    }
    match request.op {
        FileOperation::Create { .. } => {
            Ok(ModelAnswer::Opened(u32::from_le_bytes(number(message, 68)?)))
        }
        FileOperation::Read { cells, .. } => {
            let offset = usize::from(number::<1>(message, 66)?[0]);
            let length = u32::from_le_bytes(number(message, 68)?) as usize;
            let data = message.get(offset..offset + length).ok_or("data outside of the reply")?;
            if length > usize::from(cells.count) * CELL_BYTES || !length.is_multiple_of(CELL_BYTES)
            {
                return Err(format!("{length} bytes were read for {request:?}"));
            }
            let torn = |cell: &&[u8]| cell.iter().any(|byte| *byte != cell[0]);
            if data.chunks(CELL_BYTES).find(torn).is_some() {
                return Err(format!("a torn cell was read for {request:?}"));
            }
            Ok(ModelAnswer::Cells(data.chunks(CELL_BYTES).map(|cell| cell[0]).collect()))
        }
        FileOperation::Write { cells, .. } => {
            let count = u32::from_le_bytes(number(message, 68)?) as usize;
            if count != usize::from(cells.count) * CELL_BYTES {
                return Err(format!("{count} bytes were written for {request:?}"));
            }
            Ok(ModelAnswer::Status(status.0))
        }
        _ => Ok(ModelAnswer::Status(status.0)),
    }
}
