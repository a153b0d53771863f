//! The busiest files and clients, from a sample of requests in bounded memory.
//!
//! The algorithm is space-saving by Metwally and others: an unknown key replaces the lightest one
//! and inherits its weight. The truly heaviest keys are always present.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;
use sync::Mutex;

use crate::share::ShareId;

/// One request in this many is sampled.
pub const TOP_SAMPLE: u32 = 16;
/// Entries per kind and window.
const PLACES_MAX: usize = 256;
/// Maximum length of a stored name in bytes; its end is more significant.
const NAME_BYTES_MAX: usize = 256;
/// Length of a window in ticks of a second; two windows are retained.
const WINDOW_TICKS: u32 = 30;
/// Bytes that weigh as much as one request, like an SMB credit.
const BYTES_PER_WEIGHT: u64 = 64 * 1024;

/// Counts of one key, scaled up from the sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopCounts {
    /// Requests.
    pub requests: u64,
    /// Bytes in both directions.
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct TopSlot {
    weight: u64,
    seen: TopCounts,
}

/// Space-saving counters of a stream.
#[derive(Debug)]
struct SpaceSaving<K> {
    places: Vec<(K, TopSlot)>,
    /// Index of each key's entry.
    at: HashMap<K, usize>,
    /// Weight and index of each entry, the lightest first.
    by_weight: BTreeSet<(u64, usize)>,
}

impl<K> Default for SpaceSaving<K> {
    fn default() -> Self {
        Self { places: Vec::new(), at: HashMap::new(), by_weight: BTreeSet::new() }
    }
}

impl<K: Eq + Hash + Clone> SpaceSaving<K> {
    fn add(&mut self, key: K, bytes: u64) {
        let at = match self.at.get(&key) {
            Some(&at) => at,
            None => self.enter(key),
        };
        let place = &mut self.places[at].1;
        self.by_weight.remove(&(place.weight, at));
        place.weight += 1 + bytes / BYTES_PER_WEIGHT;
        self.by_weight.insert((place.weight, at));
        place.seen.requests += u64::from(TOP_SAMPLE);
        place.seen.bytes += bytes * u64::from(TOP_SAMPLE);
    }

    /// Adds an entry, or replaces the lightest one and inherits its weight.
    fn enter(&mut self, key: K) -> usize {
        let lightest = self.by_weight.first().copied();
        let (weight, at) = match lightest.filter(|_| self.places.len() >= PLACES_MAX) {
            Some((weight, at)) => {
                self.at.remove(&self.places[at].0);
                self.places[at] = (key.clone(), TopSlot { weight, seen: TopCounts::default() });
                (weight, at)
            }
            None => {
                self.places.push((key.clone(), TopSlot::default()));
                (0, self.places.len() - 1)
            }
        };
        self.by_weight.insert((weight, at));
        self.at.insert(key, at);
        at
    }
}

#[derive(Debug, Default)]
struct Window {
    files: SpaceSaving<(ShareId, Arc<str>)>,
    clients: SpaceSaving<IpAddr>,
}

/// The present and the previous window.
#[derive(Debug, Default)]
struct TopWindows {
    present: Window,
    before: Window,
    ticks: u32,
}

/// Busiest files and clients.
#[derive(Debug, Default)]
pub(crate) struct Top(Mutex<TopWindows>);

/// Keys with their counts, the heaviest first.
type TopList<K> = Vec<(K, TopCounts)>;

fn shortened(name: &str) -> Arc<str> {
    let from = name.len().saturating_sub(NAME_BYTES_MAX);
    let from = (from..=name.len()).find(|at| name.is_char_boundary(*at)).unwrap_or_default();
    name[from..].into()
}

impl Top {
    /// Counts a request unless the lock is taken: the counts are a sample anyway.
    pub fn add(&self, share: ShareId, file: Option<&str>, client: IpAddr, bytes: u64) {
        let Some(mut windows) = self.0.try_lock() else { return };
        if let Some(file) = file {
            windows.present.files.add((share, shortened(file)), bytes);
        }
        windows.present.clients.add(client, bytes);
    }

    /// Advances the window by a second.
    pub fn tick(&self) {
        let mut windows = self.0.lock();
        windows.ticks += 1;
        if windows.ticks == WINDOW_TICKS {
            windows.ticks = 0;
            windows.before = std::mem::take(&mut windows.present);
        }
    }

    /// The heaviest files of the last 30 to 60 seconds.
    pub fn files(&self, count: usize) -> TopList<(ShareId, Arc<str>)> {
        self.ranked(count, |window| &window.files)
    }

    /// As [`Top::files`].
    pub fn clients(&self, count: usize) -> TopList<IpAddr> {
        self.ranked(count, |window| &window.clients)
    }

    fn ranked<K: Eq + Hash + Clone + Ord>(
        &self,
        count: usize,
        of: impl Fn(&Window) -> &SpaceSaving<K>,
    ) -> TopList<K> {
        let windows = self.0.lock();
        let mut sums: HashMap<K, TopSlot> = HashMap::new();
        for (key, place) in [&windows.present, &windows.before].iter().flat_map(|w| &of(w).places) {
            let sum = sums.entry(key.clone()).or_default();
            sum.weight += place.weight;
            sum.seen.requests += place.seen.requests;
            sum.seen.bytes += place.seen.bytes;
        }
        drop(windows);
        let mut ranked: Vec<(K, TopSlot)> = sums.into_iter().collect();
        ranked.sort_by(|(a, x), (b, y)| y.weight.cmp(&x.weight).then_with(|| a.cmp(b)));
        ranked.truncate(count);
        ranked.into_iter().map(|(key, place)| (key, place.seen)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn frequent_key_is_found_among_many() {
        let top = Top::default();
        for at in 0..20_000 {
            top.add(ShareId::NONE, Some(&format!("passing {at}")), HERE, 0);
            if at % 10 == 0 {
                top.add(ShareId::NONE, Some("asked"), HERE, 10);
            }
        }
        let files = top.files(3);
        assert_eq!((&*files[0].0.1, files.len()), ("asked", 3));
        assert_eq!(files[0].1.bytes, files[0].1.requests * 10);
        assert!(top.0.lock().present.files.places.len() <= PLACES_MAX);
        assert_eq!(
            top.clients(9),
            [(HERE, TopCounts { requests: 16 * 22_000, bytes: 16 * 20_000 })]
        );
    }

    #[test]
    fn large_requests_weigh_more_and_old_windows_expire() {
        let top = Top::default();
        top.add(ShareId::NONE, Some("large"), HERE, 1 << 20);
        (0..5).for_each(|_| top.add(ShareId::NONE, Some("small"), HERE, 1));
        assert_eq!(&*top.files(1)[0].0.1, "large");
        (0..WINDOW_TICKS).for_each(|_| top.tick());
        assert_eq!(top.files(9).len(), 2, "the window before counts, too");
        (0..WINDOW_TICKS).for_each(|_| top.tick());
        assert!(top.files(9).is_empty());
    }

    #[test]
    fn long_name_keeps_its_end() {
        let name = format!("{}end", "ä".repeat(NAME_BYTES_MAX));
        let kept = shortened(&name);
        assert!(kept.len() <= NAME_BYTES_MAX && kept.ends_with("äend"));
        assert_eq!(&*shortened("short"), "short");
    }
}
