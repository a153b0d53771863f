//! Types that occur in attributes only. RFC 8881 3.3 and 5, RFC 7862 12.2, RFC 8275, RFC 9754.

use crate::codec::DecodeError;
use crate::nfs::limits::{LAYOUTS_MAX, LOCATIONS_MAX, PATH_COMPONENTS_MAX};
use crate::nfs::xdr::{Decode, Encode, List, XdrReader, XdrWriter, xdr_enum, xdr_struct};
use crate::nfs::{Bitmap4, NfsTime};

/// Path components from the root downwards: `pathname4`.
pub type PathName<'a> = List<&'a [u8], PATH_COMPONENTS_MAX>;

/// Layout type numbers.
pub type LayoutTypes = List<u32, LAYOUTS_MAX>;

xdr_enum! {
    /// Behaviour of the change attribute: `change_attr_type4`. RFC 7862 12.2.3.
    enum ChangeAttrType {
        /// Increases with each change.
        MonotonicIncrease = 0,
        /// Increases by one with each change.
        VersionCounter = 1,
        /// Increases by one with each change, except under a pNFS layout.
        VersionCounterWithoutPnfs = 2,
        /// Is the time of the last metadata change.
        TimeMetadata = 3,
        /// Differs after each change, without an order.
        Undefined = 4,
    }

    /// Kind of a file system instance: `fs4_status_type`. RFC 8881 11.11.
    enum FsStatusType {
        /// Immutable.
        Fixed = 1,
        /// Updated from another instance.
        Updated = 2,
        /// Updated from another instance in complete versions.
        Versioned = 3,
        /// Writable.
        Writable = 4,
        /// A referral to another server.
        Referral = 5,
    }
}

xdr_struct! {
    /// A file system: `fsid4`.
    #[derive(Copy, Default, Hash)]
    struct FsId {
        /// First part of the identifier.
        major: u64,
        /// Second part of the identifier.
        minor: u64,
    }

    /// Device numbers: `specdata4`.
    #[derive(Copy, Default)]
    struct SpecData {
        /// Major device number.
        major: u32,
        /// Minor device number.
        minor: u32,
    }

    /// Change policy of a file system: `change_policy4`.
    #[derive(Copy, Default)]
    struct ChangePolicy {
        /// First part of the value.
        major: u64,
        /// Second part of the value.
        minor: u64,
    }

    /// Permission bits under a mask: `mode_masked4`.
    #[derive(Copy, Default)]
    struct ModeMasked {
        /// The bits.
        value: u32,
        /// The bits that apply.
        mask: u32,
    }

    /// Mode of a new file: `mode_umask4`. RFC 8275 4.
    #[derive(Copy, Default)]
    struct ModeUmask {
        /// The requested mode.
        mode: u32,
        /// Bits to clear, unless the file inherits an ACL.
        umask: u32,
    }

    /// A security label: `sec_label4`.
    #[derive(Copy)]
    struct SecLabel<'a> {
        /// Label format.
        format: u32,
        /// Label policy.
        policy: u32,
        /// The label.
        data: &'a [u8],
    }

    /// One location of a file system: `fs_location4`.
    #[derive(Default)]
    struct FsLocation<'a> {
        /// Servers.
        servers: List<&'a [u8], LOCATIONS_MAX>,
        /// Path on those servers.
        root: PathName<'a>,
    }

    /// Locations of a file system: `fs_locations4`.
    #[derive(Default)]
    struct FsLocations<'a> {
        /// Path on this server.
        root: PathName<'a>,
        /// Other locations.
        locations: List<FsLocation<'a>, LOCATIONS_MAX>,
    }

    /// A server of a file system: `fs_locations_server4`.
    #[derive(Copy)]
    struct FsLocationsServer<'a> {
        /// Maximum delay of its contents, in seconds.
        currency: i32,
        /// Ranks and flags. RFC 8881 11.10.1.
        info: &'a [u8],
        /// Its host name.
        server: &'a [u8],
    }

    /// Servers that share a root path: `fs_locations_item4`.
    struct FsLocationsItem<'a> {
        /// The servers.
        entries: List<FsLocationsServer<'a>, LOCATIONS_MAX>,
        /// Path on those servers.
        root: PathName<'a>,
    }

    /// Detailed locations of a file system: `fs_locations_info4`.
    struct FsLocationsInfo<'a> {
        /// How clients interpret paths.
        flags: u32,
        /// Validity of this information, in seconds.
        valid_for: i32,
        /// Path on this server.
        root: PathName<'a>,
        /// Other locations.
        items: List<FsLocationsItem<'a>, LOCATIONS_MAX>,
    }

    /// Status of a file system instance: `fs4_status`.
    #[derive(Copy)]
    struct FsStatus<'a> {
        /// True if the file system is currently absent from this server.
        is_absent: bool,
        /// Kind of the instance.
        status_type: FsStatusType,
        /// Its source.
        source: &'a [u8],
        /// Its version.
        current: &'a [u8],
        /// Age of the version, in seconds.
        age: i32,
        /// Creation time of the version.
        version: NfsTime,
    }

    /// A layout or a layout hint: `layout_content4`, `layouthint4`, `layoutupdate4`.
    #[derive(Copy)]
    struct LayoutContent<'a> {
        /// Layout type.
        layout_type: u32,
        /// Type-specific body.
        body: &'a [u8],
    }

    /// Thresholds of one layout type: `threshold_item4`.
    #[derive(Copy)]
    struct ThresholdItem<'a> {
        /// Layout type.
        layout_type: u32,
        /// The hints that are present.
        hint_set: Bitmap4,
        /// The hints.
        hints: &'a [u8],
    }

    /// File sizes from which a layout is recommended: `mdsthreshold4`.
    struct MdsThreshold<'a> {
        /// Hints per layout type.
        hints: List<ThresholdItem<'a>, LAYOUTS_MAX>,
    }

    /// Retention of a file: `retention_get4`.
    struct RetentionGet {
        /// Duration, in seconds.
        duration: u64,
        /// Start time.
        begin_time: List<NfsTime, 1>,
    }

    /// Requested retention of a file: `retention_set4`.
    struct RetentionSet {
        /// Enables the retention.
        enable: bool,
        /// Duration, in seconds.
        duration: List<u64, 1>,
    }

    /// Values that OPEN supports, as sets: `open_arguments4`. RFC 9754 3.
    #[derive(Copy, Default)]
    struct OpenArguments {
        /// Share access bits.
        share_access: Bitmap4,
        /// Share deny bits.
        share_deny: Bitmap4,
        /// Delegation want bits.
        share_access_want: Bitmap4,
        /// Claims.
        open_claim: Bitmap4,
        /// Create modes.
        create_mode: Bitmap4,
    }
}

/// A time to set: `settime4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The server's current time.
    Server,
    /// This time.
    Client(NfsTime),
}

impl Decode<'_> for SetTime {
    fn decode(r: &mut XdrReader<'_>) -> Result<Self, DecodeError> {
        match r.u32("time_how")? {
            0 => Ok(Self::Server),
            1 => r.get().map(Self::Client),
            _ => Err(r.malformed("time_how")),
        }
    }
}

impl Encode for SetTime {
    fn encode(&self, w: &mut XdrWriter<'_>) {
        match self {
            Self::Server => w.u32(0),
            Self::Client(time) => {
                w.u32(1);
                w.put(time);
            }
        }
    }
}
