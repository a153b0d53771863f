//! CREATE. RFC 8881 18.4.

use crate::codec::DecodeError;
use crate::nfs::attributes::SpecData;
use crate::nfs::xdr::{Decode, Encode, XdrReader, XdrWriter, xdr_struct};
use crate::nfs::{Bitmap4, ChangeInfo, Fattr};

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
    fn decode(r: &mut XdrReader<'a>) -> Result<Self, DecodeError> {
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
