//! One request of a frame, and the state that related requests inherit. MS-SMB2 3.3.5.2.7.

use crate::opens::open::Open;
use crate::session::channel::SessionChannel;
use meter::ShareId;
use std::ops::Range;
use std::sync::Arc;
use wire::ntstatus::NtStatus;
use wire::smb::{Header, TreeId};

/// One request of a frame.
#[derive(Debug)]
pub struct Element {
    /// Byte range of the request in the frame, padding included.
    pub range: Range<usize>,
    /// Request header; related requests have inherited session and tree filled in.
    pub header: Header,
    /// The session's channel.
    pub channel: Option<Arc<SessionChannel>>,
    /// The status of a refusal that precedes dispatch.
    pub refused: Option<NtStatus>,
    /// Credits that the response grants.
    pub grant: u16,
}

/// State that a related request inherits from its predecessors.
#[derive(Debug, Default)]
pub struct RelatedState {
    /// The open of the last request that named one.
    pub open: Option<Arc<Open>>,
    /// The status of the CREATE that failed to produce an open.
    pub failed: Option<NtStatus>,
    /// The tree id that a TREE_CONNECT of this chain produced.
    pub tree: Option<TreeId>,
    /// The status that all following requests share, because session or tree is missing.
    pub refused: Option<NtStatus>,
    /// The share of the last request, for metering.
    pub counted: ShareId,
}
