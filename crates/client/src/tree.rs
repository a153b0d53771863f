//! A share, and operations on names in it.

use crate::client::SmbClient;
use crate::error::Error;
use crate::file::{OpenedAttributes, SmbFile, SmbOpenHow};
use crate::limits::{LIST_BYTES, LIST_ENTRIES_MAX};
use crate::messages::rename_information;
use crate::messages::{body_of, judged, utf16_path};
use crate::request::{RequestBody, SmbRequest};
use std::sync::Arc;
use wire::codec::put_utf16;
use wire::fscc::{self, DirectoryClass, DirectoryRecord, take_directory_record};
use wire::ntstatus::NtStatus;
use wire::smb::{
    CloseRequest, Command, CreateResponse, FileId, QueryDirectoryRequest, QueryFlags,
    TreeConnectRequest, TreeConnectResponse, TreeId, decode_output_buffer,
};

const LIST_CLASS: DirectoryClass = DirectoryClass::IdBothDirectory;
const LIST_CLASS_NUMBER: u8 = 37;
const DELETE: u32 = 0x0001_0000;

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmbDirectoryEntry {
    /// Name; invalid UTF-16 is replaced.
    pub name: String,
    /// Attributes from the listing.
    pub record: DirectoryRecord,
}

/// A share. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SmbTree {
    client: SmbClient,
    share: Arc<str>,
    id: TreeId,
    seals: bool,
    share_type: u8,
}

impl SmbTree {
    pub(crate) async fn connect(client: &SmbClient, share: &str) -> Result<Self, Error> {
        let mut path = Vec::new();
        put_utf16(&mut path, &format!("\\\\{}\\{share}", client.name()));
        let body = RequestBody::TreeConnect(TreeConnectRequest { flags: 0, path: &path });
        let reply = client.call(SmbRequest::new(body, TreeId(0))).await?;
        let mut r = body_of(&reply)?;
        let answer = TreeConnectResponse::decode(&mut r)?;
        let seals = answer.flags & TreeConnectResponse::ENCRYPT_DATA != 0;
        let share_type = answer.share_type;
        let (client, share) = (client.clone(), share.into());
        Ok(Self { client, share, id: reply.header.tree_id, seals, share_type })
    }

    /// True for a disk share.
    #[must_use]
    pub fn is_disk(&self) -> bool {
        self.share_type == TreeConnectResponse::DISK
    }

    /// Connects to the same share in another session: see [`SmbClient::another`].
    ///
    /// # Errors
    /// Why there is no session, or no tree connect.
    pub async fn in_another_session(&self) -> Result<Self, Error> {
        self.client.another().await?.tree(&self.share).await
    }

    /// Its session.
    #[must_use]
    pub fn client(&self) -> &SmbClient {
        &self.client
    }

    pub(crate) fn request<'a>(&self, body: RequestBody<'a>) -> SmbRequest<'a> {
        SmbRequest { seals: self.seals, ..SmbRequest::new(body, self.id) }
    }

    /// Disconnects from the share; errors are ignored.
    pub async fn disconnect(self) {
        let _ = self.client.call(self.request(RequestBody::TreeDisconnect)).await;
    }

    /// Opens a file or directory. `path` is relative to the share, with backslashes or slashes.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn open(&self, path: &str, how: &SmbOpenHow) -> Result<SmbFile, Error> {
        let name = utf16_path(path);
        let contexts = how.contexts(self.client.create_guid());
        let reply = self.client.call(self.request(how.body(&name, &contexts))).await?;
        let (answer, _) = CreateResponse::decode(&mut body_of(&reply)?)?;
        Ok(SmbFile::new(self.clone(), OpenedAttributes::from(&answer)))
    }

    /// Opens and closes a file in one frame; returns its attributes.
    ///
    /// # Errors
    /// The server's refusal of either request.
    pub async fn touch(&self, path: &str, how: &SmbOpenHow) -> Result<OpenedAttributes, Error> {
        let name = utf16_path(path);
        let close = CloseRequest { flags: 0, file_id: FileId::RELATED };
        let chain = [self.request(how.body(&name, &[])), self.request(RequestBody::Close(close))];
        let [created, closed, ..] = self.client.chain(&chain).await?;
        let created = judged(created, Command::CREATE)?;
        judged(closed, Command::CLOSE)?;
        let (answer, _) = CreateResponse::decode(&mut body_of(&created)?)?;
        Ok(OpenedAttributes::from(&answer))
    }

    /// Attributes of a file.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn stat(&self, path: &str) -> Result<OpenedAttributes, Error> {
        self.touch(path, &SmbOpenHow::stat()).await
    }

    /// Removes a file or an empty directory.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn remove(&self, path: &str) -> Result<(), Error> {
        let how = SmbOpenHow {
            access: DELETE,
            options: SmbOpenHow::DELETE_ON_CLOSE,
            ..SmbOpenHow::stat()
        };
        self.touch(path, &how).await.map(|_| ())
    }

    /// Creates a directory, unless it exists.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn make_directory(&self, path: &str) -> Result<(), Error> {
        let how = SmbOpenHow {
            disposition: fscc::FILE_OPEN_IF,
            options: SmbOpenHow::DIRECTORY,
            ..SmbOpenHow::stat()
        };
        self.touch(path, &how).await.map(|_| ())
    }

    /// Renames a file.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn rename(&self, from: &str, to: &str, replace: bool) -> Result<(), Error> {
        let file = self.open(from, &SmbOpenHow { access: DELETE, ..SmbOpenHow::stat() }).await?;
        let renamed = file.set_info(10, &rename_information(to, replace)).await;
        file.close().await?;
        renamed
    }

    /// Lists a directory, without `.` and `..`.
    ///
    /// # Errors
    /// The server's refusal; [`Error::Misuse`] for more than
    /// [`LIST_ENTRIES_MAX`](crate::limits::LIST_ENTRIES_MAX) entries.
    pub async fn list(&self, path: &str) -> Result<Vec<SmbDirectoryEntry>, Error> {
        let directory = self.open(path, &SmbOpenHow::list()).await?;
        let mut listed = self.list_open(directory.id()).await;
        if matches!(listed, Err(Error::Lost { .. })) {
            // The position after a lost response is unknown, so the listing restarts.
            listed = self.list_open(directory.id()).await;
        }
        let closed = directory.close().await;
        let entries = listed?;
        closed?;
        Ok(entries)
    }

    async fn list_open(&self, file_id: FileId) -> Result<Vec<SmbDirectoryEntry>, Error> {
        let (mut entries, mut seen) = (Vec::new(), 0);
        let mut flags = QueryFlags(QueryFlags::RESTART);
        let output_bytes = LIST_BYTES.min(self.client.negotiated().transact_bytes_max);
        loop {
            let body = RequestBody::QueryDirectory(QueryDirectoryRequest {
                class: LIST_CLASS_NUMBER,
                flags,
                index: 0,
                file_id,
                pattern: b"*\0",
                output_bytes,
            });
            let reply = match self.client.call(self.request(body)).await {
                Err(Error::Refused(_, NtStatus::NO_MORE_FILES | NtStatus::NO_SUCH_FILE)) => {
                    return Ok(entries);
                }
                other => other?,
            };
            let list = decode_output_buffer(&mut body_of(&reply)?)?;
            seen += take_entries(list, &mut entries)?;
            if seen > LIST_ENTRIES_MAX {
                return Err(Error::Misuse("the directory has too many entries"));
            }
            flags = QueryFlags(0);
        }
    }
}

/// Decodes one part of a listing; returns its number of entries, including `.` and `..`.
fn take_entries(mut list: &[u8], entries: &mut Vec<SmbDirectoryEntry>) -> Result<usize, Error> {
    let mut count = 0;
    while !list.is_empty() {
        let (record, rest) = take_directory_record(LIST_CLASS, list)?;
        (list, count) = (rest, count + 1);
        let name = name_of(&record.name);
        if name != "." && name != ".." {
            entries.push(SmbDirectoryEntry { name, record });
        }
    }
    // Otherwise the listing might never end.
    if count == 0 { Err(Error::Hostile("a part of a listing without entries")) } else { Ok(count) }
}

/// A listed name. A lone surrogate, which text cannot have, becomes its three bytes of generalized
/// UTF-8, each as U+F100 plus its value: Anabranch's server takes both forms for one name, and to
/// other servers the name is one that they do not have.
fn name_of(units: &[u16]) -> String {
    let mut name = String::with_capacity(units.len());
    for decoded in char::decode_utf16(units.iter().copied()) {
        match decoded {
            Ok(c) => name.push(c),
            Err(lone) => {
                let unit = u32::from(lone.unpaired_surrogate());
                let bytes = [0xE0 | unit >> 12, 0x80 | unit >> 6 & 0x3F, 0x80 | unit & 0x3F];
                name.extend(bytes.iter().filter_map(|byte| char::from_u32(0xF100 + byte)));
            }
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::fscc::put_directory_record;

    #[test]
    fn lone_surrogate_in_a_listed_name_is_retained() {
        assert_eq!(name_of(&[0x61, 0xD83E, 0xDD80]), "a🦀");
        assert_eq!(name_of(&[0x61, 0xD83D]), "a\u{F1ED}\u{F1A0}\u{F1BD}");
    }

    #[test]
    fn listing_part_without_entries_is_refused() {
        let (mut list, mut last) = (Vec::new(), None);
        for name in [".", "..", "a"] {
            let record =
                DirectoryRecord { name: name.encode_utf16().collect(), ..Default::default() };
            last = put_directory_record(LIST_CLASS, &record, &mut list, 0, last, 4096);
        }
        let mut entries = Vec::new();
        assert_eq!(take_entries(&list, &mut entries), Ok(3));
        assert_eq!((entries.len(), entries[0].name.as_str()), (1, "a"));
        assert!(take_entries(&[], &mut entries).is_err());
        assert!(take_entries(&list[..20], &mut entries).is_err());
    }
}
