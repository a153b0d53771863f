//! Share classes, and the limits that follow from class and size. The figures are those of Azure
//! Files: "Understanding billing" and "Scalability and performance targets".

/// MiB in bytes.
pub const MIB: u64 = 1 << 20;
/// GiB in bytes.
pub const GIB: u64 = 1 << 30;

/// Smallest provisioned size of a share with a class, in GiB.
pub const PROVISIONED_GIB_MIN: u64 = 100;
/// Largest provisioned size, in GiB.
pub const PROVISIONED_GIB_MAX: u64 = 262_144;
/// Duration of burst IOPS from full credits, in seconds.
const BURST_SECONDS: u64 = 3600;
/// Upper bounds of a share on solid-state drives.
const PREMIUM_IOPS_MAX: u64 = 102_400;
const PREMIUM_MIB_MAX: u64 = 10_340;
/// Burst IOPS of the smallest share.
const PREMIUM_BURST_MIN: u64 = 10_000;
/// Upper bounds of a share on disks.
const STANDARD_IOPS_MAX: u64 = 50_000;
const STANDARD_MIB_MAX: u64 = 5_120;
/// Metadata operations a second, without and with a metadata cache.
const METADATA_IOPS: u64 = 12_000;
const METADATA_IOPS_CACHED: u64 = 35_000;
/// Handles of the share's root, and of any other file or directory.
const ROOT_HANDLES: u32 = 10_000;
const FILE_HANDLES: u32 = 2_000;

/// Performance class of a share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PerformanceClass {
    /// Like a share on disks.
    Standard,
    /// Like a share on solid-state drives.
    Premium,
    /// Limited by its own limits only; unlimited by default.
    #[default]
    Custom,
}

impl PerformanceClass {
    /// Its name in configurations.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Premium => "premium",
            Self::Custom => "custom",
        }
    }

    /// The class of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::Standard, Self::Premium, Self::Custom].into_iter().find(|c| c.name() == name)
    }

    /// True if a session may use multichannel on such a share.
    #[must_use]
    pub fn has_multichannel(self) -> bool {
        self != Self::Standard
    }
}

/// Limits for one second; none means unlimited. Throughput is in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Operations of any kind.
    pub iops: Option<u64>,
    /// Read operations.
    pub read_iops: Option<u64>,
    /// Write operations.
    pub write_iops: Option<u64>,
    /// Bytes read and written.
    pub bandwidth: Option<u64>,
    /// Bytes written to the share.
    pub ingress: Option<u64>,
    /// Bytes read from the share.
    pub egress: Option<u64>,
}

impl Rates {
    fn or(self, other: Self) -> Self {
        Self {
            iops: self.iops.or(other.iops),
            read_iops: self.read_iops.or(other.read_iops),
            write_iops: self.write_iops.or(other.write_iops),
            bandwidth: self.bandwidth.or(other.bandwidth),
            ingress: self.ingress.or(other.ingress),
            egress: self.egress.or(other.egress),
        }
    }
}

/// All limits of a share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The share as a whole.
    pub share: Rates,
    /// Operations a second while burst credits last; none without bursts.
    pub burst_iops: Option<u64>,
    /// Metadata operations a second. They count towards [`Rates::iops`] as well.
    pub metadata_iops: Option<u64>,
    /// Limits of each file.
    pub file: Rates,
    /// Open handles of the root.
    pub root_handles: Option<u32>,
    /// Open handles of each other file or directory.
    pub file_handles: Option<u32>,
}

impl Limits {
    /// True if any limit is set.
    #[must_use]
    pub fn is_any(&self) -> bool {
        *self != Self::default()
    }

    /// Largest number of burst credits, in operations.
    #[must_use]
    pub fn credits_max(&self) -> u64 {
        let (Some(base), Some(burst)) = (self.share.iops, self.burst_iops) else { return 0 };
        burst.saturating_sub(base).saturating_mul(BURST_SECONDS)
    }

    fn or(self, other: Self) -> Self {
        Self {
            share: self.share.or(other.share),
            burst_iops: self.burst_iops.or(other.burst_iops),
            metadata_iops: self.metadata_iops.or(other.metadata_iops),
            file: self.file.or(other.file),
            root_handles: self.root_handles.or(other.root_handles),
            file_handles: self.file_handles.or(other.file_handles),
        }
    }
}

/// The provisioning of a share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Provision {
    /// Its class.
    pub class: PerformanceClass,
    /// Its size in GiB.
    pub gib: Option<u64>,
    /// Operations a second that are provisioned independently of the size.
    pub iops: Option<u64>,
    /// Throughput that is provisioned independently of the size, in MiB a second.
    pub mib_per_second: Option<u64>,
    /// A metadata cache is provisioned.
    pub metadata_cache: bool,
    /// Limits that override those of the class.
    pub own: Limits,
}

impl Provision {
    /// Its size in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> Option<u64> {
        self.gib.map(|gib| gib.saturating_mul(GIB))
    }

    /// The effective limits.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let preset = match self.class {
            PerformanceClass::Premium => self.premium(),
            PerformanceClass::Standard => self.standard(),
            PerformanceClass::Custom => Limits::default(),
        };
        self.own.or(preset)
    }

    /// The provisioned v2 model with its own figures, else the provisioned v1 model.
    fn premium(&self) -> Limits {
        let gib = self.gib.unwrap_or(PROVISIONED_GIB_MIN);
        let is_bought = self.iops.is_some() || self.mib_per_second.is_some();
        let base = (3000 + gib).min(PREMIUM_IOPS_MAX);
        let iops = self.iops.map_or(base, |iops| iops.min(PREMIUM_IOPS_MAX));
        // 100 + CEIL(.04) + CEIL(.06), in whole numbers.
        let mib = 100 + (4 * gib).div_ceil(100) + (6 * gib).div_ceil(100);
        let mib = self.mib_per_second.unwrap_or(mib).min(PREMIUM_MIB_MAX);
        let burst = PREMIUM_BURST_MIN.max(3 * gib).min(PREMIUM_IOPS_MAX);
        Limits {
            share: Rates { iops: Some(iops), bandwidth: Some(mib * MIB), ..Rates::default() },
            burst_iops: (!is_bought).then_some(burst),
            file: Rates { iops: Some(8000), bandwidth: Some(1024 * MIB), ..Rates::default() },
            ..self.common()
        }
    }

    fn standard(&self) -> Limits {
        let gib = self.gib.unwrap_or(PROVISIONED_GIB_MIN);
        let iops = self.iops.unwrap_or(1000 + gib / 5).clamp(500, STANDARD_IOPS_MAX);
        let mib = self.mib_per_second.unwrap_or(60 + gib / 50).min(STANDARD_MIB_MAX);
        Limits {
            share: Rates { iops: Some(iops), bandwidth: Some(mib * MIB), ..Rates::default() },
            file: Rates { iops: Some(1000), bandwidth: Some(60 * MIB), ..Rates::default() },
            ..self.common()
        }
    }

    fn common(&self) -> Limits {
        let metadata = if self.metadata_cache { METADATA_IOPS_CACHED } else { METADATA_IOPS };
        Limits {
            metadata_iops: Some(metadata),
            root_handles: Some(ROOT_HANDLES),
            file_handles: Some(FILE_HANDLES),
            ..Limits::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn premium(gib: u64) -> Limits {
        Provision { class: PerformanceClass::Premium, gib: Some(gib), ..Provision::default() }
            .limits()
    }

    #[test]
    fn premium_share_gets_the_limits_of_its_size() {
        // Size in GiB; baseline, burst, throughput.
        let table = [
            (100, 3_100, 10_000, 110),
            (1_024, 4_024, 10_000, 203),
            (5_120, 8_120, 15_360, 613),
            (10_240, 13_240, 30_720, 1_125),
            (102_400, 102_400, 102_400, 10_340),
        ];
        for (gib, base, burst, mib) in table {
            let limits = premium(gib);
            assert_eq!(limits.share.iops, Some(base), "{gib} GiB");
            assert_eq!(limits.burst_iops, Some(burst), "{gib} GiB");
            assert_eq!(limits.share.bandwidth, Some(mib * MIB), "{gib} GiB");
        }
        assert_eq!(premium(100).credits_max(), 24_840_000);
        assert_eq!(premium(102_400).credits_max(), 0);
    }

    #[test]
    fn provisioned_limits_ignore_the_size_and_have_no_burst() {
        let bought = Provision {
            class: PerformanceClass::Premium,
            gib: Some(100),
            iops: Some(20_000),
            mib_per_second: Some(900),
            ..Provision::default()
        };
        let limits = bought.limits();
        assert_eq!((limits.share.iops, limits.burst_iops), (Some(20_000), None));
        assert_eq!(limits.share.bandwidth, Some(900 * MIB));
        assert_eq!(limits.credits_max(), 0);
        let too_many = Provision { iops: Some(1 << 40), ..bought };
        assert_eq!(too_many.limits().share.iops, Some(102_400));
    }

    #[test]
    fn metadata_cache_raises_the_metadata_limit() {
        let without = Provision { class: PerformanceClass::Premium, ..Provision::default() };
        let with = Provision { metadata_cache: true, ..without };
        assert_eq!(without.limits().metadata_iops, Some(12_000));
        assert_eq!(with.limits().metadata_iops, Some(35_000));
    }

    #[test]
    fn own_limits_override_the_class() {
        let rates = Rates { iops: Some(7), egress: Some(9), ..Rates::default() };
        let own = Limits { share: rates, ..Limits::default() };
        let provision = Provision {
            class: PerformanceClass::Standard,
            gib: Some(1000),
            own,
            ..Provision::default()
        };
        let limits = provision.limits();
        assert_eq!((limits.share.iops, limits.share.egress), (Some(7), Some(9)));
        assert_eq!(limits.share.bandwidth, Some(80 * MIB));
        assert_eq!(limits.file.iops, Some(1000));
        let custom = Provision { class: PerformanceClass::Custom, ..provision };
        assert_eq!(custom.limits(), own);
        assert!(!Provision::default().limits().is_any());
    }

    #[test]
    fn class_names_round_trip() {
        for class in
            [PerformanceClass::Standard, PerformanceClass::Premium, PerformanceClass::Custom]
        {
            assert_eq!(PerformanceClass::of_name(class.name()), Some(class));
        }
        assert_eq!(PerformanceClass::of_name("gold"), None);
        assert!(
            !PerformanceClass::Standard.has_multichannel()
                && PerformanceClass::Premium.has_multichannel()
        );
    }
}
