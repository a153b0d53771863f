//! Names in directories: CREATE, LINK, READDIR, READLINK, REMOVE, RENAME.
//! RFC 8881 18.4, 18.9, 18.23 to 18.26.

use crate::codec::Malformed;
use crate::nfs::attributes::SpecData;
use crate::nfs::limits::READDIR_ENTRIES_MAX;
use crate::nfs::xdr::{Decode, Encode, XdrReader, XdrWriter, xdr_struct};
use crate::nfs::{Bitmap4, ChangeInfo, Fattr, Verifier};

xdr_struct! {
    /// CREATE's arguments.
    #[derive(Copy)]
    struct CreateArgs<'a> {
        /// What is made.
        object_type: CreateType<'a>,
        /// Its name in the current directory.
        name: &'a [u8],
        /// The attributes that it shall have.
        attributes: Fattr<'a>,
    }

    /// CREATE's results.
    #[derive(Copy)]
    struct CreateResult {
        /// The directory's change.
        change: ChangeInfo,
        /// Attributes that were set.
        attributes_set: Bitmap4,
    }

    /// LINK's arguments: the saved file gets a name in the current directory. The
    /// result is [`ChangeInfo`].
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
        /// The change of the saved directory.
        source: ChangeInfo,
        /// The change of the current directory.
        target: ChangeInfo,
    }

    /// READDIR's arguments.
    #[derive(Copy)]
    struct ReadDirArgs {
        /// After which entry to go on; 0 is from the start.
        cookie: u64,
        /// What came with the cookie.
        cookie_verifier: Verifier,
        /// Bytes of names and cookies that are wanted: a hint.
        directory_bytes: u32,
        /// Bytes of the whole result that there may be.
        bytes_max: u32,
        /// Attributes of each entry that are wanted.
        requested: Bitmap4,
    }

    /// An entry of a directory: `entry4` without what leads to the next one.
    #[derive(Copy)]
    struct DirectoryEntry<'a> {
        /// Where to go on after it.
        cookie: u64,
        /// Its name.
        name: &'a [u8],
        /// Its attributes.
        attributes: Fattr<'a>,
    }
}

/// What is made: `createtype4`.
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
    /// A symbolic link to here.
    Link(&'a [u8]),
    /// What CREATE does not make, to be answered BADTYPE: the number of the type.
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

/// READDIR's results, as a client reads them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadDirResult<'a> {
    /// Goes with the cookies.
    pub cookie_verifier: Verifier,
    /// The entries.
    pub entries: Vec<DirectoryEntry<'a>>,
    /// Whether they were the last.
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

/// READDIR's results, as a server writes them: entry by entry, with attributes
/// straight behind each name.
#[derive(Debug)]
#[must_use = "a directory ends with finish()"]
pub struct DirectoryWriter {
    start: usize,
    entries: usize,
    entry_start: usize,
}

impl DirectoryWriter {
    /// Bytes of the end of the list.
    pub const END_BYTES: usize = 8;

    /// Begins the results.
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

    /// Bytes that the results would have if they ended here: to be held against
    /// [`ReadDirArgs::bytes_max`]. RFC 8881 18.23.3.
    #[must_use]
    pub fn result_bytes(&self, w: &XdrWriter<'_>) -> usize {
        w.position() - self.start + Self::END_BYTES
    }

    /// Takes back the entry that was begun last, which did not fit.
    pub fn take_back_entry(&mut self, w: &mut XdrWriter<'_>) {
        w.truncate(self.entry_start);
        self.entries -= 1;
    }

    /// How many entries there are.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Ends the results.
    pub fn finish(self, w: &mut XdrWriter<'_>, is_end: bool) {
        w.bool(false);
        w.bool(is_end);
    }
}
