//! [`LimitsBook`]: the limits of all shares. They are created with a share and change by
//! configuration or at run time. Provisioned sizes and burst credits are persistent, because a
//! raised size stays for a day, also over a restart.

use crate::backend::SpaceMeter;
use crate::config::{ShareConfig, change_provision};
use crate::shares::credits::CreditFile;
use limits::{
    LimitsSnapshot, MeasurementStart, Provision, ProvisionedSize, ReductionTooSoon, ShareLimits,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use sync::Mutex;

/// Name in the state directory.
const FILE_NAME: &str = "share-sizes.json";

/// The limits of the shares by name.
#[derive(Debug)]
pub struct LimitsBook {
    shares: Mutex<BTreeMap<String, LimitedShare>>,
    sizes: Mutex<BTreeMap<String, ProvisionedSize>>,
    path: PathBuf,
    credits: CreditFile,
}

#[derive(Debug)]
struct LimitedShare {
    name: String,
    /// None until the share is served.
    meter: Option<Arc<dyn SpaceMeter>>,
    limits: Arc<ShareLimits>,
    /// The configured values: run-time changes last until these change.
    configured: Provision,
}

/// The meter of an opened share.
#[derive(Clone, Debug)]
pub(crate) struct OpenedMeter {
    /// Measures the used size.
    pub(crate) meter: Arc<dyn SpaceMeter>,
    /// The share was not served before, or showed another tree.
    pub(crate) is_other_tree: bool,
}

/// A measurement of a share that is to be run.
#[derive(Debug)]
pub(crate) struct Measurement {
    /// The share's name.
    pub(crate) share: String,
    /// Measures its used size.
    pub(crate) meter: Arc<dyn SpaceMeter>,
    /// For [`limits::SpaceUsage::end_measure`].
    pub(crate) start: MeasurementStart,
}

/// Reason for which limits do not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeRefusal {
    /// The share does not exist.
    NoShare,
    /// The key or the value is invalid; a sentence with the remedy.
    Wrong(String),
    /// The size was raised less than a day ago; a sentence with the remaining time.
    TooSoon(String),
}

impl LimitsBook {
    /// Reads the times of size increases and the burst credits from `folder`.
    #[must_use]
    pub fn open(folder: &Path) -> Self {
        let path = folder.join(FILE_NAME);
        let sizes = read_sizes(&path).unwrap_or_else(|error| {
            tracing::warn!(path = %path.display(), %error, "times of size increases cannot be \
                                                            read; sizes may be lowered at once");
            BTreeMap::new()
        });
        let credits = CreditFile::open(folder);
        Self { shares: Mutex::default(), sizes: Mutex::new(sizes), path, credits }
    }

    /// The limits of a share; created if it has none yet.
    #[must_use]
    pub fn of(&self, share: &ShareConfig, now: Instant) -> Arc<ShareLimits> {
        let configured = share.provision();
        let make = || {
            let provision = self.allowed(&share.name, configured);
            let limits = Arc::new(ShareLimits::new(provision, now));
            if let Some((held, away)) = self.credits.of(&key_of(&share.name), now_seconds()) {
                limits.restore_credits(held, away, now);
            }
            LimitedShare { name: share.name.clone(), meter: None, limits, configured }
        };
        self.shares.lock().entry(key_of(&share.name)).or_insert_with(make).limits.clone()
    }

    /// Checks that a new configuration lowers no size too early.
    ///
    /// # Errors
    /// A sentence with the remaining time.
    pub fn check(&self, shares: &[ShareConfig]) -> Result<(), String> {
        let sizes = self.sizes.lock();
        for share in shares {
            let known = sizes.get(&key_of(&share.name));
            if let (Some(size), Some(gib)) = (known, share.provision.gib) {
                size.change(gib, now_seconds()).map_err(|soon| sentence(&share.name, gib, soon))?;
            }
        }
        Ok(())
    }

    /// Applies the configured shares, which were opened, with their meters in the same order.
    pub(crate) fn apply(&self, shares: &[ShareConfig], meters: Vec<OpenedMeter>, now: Instant) {
        self.configure(shares, now);
        self.set_meters(shares, meters);
    }

    /// Applies the configured shares.
    pub fn configure(&self, shares: &[ShareConfig], now: Instant) {
        let mut known = self.shares.lock();
        known.retain(|key, _| shares.iter().any(|share| key_of(&share.name) == *key));
        let mut sizes = self.sizes.lock();
        let before = sizes.clone();
        for share in shares {
            let configured = share.provision();
            let key = key_of(&share.name);
            if let Some(known) = known.get_mut(&key)
                && known.configured != configured
            {
                known.configured = configured;
                known.limits.set(allowed_by(&sizes, &share.name, configured), now);
            }
            note_size(&mut sizes, &key, known.get(&key).and_then(|k| k.limits.provision().gib));
        }
        sizes.retain(|key, _| known.contains_key(key));
        if *sizes != before {
            self.write_sizes(&sizes);
        }
    }

    /// Changes limits of one share at run time, until its configuration changes. Each key is a key
    /// of the share's configuration with a value or `default`.
    ///
    /// # Errors
    /// [`ChangeRefusal`]; nothing changes then.
    pub fn change<'a>(
        &self,
        share: &str,
        keys: impl IntoIterator<Item = (&'a str, &'a str)>,
        now: Instant,
    ) -> Result<LimitsSnapshot, ChangeRefusal> {
        let (key, known) = (key_of(share), self.shares.lock());
        let known = known.get(&key).ok_or(ChangeRefusal::NoShare)?;
        let present = known.limits.provision();
        let next = change_provision(&known.name, present, keys).map_err(ChangeRefusal::Wrong)?;
        let mut sizes = self.sizes.lock();
        if let (Some(size), Some(gib)) = (sizes.get(&key), next.gib) {
            let refused = |soon| ChangeRefusal::TooSoon(sentence(&known.name, gib, soon));
            size.change(gib, now_seconds()).map_err(refused)?;
        }
        note_size(&mut sizes, &key, next.gib);
        self.write_sizes(&sizes);
        known.limits.set(next, now);
        tracing::info!(
            share = known.name,
            class = next.class.name(),
            "an administrator changed the limits of a share"
        );
        Ok(known.limits.snapshot(now))
    }

    /// The limits and usage of every share.
    #[must_use]
    pub fn snapshots(&self, now: Instant) -> Vec<(String, LimitsSnapshot)> {
        let known = self.shares.lock();
        known.values().map(|known| (known.name.clone(), known.limits.snapshot(now))).collect()
    }

    /// Sets how the used size of each share is measured. A share that shows another tree is measured
    /// anew; the others are not, because a measurement reads a whole tree.
    fn set_meters(&self, shares: &[ShareConfig], meters: Vec<OpenedMeter>) {
        let mut known = self.shares.lock();
        for (share, OpenedMeter { meter, is_other_tree }) in shares.iter().zip(meters) {
            if let Some(known) = known.get_mut(&key_of(&share.name)) {
                known.meter = Some(meter);
                if is_other_tree {
                    known.limits.space_usage().restart();
                }
            }
        }
    }

    /// The limits of the served shares that have a size limit.
    pub(crate) fn sized(&self) -> Vec<Arc<ShareLimits>> {
        let known = self.shares.lock();
        let sized = known.values().filter(|known| known.limits.size_bytes().is_some());
        let served = sized.filter(|known| known.meter.is_some());
        served.map(|known| known.limits.clone()).collect()
    }

    /// Begins a measurement of the tree that the share shows now; `None` if it is not served any more.
    pub(crate) fn begin_measure(&self, limits: &Arc<ShareLimits>) -> Option<Measurement> {
        // The lock excludes a reload between the choice of the meter and the generation.
        let known = self.shares.lock();
        let known = known.values().find(|known| Arc::ptr_eq(&known.limits, limits))?;
        let meter = known.meter.clone()?;
        let start = limits.space_usage().begin_measure();
        Some(Measurement { share: known.name.clone(), meter, start })
    }

    /// Call it about once a second.
    pub fn handle_tick(&self, now: Instant) {
        self.shares.lock().values().for_each(|known| known.limits.handle_tick(now));
    }

    /// Writes the burst credits; blocks on the disk.
    pub fn keep_credits(&self, now: Instant) {
        let held = |(key, known): (&String, &LimitedShare)| {
            Some((key.clone(), known.limits.credits(now)?))
        };
        let all: Vec<(String, u64)> = self.shares.lock().iter().filter_map(held).collect();
        self.credits.keep(all.into_iter(), now_seconds());
    }

    /// The configured limits of a share with the size that is allowed now.
    fn allowed(&self, name: &str, wanted: Provision) -> Provision {
        allowed_by(&self.sizes.lock(), name, wanted)
    }

    fn write_sizes(&self, sizes: &BTreeMap<String, ProvisionedSize>) {
        let rows = sizes.iter().map(|(key, size)| {
            (key.clone(), serde_json::json!({ "gib": size.gib, "raised": size.raised }))
        });
        let text = serde_json::Value::Object(rows.collect()).to_string();
        if let Err(error) = crate::state::directory::replace(&self.path, text.as_bytes()) {
            tracing::warn!(path = %self.path.display(), %error, "cannot store the times of size \
                                                                 increases: after a restart sizes \
                                                                 may be lowered at once");
        }
    }
}

/// Retains the former size if the reduction comes too early.
fn allowed_by(
    sizes: &BTreeMap<String, ProvisionedSize>,
    name: &str,
    wanted: Provision,
) -> Provision {
    let (Some(size), Some(gib)) = (sizes.get(&key_of(name)), wanted.gib) else { return wanted };
    match size.change(gib, now_seconds()) {
        Ok(_) => wanted,
        Err(soon) => {
            tracing::warn!("{}", sentence(name, gib, soon));
            Provision { gib: Some(soon.gib), ..wanted }
        }
    }
}

fn note_size(sizes: &mut BTreeMap<String, ProvisionedSize>, key: &str, gib: Option<u64>) {
    let Some(gib) = gib else { return };
    let next = match sizes.get(key) {
        Some(size) => size.change(gib, now_seconds()),
        None => Ok(ProvisionedSize::new(gib)),
    };
    if let Ok(next) = next {
        sizes.insert(key.to_owned(), next);
    }
}

fn sentence(
    name: &str,
    gib: u64,
    ReductionTooSoon { gib: present, from }: ReductionTooSoon,
) -> String {
    let hours = from.saturating_sub(now_seconds()).div_ceil(3600);
    format!(
        "share {name}: provisioned_gib was raised to {present} less than 24 hours ago and can be lowered to {gib} in {hours} hours; until then leave it at {present}"
    )
}

fn read_sizes(path: &Path) -> Result<BTreeMap<String, ProvisionedSize>, String> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(error.to_string()),
    };
    let rows: BTreeMap<String, BTreeMap<String, u64>> =
        serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let size = |row: &BTreeMap<String, u64>| {
        Some(ProvisionedSize { gib: *row.get("gib")?, raised: *row.get("raised")? })
    };
    Ok(rows.iter().filter_map(|(key, row)| Some((key.clone(), size(row)?))).collect())
}

/// Share names are case-insensitive.
fn key_of(name: &str) -> String {
    name.to_lowercase()
}

fn now_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ServerConfig;

    fn shares(gib: u64) -> Vec<ShareConfig> {
        let text = format!(
            "[[share]]\nname = \"Data\"\npath = \"/\"\nclass = \"premium\"\nprovisioned_gib = {gib}"
        );
        ServerConfig::parse(&text).unwrap().shares
    }

    fn size_of(book: &LimitsBook) -> Option<u64> {
        book.snapshots(Instant::now())[0].1.provision.gib
    }

    #[test]
    fn raised_size_stays_for_a_day_also_across_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let now = Instant::now();
        let book = LimitsBook::open(folder.path());
        let _ = book.of(&shares(100)[0], now);
        book.configure(&shares(100), now);
        assert_eq!(book.check(&shares(500)), Ok(()));
        book.configure(&shares(500), now);
        assert_eq!(size_of(&book), Some(500));
        let wrong = book.check(&shares(200)).unwrap_err();
        assert!(wrong.contains("can be lowered to 200 in 24 hours"), "{wrong}");
        drop(book);
        let book = LimitsBook::open(folder.path());
        let _ = book.of(&shares(200)[0], now);
        book.configure(&shares(200), now);
        assert_eq!(size_of(&book), Some(500), "what was raised stays");
        let path = folder.path().join(FILE_NAME);
        fs::write(&path, r#"{"data":{"gib":500,"raised":1000}}"#).unwrap();
        let book = LimitsBook::open(folder.path());
        let _ = book.of(&shares(200)[0], now);
        book.configure(&shares(200), now);
        assert_eq!(size_of(&book), Some(200), "a day later");
    }

    /// A meter with a known result.
    #[derive(Debug)]
    struct FixedMeter(u64);

    impl SpaceMeter for FixedMeter {
        fn used_bytes(&self) -> std::io::Result<u64> {
            Ok(self.0)
        }
    }

    #[test]
    fn reloaded_share_is_measured_where_it_is_now() {
        let (folder, now) = (tempfile::tempdir().unwrap(), Instant::now());
        let book = LimitsBook::open(folder.path());
        let limits = book.of(&shares(100)[0], now);
        assert!(book.sized().is_empty() && book.begin_measure(&limits).is_none(), "not served yet");
        let usage = limits.space_usage();
        for (bytes, is_other_tree) in [(10, true), (10, false), (20, true)] {
            let known = usage.used_bytes();
            let meter = Arc::new(FixedMeter(bytes));
            book.set_meters(&shares(100), vec![OpenedMeter { meter, is_other_tree }]);
            let expected = if is_other_tree { None } else { known };
            assert_eq!((usage.is_changed(), usage.used_bytes()), (is_other_tree, expected));
            assert!(Arc::ptr_eq(&book.sized()[0], &limits));
            let begun = book.begin_measure(&limits).unwrap();
            assert_eq!((&*begun.share, begun.meter.used_bytes().unwrap()), ("Data", bytes));
            usage.end_measure(begun.start, bytes);
        }
    }

    #[test]
    fn burst_credits_survive_a_restart_and_refill_meanwhile() {
        let (folder, now) = (tempfile::tempdir().unwrap(), Instant::now());
        let held = |book: &LimitsBook| book.of(&shares(100)[0], now).credits(now).unwrap();
        let book = LimitsBook::open(folder.path());
        assert_eq!(held(&book), 24_840_000, "a new share has all");
        let cost =
            limits::Cost { kind: limits::RequestKind::Read, operations: 20_000_000, bytes: 0 };
        assert_eq!(
            book.of(&shares(100)[0], now).take(None, cost, now),
            limits::RequestAdmission::Now
        );
        book.keep_credits(now);
        drop(book);
        let next = held(&LimitsBook::open(folder.path()));
        assert!((4_840_000..4_840_000 + 60 * 3_100).contains(&next), "{next}");
        // Credits of some time ago, as the next server finds them.
        let path = folder.path().join(crate::shares::credits::FILE_NAME);
        let write = |ago: u64| {
            let at = now_seconds() - ago;
            fs::write(&path, format!("{{\"data\":{{\"held\":5000,\"at\":{at}}}}}")).unwrap();
            held(&LimitsBook::open(folder.path()))
        };
        let later = write(600);
        assert!((5000 + 600 * 3_100..5000 + 660 * 3_100).contains(&later), "{later}");
        assert_eq!(write(24 * 3600), 24_840_000, "no more than the most");
    }

    #[test]
    fn run_time_limit_lasts_until_a_configuration_change() {
        let folder = tempfile::tempdir().unwrap();
        let now = Instant::now();
        let book = LimitsBook::open(folder.path());
        let limits = book.of(&shares(100)[0], now);
        book.configure(&shares(100), now);
        let changed = book.change("data", [("limits.iops", "50"), ("provisioned_gib", "300")], now);
        assert_eq!(changed.unwrap().limits.share.iops, Some(50));
        book.configure(&shares(100), now);
        assert_eq!(limits.provision().own.share.iops, Some(50));
        let soon = book.change("DATA", [("provisioned_gib", "200")], now).unwrap_err();
        assert!(matches!(soon, ChangeRefusal::TooSoon(_)), "{soon:?}");
        let back = book.change("data", [("limits.iops", "default")], now).unwrap();
        assert_eq!(back.limits.share.iops, Some(3300));
        assert_eq!(book.change("other", [], now), Err(ChangeRefusal::NoShare));
        let wrong = book.change("data", [("limits.iops", "fast")], now).unwrap_err();
        assert!(matches!(wrong, ChangeRefusal::Wrong(_)));
        book.configure(&shares(400), now);
        assert_eq!(limits.provision().gib, Some(400));
    }
}
