//! An open file.

use crate::error::Error;
use crate::limits::DESCRIPTOR_BYTES_MAX;
use crate::messages::body_of;
use crate::messages::{basic_information, data_of};
use crate::pool::PooledBytes;
use crate::request::RequestBody;
use crate::tree::SmbTree;
use bytes::Bytes;
use wire::codec::Reader;
use wire::fscc::{self, FileTime};
use wire::ntstatus::NtStatus;
use wire::smb::{
    CloseRequest, CreateRequest, CreateResponse, FileId, FlushRequest, InfoType, IoctlRequest,
    IoctlResponse, QueryInfoRequest, ReadRequest, SetInfoRequest, WriteResponse,
    decode_output_buffer, put_context,
};

/// Parameters of an open. MS-SMB2 2.2.13.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmbOpenHow {
    /// Access mask.
    pub access: u32,
    /// Share access: 1 read, 2 write, 4 delete.
    pub share: u32,
    /// `FILE_OPEN` to `FILE_OVERWRITE_IF`.
    pub disposition: u32,
    /// `FILE_*` options.
    pub options: u32,
}

impl SmbOpenHow {
    /// The target must be a directory.
    pub const DIRECTORY: u32 = 0x1;
    /// The target must not be a directory.
    pub const FILE: u32 = 0x40;
    /// Delete on close.
    pub const DELETE_ON_CLOSE: u32 = 0x1000;
    /// Each write is durable before its response.
    pub const WRITE_THROUGH: u32 = 0x2;
    const READ_ATTRIBUTES: u32 = 0x80;
    const SYNCHRONIZE: u32 = 0x0010_0000;
    /// FILE_GENERIC_READ.
    const READ: u32 = 0x0012_0089;
    /// FILE_GENERIC_WRITE.
    const WRITE: u32 = 0x0012_0116;

    /// For reading attributes.
    #[must_use]
    pub fn stat() -> Self {
        let access = Self::READ_ATTRIBUTES | Self::SYNCHRONIZE;
        Self { access, share: 7, disposition: fscc::FILE_OPEN, options: 0 }
    }

    /// For listing a directory.
    #[must_use]
    pub fn list() -> Self {
        Self { access: Self::READ, options: Self::DIRECTORY, ..Self::stat() }
    }

    /// For reading a file.
    #[must_use]
    pub fn read() -> Self {
        Self { access: Self::READ, options: Self::FILE, ..Self::stat() }
    }

    /// For reading and writing a file, which is created if it does not exist.
    #[must_use]
    pub fn read_write() -> Self {
        let access = Self::READ | Self::WRITE;
        let disposition = fscc::FILE_OPEN_IF;
        Self { access, disposition, options: Self::FILE, ..Self::stat() }
    }

    pub(crate) fn body<'a>(&self, name: &'a [u8], contexts: &'a [u8]) -> RequestBody<'a> {
        RequestBody::Create(CreateRequest {
            oplock: 0,
            impersonation: 2,
            desired_access: self.access,
            attributes: 0,
            share_access: self.share,
            disposition: self.disposition,
            options: self.options,
            name,
            contexts,
        })
    }

    /// SMB2_CREATE_DURABLE_HANDLE_REQUEST_V2 for its CreateGuid, by which the server finds the open
    /// when the request is replayed. MS-SMB2 2.2.13.2.11.
    #[allow(clippy::unused_self)] // Further contexts will depend on it.
    pub(crate) fn contexts(&self, guid: Option<[u8; 16]>) -> Vec<u8> {
        let mut list = Vec::new();
        if let Some(guid) = guid {
            let mut data = [0; 32];
            data[16..].copy_from_slice(&guid);
            put_context(&mut list, b"DH2Q", &data);
        }
        list
    }
}

/// The server's response to an open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenedAttributes {
    /// `FILE_OPENED`, `FILE_CREATED` and further create actions.
    pub action: u32,
    /// Creation, last access, last write, change.
    pub times: [FileTime; 4],
    /// Length, in bytes.
    pub size_bytes: u64,
    /// `FILE_ATTRIBUTE_*` bits.
    pub attributes: u32,
    file_id: FileId,
}

impl From<&CreateResponse> for OpenedAttributes {
    fn from(answer: &CreateResponse) -> Self {
        let CreateResponse { action, times, size_bytes, attributes, file_id, .. } = *answer;
        Self { action, times, size_bytes, attributes, file_id }
    }
}

impl OpenedAttributes {
    /// True for a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.attributes & 0x10 != 0
    }
}

/// An open. The caller must close it, because the server retains it for the rest of the session.
#[derive(Debug)]
pub struct SmbFile {
    tree: SmbTree,
    created: OpenedAttributes,
}

impl SmbFile {
    pub(crate) fn new(tree: SmbTree, created: OpenedAttributes) -> Self {
        Self { tree, created }
    }

    pub(crate) fn id(&self) -> FileId {
        self.created.file_id
    }

    /// The server's response to the open.
    #[must_use]
    pub fn created(&self) -> &OpenedAttributes {
        &self.created
    }

    /// Reads at most `length` bytes: fewer at the end of the file, and none behind it. The data
    /// stays in the receive buffer.
    ///
    /// # Errors
    /// The server's refusal; [`Error::Misuse`] above the maximum READ length.
    pub async fn read(&self, offset_bytes: u64, length_bytes: u32) -> Result<PooledBytes, Error> {
        let client = self.tree.client();
        if length_bytes > client.negotiated().read_bytes_max {
            return Err(Error::Misuse("more than the server reads at once"));
        }
        let file_id = self.id();
        let read = ReadRequest { flags: 0, length_bytes, offset_bytes, file_id, minimum_bytes: 0 };
        let reply = match client.call(self.tree.request(RequestBody::Read(read))).await {
            Err(Error::Refused(_, NtStatus::END_OF_FILE)) => {
                return Ok(PooledBytes::new(Vec::new(), 0..0, std::sync::Arc::default()));
            }
            other => other?,
        };
        let range = data_of(&reply.message, length_bytes)?;
        Ok(reply.message.part(range))
    }

    /// Like [`SmbFile::read`], into `out`; returns the number of bytes.
    ///
    /// # Errors
    /// Like [`SmbFile::read`].
    pub async fn read_into(&self, offset_bytes: u64, out: &mut [u8]) -> Result<usize, Error> {
        let length = u32::try_from(out.len()).map_err(|_| Error::Misuse("a read of 4 GiB"))?;
        let data = self.read(offset_bytes, length).await?;
        out[..data.len()].copy_from_slice(&data);
        Ok(data.len())
    }

    /// Writes all of `data`, without a copy unless it is encrypted.
    ///
    /// # Errors
    /// The server's refusal; [`Error::Misuse`] above the maximum WRITE length.
    pub async fn write(&self, offset_bytes: u64, data: &Bytes) -> Result<(), Error> {
        let client = self.tree.client();
        if data.len() > client.negotiated().write_bytes_max as usize {
            return Err(Error::Misuse("more than the server writes at once"));
        }
        let body = RequestBody::Write { file_id: self.id(), offset_bytes, flags: 0, data };
        let reply = client.call(self.tree.request(body)).await?;
        let answer = WriteResponse::decode(&mut body_of(&reply)?)?;
        if answer.count as usize == data.len() {
            Ok(())
        } else {
            Err(Error::Hostile("a write of another length"))
        }
    }

    /// Flushes written data to stable storage.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn flush(&self) -> Result<(), Error> {
        let body = RequestBody::Flush(FlushRequest { file_id: self.id() });
        self.tree.client().call(self.tree.request(body)).await.map(|_| ())
    }

    /// Sets the length.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn set_size(&self, size_bytes: u64) -> Result<(), Error> {
        self.set_info(20, &size_bytes.to_le_bytes()).await
    }

    /// Sets a file information class of MS-FSCC 2.4.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn set_info(&self, class: u8, input: &[u8]) -> Result<(), Error> {
        let kind = InfoType::File;
        let body = SetInfoRequest { kind, class, additional: 0, file_id: self.id(), input };
        self.tree.client().call(self.tree.request(RequestBody::SetInfo(body))).await.map(|_| ())
    }

    /// Queries a file information class of MS-FSCC 2.4, with at most `output_bytes` of output.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn query_info(&self, class: u8, output_bytes: u32) -> Result<Vec<u8>, Error> {
        self.query(InfoType::File, class, output_bytes).await
    }

    /// Queries a file system information class of MS-FSCC 2.5, with at most `output_bytes` of
    /// output.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn query_fs_info(&self, class: u8, output_bytes: u32) -> Result<Vec<u8>, Error> {
        self.query(InfoType::FileSystem, class, output_bytes).await
    }

    async fn query(&self, kind: InfoType, class: u8, output_bytes: u32) -> Result<Vec<u8>, Error> {
        let body = RequestBody::QueryInfo(QueryInfoRequest {
            kind,
            class,
            output_bytes,
            additional: 0,
            flags: 0,
            file_id: self.id(),
            input: &[],
        });
        let reply = self.tree.client().call(self.tree.request(body)).await?;
        Ok(decode_output_buffer(&mut body_of(&reply)?)?.to_vec())
    }

    /// Sends an FSCTL of MS-FSCC 2.3 or MS-SMB2 2.2.31.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn control(
        &self,
        code: u32,
        input: &[u8],
        output_bytes_max: u32,
    ) -> Result<Vec<u8>, Error> {
        let body = RequestBody::Ioctl(IoctlRequest {
            code,
            file_id: self.id(),
            input,
            input_bytes_max: 0,
            output_bytes_max,
            is_fsctl: true,
        });
        let reply = self.tree.client().call(self.tree.request(body)).await?;
        Ok(IoctlResponse::decode(&mut body_of(&reply)?)?.output.to_vec())
    }

    /// Sets times and attributes; 0 leaves a value unchanged.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn set_basic(&self, times: [FileTime; 4], attributes: u32) -> Result<(), Error> {
        self.set_info(4, &basic_information(times, attributes)).await
    }

    /// Queries parts of the security descriptor: 1 owner, 2 group, 4 DACL.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn descriptor(&self, parts: u32) -> Result<Vec<u8>, Error> {
        let body = RequestBody::QueryInfo(QueryInfoRequest {
            kind: InfoType::Security,
            class: 0,
            output_bytes: DESCRIPTOR_BYTES_MAX,
            additional: parts,
            flags: 0,
            file_id: self.id(),
            input: &[],
        });
        let reply = self.tree.client().call(self.tree.request(body)).await?;
        Ok(decode_output_buffer(&mut body_of(&reply)?)?.to_vec())
    }

    /// Sets these parts of the security descriptor.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn set_descriptor(&self, parts: u32, descriptor: &[u8]) -> Result<(), Error> {
        let (kind, file_id) = (InfoType::Security, self.id());
        let body = SetInfoRequest { kind, class: 0, additional: parts, file_id, input: descriptor };
        self.tree.client().call(self.tree.request(RequestBody::SetInfo(body))).await.map(|_| ())
    }

    /// Queries the current length.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn size(&self) -> Result<u64, Error> {
        let standard = self.query_info(5, 24).await?;
        let mut r = Reader::new(&standard);
        r.skip(8, "standard information")?;
        Ok(r.u64("standard information")?)
    }

    /// Closes the open.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn close(self) -> Result<(), Error> {
        let body = RequestBody::Close(CloseRequest { flags: 0, file_id: self.id() });
        self.tree.client().call(self.tree.request(body)).await.map(|_| ())
    }
}
