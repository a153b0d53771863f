//! Recording of the requests that reached a disk, and the disk's content after a power loss.

use super::image::{BLOCK_BYTES, DiskImage, pieces};
use anyhow::{Context, Result, bail};
use std::fmt;
use std::io::{Read, Write};
use std::str::FromStr;
use std::sync::Arc;

/// A request that a disk has completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskRequest {
    /// Data at an offset in bytes.
    Write(u64, Arc<[u8]>),
    /// A discard: offset and length in bytes.
    Zero(u64, u64),
    /// All requests before it are on stable storage.
    Flush,
}

/// A completed request and when it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedRequest {
    /// Nanoseconds of CLOCK_MONOTONIC.
    pub arrived_ns: u64,
    /// The request.
    pub request: DiskRequest,
}

/// All requests of a disk that was empty before them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskRecording {
    requests: Vec<RecordedRequest>,
}

/// The effect of a power loss on the requests that no flush followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UnflushedFate {
    /// None reached stable storage.
    Dropped,
    /// All of them did.
    Kept,
    /// A random choice of their blocks did, by this seed.
    Partial(u64),
}

/// Point of the cut: before the request of this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CutPoint {
    /// Requests that the disk has completed.
    pub at: usize,
    /// The fate of the requests that no flush followed.
    pub unflushed: UnflushedFate,
}

impl fmt::Display for CutPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.unflushed {
            UnflushedFate::Dropped => write!(f, "{}:dropped", self.at),
            UnflushedFate::Kept => write!(f, "{}:kept", self.at),
            UnflushedFate::Partial(seed) => write!(f, "{}:partial:{seed}", self.at),
        }
    }
}

impl FromStr for CutPoint {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut parts = text.split(':');
        let at = parts.next().unwrap_or_default().parse().context("number of a request")?;
        let unflushed = match (parts.next(), parts.next()) {
            (Some("dropped"), None) => UnflushedFate::Dropped,
            (Some("kept"), None) => UnflushedFate::Kept,
            (Some("partial"), Some(seed)) => UnflushedFate::Partial(seed.parse().context("seed")?),
            _ => bail!("a cut is NUMBER:dropped, NUMBER:kept or NUMBER:partial:SEED"),
        };
        Ok(Self { at, unflushed })
    }
}

/// SplitMix64: the same numbers for the same seed, everywhere.
#[derive(Clone, Copy, Debug)]
pub struct SplitMix(pub u64);

impl SplitMix {
    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which is not zero.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

impl DiskRecording {
    /// Appends a completed request.
    pub fn push(&mut self, arrived_ns: u64, request: DiskRequest) {
        self.requests.push(RecordedRequest { arrived_ns, request });
    }

    /// Requests that had arrived by this time, in nanoseconds of CLOCK_MONOTONIC.
    pub fn count_until(&self, time_ns: u64) -> usize {
        self.requests.partition_point(|one| one.arrived_ns <= time_ns)
    }

    /// Number of the first request that no flush before `at` covers.
    pub fn flushed_before(&self, at: usize) -> usize {
        let flush = self.requests[..at].iter().rposition(|r| r.request == DiskRequest::Flush);
        flush.map_or(0, |flush| flush + 1)
    }

    /// Numbers of all flushes.
    pub fn flushes(&self) -> impl Iterator<Item = usize> {
        let numbered = self.requests.iter().enumerate();
        numbered.filter(|(_, one)| one.request == DiskRequest::Flush).map(|(number, _)| number)
    }

    /// Writes the recording: the number of requests, then for each its time and either 0, offset,
    /// length and data (write), or 1, offset and length (discard), or 2 (flush). Numbers have 8 bytes.
    pub fn save(&self, out: &mut impl Write) -> Result<()> {
        out.write_all(&(self.requests.len() as u64).to_le_bytes())?;
        for one in &self.requests {
            let (kind, numbers, data): (u64, &[u64], &[u8]) = match &one.request {
                DiskRequest::Write(offset, data) => (0, &[*offset, data.len() as u64], data),
                DiskRequest::Zero(offset, length) => (1, &[*offset, *length], &[]),
                DiskRequest::Flush => (2, &[], &[]),
            };
            for number in [one.arrived_ns, kind].iter().chain(numbers) {
                out.write_all(&number.to_le_bytes())?;
            }
            out.write_all(data)?;
        }
        Ok(out.flush()?)
    }

    /// Reads what [`DiskRecording::save`] has written.
    pub fn load(input: &mut impl Read) -> Result<Self> {
        let mut recording = Self::default();
        for _ in 0..number(input)? {
            let arrived_ns = number(input)?;
            let request = match number(input)? {
                0 => {
                    let offset = number(input)?;
                    let mut data = vec![0; usize::try_from(number(input)?)?];
                    input.read_exact(&mut data)?;
                    DiskRequest::Write(offset, data.into())
                }
                1 => DiskRequest::Zero(number(input)?, number(input)?),
                2 => DiskRequest::Flush,
                other => bail!("invalid recording: a request of kind {other}"),
            };
            recording.push(arrived_ns, request);
        }
        Ok(recording)
    }
}

fn number(input: &mut impl Read) -> Result<u64> {
    let mut bytes = [0; 8];
    input.read_exact(&mut bytes).context("the recording is incomplete")?;
    Ok(u64::from_le_bytes(bytes))
}

/// Builds the disks of successive cuts; fastest in ascending order.
#[derive(Debug)]
pub struct CutDisks<'a> {
    recording: &'a DiskRecording,
    stable: DiskImage,
    /// Requests that are in `stable`: up to a flush.
    flushed: usize,
}

impl<'a> CutDisks<'a> {
    /// The recording.
    pub fn new(recording: &'a DiskRecording) -> Self {
        Self { recording, stable: DiskImage::default(), flushed: 0 }
    }

    /// The disk after this cut.
    pub fn disk(&mut self, cut: CutPoint) -> DiskImage {
        let flushed = self.recording.flushed_before(cut.at);
        if flushed < self.flushed {
            (self.stable, self.flushed) = (DiskImage::default(), 0);
        }
        for one in &self.recording.requests[self.flushed..flushed] {
            apply(&mut self.stable, &one.request);
        }
        self.flushed = flushed;
        let mut disk = self.stable.clone();
        let unflushed = &self.recording.requests[flushed..cut.at];
        match cut.unflushed {
            UnflushedFate::Dropped => {}
            UnflushedFate::Kept => unflushed.iter().for_each(|one| apply(&mut disk, &one.request)),
            UnflushedFate::Partial(seed) => {
                let mut random = SplitMix(seed);
                // This many of eight blocks reach stable storage.
                let eighths = 1 + random.below(7);
                for one in unflushed {
                    apply_partial(&mut disk, &one.request, || random.below(8) < eighths);
                }
            }
        }
        disk
    }
}

fn apply(disk: &mut DiskImage, request: &DiskRequest) {
    match request {
        DiskRequest::Write(offset, data) => disk.write(*offset, data),
        DiskRequest::Zero(offset, length) => disk.zero(*offset, *length),
        DiskRequest::Flush => {}
    }
}

fn apply_partial(disk: &mut DiskImage, request: &DiskRequest, mut is_kept: impl FnMut() -> bool) {
    match request {
        DiskRequest::Write(offset, data) => {
            for (block, within, range) in pieces(*offset, data.len()) {
                if is_kept() {
                    disk.write(block * BLOCK_BYTES as u64 + within as u64, &data[range]);
                }
            }
        }
        // A discard is applied as a whole or not at all.
        DiskRequest::Zero(..) if is_kept() => apply(disk, request),
        DiskRequest::Zero(..) | DiskRequest::Flush => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(block: u64, byte: u8, blocks: usize) -> DiskRequest {
        DiskRequest::Write(block * 4096, vec![byte; blocks * 4096].into())
    }

    fn recording(requests: impl IntoIterator<Item = DiskRequest>) -> DiskRecording {
        let mut recording = DiskRecording::default();
        for (at, request) in requests.into_iter().enumerate() {
            recording.push(at as u64 * 10, request);
        }
        recording
    }

    fn blocks(disk: &DiskImage, count: usize) -> Vec<u8> {
        let mut out = vec![0; count * 4096];
        disk.read(0, &mut out);
        out.chunks(4096).map(|block| block[0]).collect()
    }

    fn cut(at: usize, unflushed: UnflushedFate) -> CutPoint {
        CutPoint { at, unflushed }
    }

    #[test]
    fn unflushed_requests_are_dropped_kept_or_partial() {
        let recording = recording([
            written(0, 1, 1),
            DiskRequest::Flush,
            written(0, 2, 2),
            DiskRequest::Zero(0, 4096),
            written(2, 3, 1),
        ]);
        let mut disks = CutDisks::new(&recording);
        assert_eq!(blocks(&disks.disk(cut(1, UnflushedFate::Dropped)), 3), [0, 0, 0]);
        assert_eq!(blocks(&disks.disk(cut(1, UnflushedFate::Kept)), 3), [1, 0, 0]);
        assert_eq!(blocks(&disks.disk(cut(5, UnflushedFate::Dropped)), 3), [1, 0, 0]);
        assert_eq!(blocks(&disks.disk(cut(5, UnflushedFate::Kept)), 3), [0, 2, 3]);
        assert_eq!(blocks(&disks.disk(cut(3, UnflushedFate::Kept)), 3), [2, 2, 0]);
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            seen.insert(blocks(&disks.disk(cut(5, UnflushedFate::Partial(seed))), 3));
        }
        // Block 0 is 1, 2 or 0; blocks 1 and 2 are old or new.
        assert_eq!(seen.len(), 12, "{seen:?}");
    }

    #[test]
    fn cut_before_the_last_one_starts_again() {
        let recording =
            recording([written(0, 1, 1), DiskRequest::Flush, written(0, 2, 1), DiskRequest::Flush]);
        let mut disks = CutDisks::new(&recording);
        assert_eq!(blocks(&disks.disk(cut(4, UnflushedFate::Dropped)), 1), [2]);
        assert_eq!(blocks(&disks.disk(cut(3, UnflushedFate::Dropped)), 1), [1]);
        assert_eq!(blocks(&disks.disk(cut(0, UnflushedFate::Kept)), 1), [0]);
    }

    #[test]
    fn saved_recording_is_read_back() {
        let recording = recording([written(3, 1, 2), DiskRequest::Zero(1, 2), DiskRequest::Flush]);
        let mut bytes = Vec::new();
        recording.save(&mut bytes).unwrap();
        assert_eq!(DiskRecording::load(&mut &bytes[..]).unwrap(), recording);
        assert!(DiskRecording::load(&mut &bytes[..bytes.len() - 9]).is_err());
    }

    #[test]
    fn request_at_the_time_itself_counts_as_arrived() {
        let recording = recording([DiskRequest::Flush, DiskRequest::Flush, DiskRequest::Flush]);
        assert_eq!(recording.count_until(9), 1);
        assert_eq!(recording.count_until(10), 2);
        assert_eq!(recording.flushes().collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn cut_point_is_read_as_it_is_shown() {
        for text in ["5:dropped", "6:kept", "7:partial:99"] {
            assert_eq!(text.parse::<CutPoint>().unwrap().to_string(), text);
        }
        for text in ["", "5", "5:gone", "x:kept", "7:partial", "7:kept:1"] {
            assert!(text.parse::<CutPoint>().is_err(), "{text}");
        }
    }
}
