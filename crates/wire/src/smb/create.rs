//! CREATE. MS-SMB2 2.2.13, 2.2.14.

use crate::codec::{DecodeError, Reader, Writer};
use crate::fscc::FileTime;
use crate::smb::ids::FileId;

/// CREATE request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateRequest<'a> {
    /// Requested oplock level.
    pub oplock: u8,
    /// Impersonation level.
    pub impersonation: u32,
    /// Requested access mask.
    pub desired_access: u32,
    /// `FILE_ATTRIBUTE_*` bits of a newly created file.
    pub attributes: u32,
    /// `FILE_SHARE_*` bits.
    pub share_access: u32,
    /// FILE_SUPERSEDE to FILE_OVERWRITE_IF.
    pub disposition: u32,
    /// `FILE_*` create options.
    pub options: u32,
    /// The name, UTF-16LE.
    pub name: &'a [u8],
    /// The list of create contexts, undecoded.
    pub contexts: &'a [u8],
}

impl<'a> CreateRequest<'a> {
    const STRUCTURE_SIZE: u16 = 57;

    /// Reads the body; the reader's origin is the header's first byte.
    ///
    /// # Errors
    /// [`DecodeError`] if the body is short, has another size, or a part lies outside it.
    pub fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        r.structure_size(Self::STRUCTURE_SIZE, "create")?;
        r.skip(1, "create")?;
        let oplock = r.u8("create")?;
        let impersonation = r.u32("create")?;
        r.skip(16, "create")?;
        let desired_access = r.u32("create")?;
        let attributes = r.u32("create")?;
        let share_access = r.u32("create")?;
        let disposition = r.u32("create")?;
        let options = r.u32("create")?;
        let name_offset = usize::from(r.u16("create")?);
        let name_length = usize::from(r.u16("create")?);
        let contexts_offset = r.u32("create")? as usize;
        let contexts_length = r.u32("create")? as usize;
        let name = r.part(name_offset, name_length, "create name")?;
        let contexts = r.part(contexts_offset, contexts_length, "create contexts")?;
        Ok(Self {
            oplock,
            impersonation,
            desired_access,
            attributes,
            share_access,
            disposition,
            options,
            name,
            contexts,
        })
    }

    /// Appends the body.
    pub fn encode(&self, w: &mut Writer<'_>) {
        let name_offset = w.position() + 56;
        w.u16(Self::STRUCTURE_SIZE);
        w.u8(0);
        w.u8(self.oplock);
        w.u32(self.impersonation);
        w.zeros(16);
        w.u32(self.desired_access);
        w.u32(self.attributes);
        w.u32(self.share_access);
        w.u32(self.disposition);
        w.u32(self.options);
        w.u16(name_offset as u16);
        w.u16(self.name.len() as u16);
        let fields = w.position();
        w.zeros(8);
        if self.name.is_empty() && self.contexts.is_empty() {
            w.u8(0);
        }
        w.bytes(self.name);
        if !self.contexts.is_empty() {
            w.align(8);
            let offset = w.position() as u32;
            w.patch_u32(fields, offset);
            w.patch_u32(fields + 4, self.contexts.len() as u32);
            w.bytes(self.contexts);
        }
    }
}

/// CREATE response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreateResponse {
    /// Granted oplock level.
    pub oplock: u8,
    /// Create action: superseded, opened, created or overwritten.
    pub action: u32,
    /// Creation, last access, last write, change.
    pub times: [FileTime; 4],
    /// Bytes of storage in use.
    pub allocation_bytes: u64,
    /// Length, in bytes.
    pub size_bytes: u64,
    /// `FILE_ATTRIBUTE_*` bits.
    pub attributes: u32,
    /// The new open.
    pub file_id: FileId,
}

impl CreateResponse {
    /// Decodes the body; returns it with the undecoded list of create contexts.
    ///
    /// # Errors
    /// [`DecodeError`] if the body is short, has another size, or the contexts lie outside
    /// it.
    pub fn decode<'a>(r: &mut Reader<'a>) -> Result<(Self, &'a [u8]), DecodeError> {
        r.structure_size(89, "create response")?;
        let oplock = r.u8("create response")?;
        r.skip(1, "create response")?;
        let action = r.u32("create response")?;
        let mut times = [FileTime(0); 4];
        for time in &mut times {
            *time = FileTime(r.u64("create response")?);
        }
        let allocation_bytes = r.u64("create response")?;
        let size_bytes = r.u64("create response")?;
        let attributes = r.u32("create response")?;
        r.skip(4, "create response")?;
        let file_id = FileId::decode(r)?;
        let offset = r.u32("create response")? as usize;
        let length = r.u32("create response")? as usize;
        let contexts = r.part(offset, length, "create response contexts")?;
        let response =
            Self { oplock, action, times, allocation_bytes, size_bytes, attributes, file_id };
        Ok((response, contexts))
    }

    /// Appends the body, followed by `contexts`, an encoded list.
    pub fn encode(&self, w: &mut Writer<'_>, contexts: &[u8]) {
        w.u16(89);
        w.u8(self.oplock);
        w.u8(0);
        w.u32(self.action);
        for time in self.times {
            w.u64(time.0);
        }
        w.u64(self.allocation_bytes);
        w.u64(self.size_bytes);
        w.u32(self.attributes);
        w.u32(0);
        self.file_id.encode(w);
        let offset = if contexts.is_empty() { 0 } else { w.position() as u32 + 8 };
        w.u32(offset);
        w.u32(contexts.len() as u32);
        w.bytes(contexts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn create_request_round_trips_and_rejects_truncation() {
        let request = CreateRequest {
            oplock: 0,
            impersonation: 2,
            desired_access: 0x12_0089,
            attributes: 0x80,
            share_access: 7,
            disposition: 1,
            options: 0x40,
            name: b"a\0b\0",
            contexts: &[0; 24],
        };
        let mut bytes = vec![0; 64];
        request.encode(&mut Writer::with_origin(&mut bytes, 0));
        let decode = |bytes| {
            let mut r = Reader::new(bytes);
            r.skip(64, "header")?;
            CreateRequest::decode(&mut r).map(|_| ())
        };
        assert_eq!(decode(&bytes), Ok(()));
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn create_response_round_trips_and_rejects_truncation() {
        let response = CreateResponse {
            oplock: 1,
            action: 2,
            times: [FileTime(3), FileTime(4), FileTime(5), FileTime(6)],
            allocation_bytes: 7,
            size_bytes: 8,
            attributes: 9,
            file_id: FileId { persistent: 10, volatile: 11 },
        };
        let mut bytes = vec![0; 64];
        response.encode(&mut Writer::with_origin(&mut bytes, 0), b"contexts");
        let decode = |bytes| {
            let mut r = Reader::new(bytes);
            r.skip(64, "header")?;
            CreateResponse::decode(&mut r)
        };
        assert_eq!(decode(&bytes[..]), Ok((response, &b"contexts"[..])));
        for length in 64..bytes.len() {
            assert!(decode(&bytes[..length]).is_err(), "{length}");
        }
    }
}
