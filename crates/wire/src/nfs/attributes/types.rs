//! Types that only attributes have. RFC 8881 3.3 and 5, RFC 7862 12.2, RFC 8275,
//! RFC 9754.

use crate::codec::Malformed;
use crate::nfs::limits::{LAYOUTS_MAX, LOCATIONS_MAX, PATH_COMPONENTS_MAX};
use crate::nfs::xdr::{Decode, Encode, List, XdrReader, XdrWriter, xdr_enum, xdr_struct};
use crate::nfs::{Bitmap4, NfsTime};

/// Names from the root downwards: `pathname4`.
pub type PathName<'a> = List<&'a [u8], PATH_COMPONENTS_MAX>;

/// Numbers of kinds of layouts.
pub type LayoutTypes = List<u32, LAYOUTS_MAX>;

xdr_enum! {
    /// What the change attribute is: `change_attr_type4`. RFC 7862 12.2.3.
    enum ChangeAttrType {
        /// It grows.
        MonotonicIncrease = 0,
        /// It grows by one with each change.
        VersionCounter = 1,
        /// So it does, unless there are layouts.
        VersionCounterWithoutPnfs = 2,
        /// It is a time.
        TimeMetadata = 3,
        /// It is only another one.
        Undefined = 4,
    }

    /// How a file system came to be here: `fs4_status_type`. RFC 8881 11.11.
    enum FsStatusType {
        /// It does not change.
        Fixed = 1,
        /// It is brought up to date from elsewhere.
        Updated = 2,
        /// In whole versions.
        Versioned = 3,
        /// It is written here.
        Writable = 4,
        /// It is elsewhere.
        Referral = 5,
    }
}

xdr_struct! {
    /// A file system: `fsid4`.
    #[derive(Copy, Default, Hash)]
    struct FsId {
        /// First part of its number.
        major: u64,
        /// Second part.
        minor: u64,
    }

    /// Device numbers: `specdata4`.
    #[derive(Copy, Default)]
    struct SpecData {
        /// Which driver.
        major: u32,
        /// Which of its devices.
        minor: u32,
    }

    /// Abilities of a file system: `change_policy4`.
    #[derive(Copy, Default)]
    struct ChangePolicy {
        /// First part of the number.
        major: u64,
        /// Second part.
        minor: u64,
    }

    /// Some permission bits: `mode_masked4`.
    #[derive(Copy, Default)]
    struct ModeMasked {
        /// The bits.
        value: u32,
        /// Which of them count.
        mask: u32,
    }

    /// Permission bits of a new file: `mode_umask4`. RFC 8275 4.
    #[derive(Copy, Default)]
    struct ModeUmask {
        /// The bits that the program asked for.
        mode: u32,
        /// Those that are taken away where no list is inherited.
        umask: u32,
    }

    /// A security label: `sec_label4`.
    #[derive(Copy)]
    struct SecLabel<'a> {
        /// Its format.
        format: u32,
        /// Its policy.
        policy: u32,
        /// The label.
        data: &'a [u8],
    }

    /// One place of a file system: `fs_location4`.
    #[derive(Default)]
    struct FsLocation<'a> {
        /// Servers.
        servers: List<&'a [u8], LOCATIONS_MAX>,
        /// Where it is there.
        root: PathName<'a>,
    }

    /// Places of a file system: `fs_locations4`.
    #[derive(Default)]
    struct FsLocations<'a> {
        /// Where it is here.
        root: PathName<'a>,
        /// Where it is elsewhere.
        locations: List<FsLocation<'a>, LOCATIONS_MAX>,
    }

    /// A server of a file system: `fs_locations_server4`.
    #[derive(Copy)]
    struct FsLocationsServer<'a> {
        /// How far behind it may be, in seconds.
        currency: i32,
        /// Ranks and flags. RFC 8881 11.10.1.
        info: &'a [u8],
        /// Its name.
        server: &'a [u8],
    }

    /// Servers that have it at the same place: `fs_locations_item4`.
    struct FsLocationsItem<'a> {
        /// The servers.
        entries: List<FsLocationsServer<'a>, LOCATIONS_MAX>,
        /// Where it is there.
        root: PathName<'a>,
    }

    /// Places of a file system in detail: `fs_locations_info4`.
    struct FsLocationsInfo<'a> {
        /// How paths are to be read.
        flags: u32,
        /// How long this is true, in seconds.
        valid_for: i32,
        /// Where it is here.
        root: PathName<'a>,
        /// Where it is elsewhere.
        items: List<FsLocationsItem<'a>, LOCATIONS_MAX>,
    }

    /// How a file system came to be here: `fs4_status`.
    #[derive(Copy)]
    struct FsStatus<'a> {
        /// Whether it is not here now.
        is_absent: bool,
        /// How it is kept.
        status_type: FsStatusType,
        /// Where it comes from.
        source: &'a [u8],
        /// Which version this is.
        current: &'a [u8],
        /// How old it is, in seconds.
        age: i32,
        /// When the version was made.
        version: NfsTime,
    }

    /// A layout or a wish for one: `layout_content4`, `layouthint4`, `layoutupdate4`.
    #[derive(Copy)]
    struct LayoutContent<'a> {
        /// Its kind.
        layout_type: u32,
        /// What the kind puts there.
        body: &'a [u8],
    }

    /// From which sizes one kind of layout is worth it: `threshold_item4`.
    #[derive(Copy)]
    struct ThresholdItem<'a> {
        /// The kind.
        layout_type: u32,
        /// Which hints there are.
        hint_set: Bitmap4,
        /// The hints.
        hints: &'a [u8],
    }

    /// From which sizes layouts are worth it: `mdsthreshold4`.
    struct MdsThreshold<'a> {
        /// By kind.
        hints: List<ThresholdItem<'a>, LAYOUTS_MAX>,
    }

    /// How long a file is retained: `retention_get4`.
    struct RetentionGet {
        /// In seconds.
        duration: u64,
        /// Since when.
        begin_time: List<NfsTime, 1>,
    }

    /// How long a file shall be retained: `retention_set4`.
    struct RetentionSet {
        /// Whether it shall be.
        enable: bool,
        /// In seconds.
        duration: List<u64, 1>,
    }

    /// What OPEN supports, as sets: `open_arguments4`. RFC 9754 3.
    #[derive(Copy, Default)]
    struct OpenArguments {
        /// Kinds of access.
        share_access: Bitmap4,
        /// Kinds of denial.
        share_deny: Bitmap4,
        /// Wishes for delegations.
        share_access_want: Bitmap4,
        /// Claims.
        open_claim: Bitmap4,
        /// Ways to create.
        create_mode: Bitmap4,
    }
}

/// A time to be set: `settime4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// That of the server.
    Server,
    /// This one.
    Client(NfsTime),
}

impl Decode<'_> for SetTime {
    fn decode(r: &mut XdrReader<'_>) -> Result<Self, Malformed> {
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
