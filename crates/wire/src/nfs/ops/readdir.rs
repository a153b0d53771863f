//! READDIR. RFC 8881 18.23.

use crate::codec::DecodeError;
use crate::nfs::limits::READDIR_ENTRIES_MAX;
use crate::nfs::xdr::{Decode, Encode, XdrReader, XdrWriter, xdr_struct};
use crate::nfs::{Bitmap4, Fattr, Verifier};

xdr_struct! {
    /// READDIR's arguments.
    #[derive(Copy)]
    struct ReadDirArgs {
        /// Cookie of the entry to continue after; 0 for the start.
        cookie: u64,
        /// Verifier that the server returned with the cookie.
        cookie_verifier: Verifier,
        /// Wanted length of names and cookies, in bytes: a hint.
        directory_bytes: u32,
        /// Maximum length of the complete result, in bytes.
        bytes_max: u32,
        /// Requested attributes of each entry.
        requested: Bitmap4,
    }

    /// A directory entry: `entry4` without its list link.
    #[derive(Copy)]
    struct DirectoryEntry<'a> {
        /// Cookie to continue after this entry.
        cookie: u64,
        /// Its name.
        name: &'a [u8],
        /// Its attributes.
        attributes: Fattr<'a>,
    }
}

/// READDIR's results as a client decodes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadDirResult<'a> {
    /// Verifier of the cookies.
    pub cookie_verifier: Verifier,
    /// The entries.
    pub entries: Vec<DirectoryEntry<'a>>,
    /// True if these are the last entries.
    pub is_end: bool,
}

impl<'a> Decode<'a> for ReadDirResult<'a> {
    fn decode(r: &mut XdrReader<'a>) -> Result<Self, DecodeError> {
        let cookie_verifier = r.get()?;
        let mut entries = Vec::new();
        while r.bool("entry follows")? {
            if entries.len() == READDIR_ENTRIES_MAX {
                return Err(r.malformed("number of entries"));
            }
            entries.push(r.get()?);
        }
        Ok(Self { cookie_verifier, entries, is_end: r.bool("eof")? })
    }
}

impl Encode for ReadDirResult<'_> {
    fn encode(&self, w: &mut XdrWriter<'_>) {
        let mut list = DirectoryWriter::begin(w, self.cookie_verifier);
        for entry in &self.entries {
            list.begin_entry(w, entry.cookie, entry.name);
            w.put(&entry.attributes);
        }
        list.finish(w, self.is_end);
    }
}

/// READDIR's results as a server encodes them: each entry's name, directly followed by its
/// attributes.
#[derive(Debug)]
#[must_use = "a directory ends with finish()"]
pub struct DirectoryWriter {
    start: usize,
    entries: usize,
    entry_start: usize,
}

impl DirectoryWriter {
    /// Length of the end of the list, in bytes.
    pub const END_BYTES: usize = 8;

    /// Starts the results.
    pub fn begin(w: &mut XdrWriter<'_>, cookie_verifier: Verifier) -> Self {
        let start = w.position();
        w.put(&cookie_verifier);
        Self { start, entries: 0, entry_start: w.position() }
    }

    /// Writes an entry up to its attributes, which the caller writes next.
    pub fn begin_entry(&mut self, w: &mut XdrWriter<'_>, cookie: u64, name: &[u8]) {
        self.entry_start = w.position();
        self.entries += 1;
        w.bool(true);
        w.u64(cookie);
        w.opaque(name);
    }

    /// Length of the results if they ended here, to compare with [`ReadDirArgs::bytes_max`]. RFC
    /// 8881 18.23.3.
    #[must_use]
    pub fn result_bytes(&self, w: &XdrWriter<'_>) -> usize {
        w.position() - self.start + Self::END_BYTES
    }

    /// Removes the last entry, which exceeded the limit.
    pub fn discard_entry(&mut self, w: &mut XdrWriter<'_>) {
        w.truncate(self.entry_start);
        self.entries -= 1;
    }

    /// The number of entries.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Completes the results.
    pub fn finish(self, w: &mut XdrWriter<'_>, is_end: bool) {
        w.bool(false);
        w.bool(is_end);
    }
}
