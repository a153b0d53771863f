//! The response of QUERY_INFO, QUERY_DIRECTORY and CHANGE_NOTIFY: data behind its offset and
//! length. MS-SMB2 2.2.34, 2.2.36, 2.2.38.

use crate::codec::{DecodeError, Reader, Writer};

/// Appends the variable part that ends a body: one zero byte if it is empty, because
/// `StructureSize` counts one byte of it.
pub(super) fn put_variable(w: &mut Writer<'_>, bytes: &[u8]) {
    if bytes.is_empty() {
        w.u8(0);
    } else {
        w.bytes(bytes);
    }
}

/// Appends the response that QUERY_INFO, QUERY_DIRECTORY and CHANGE_NOTIFY share: `data` with its
/// offset and length. MS-SMB2 2.2.34, 2.2.36, 2.2.38.
pub fn output_buffer_response(w: &mut Writer<'_>, data: &[u8]) {
    let offset = if data.is_empty() { 0 } else { w.position() + OUTPUT_HEAD_BYTES };
    put_output_buffer(w, offset, data);
}

/// Length of the body before the data, in bytes.
pub(super) const OUTPUT_HEAD_BYTES: usize = 8;

pub(super) fn put_output_buffer(w: &mut Writer<'_>, offset: usize, data: &[u8]) {
    w.u16(9);
    w.u16(offset as u16);
    w.u32(data.len() as u32);
    put_variable(w, data);
}

/// Reads what [`output_buffer_response`] writes.
///
/// # Errors
/// [`DecodeError`] if the body is short, has another size, or the data lies outside it.
pub fn decode_output_buffer<'a>(r: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
    r.structure_size(9, "output buffer")?;
    let offset = usize::from(r.u16("output buffer")?);
    let length = r.u32("output buffer")? as usize;
    r.part(offset, length, "output buffer")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_is_read_as_it_was_written() {
        for data in [&b""[..], b"data"] {
            let mut bytes = vec![0; 64];
            output_buffer_response(&mut Writer::with_origin(&mut bytes, 0), data);
            let mut r = Reader::new(&bytes);
            r.skip(64, "header").unwrap();
            assert_eq!(decode_output_buffer(&mut r), Ok(data));
        }
    }
}
