//! QUERY_INFO and SET_INFO. MS-SMB2 2.2.37 to 2.2.40.

use crate::codec::{Malformed, Reader, Writer};
use crate::smb::ids::FileId;

/// What kind of information. MS-SMB2 2.2.37.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InfoType {
    /// Of a file.
    File,
    /// Of its file system.
    FileSystem,
    /// Its security descriptor.
    Security,
    /// Quotas.
    Quota,
    /// None of these.
    Unknown(u8),
}

impl InfoType {
    fn from_number(number: u8) -> Self {
        match number {
            1 => Self::File,
            2 => Self::FileSystem,
            3 => Self::Security,
            4 => Self::Quota,
            other => Self::Unknown(other),
        }
    }
}

/// QUERY_INFO request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryInfoRequest<'a> {
    /// See [`InfoType`].
    pub kind: InfoType,
    /// Information class.
    pub class: u8,
    /// Room in the client's buffer, in bytes.
    pub output_bytes: u32,
    /// OWNER_SECURITY_INFORMATION and so on, for security.
    pub additional: u32,
    /// For extended attributes: where to go on.
    pub flags: u32,
    /// The open.
    pub file_id: FileId,
    /// Quota or extended attribute names asked for.
    pub input: &'a [u8],
}

impl<'a> QueryInfoRequest<'a> {
    /// Reads the body.
    ///
    /// # Errors
    /// [`Malformed`] if it is short, has another size, or its input is not in it.
    pub fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        r.structure_size(41, "query info")?;
        let kind = InfoType::from_number(r.u8("query info")?);
        let class = r.u8("query info")?;
        let output_bytes = r.u32("query info")?;
        let offset = usize::from(r.u16("query info")?);
        r.skip(2, "query info")?;
        let length = r.u32("query info")? as usize;
        let additional = r.u32("query info")?;
        let flags = r.u32("query info")?;
        let file_id = FileId::decode(r)?;
        let input = r.part(offset, length, "query info input")?;
        Ok(Self { kind, class, output_bytes, additional, flags, file_id, input })
    }
}

/// SET_INFO request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetInfoRequest<'a> {
    /// See [`InfoType`].
    pub kind: InfoType,
    /// Information class.
    pub class: u8,
    /// OWNER_SECURITY_INFORMATION and so on, for security.
    pub additional: u32,
    /// The open.
    pub file_id: FileId,
    /// The information.
    pub input: &'a [u8],
}

impl<'a> SetInfoRequest<'a> {
    /// Reads the body.
    ///
    /// # Errors
    /// [`Malformed`] if it is short, has another size, or its input is not in it.
    pub fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        r.structure_size(33, "set info")?;
        let kind = InfoType::from_number(r.u8("set info")?);
        let class = r.u8("set info")?;
        let length = r.u32("set info")? as usize;
        let offset = usize::from(r.u16("set info")?);
        r.skip(2, "set info")?;
        let additional = r.u32("set info")?;
        let file_id = FileId::decode(r)?;
        let input = r.part(offset, length, "set info input")?;
        Ok(Self { kind, class, additional, file_id, input })
    }
}

/// Appends the response that QUERY_INFO, QUERY_DIRECTORY and CHANGE_NOTIFY
/// share: `data` with its place. MS-SMB2 2.2.34, 2.2.36, 2.2.38.
pub fn output_buffer_response(w: &mut Writer<'_>, data: &[u8]) {
    let offset = w.position() + 8;
    w.u16(9);
    w.u16(if data.is_empty() { 0 } else { offset as u16 });
    w.u32(data.len() as u32);
    if data.is_empty() {
        w.u8(0);
    } else {
        w.bytes(data);
    }
}
