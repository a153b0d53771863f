//! Copies made by the server: COPY, COPY_NOTIFY, CLONE, OFFLOAD_STATUS,
//! OFFLOAD_CANCEL. RFC 7862 15.2, 15.3, 15.8, 15.9, 15.13.

use crate::codec::Malformed;
use crate::nfs::limits::{COPY_SOURCES_MAX, COPY_STATE_IDS_MAX};
use crate::nfs::reply::Reply;
use crate::nfs::xdr::{Decode, Encode, List, XdrReader, XdrWriter, xdr_struct};
use crate::nfs::{NfsStatus, NfsTime, StableHow, StateId, Verifier};

xdr_struct! {
    /// COPY's arguments: from the saved file to the current one.
    struct CopyArgs<'a> {
        /// As who is read.
        source_state_id: StateId,
        /// As who is written.
        destination_state_id: StateId,
        /// From where, in bytes.
        source_offset: u64,
        /// To where, in bytes.
        destination_offset: u64,
        /// How much, in bytes; 0 is to the end.
        count: u64,
        /// Whether it must go from the start to the end.
        is_consecutive: bool,
        /// Whether the answer must come when it is done.
        is_synchronous: bool,
        /// Servers that the source may be at; none if it is here.
        source_servers: List<NetLocation<'a>, COPY_SOURCES_MAX>,
    }

    /// How a copy is made: `copy_requirements4`.
    #[derive(Copy)]
    struct CopyRequirements {
        /// Whether it goes from the start to the end.
        is_consecutive: bool,
        /// Whether the answer comes when it is done.
        is_synchronous: bool,
    }

    /// What was written: `write_response4`.
    struct WriteResponse {
        /// What a copy that goes on is called.
        callback_id: List<StateId, COPY_STATE_IDS_MAX>,
        /// Bytes.
        count: u64,
        /// How safe they are.
        committed: StableHow,
        /// Another one than before if the server may have lost unstable data.
        verifier: Verifier,
    }

    /// COPY's results.
    struct CopyResult {
        /// What was written.
        response: WriteResponse,
        /// How.
        requirements: CopyRequirements,
    }

    /// COPY_NOTIFY's arguments.
    #[derive(Copy)]
    struct CopyNotifyArgs<'a> {
        /// As who is read.
        source_state_id: StateId,
        /// Who will read.
        destination_server: NetLocation<'a>,
    }

    /// COPY_NOTIFY's results.
    struct CopyNotifyResult<'a> {
        /// How long this is good.
        lease_time: NfsTime,
        /// What the reader has to show.
        state_id: StateId,
        /// Where to read.
        source_servers: List<NetLocation<'a>, COPY_SOURCES_MAX>,
    }

    /// CLONE's arguments: from the saved file to the current one.
    #[derive(Copy)]
    struct CloneArgs {
        /// As who is read.
        source_state_id: StateId,
        /// As who is written.
        destination_state_id: StateId,
        /// From where, in bytes.
        source_offset: u64,
        /// To where, in bytes.
        destination_offset: u64,
        /// How much, in bytes; 0 is to the end.
        count: u64,
    }

    /// OFFLOAD_CANCEL's and OFFLOAD_STATUS's arguments.
    #[derive(Copy)]
    struct OffloadArgs {
        /// The copy.
        state_id: StateId,
    }

    /// OFFLOAD_STATUS's results.
    struct OffloadStatusResult {
        /// Bytes that were copied.
        count: u64,
        /// How it ended, if it did.
        complete: List<NfsStatus, 1>,
    }

    /// An address: `netaddr4`.
    #[derive(Copy)]
    struct NetAddress<'a> {
        /// Over what.
        network_id: &'a [u8],
        /// Where.
        universal_address: &'a [u8],
    }
}

/// Where a server is: `netloc4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetLocation<'a> {
    /// By name.
    Name(&'a [u8]),
    /// By URL.
    Url(&'a [u8]),
    /// By address.
    Address(NetAddress<'a>),
}

impl<'a> Decode<'a> for NetLocation<'a> {
    fn decode(r: &mut XdrReader<'a>) -> Result<Self, Malformed> {
        Ok(match r.u32("netloc_type")? {
            1 => Self::Name(r.get()?),
            2 => Self::Url(r.get()?),
            3 => Self::Address(r.get()?),
            _ => return Err(r.malformed("netloc_type")),
        })
    }
}

impl Encode for NetLocation<'_> {
    fn encode(&self, w: &mut XdrWriter<'_>) {
        match self {
            Self::Name(name) => {
                w.u32(1);
                w.put(name);
            }
            Self::Url(url) => {
                w.u32(2);
                w.put(url);
            }
            Self::Address(address) => {
                w.u32(3);
                w.put(address);
            }
        }
    }
}

/// COPY's results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyReply {
    /// It was made, or begun.
    Copied(CopyResult),
    /// It cannot be made as it was asked for, only so: OFFLOAD_NO_REQS.
    Requirements(CopyRequirements),
    /// It cannot be made.
    Failed(NfsStatus),
}

impl<'a> Reply<'a> for CopyReply {
    fn status(&self) -> NfsStatus {
        match self {
            Self::Copied(_) => NfsStatus::OK,
            Self::Requirements(_) => NfsStatus::OFFLOAD_NO_REQS,
            Self::Failed(status) => *status,
        }
    }

    fn decode_body(status: NfsStatus, r: &mut XdrReader<'a>) -> Result<Self, Malformed> {
        match status {
            NfsStatus::OK => r.get().map(Self::Copied),
            NfsStatus::OFFLOAD_NO_REQS => r.get().map(Self::Requirements),
            _ => Ok(Self::Failed(status)),
        }
    }

    fn encode_body(&self, w: &mut XdrWriter<'_>) {
        match self {
            Self::Copied(result) => w.put(result),
            Self::Requirements(requirements) => w.put(requirements),
            Self::Failed(_) => {}
        }
    }
}
