//! What became of state: TEST_STATEID, FREE_STATEID. RFC 8881 18.38, 18.48.

use crate::nfs::limits::TEST_STATE_IDS_MAX;
use crate::nfs::xdr::{List, xdr_struct};
use crate::nfs::{NfsStatus, StateId};

xdr_struct! {
    /// TEST_STATEID's arguments.
    struct TestStateIdArgs {
        /// Whose state is asked for.
        state_ids: List<StateId, TEST_STATE_IDS_MAX>,
    }

    /// TEST_STATEID's results.
    struct TestStateIdResult {
        /// The state of each, in the same order.
        statuses: List<NfsStatus, TEST_STATE_IDS_MAX>,
    }

    /// FREE_STATEID's arguments.
    #[derive(Copy)]
    struct FreeStateIdArgs {
        /// What will not be used any more.
        state_id: StateId,
    }
}
