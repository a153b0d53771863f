//! Directory entries: CREATE, LINK, READDIR, READLINK, REMOVE, RENAME. RFC 8881 18.4, 18.9, 18.23
//! to 18.26.

use crate::codec::Malformed;
use crate::nfs::attributes::SpecData;
use crate::nfs::limits::READDIR_ENTRIES_MAX;
use crate::nfs::xdr::{Decode, Encode, XdrReader, XdrWriter, xdr_struct};
use crate::nfs::{Bitmap4, ChangeInfo, Fattr, Verifier};

xdr_struct! {
    /// CREATE's arguments.
    #[derive(Copy)]
    struct CreateArgs<'a> {
        /// Type of the new object.
        object_type: CreateType<'a>,
        /// Its name in the current directory.
        name: &'a [u8],
        /// Its attributes.
        attributes: Fattr<'a>,
    }

    /// CREATE's results.
    #[derive(Copy)]
    struct CreateResult {
        /// The directory's change attribute.
        change: ChangeInfo,
        /// Attributes that were set.
        attributes_set: Bitmap4,
    }

    /// LINK's arguments: creates a link to the saved file in the current directory. The result is
    /// [`ChangeInfo`].
    #[derive(Copy)]
    struct LinkArgs<'a> {
        /// The name.
        new_name: &'a [u8],
    }

    /// REMOVE's arguments. The result is [`ChangeInfo`].
    #[derive(Copy)]
    struct RemoveArgs<'a> {
        /// A name in the current directory.
        name: &'a [u8],
    }

    /// RENAME's arguments.
    #[derive(Copy)]
    struct RenameArgs<'a> {
        /// A name in the saved directory.
        old_name: &'a [u8],
        /// A name in the current directory.
        new_name: &'a [u8],
    }

    /// RENAME's results.
    #[derive(Copy)]
    struct RenameResult {
        /// Change attribute of the saved directory.
        source: ChangeInfo,
        /// Change attribute of the current directory.
        target: ChangeInfo,
    }

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

/// Type of a new object: `createtype4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateType<'a> {
    /// A block device.
    Block(SpecData),
    /// A character device.
    Character(SpecData),
    /// A directory.
    Directory,
    /// A named pipe.
    Fifo,
    /// A symbolic link with this target.
    Link(&'a [u8]),
    /// Another type, which CREATE refuses with BADTYPE.
    Other(u32),
    /// A socket.
    Socket,
}

impl<'a> Decode<'a> for CreateType<'a> {
    fn decode(r: &mut XdrReader<'a>) -> Result<Self, Malformed> {
        Ok(match r.u32("createtype")? {
            2 => Self::Directory,
            3 => Self::Block(r.get()?),
            4 => Self::Character(r.get()?),
            5 => Self::Link(r.get()?),
            6 => Self::Socket,
            7 => Self::Fifo,
            other => Self::Other(other),
        })
    }
}

impl Encode for CreateType<'_> {
    fn encode(&self, w: &mut XdrWriter<'_>) {
        match self {
            Self::Directory => w.u32(2),
            Self::Block(device) => {
                w.u32(3);
                w.put(device);
            }
            Self::Character(device) => {
                w.u32(4);
                w.put(device);
            }
            Self::Link(target) => {
                w.u32(5);
                w.put(target);
            }
            Self::Socket => w.u32(6),
            Self::Fifo => w.u32(7),
            Self::Other(number) => w.u32(*number),
        }
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
    fn decode(r: &mut XdrReader<'a>) -> Result<Self, Malformed> {
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
