//! QUERY_INFO and SET_INFO. MS-SMB2 2.2.37 to 2.2.40.

use crate::codec::{Malformed, Reader, Writer};
use crate::smb::ids::FileId;

/// Information type. MS-SMB2 2.2.37.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InfoType {
    /// Of a file.
    File,
    /// Of its file system.
    FileSystem,
    /// The security descriptor.
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

    fn number(self) -> u8 {
        match self {
            Self::File => 1,
            Self::FileSystem => 2,
            Self::Security => 3,
            Self::Quota => 4,
            Self::Unknown(other) => other,
        }
    }
}

/// Appends the variable part that ends a body: one zero byte if it is empty, because
/// `StructureSize` counts one byte of it.
pub(super) fn put_variable(w: &mut Writer<'_>, bytes: &[u8]) {
    if bytes.is_empty() {
        w.u8(0);
    } else {
        w.bytes(bytes);
    }
}

/// QUERY_INFO request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryInfoRequest<'a> {
    /// See [`InfoType`].
    pub kind: InfoType,
    /// Information class.
    pub class: u8,
    /// Output buffer of the client, in bytes.
    pub output_bytes: u32,
    /// `AdditionalInformation`: OWNER_SECURITY_INFORMATION and further flags.
    pub additional: u32,
    /// Flags; they position a query of extended attributes.
    pub flags: u32,
    /// The open.
    pub file_id: FileId,
    /// Names of the requested quotas or extended attributes.
    pub input: &'a [u8],
}

impl<'a> QueryInfoRequest<'a> {
    /// Reads the body.
    ///
    /// # Errors
    /// [`Malformed`] if the body is short, has another size, or the input lies outside it.
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

    /// Appends the body.
    pub fn encode(&self, w: &mut Writer<'_>) {
        let offset = w.position() + 40;
        w.u16(41);
        w.u8(self.kind.number());
        w.u8(self.class);
        w.u32(self.output_bytes);
        w.u16(if self.input.is_empty() { 0 } else { offset as u16 });
        w.u16(0);
        w.u32(self.input.len() as u32);
        w.u32(self.additional);
        w.u32(self.flags);
        self.file_id.encode(w);
        put_variable(w, self.input);
    }
}

/// SET_INFO request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetInfoRequest<'a> {
    /// See [`InfoType`].
    pub kind: InfoType,
    /// Information class.
    pub class: u8,
    /// `AdditionalInformation`: OWNER_SECURITY_INFORMATION and further flags.
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
    /// [`Malformed`] if the body is short, has another size, or the input lies outside it.
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

    /// Appends the body.
    pub fn encode(&self, w: &mut Writer<'_>) {
        let offset = w.position() + 32;
        w.u16(33);
        w.u8(self.kind.number());
        w.u8(self.class);
        w.u32(self.input.len() as u32);
        w.u16(offset as u16);
        w.u16(0);
        w.u32(self.additional);
        self.file_id.encode(w);
        put_variable(w, self.input);
    }
}

/// Appends the response that QUERY_INFO, QUERY_DIRECTORY and CHANGE_NOTIFY share: `data` with its
/// offset and length. MS-SMB2 2.2.34, 2.2.36, 2.2.38.
pub fn output_buffer_response(w: &mut Writer<'_>, data: &[u8]) {
    let offset = if data.is_empty() { 0 } else { w.position() + OUTPUT_HEAD_BYTES };
    put_output_buffer(w, offset, data);
}

/// Appends a CHANGE_NOTIFY response without changes. It sets `OutputBufferOffset` even so, for
/// clients that read it regardless of the status. MS-SMB2 2.2.36, 3.3.4.4.
pub fn empty_notify_response(w: &mut Writer<'_>) {
    put_output_buffer(w, w.position() + OUTPUT_HEAD_BYTES, &[]);
}

/// Length of the body before the data, in bytes.
const OUTPUT_HEAD_BYTES: usize = 8;

fn put_output_buffer(w: &mut Writer<'_>, offset: usize, data: &[u8]) {
    w.u16(9);
    w.u16(offset as u16);
    w.u32(data.len() as u32);
    put_variable(w, data);
}

/// Reads what [`output_buffer_response`] writes.
///
/// # Errors
/// [`Malformed`] if the body is short, has another size, or the data lies outside it.
pub fn decode_output_buffer<'a>(r: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    r.structure_size(9, "output buffer")?;
    let offset = usize::from(r.u16("output buffer")?);
    let length = r.u32("output buffer")? as usize;
    r.part(offset, length, "output buffer")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_the_response_are_read_as_they_were_written() {
        let file_id = FileId { persistent: 1, volatile: 2 };
        for input in [&b""[..], b"input"] {
            let query = QueryInfoRequest {
                kind: InfoType::Security,
                class: 0,
                output_bytes: 5,
                additional: 7,
                flags: 1,
                file_id,
                input,
            };
            let mut bytes = vec![0; 64];
            query.encode(&mut Writer::with_origin(&mut bytes, 0));
            let mut r = Reader::new(&bytes);
            r.skip(64, "header").unwrap();
            assert_eq!(QueryInfoRequest::decode(&mut r), Ok(query));
            let set =
                SetInfoRequest { kind: InfoType::File, class: 20, additional: 0, file_id, input };
            let mut bytes = vec![0; 64];
            set.encode(&mut Writer::with_origin(&mut bytes, 0));
            let mut r = Reader::new(&bytes);
            r.skip(64, "header").unwrap();
            assert_eq!(SetInfoRequest::decode(&mut r), Ok(set));
            let mut bytes = vec![0; 64];
            output_buffer_response(&mut Writer::with_origin(&mut bytes, 0), input);
            let mut r = Reader::new(&bytes);
            r.skip(64, "header").unwrap();
            assert_eq!(decode_output_buffer(&mut r), Ok(input));
        }
    }
}
