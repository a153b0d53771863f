//! FILE_OBJECTID_BUFFER. MS-FSCC 2.1.3.

use aws_lc_rs::digest;

/// Length of FILE_OBJECTID_BUFFER in bytes.
pub const OBJECT_ID_BUFFER_BYTES: usize = 64;

/// Object id of a file, made of what identifies its file system and of bytes that distinguish it
/// from every other file that this file system has or had. The first half of their SHA-256, so two
/// files have the same with a probability of 2 to the power of -128.
#[must_use]
pub fn object_id(file_system: [u8; 16], file: &[u8]) -> [u8; 16] {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(&file_system);
    context.update(file);
    let mut id = [0; 16];
    id.copy_from_slice(&context.finish().as_ref()[..16]);
    id
}

/// FILE_OBJECTID_BUFFER of a file that was created on this volume, in no domain.
#[must_use]
pub fn object_id_buffer(file_system: [u8; 16], id: [u8; 16]) -> Vec<u8> {
    // ObjectId, BirthVolumeId, BirthObjectId, DomainId.
    [id, file_system, id, [0; 16]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_id_depends_on_file_system_and_file() {
        let id = object_id([1; 16], b"file");
        assert_eq!(id, object_id([1; 16], b"file"));
        assert_ne!(id, object_id([2; 16], b"file"));
        assert_ne!(id, object_id([1; 16], b"other"));
    }

    #[test]
    fn object_id_is_the_same_in_every_version() {
        // Clients store ids, so a change of the function would break their links.
        let id = object_id([0; 16], b"");
        assert_eq!(u128::from_be_bytes(id), 0x3747_08FF_F771_9DD5_979E_C875_D56C_D228);
    }

    #[test]
    fn object_id_buffer_has_birth_ids_and_no_domain() {
        let buffer = object_id_buffer([2; 16], [1; 16]);
        assert_eq!(buffer.len(), OBJECT_ID_BUFFER_BYTES);
        assert_eq!(buffer, [[1; 16], [2; 16], [1; 16], [0; 16]].concat());
    }
}
