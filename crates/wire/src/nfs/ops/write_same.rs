//! WRITE_SAME. RFC 7862 15.12.

use crate::nfs::xdr::xdr_struct;
use crate::nfs::{StableHow, StateId};

xdr_struct! {
    /// WRITE_SAME's arguments. The result is [`super::NfsWriteResponse`].
    #[derive(Copy)]
    struct WriteSameArgs<'a> {
        /// State id that authorizes the access.
        state_id: StateId,
        /// Required durability.
        stable: StableHow,
        /// The pattern.
        block: AppDataBlock<'a>,
    }

    /// A repeated pattern: `app_data_block4`.
    #[derive(Copy)]
    struct AppDataBlock<'a> {
        /// Offset of the first block, in bytes.
        offset: u64,
        /// Size of a block, in bytes.
        block_bytes: u64,
        /// Number of blocks.
        block_count: u64,
        /// Offset of the block number in a block.
        number_offset: u64,
        /// The number of the first block.
        block_number: u32,
        /// Offset of the pattern in a block.
        pattern_offset: u64,
        /// The pattern.
        pattern: &'a [u8],
    }
}
