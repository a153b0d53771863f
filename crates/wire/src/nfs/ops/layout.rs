//! pNFS layouts: LAYOUTGET, LAYOUTRETURN, LAYOUTCOMMIT, LAYOUTERROR, LAYOUTSTATS, GETDEVICEINFO,
//! GETDEVICELIST. RFC 8881 18.40 to 18.44, RFC 7862 15.6, 15.7. Type-specific contents remain
//! encoded.

use crate::codec::DecodeError;
use crate::nfs::attributes::LayoutContent;
use crate::nfs::limits::LAYOUTS_MAX;
use crate::nfs::reply::ResultBody;
use crate::nfs::xdr::{Decode, Encode, List, XdrReader, XdrWriter, xdr_enum, xdr_struct};
use crate::nfs::{Bitmap4, NfsStatus, NfsTime, OperationNumber, StateId, Verifier};

xdr_enum! {
    /// I/O mode of a layout: `layoutiomode4`.
    enum LayoutIoMode {
        /// To read.
        Read = 1,
        /// To read and write.
        ReadWrite = 2,
        /// Either; in LAYOUTRETURN and layout recalls only.
        Any = 3,
    }
}

/// Device id: `deviceid4`.
pub type DeviceId = [u8; 16];

xdr_struct! {
    /// A layout of a byte range: `layout4`.
    #[derive(Copy)]
    struct PnfsLayout<'a> {
        /// Offset of the first byte.
        offset: u64,
        /// Length, in bytes.
        length: u64,
        /// I/O mode.
        io_mode: LayoutIoMode,
        /// Type-specific body.
        content: LayoutContent<'a>,
    }

    /// LAYOUTGET's arguments.
    #[derive(Copy)]
    struct LayoutGetArgs {
        /// The client wants a notification when a layout becomes available.
        signal_available: bool,
        /// Layout type.
        layout_type: u32,
        /// I/O mode.
        io_mode: LayoutIoMode,
        /// Offset of the first byte.
        offset: u64,
        /// Wanted length, in bytes.
        length: u64,
        /// Minimum length, in bytes.
        length_min: u64,
        /// State id of the open or layout.
        state_id: StateId,
        /// Maximum length of the reply, in bytes.
        bytes_max: u32,
    }

    /// LAYOUTGET's results.
    struct LayoutGetResult<'a> {
        /// True if the last CLOSE returns the layouts implicitly.
        return_on_close: bool,
        /// State id of the layouts.
        state_id: StateId,
        /// The layouts.
        layouts: List<PnfsLayout<'a>, LAYOUTS_MAX>,
    }

    /// LAYOUTCOMMIT's arguments.
    #[derive(Copy)]
    struct LayoutCommitArgs<'a> {
        /// Offset of the first byte.
        offset: u64,
        /// Length, in bytes.
        length: u64,
        /// True if the client reclaims after a server restart.
        reclaim: bool,
        /// State id of the layouts.
        state_id: StateId,
        /// Offset of the last byte written.
        last_write_offset: Option<u64>,
        /// Modification time.
        time_modify: Option<NfsTime>,
        /// Type-specific body.
        update: LayoutContent<'a>,
    }

    /// LAYOUTCOMMIT's results.
    #[derive(Copy)]
    struct LayoutCommitResult {
        /// The file's new size, if it changed, in bytes.
        new_size: Option<u64>,
    }

    /// LAYOUTRETURN's arguments.
    #[derive(Copy)]
    struct LayoutReturnArgs<'a> {
        /// True if the client reclaims after a server restart.
        reclaim: bool,
        /// Layout type.
        layout_type: u32,
        /// I/O mode.
        io_mode: LayoutIoMode,
        /// The layouts to return.
        what: LayoutReturn<'a>,
    }

    /// Byte range of a layout return: `layoutreturn_file4`.
    #[derive(Copy)]
    struct LayoutReturnFile<'a> {
        /// Offset of the first byte.
        offset: u64,
        /// Length, in bytes.
        length: u64,
        /// State id of the layouts.
        state_id: StateId,
        /// Type-specific body.
        body: &'a [u8],
    }

    /// LAYOUTRETURN's results.
    #[derive(Copy)]
    struct LayoutReturnResult {
        /// State id of the remaining layouts.
        state_id: Option<StateId>,
    }

    /// An error of a device: `device_error4`.
    #[derive(Copy)]
    struct DeviceError {
        /// The device.
        device_id: DeviceId,
        /// Status that the device returned.
        status: NfsStatus,
        /// The operation that failed.
        operation: OperationNumber,
    }

    /// LAYOUTERROR's arguments.
    struct LayoutErrorArgs {
        /// Offset of the first byte.
        offset: u64,
        /// Length, in bytes.
        length: u64,
        /// State id of the layouts.
        state_id: StateId,
        /// The errors.
        errors: List<DeviceError, LAYOUTS_MAX>,
    }

    /// I/O counters: `io_info4`.
    #[derive(Copy)]
    struct IoInfo {
        /// Number of operations.
        count: u64,
        /// Number of bytes.
        bytes: u64,
    }

    /// LAYOUTSTATS's arguments.
    #[derive(Copy)]
    struct LayoutStatsArgs<'a> {
        /// Offset of the first byte.
        offset: u64,
        /// Length, in bytes.
        length: u64,
        /// State id of the layouts.
        state_id: StateId,
        /// Reads.
        read: IoInfo,
        /// Writes.
        write: IoInfo,
        /// The device.
        device_id: DeviceId,
        /// Type-specific body.
        update: LayoutContent<'a>,
    }

    /// GETDEVICEINFO's arguments.
    #[derive(Copy)]
    struct GetDeviceInfoArgs {
        /// The device.
        device_id: DeviceId,
        /// Layout type.
        layout_type: u32,
        /// Maximum length of the reply, in bytes.
        bytes_max: u32,
        /// Requested notification types.
        notification_types: Bitmap4,
    }

    /// GETDEVICEINFO's results.
    #[derive(Copy)]
    struct GetDeviceInfoResult<'a> {
        /// Address of the device.
        address: LayoutContent<'a>,
        /// Notification types that the server will send.
        notification_types: Bitmap4,
    }

    /// GETDEVICELIST's arguments.
    #[derive(Copy)]
    struct GetDeviceListArgs {
        /// Layout type.
        layout_type: u32,
        /// Maximum number of devices.
        devices_max: u32,
        /// Cookie to continue after.
        cookie: u64,
        /// Verifier that the server returned with the cookie.
        cookie_verifier: Verifier,
    }

    /// GETDEVICELIST's results.
    struct GetDeviceListResult {
        /// Cookie to continue after these devices.
        cookie: u64,
        /// Verifier of the cookies.
        cookie_verifier: Verifier,
        /// The devices.
        devices: List<DeviceId, LAYOUTS_MAX>,
        /// True if these are the last devices.
        is_end: bool,
    }
}

/// The layouts to return: `layoutreturn4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutReturn<'a> {
    /// Layouts of a byte range of the current file.
    File(LayoutReturnFile<'a>),
    /// All layouts of the current file system.
    FileSystem,
    /// All layouts.
    All,
}

impl<'a> Decode<'a> for LayoutReturn<'a> {
    fn decode(r: &mut XdrReader<'a>) -> Result<Self, DecodeError> {
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
    /// The layouts were granted.
    Granted(LayoutGetResult<'a>),
    /// LAYOUTTRYLATER. True if the server will notify the client when layouts are available.
    TryLater(bool),
    /// No layout.
    Failed(NfsStatus),
}

impl<'a> ResultBody<'a> for LayoutGetReply<'a> {
    fn status(&self) -> NfsStatus {
        match self {
            Self::Granted(_) => NfsStatus::OK,
            Self::TryLater(_) => NfsStatus::LAYOUTTRYLATER,
            Self::Failed(status) => *status,
        }
    }

    fn decode_body(status: NfsStatus, r: &mut XdrReader<'a>) -> Result<Self, DecodeError> {
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
    /// The device was found.
    Found(GetDeviceInfoResult<'a>),
    /// TOOSMALL: the reply needs this many bytes.
    TooSmall(u32),
    /// The device is not available.
    Failed(NfsStatus),
}

impl<'a> ResultBody<'a> for GetDeviceInfoReply<'a> {
    fn status(&self) -> NfsStatus {
        match self {
            Self::Found(_) => NfsStatus::OK,
            Self::TooSmall(_) => NfsStatus::TOOSMALL,
            Self::Failed(status) => *status,
        }
    }

    fn decode_body(status: NfsStatus, r: &mut XdrReader<'a>) -> Result<Self, DecodeError> {
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
