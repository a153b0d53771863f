//! Attributes, times, size and allocation size.

use crate::authorize::{as_owner, dos_authority};
use crate::frozen_times::{BasicChange, MovedTimes, TimeFreeze, TimeSetting, keep_times};
use crate::server_work::WANTED;
use crate::volume::dos;
use crate::watch::WatchFilter;
use crate::{Access, CallHolder, Caller, Object, OpenFile, RequestFiles, Volume};
use limits::LedgerAccount;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs::{
    AttributeChanges, AttributeRequest, Attributes, DosInfo, FsError, Node, Result, Space,
    TimeChange, Timestamp,
};

impl RequestFiles {
    /// Current attributes.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] if the open lacks READ_ATTRIBUTES.
    pub fn attributes(&self, open: &OpenFile) -> Result<Attributes> {
        open.need_any(Access::READ_ATTRIBUTES)?;
        self.attributes_unchecked(open)
    }

    /// Current attributes without a check of rights, for responses that contain them for every
    /// open.
    ///
    /// # Errors
    /// [`FsError::Io`].
    pub fn attributes_unchecked(&self, open: &OpenFile) -> Result<Attributes> {
        let attributes = open.with_final_access_time(open.present().attributes(WANTED)?);
        Ok(open.presented(open.with_link_kind(attributes)))
    }

    /// Sets times and DOS attributes.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] if the open lacks the right, [`FsError::InvalidParameter`] for
    /// attributes that contradict the kind of file, [`FsError::ReadOnly`].
    pub fn set_attributes(&self, open: &OpenFile, change: &BasicChange) -> Result<()> {
        open.need_any(Access::WRITE_ATTRIBUTES)?;
        open.need_writable()?;
        let change = &settled(open, change);
        let present = open.present().attributes(WANTED)?;
        let mut stored = DosInfo::default();
        if let Some(bits) = change.dos_bits {
            stored.bits = Some(merge_bits(open, &present, bits)?);
        }
        if let TimeSetting::Set(created) = change.created {
            stored.created = Some(created);
        }
        let frozen_times = (!open.is_posix()).then(|| open.frozen_times_or_default());
        let mut frozen = frozen_times.map(|times| times.settings());
        let set = |setting| {
            if let TimeSetting::Set(to) = setting { TimeChange::Set(to) } else { TimeChange::Keep }
        };
        let changes = AttributeChanges {
            accessed: open.access_change(change, &present),
            modified: set(change.modified),
            dos: (stored != DosInfo::default()).then_some(stored),
            ..AttributeChanges::default()
        };
        let changed = change_time(frozen.as_deref(), change, (&present, &changes));
        let changes = AttributeChanges { changed, ..changes };
        // The descriptor granted the right; POSIX requires ownership and the w bit.
        let authority = match changes.dos.is_some() || changes.changed.is_some() {
            true => dos_authority(&open.caller, &present),
            false => as_owner(&open.caller, &present),
        };
        if changes != AttributeChanges::default() {
            open.present().set_attributes(authority.actor(), &changes)?;
        }
        open.note_access_change(change);
        if let Some(bits) = stored.bits.filter(|_| !open.is_directory()) {
            open.state.note_archive(bits & dos::ARCHIVE == 0);
        }
        // Setting or freezing a time stops this open from moving it.
        if let (Some(times), Some(frozen)) = (frozen_times, &mut frozen) {
            times.settle(frozen, change, || self.open_account());
            open.frozen.store(frozen.bits(), Ordering::Release);
        }
        drop(frozen);
        let what = watched(change);
        if what != WatchFilter::default() {
            open.report_modified(&self.context, what);
        } else {
            // No watch reports the change, but a listing shows it.
            open.break_directory(&self.context, &open.path());
        }
        Ok(())
    }

    /// The requesting client's account of opens; none for requests of the server itself.
    fn open_account(&self) -> Option<Arc<LedgerAccount>> {
        let CallHolder::Client(holder) = &self.holder else { return None };
        Some(self.opens().account(holder))
    }

    /// Sets the size in bytes, as the requesting `caller`.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] if the open may not write, [`FsError::LockConflict`],
    /// [`FsError::NoSpace`], [`FsError::TooLarge`].
    pub async fn set_size(
        &self,
        caller: &Arc<Caller>,
        open: &Arc<OpenFile>,
        size_bytes: u64,
    ) -> Result<()> {
        need_write(open)?;
        let present = open.node.attributes(AttributeRequest::default())?.size_bytes;
        let (from, to) = (present.min(size_bytes), present.max(size_bytes));
        open.need_unlocked(from, to - from, true)?;
        open.break_readers(&self.context);
        let (node, writer) = (open.node.clone(), caller.clone());
        let times = open.frozen_times();
        let change = move || {
            keep_times(times.as_ref(), MovedTimes::All, || {
                node.set_size(writer.identity.actor(), size_bytes)
            })
        };
        // Freeing blocks takes long.
        if size_bytes < present { self.offload(change).await } else { change() }?;
        if size_bytes < present {
            open.note_truncated(size_bytes);
        }
        open.break_directory(&self.context, &open.path());
        open.note_listed_change(&self.context, caller);
        Ok(())
    }

    /// Sets the reserved space, as the requesting `caller`. Less than the file's size truncates it.
    ///
    /// # Errors
    /// As [`RequestFiles::set_size`].
    pub async fn set_allocation(
        &self,
        caller: &Arc<Caller>,
        open: &Arc<OpenFile>,
        bytes: u64,
    ) -> Result<()> {
        need_write(open)?;
        let size = open.node.attributes(AttributeRequest::default())?.size_bytes;
        if bytes < size {
            return self.set_size(caller, open, bytes).await;
        }
        open.break_readers(&self.context);
        open.claim_room(0, bytes)?;
        let (node, writer, times) = (open.node.clone(), caller.clone(), open.frozen_times());
        let change = move || {
            keep_times(times.as_ref(), MovedTimes::All, || allocate(&*node, &writer, bytes))
        };
        if bytes > 0 { self.offload(change).await } else { change() }?;
        open.note_unreported(open.size_filter());
        open.report_data();
        Ok(())
    }

    /// Sets compression of a file's data, or of new files in a directory.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] if the open may not write, [`FsError::ReadOnly`],
    /// [`FsError::NotSupported`] where the file system cannot.
    pub async fn set_compressed(&self, open: &Arc<OpenFile>, compressed: bool) -> Result<()> {
        open.need_any(Access::WRITE_DATA)?;
        open.need_writable()?;
        if !open.features().compression {
            return if compressed { Err(FsError::NotSupported) } else { Ok(()) };
        }
        let present = self.file_attributes(open)?;
        let node = open.main_node().clone();
        let (owner, times) = (as_owner(&open.caller, &present), open.frozen_times());
        self.offload(move || {
            keep_times(times.as_ref(), MovedTimes::Changed, || {
                node.need_extents()?.set_compressed(owner.actor(), compressed)
            })
        })
        .await?;
        open.report_modified(&self.context, WatchFilter::ATTRIBUTES);
        Ok(())
    }

    /// Ranges with data from `offset` on, as (offset, length), at most `count_max`. The flag says
    /// that there are more. It runs on a worker, since each range takes two system calls.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] if the open may not read.
    pub async fn allocated_ranges(
        &self,
        open: &OpenFile,
        offset: u64,
        length: u64,
        count_max: usize,
    ) -> Result<(Vec<(u64, u64)>, bool)> {
        open.need_any(Access::READ_DATA)?;
        let attributes = open.node.attributes(WANTED)?;
        let end = offset.saturating_add(length).min(attributes.size_bytes);
        if offset >= end {
            return Ok((Vec::new(), false));
        }
        // A file that is not marked sparse reports no holes.
        if attributes.dos.bits.unwrap_or(0) & dos::SPARSE == 0 {
            return Ok((vec![(offset, end - offset)], false));
        }
        let node = open.node.clone();
        self.offload(move || data_ranges(&*node, (offset, end), count_max)).await
    }

    /// Sets or clears the sparse attribute.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] if the open lacks the right.
    pub fn set_sparse(&self, open: &OpenFile, sparse: bool) -> Result<()> {
        open.need_any(Access::WRITE_DATA | Access::APPEND_DATA | Access::WRITE_ATTRIBUTES)?;
        open.need_writable()?;
        if open.is_directory() {
            return Err(FsError::InvalidParameter);
        }
        if open.name.stream.is_some() {
            // The attribute belongs to the file; streams have holes without it.
            return Ok(());
        }
        let present = open.node.attributes(WANTED)?;
        let bits = present.dos.bits.unwrap_or(dos::ARCHIVE);
        let bits = if sparse { bits | dos::SPARSE } else { bits & !dos::SPARSE };
        let stored = DosInfo { bits: Some(bits), created: None };
        let changes = AttributeChanges { dos: Some(stored), ..AttributeChanges::default() };
        let authority = dos_authority(&open.caller, &present);
        open.keep_times(MovedTimes::Changed, || {
            open.node.set_attributes(authority.actor(), &changes)
        })?;
        open.report_modified(&self.context, WatchFilter::ATTRIBUTES);
        Ok(())
    }

    /// Size and free space, within the limits of the volume.
    ///
    /// # Errors
    /// [`FsError::Stale`] if the volume's directory was removed.
    pub fn space(&self, volume: &Volume, caller: &Caller) -> Result<Space> {
        Ok(within_limits(volume, volume.vfs.space(caller.identity.actor())?))
    }

    /// As [`RequestFiles::space`], for the file system of the file or directory.
    ///
    /// # Errors
    /// As [`RequestFiles::space`].
    pub fn space_of(&self, open: &OpenFile, caller: &Caller) -> Result<Space> {
        let (volume, node) = (open.volume(), open.main_node());
        Ok(within_limits(volume, volume.vfs.space_of(caller.identity.actor(), &**node)?))
    }

    /// As [`RequestFiles::space_of`], for an object.
    ///
    /// # Errors
    /// As [`RequestFiles::space`].
    pub fn object_space(&self, object: &Object, caller: &Caller) -> Result<Space> {
        let (volume, node) = (&object.volume, &*object.node);
        Ok(within_limits(volume, volume.vfs.space_of(caller.identity.actor(), node)?))
    }
}

/// Reserves space and leaves the write time: the data is unchanged, so only the change time moves.
fn allocate(node: &dyn Node, caller: &Caller, bytes: u64) -> Result<()> {
    let present = node.attributes(AttributeRequest::default())?;
    if bytes > 0 {
        let extents = node.need_extents();
        match extents.and_then(|it| it.allocate(caller.identity.actor(), 0, bytes)) {
            Err(FsError::NotSupported) => {}
            other => other?,
        }
    }
    let modified = TimeChange::Set(present.modified);
    let changes = AttributeChanges { modified, ..AttributeChanges::default() };
    node.set_attributes(as_owner(caller, &present).actor(), &changes)
}

/// Bounds the space by the volume's limits.
fn within_limits(volume: &Volume, mut space: Space) -> Space {
    if let Some(limit) = volume.options.size_limit_bytes {
        space.total_bytes = space.total_bytes.min(limit);
        space.free_bytes = space.free_bytes.min(limit);
        space.available_bytes = space.available_bytes.min(limit);
    }
    if let Some((limits, size_bytes)) = volume.size_limit() {
        let used = limits.space_usage().used_bytes();
        let left = used.map_or(size_bytes, |used| size_bytes.saturating_sub(used));
        space.total_bytes = space.total_bytes.min(size_bytes);
        space.free_bytes = space.free_bytes.min(left);
        space.available_bytes = space.available_bytes.min(left);
    }
    space
}

/// As [`RequestFiles::allocated_ranges`], for a file with the sparse attribute.
fn data_ranges(
    node: &dyn Node,
    (offset, end): (u64, u64),
    count_max: usize,
) -> Result<(Vec<(u64, u64)>, bool)> {
    let (mut ranges, mut at) = (Vec::new(), offset);
    while at < end {
        let Some((start, stop)) = node.need_extents()?.seek_data(at)? else { break };
        if start >= end {
            break;
        }
        if ranges.len() == count_max {
            return Ok((ranges, true));
        }
        ranges.push((start, stop.min(end) - start));
        at = stop;
    }
    Ok((ranges, false))
}

/// Filter under which watches report the change.
fn watched(change: &BasicChange) -> WatchFilter {
    let is_set = |setting, what| {
        if matches!(setting, TimeSetting::Set(_)) { what } else { WatchFilter::default() }
    };
    is_set(change.created, WatchFilter::CREATION)
        | is_set(change.accessed, WatchFilter::LAST_ACCESS)
        | is_set(change.modified, WatchFilter::LAST_WRITE)
        | change.dos_bits.map_or(WatchFilter::default(), |_| WatchFilter::ATTRIBUTES)
}

/// The requested change by the client's rules. A POSIX client sets times like utimensat(2), which
/// freezes none; the server sets the change time.
fn settled(open: &OpenFile, change: &BasicChange) -> BasicChange {
    if !open.is_posix() {
        return *change;
    }
    BasicChange { changed: TimeSetting::Keep, ..*change }
}

/// Change time to store: a requested one, or the present one if the open does not move it or
/// requested no change.
fn change_time(
    frozen: Option<&TimeFreeze>,
    change: &BasicChange,
    (present, stored): (&Attributes, &AttributeChanges),
) -> Option<Timestamp> {
    let is_frozen = match change.changed {
        TimeSetting::Set(to) => return Some(to),
        TimeSetting::Freeze => true,
        TimeSetting::Thaw => false,
        TimeSetting::Keep => frozen.is_some_and(|frozen| frozen.changed),
    };
    let sets = |time| matches!(time, TimeSetting::Set(_));
    let BasicChange { created, accessed, modified, dos_bits, .. } = *change;
    let moves = dos_bits.is_some() || [created, accessed, modified].into_iter().any(sets);
    // The access time of an earlier write is stored by the server alone.
    let stores = *stored != AttributeChanges::default();
    let keeps = if moves { is_frozen } else { stores };
    keeps.then(|| present.shown_changed())
}

pub(crate) fn need_write(open: &OpenFile) -> Result<()> {
    if open.is_directory() {
        return Err(FsError::InvalidParameter);
    }
    // APPEND_DATA does not suffice to change existing data.
    open.need_any(Access::WRITE_DATA)?;
    open.need_writable()
}

fn merge_bits(open: &OpenFile, present: &Attributes, bits: u32) -> Result<u32> {
    if bits & dos::DIRECTORY != 0 && !open.is_directory() {
        return Err(FsError::InvalidParameter);
    }
    if bits & dos::TEMPORARY != 0 && open.is_directory() {
        return Err(FsError::InvalidParameter);
    }
    let kept = present.dos.bits.unwrap_or(0) & (dos::SPARSE | dos::REPARSE_POINT);
    let kind = if open.is_directory() { dos::DIRECTORY } else { 0 };
    let stored = bits & dos::SETTABLE | kept | kind;
    // An attribute that the name implies is not stored.
    let bare = Attributes { dos: DosInfo { bits: Some(0), created: None }, ..*present };
    let of_name = open.presented(bare).dos.bits.unwrap_or(0) & !present.dos.bits.unwrap_or(0);
    Ok(stored & !(of_name & dos::HIDDEN))
}
