//! COPY, COPY_NOTIFY, OFFLOAD_STATUS, OFFLOAD_CANCEL. RFC 7862 15.2, 15.3, 15.8, 15.9.

use crate::codec::DecodeError;
use crate::nfs::limits::{COPY_SOURCES_MAX, COPY_STATE_IDS_MAX};
use crate::nfs::reply::ResultBody;
use crate::nfs::xdr::{Decode, Encode, List, XdrReader, XdrWriter, xdr_struct};
use crate::nfs::{NfsStatus, NfsTime, StableHow, StateId, Verifier};

xdr_struct! {
    /// COPY's arguments: copies from the saved file to the current one.
    struct CopyArgs<'a> {
        /// State id that authorizes the read.
        source_state_id: StateId,
        /// State id that authorizes the write.
        destination_state_id: StateId,
        /// Offset of the first byte.
        source_offset: u64,
        /// Target offset of the first byte.
        destination_offset: u64,
        /// Length, in bytes; 0 extends to the end of the file.
        count: u64,
        /// True if the server must copy in ascending order.
        is_consecutive: bool,
        /// True if the server must reply after the copy is complete.
        is_synchronous: bool,
        /// Servers that hold the source; empty for a source on this server.
        source_servers: List<NetLocation<'a>, COPY_SOURCES_MAX>,
    }

    /// Properties of a copy: `copy_requirements4`.
    #[derive(Copy)]
    struct CopyRequirements {
        /// True if the server copies in ascending order.
        is_consecutive: bool,
        /// True if the server replies after the copy is complete.
        is_synchronous: bool,
    }

    /// Outcome of a write or copy: `write_response4`.
    struct NfsWriteResponse {
        /// State id of an asynchronous copy.
        callback_id: List<StateId, COPY_STATE_IDS_MAX>,
        /// Bytes written.
        count: u64,
        /// Durability of the written bytes.
        committed: StableHow,
        /// Write verifier. It changes if the server may have lost unstable data.
        verifier: Verifier,
    }

    /// COPY's results.
    struct CopyResult {
        /// Outcome.
        response: NfsWriteResponse,
        /// Properties of the copy.
        requirements: CopyRequirements,
    }

    /// COPY_NOTIFY's arguments.
    #[derive(Copy)]
    struct CopyNotifyArgs<'a> {
        /// State id that authorizes the read.
        source_state_id: StateId,
        /// The server that will read.
        destination_server: NetLocation<'a>,
    }

    /// COPY_NOTIFY's results.
    struct CopyNotifyResult<'a> {
        /// Validity of this permission.
        lease_time: NfsTime,
        /// State id that the reading server must present.
        state_id: StateId,
        /// Addresses to read from.
        source_servers: List<NetLocation<'a>, COPY_SOURCES_MAX>,
    }

    /// OFFLOAD_CANCEL's and OFFLOAD_STATUS's arguments.
    #[derive(Copy)]
    struct OffloadArgs {
        /// State id of the copy.
        state_id: StateId,
    }

    /// OFFLOAD_STATUS's results.
    struct OffloadStatusResult {
        /// Bytes copied so far.
        count: u64,
        /// Outcome, if the copy has ended.
        complete: List<NfsStatus, 1>,
    }

    /// An address: `netaddr4`.
    #[derive(Copy)]
    struct NetAddress<'a> {
        /// Transport protocol.
        network_id: &'a [u8],
        /// Address in its text form.
        universal_address: &'a [u8],
    }
}

/// Location of a server: `netloc4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetLocation<'a> {
    /// Host name.
    Name(&'a [u8]),
    /// URL.
    Url(&'a [u8]),
    /// Network address.
    Address(NetAddress<'a>),
}

impl<'a> Decode<'a> for NetLocation<'a> {
    fn decode(r: &mut XdrReader<'a>) -> Result<Self, DecodeError> {
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
    /// The copy is complete, or started asynchronously.
    Copied(CopyResult),
    /// The server cannot meet the requested properties, but supports these: OFFLOAD_NO_REQS.
    Requirements(CopyRequirements),
    /// The copy failed.
    Failed(NfsStatus),
}

impl<'a> ResultBody<'a> for CopyReply {
    fn status(&self) -> NfsStatus {
        match self {
            Self::Copied(_) => NfsStatus::OK,
            Self::Requirements(_) => NfsStatus::OFFLOAD_NO_REQS,
            Self::Failed(status) => *status,
        }
    }

    fn decode_body(status: NfsStatus, r: &mut XdrReader<'a>) -> Result<Self, DecodeError> {
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
