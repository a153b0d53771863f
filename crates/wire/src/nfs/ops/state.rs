//! Validity of state ids: TEST_STATEID, FREE_STATEID. RFC 8881 18.38, 18.48.

use crate::nfs::limits::TEST_STATE_IDS_MAX;
use crate::nfs::xdr::{List, xdr_struct};
use crate::nfs::{NfsStatus, StateId};

xdr_struct! {
    /// TEST_STATEID's arguments.
    struct TestStateIdArgs {
        /// State ids to test.
        state_ids: List<StateId, TEST_STATE_IDS_MAX>,
    }

    /// TEST_STATEID's results.
    struct TestStateIdResult {
        /// The status of each, in the same order.
        statuses: List<NfsStatus, TEST_STATE_IDS_MAX>,
    }

    /// FREE_STATEID's arguments.
    #[derive(Copy)]
    struct FreeStateIdArgs {
        /// State id to free.
        state_id: StateId,
    }
}
