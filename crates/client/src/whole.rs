//! Whole small files in one chain: one frame to the server, one frame back. MS-SMB2 3.2.4.1.4.

use crate::error::Error;
use crate::file::{OpenedAttributes, SmbFile, SmbOpenHow};
use crate::limits::{LOST_OPEN_PATIENCE, LOST_OPEN_PAUSE_MAX, REPLAY_PAUSE, REPLAYS_MAX};
use crate::messages::data_of;
use crate::messages::{basic_information, rename_information};
use crate::messages::{body_of, judged, utf16_path};
use crate::pool::PooledBytes;
use crate::request::{RequestBody, SmbRequest};
use crate::slots::ChannelReply;
use crate::tree::SmbTree;
use bytes::Bytes;
use std::time::Instant;
use wire::fscc::{self, FileTime};
use wire::ntstatus::NtStatus;
use wire::smb::{
    CloseRequest, CloseResponse, Command, CreateResponse, FileId, FlushRequest, InfoType,
    ReadRequest, SetInfoRequest,
};

const DELETE: u32 = 0x0001_0000;
const WRITE_ATTRIBUTES: u32 = 0x100;

/// Final attributes and name of a completely written file.
#[derive(Clone, Copy, Debug)]
pub struct FileCompletion<'a> {
    /// Creation, last access, last write, change; 0 leaves a time unchanged.
    pub times: [FileTime; 4],
    /// DOS attributes; 0 leaves them unchanged.
    pub attributes: u32,
    /// Final name.
    pub path: &'a str,
    /// Replaces an existing file with the final name.
    pub replaces: bool,
    /// The data must survive a power failure before the rename, and the rename before the response.
    pub syncs: bool,
}

/// A file to create, and its final name.
#[derive(Clone, Copy, Debug)]
pub struct Put<'a> {
    /// Temporary name; an existing file of that name is overwritten.
    pub temporary: &'a str,
    /// Final name.
    pub path: &'a str,
    /// Replaces an existing file with the final name.
    pub replaces: bool,
    /// Contents.
    pub data: &'a Bytes,
    /// Creation, last access, last write, change; 0 leaves a time to the server.
    pub times: [FileTime; 4],
    /// `FILE_ATTRIBUTE_*` bits; 0 leaves them to the server.
    pub attributes: u32,
    /// An earlier attempt on a lost connection may have created the file.
    pub is_again: bool,
}

impl Put<'_> {
    fn how() -> SmbOpenHow {
        SmbOpenHow {
            access: SmbOpenHow::read_write().access | DELETE | WRITE_ATTRIBUTES,
            // Other clients must not see an incomplete file, even by its temporary name.
            share: 0,
            disposition: fscc::FILE_OVERWRITE_IF,
            options: SmbOpenHow::FILE,
        }
    }
}

/// True if the error may come from the open of a lost attempt, under the temporary or the final
/// name (MS-FSA 2.1.5.15.11: an open file is not replaced).
fn is_of_a_lost_try(error: &Error) -> bool {
    let status = error.status();
    matches!(status, Some(NtStatus::SHARING_VIOLATION | NtStatus::ACCESS_DENIED))
}

impl SmbTree {
    /// Reads a file of at most `length_bytes` and its attributes at close, in one frame: open,
    /// read, close.
    ///
    /// # Errors
    /// The server's refusal; [`Error::Misuse`] above the maximum READ length.
    pub async fn get(
        &self,
        path: &str,
        length_bytes: u32,
    ) -> Result<(PooledBytes, OpenedAttributes), Error> {
        if length_bytes > self.client().negotiated().read_bytes_max {
            return Err(Error::Misuse("more than the server reads at once"));
        }
        let mut tries = 0;
        loop {
            match self.get_once(path, length_bytes).await {
                Err(Error::Lost { .. }) if tries < REPLAYS_MAX && self.client().is_alive() => {
                    tries += 1;
                }
                other => return other,
            }
        }
    }

    async fn get_once(
        &self,
        path: &str,
        length_bytes: u32,
    ) -> Result<(PooledBytes, OpenedAttributes), Error> {
        let name = utf16_path(path);
        let file_id = FileId::RELATED;
        let read =
            ReadRequest { flags: 0, length_bytes, offset_bytes: 0, file_id, minimum_bytes: 0 };
        let close = CloseRequest { flags: CloseRequest::POSTQUERY_ATTRIBUTES, file_id };
        let how = SmbOpenHow::read();
        let mut chain = vec![self.request(how.body(&name, &[]))];
        if length_bytes > 0 {
            chain.push(self.request(RequestBody::Read(read)));
        }
        chain.push(self.request(RequestBody::Close(close)));
        let mut replies = self.client().chain(&chain).await?.into_iter();
        let created = judged(replies.next().flatten(), Command::CREATE)?;
        let (answer, _) = CreateResponse::decode(&mut body_of(&created)?)?;
        let read = if length_bytes > 0 { replies.next().flatten() } else { None };
        let closed = self.closed(replies.next().flatten(), answer.file_id).await;
        let data = match read {
            Some(reply) if reply.header.status == NtStatus::END_OF_FILE => None,
            Some(reply) => {
                let reply = judged(Some(reply), Command::READ)?;
                let range = data_of(&reply.message, length_bytes)?;
                Some(reply.message.part(range))
            }
            None => None,
        };
        let mut created = OpenedAttributes::from(&answer);
        if let Some(closed) = closed? {
            (created.times, created.size_bytes) = (closed.times, closed.size_bytes);
        }
        let empty = || PooledBytes::new(Vec::new(), 0..0, std::sync::Arc::default());
        Ok((data.unwrap_or_else(empty), created))
    }

    /// The attributes in CLOSE's response. A server may fail CLOSE because a preceding request
    /// failed, and retain the open (MS-SMB2 3.3.5.2.7.2). Then the client closes it separately.
    async fn closed(
        &self,
        reply: Option<ChannelReply>,
        file_id: FileId,
    ) -> Result<Option<CloseResponse>, Error> {
        if let Ok(reply) = judged(reply, Command::CLOSE) {
            let closed = CloseResponse::decode(&mut body_of(&reply)?)?;
            let has_attributes = closed.flags & CloseRequest::POSTQUERY_ATTRIBUTES != 0;
            return Ok(has_attributes.then_some(closed));
        }
        self.client().call(self.close_of(file_id, false)).await.map(|_| None)
    }

    /// Creates a file under a temporary name, writes it, sets its times, and renames it. One frame
    /// suffices for a new name. Replacing a file takes two, because some servers continue a chain
    /// after a failed WRITE, and the old file would be lost. If that happens to a new name, the
    /// file is removed again.
    ///
    /// # Errors
    /// The server's refusal; [`Error::Misuse`] above the maximum WRITE length.
    pub async fn put(&self, put: &Put<'_>) -> Result<(), Error> {
        if put.data.len() > self.client().negotiated().write_bytes_max as usize {
            return Err(Error::Misuse("more than the server writes at once"));
        }
        let (mut losses, mut replaces) = (u32::from(put.is_again), put.replaces || put.is_again);
        let (begun, mut tries) = (Instant::now(), losses);
        loop {
            let done = self.put_once(&Put { replaces, ..*put }).await;
            let is_lost = matches!(done, Err(Error::Lost { .. }));
            let again = match &done {
                Err(Error::Lost { .. }) => losses < REPLAYS_MAX,
                // The server has not noticed yet that the first attempt's connection is lost.
                Err(error) => {
                    let is_patient = begun.elapsed() < LOST_OPEN_PATIENCE;
                    losses > 0 && is_of_a_lost_try(error) && is_patient
                }
                Ok(()) => false,
            };
            if !again || !self.client().is_alive() {
                return done;
            }
            // The first attempt's file may exist.
            (tries, losses, replaces) = (tries + 1, losses + u32::from(is_lost), true);
            tokio::time::sleep((REPLAY_PAUSE * tries).min(LOST_OPEN_PAUSE_MAX)).await;
        }
    }

    async fn put_once(&self, put: &Put<'_>) -> Result<(), Error> {
        let name = utf16_path(put.temporary);
        let rename = rename_information(put.path, put.replaces);
        let basic = basic_information(put.times, put.attributes);
        let (chain, filling, asks) = self.frame_of(put, &name, &basic, &rename);
        let mut replies = self.client().chain(&chain).await?.into_iter();
        let created = judged(replies.next().flatten(), Command::CREATE)?;
        let (answer, _) = CreateResponse::decode(&mut body_of(&created)?)?;
        let mut filled = Ok(());
        for request in &chain[1..filling] {
            let reply = judged(replies.next().flatten(), request.command()).map(drop);
            filled = filled.and(reply);
        }
        let (renamed, closed) = if put.replaces {
            self.finish(&filled, answer.file_id, &rename, asks).await?
        } else {
            let renamed = judged(replies.next().flatten(), Command::SET_INFO).map(drop);
            (renamed, self.closed(replies.next().flatten(), answer.file_id).await)
        };
        let done = filled.and(renamed.clone()).and(closed);
        let Ok(closed) = done else {
            let left = if renamed.is_ok() { put.path } else { put.temporary };
            let _ = self.remove(left).await;
            return done.map(drop);
        };
        match closed.filter(|_| asks) {
            Some(closed) => self.learn_times(put, &basic, &closed).await,
            None => Ok(()),
        }
    }

    /// The first frame of a file, the number of its requests that fill the file, and whether CLOSE
    /// must return the times.
    ///
    /// Times are set before the data: by MS-FSA 2.1.5.4 a WRITE preserves times that were set on
    /// the same open. A server then needs no deferred time update, which Samba does with a timer
    /// that costs more than the WRITE. The first files reveal whether a server conforms; otherwise
    /// times are set last.
    fn frame_of<'a>(
        &self,
        put: &Put<'a>,
        name: &'a [u8],
        basic: &'a [u8; 40],
        rename: &'a [u8],
    ) -> (Vec<SmbRequest<'a>>, usize, bool) {
        let keeps = self.client().keeps_times_set();
        let (has_data, has_facts) = (!put.data.is_empty(), *basic != [0; 40]);
        let is_early = has_facts && keeps != Some(false);
        let asks = is_early && has_data && keeps.is_none() && put.times[2] != FileTime(0);
        let file_id = FileId::RELATED;
        let set = || self.set(file_id, 4, basic);
        let mut chain = vec![self.request(Put::how().body(name, &[]))];
        chain.extend(is_early.then(set));
        if has_data {
            let write = RequestBody::Write { file_id, offset_bytes: 0, flags: 0, data: put.data };
            chain.push(self.request(write));
        }
        chain.extend((has_facts && !is_early).then(set));
        let filling = chain.len();
        if !put.replaces {
            chain.push(self.set(file_id, 10, rename));
            chain.push(self.close_of(file_id, asks));
        }
        (chain, filling, asks)
    }

    /// Checks whether the times were preserved; if not, sets them again.
    async fn learn_times(
        &self,
        put: &Put<'_>,
        basic: &[u8; 40],
        closed: &CloseResponse,
    ) -> Result<(), Error> {
        let keeps = closed.times[2] == put.times[2];
        self.client().learn_times_set(keeps);
        if keeps {
            return Ok(());
        }
        let name = utf16_path(put.path);
        let how = SmbOpenHow { access: WRITE_ATTRIBUTES, ..SmbOpenHow::stat() };
        let file_id = FileId::RELATED;
        let chain = [
            self.request(how.body(&name, &[])),
            self.set(file_id, 4, basic),
            self.close_of(file_id, false),
        ];
        let [opened, set, closed, ..] = self.client().chain(&chain).await?;
        judged(opened, Command::CREATE)?;
        judged(set, Command::SET_INFO)?;
        judged(closed, Command::CLOSE).map(drop)
    }

    /// The second frame: the rename, if the file is complete, and the close.
    async fn finish(
        &self,
        filled: &Result<(), Error>,
        file_id: FileId,
        rename: &[u8],
        asks: bool,
    ) -> Result<(Result<(), Error>, Result<Option<CloseResponse>, Error>), Error> {
        if let Err(error) = filled {
            let closed = self.client().call(self.close_of(file_id, false)).await.map(|_| None);
            return Ok((Err(error.clone()), closed));
        }
        let chain = [self.set(file_id, 10, rename), self.close_of(FileId::RELATED, asks)];
        let [renamed, closed, ..] = self.client().chain(&chain).await?;
        let renamed = judged(renamed, Command::SET_INFO).map(drop);
        Ok((renamed, self.closed(closed, file_id).await))
    }

    /// Sets times and attributes of a written file, renames it to its final name, and closes it in
    /// one frame. A flush comes first if the file must survive a power failure.
    ///
    /// # Errors
    /// The server's refusal. With [`Error::Lost`] the outcome is unknown.
    pub async fn finish_file(
        &self,
        file: &SmbFile,
        ending: &FileCompletion<'_>,
    ) -> Result<(), Error> {
        let rename = rename_information(ending.path, ending.replaces);
        let basic = basic_information(ending.times, ending.attributes);
        let has_facts = basic != [0; 40];
        let file_id = if has_facts { FileId::RELATED } else { file.id() };
        if ending.syncs {
            // Before the rename, which may replace an older file.
            file.flush().await?;
        }
        let flush = || self.request(RequestBody::Flush(FlushRequest { file_id: FileId::RELATED }));
        let mut chain = Vec::new();
        chain.extend(has_facts.then(|| self.set(file.id(), 4, &basic)));
        chain.push(self.set(file_id, 10, &rename));
        chain.extend(ending.syncs.then(flush));
        chain.push(self.close_of(FileId::RELATED, false));
        let mut replies = self.client().chain(&chain).await?.into_iter();
        let mut done = Ok(());
        for request in &chain[..chain.len() - 1] {
            done = done.and(judged(replies.next().flatten(), request.command()).map(drop));
        }
        let closed = self.closed(replies.next().flatten(), file.id()).await;
        done.and(closed.map(drop))
    }

    fn set<'a>(&self, file_id: FileId, class: u8, input: &'a [u8]) -> SmbRequest<'a> {
        let kind = InfoType::File;
        self.request(RequestBody::SetInfo(SetInfoRequest {
            kind,
            class,
            additional: 0,
            file_id,
            input,
        }))
    }

    fn close_of(&self, file_id: FileId, asks: bool) -> SmbRequest<'static> {
        let flags = if asks { CloseRequest::POSTQUERY_ATTRIBUTES } else { 0 };
        self.request(RequestBody::Close(CloseRequest { flags, file_id }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_file_is_opened_exclusively_with_delete_access() {
        let how = Put::how();
        assert_eq!((how.share, how.access & DELETE), (0, DELETE));
        assert_eq!(how.disposition, fscc::FILE_OVERWRITE_IF, "what a dead run left is overwritten");
    }
}
