//! Layouts (pNFS): LAYOUTGET, LAYOUTRETURN, LAYOUTCOMMIT, LAYOUTERROR,
//! LAYOUTSTATS, GETDEVICEINFO, GETDEVICELIST. RFC 8881 18.40 to 18.44, RFC 7862
//! 15.6, 15.7. What a kind of layout has in it stays bytes.

use crate::codec::Malformed;
use crate::nfs::attributes::LayoutContent;
use crate::nfs::limits::LAYOUTS_MAX;
use crate::nfs::reply::Reply;
use crate::nfs::xdr::{Decode, Encode, List, XdrReader, XdrWriter, xdr_enum, xdr_struct};
use crate::nfs::{Bitmap4, NfsStatus, NfsTime, OperationNumber, StateId, Verifier};

xdr_enum! {
    /// What a layout is for: `layoutiomode4`.
    enum LayoutIoMode {
        /// To read.
        Read = 1,
        /// To read and write.
        ReadWrite = 2,
        /// Either: of those that are given back.
        Any = 3,
    }
}

/// Name of a device of layouts: `deviceid4`.
pub type DeviceId = [u8; 16];

xdr_struct! {
    /// A layout of a part of a file: `layout4`.
    #[derive(Copy)]
    struct Layout<'a> {
        /// From where, in bytes.
        offset: u64,
        /// How much, in bytes.
        length: u64,
        /// What it is for.
        io_mode: LayoutIoMode,
        /// What the kind puts there.
        content: LayoutContent<'a>,
    }

    /// LAYOUTGET's arguments.
    #[derive(Copy)]
    struct LayoutGetArgs {
        /// Whether to tell when one is to be had.
        signal_available: bool,
        /// Its kind.
        layout_type: u32,
        /// What it is for.
        io_mode: LayoutIoMode,
        /// From where, in bytes.
        offset: u64,
        /// How much is wished, in bytes.
        length: u64,
        /// How much it must be, in bytes.
        length_min: u64,
        /// As who.
        state_id: StateId,
        /// Bytes of the answer.
        bytes_max: u32,
    }

    /// LAYOUTGET's results.
    struct LayoutGetResult<'a> {
        /// Whether the layouts go with the last open.
        return_on_close: bool,
        /// Their name.
        state_id: StateId,
        /// The layouts.
        layouts: List<Layout<'a>, LAYOUTS_MAX>,
    }

    /// LAYOUTCOMMIT's arguments.
    #[derive(Copy)]
    struct LayoutCommitArgs<'a> {
        /// From where, in bytes.
        offset: u64,
        /// How much, in bytes.
        length: u64,
        /// Whether it is from before the server restarted.
        reclaim: bool,
        /// The layouts.
        state_id: StateId,
        /// The last byte that was written.
        last_write_offset: Option<u64>,
        /// When.
        time_modify: Option<NfsTime>,
        /// What the kind puts there.
        update: LayoutContent<'a>,
    }

    /// LAYOUTCOMMIT's results.
    #[derive(Copy)]
    struct LayoutCommitResult {
        /// The size of the file, if it changed, in bytes.
        new_size: Option<u64>,
    }

    /// LAYOUTRETURN's arguments.
    #[derive(Copy)]
    struct LayoutReturnArgs<'a> {
        /// Whether it is from before the server restarted.
        reclaim: bool,
        /// Their kind.
        layout_type: u32,
        /// What they are for.
        io_mode: LayoutIoMode,
        /// Which.
        what: LayoutReturn<'a>,
    }

    /// Layouts of a part of a file: `layoutreturn_file4`.
    #[derive(Copy)]
    struct LayoutReturnFile<'a> {
        /// From where, in bytes.
        offset: u64,
        /// How much, in bytes.
        length: u64,
        /// The layouts.
        state_id: StateId,
        /// What the kind puts there.
        body: &'a [u8],
    }

    /// LAYOUTRETURN's results.
    #[derive(Copy)]
    struct LayoutReturnResult {
        /// The layouts that are left.
        state_id: Option<StateId>,
    }

    /// What went wrong with a device: `device_error4`.
    #[derive(Copy)]
    struct DeviceError {
        /// The device.
        device_id: DeviceId,
        /// What it answered.
        status: NfsStatus,
        /// To what.
        operation: OperationNumber,
    }

    /// LAYOUTERROR's arguments.
    struct LayoutErrorArgs {
        /// From where, in bytes.
        offset: u64,
        /// How much, in bytes.
        length: u64,
        /// The layouts.
        state_id: StateId,
        /// What went wrong.
        errors: List<DeviceError, LAYOUTS_MAX>,
    }

    /// How much was done: `io_info4`.
    #[derive(Copy)]
    struct IoInfo {
        /// Operations.
        count: u64,
        /// Bytes.
        bytes: u64,
    }

    /// LAYOUTSTATS's arguments.
    #[derive(Copy)]
    struct LayoutStatsArgs<'a> {
        /// From where, in bytes.
        offset: u64,
        /// How much, in bytes.
        length: u64,
        /// The layouts.
        state_id: StateId,
        /// What was read.
        read: IoInfo,
        /// What was written.
        write: IoInfo,
        /// The device.
        device_id: DeviceId,
        /// What the kind puts there.
        update: LayoutContent<'a>,
    }

    /// GETDEVICEINFO's arguments.
    #[derive(Copy)]
    struct GetDeviceInfoArgs {
        /// The device.
        device_id: DeviceId,
        /// Its kind.
        layout_type: u32,
        /// Bytes of the answer.
        bytes_max: u32,
        /// What to tell of.
        notification_types: Bitmap4,
    }

    /// GETDEVICEINFO's results.
    #[derive(Copy)]
    struct GetDeviceInfoResult<'a> {
        /// Where it is.
        address: LayoutContent<'a>,
        /// What is told of.
        notification_types: Bitmap4,
    }

    /// GETDEVICELIST's arguments.
    #[derive(Copy)]
    struct GetDeviceListArgs {
        /// Their kind.
        layout_type: u32,
        /// How many at most.
        devices_max: u32,
        /// After which to go on.
        cookie: u64,
        /// What came with the cookie.
        cookie_verifier: Verifier,
    }

    /// GETDEVICELIST's results.
    struct GetDeviceListResult {
        /// Where to go on.
        cookie: u64,
        /// Goes with the cookie.
        cookie_verifier: Verifier,
        /// The devices.
        devices: List<DeviceId, LAYOUTS_MAX>,
        /// Whether they were the last.
        is_end: bool,
    }
}

/// Which layouts are given back: `layoutreturn4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutReturn<'a> {
    /// Those of a part of the current file.
    File(LayoutReturnFile<'a>),
    /// All of the current file system.
    FileSystem,
    /// All.
    All,
}

impl<'a> Decode<'a> for LayoutReturn<'a> {
    fn decode(r: &mut XdrReader<'a>) -> Result<Self, Malformed> {
        Ok(match r.u32("layoutreturn_type")? {
            1 => Self::File(r.get()?),
            2 => Self::FileSystem,
            3 => Self::All,
            _ => return Err(r.malformed("layoutreturn_type")),
        })
    }
}

impl Encode for LayoutReturn<'_> {
    fn encode(&self, w: &mut XdrWriter<'_>) {
        match self {
            Self::File(file) => {
                w.u32(1);
                w.put(file);
            }
            Self::FileSystem => w.u32(2),
            Self::All => w.u32(3),
        }
    }
}

/// LAYOUTGET's results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayoutGetReply<'a> {
    /// Layouts.
    Granted(LayoutGetResult<'a>),
    /// None now: LAYOUTTRYLATER. Whether the server tells when there are.
    TryLater(bool),
    /// None.
    Failed(NfsStatus),
}

impl<'a> Reply<'a> for LayoutGetReply<'a> {
    fn status(&self) -> NfsStatus {
        match self {
            Self::Granted(_) => NfsStatus::OK,
            Self::TryLater(_) => NfsStatus::LAYOUTTRYLATER,
            Self::Failed(status) => *status,
        }
    }

    fn decode_body(status: NfsStatus, r: &mut XdrReader<'a>) -> Result<Self, Malformed> {
        match status {
            NfsStatus::OK => r.get().map(Self::Granted),
            NfsStatus::LAYOUTTRYLATER => r.get().map(Self::TryLater),
            _ => Ok(Self::Failed(status)),
        }
    }

    fn encode_body(&self, w: &mut XdrWriter<'_>) {
        match self {
            Self::Granted(result) => w.put(result),
            Self::TryLater(will_signal) => w.put(will_signal),
            Self::Failed(_) => {}
        }
    }
}

/// GETDEVICEINFO's results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GetDeviceInfoReply<'a> {
    /// The device.
    Found(GetDeviceInfoResult<'a>),
    /// It does not fit; so many bytes would do: TOOSMALL.
    TooSmall(u32),
    /// It is not to be had.
    Failed(NfsStatus),
}

impl<'a> Reply<'a> for GetDeviceInfoReply<'a> {
    fn status(&self) -> NfsStatus {
        match self {
            Self::Found(_) => NfsStatus::OK,
            Self::TooSmall(_) => NfsStatus::TOOSMALL,
            Self::Failed(status) => *status,
        }
    }

    fn decode_body(status: NfsStatus, r: &mut XdrReader<'a>) -> Result<Self, Malformed> {
        match status {
            NfsStatus::OK => r.get().map(Self::Found),
            NfsStatus::TOOSMALL => r.get().map(Self::TooSmall),
            _ => Ok(Self::Failed(status)),
        }
    }

    fn encode_body(&self, w: &mut XdrWriter<'_>) {
        match self {
            Self::Found(result) => w.put(result),
            Self::TooSmall(bytes) => w.put(bytes),
            Self::Failed(_) => {}
        }
    }
}
