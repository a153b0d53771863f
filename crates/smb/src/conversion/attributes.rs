//! Attributes in the form that Windows shows.

use files::dos;
use vfs::{Attributes, FileKind};
use wire::fscc::{self, FileTime};

/// FILE_ATTRIBUTE_* of a node: the stored bits, or the defaults of a new node.
#[must_use]
pub fn attribute_bits(attributes: &Attributes) -> u32 {
    let stored = stored_bits(attributes);
    if !attributes.compressed {
        return stored;
    }
    stored & !dos::NORMAL | fscc::FILE_ATTRIBUTE_COMPRESSED
}

fn stored_bits(attributes: &Attributes) -> u32 {
    match attributes.kind {
        FileKind::Directory => {
            let stored = attributes.dos.bits.unwrap_or(0);
            stored & !(dos::NORMAL | dos::TEMPORARY) | fscc::FILE_ATTRIBUTE_DIRECTORY
        }
        FileKind::Symlink | FileKind::Device | FileKind::Fifo | FileKind::Socket => {
            // A symbolic link to a directory, for clients that follow links themselves.
            let directory = attributes.dos.bits.unwrap_or(0) & dos::DIRECTORY;
            fscc::FILE_ATTRIBUTE_REPARSE_POINT | directory
        }
        FileKind::File => {
            let bits =
                attributes.dos.bits.unwrap_or(dos::ARCHIVE) & !(dos::DIRECTORY | dos::NORMAL);
            if bits == 0 { dos::NORMAL } else { bits }
        }
    }
}

/// Creation, last access, last write, change.
#[must_use]
pub fn times(attributes: &Attributes) -> [FileTime; 4] {
    let created = attributes
        .dos
        .created
        .or(attributes.born)
        .unwrap_or(attributes.changed.min(attributes.modified));
    [created, attributes.accessed, attributes.modified, attributes.shown_changed()]
        .map(|t| FileTime::from_unix_nanos(t.0))
}

/// Length as shown to clients: zero for directories.
#[must_use]
pub fn size_bytes(attributes: &Attributes) -> u64 {
    if attributes.kind == FileKind::Directory { 0 } else { attributes.size_bytes }
}

/// Allocation size as shown to clients: zero for directories, and at least the length unless the
/// file is sparse.
#[must_use]
pub fn allocation_bytes(attributes: &Attributes) -> u64 {
    if attributes.kind == FileKind::Directory {
        return 0;
    }
    let sparse = attributes.dos.bits.unwrap_or(0) & dos::SPARSE != 0;
    let needed = attributes.size_bytes.div_ceil(4096).saturating_mul(4096);
    if sparse { attributes.allocated_bytes } else { attributes.allocated_bytes.max(needed) }
}
