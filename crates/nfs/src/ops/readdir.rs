//! READDIR. RFC 8881 18.23.
//!
//! Entries are encoded by the thread that lists them, behind a copy of the short head of the reply.
//! So a long listing is never in memory twice.

use super::attributes::{around, fsid, mount_point, shown_pseudo};
use crate::encoding::attributes::{
    FileSystemFacts, KNOWN_WITHOUT_STAT, LISTS, ReportedObject, check_readable, put,
    put_inaccessible,
};
use crate::exports::export::{Export, HostVerdict};
use crate::exports::pseudo::{PseudoId, PseudoTarget, ROOT, cookie_of};
use crate::limits::{
    READDIR_ENTRIES_MAX, READDIR_ENTRY_BYTES_MIN, READDIR_PART_ENTRIES, READDIR_SHORT_BYTES,
};
use crate::request::place::HandleTarget;
use crate::request::reply::ReplyBuffer;
use crate::request::run::CompoundRun;
use crate::status::{OrStatus, status_of};
use files::{
    Caller, ListWish, ListedObject, NamedList, Object, ObjectListSink, RequestFiles,
    UnreadableObject,
};
use std::sync::Arc;
use std::task::{Context, Poll};
use wire::nfs::attributes::attribute;
use wire::nfs::ops::{DirectoryWriter, ReadDirArgs};
use wire::nfs::xdr::XdrWriter;
use wire::nfs::{Bitmap4, FileHandle, NfsStatus, Verifier};

/// Shortest file handle of an object in bytes.
const HANDLE_BYTES_MIN: usize = 16;

/// Cookies 0, 1 and 2 are reserved. RFC 8881 18.23.3.
const COOKIE_FIRST: u64 = 3;

/// Encodes a part of a directory behind its status.
///
/// # Errors
/// NOTDIR, BAD_COOKIE, INVAL; TOOSMALL if no entry fits; the error of an entry's stat, unless the
/// client requested rdattr_error.
pub(crate) async fn readdir(
    run: &mut CompoundRun<'_>,
    args: &ReadDirArgs,
    answer: &mut ReplyBuffer,
) -> Result<(), NfsStatus> {
    check_readable(args.requested)?;
    if matches!(args.cookie, 1 | 2) {
        return Err(NfsStatus::BAD_COOKIE);
    }
    if let HandleTarget::Pseudo(id) = *run.place()? {
        let around = around(run, None, args.requested)?;
        let mut entries = EntryWriter::begin_after(answer, args, around, None);
        let is_end = match id.is_root() {
            true => list_shares(run, args, &mut entries)?,
            false => list_pseudo(run, args, id, &mut entries)?,
        };
        return entries.finish(answer, is_end);
    }
    let (directory, caller) = run.object().await?;
    let export = run.object_place()?.export.clone();
    let around = around(run, Some((&export, Some(&directory))), args.requested)?;
    let wish = wish(run, args, &around, &export);
    let mut entries = EntryWriter::begin_after(answer, args, around, Some(export));
    let files = run.files().clone();
    if (args.requested & LISTS).is_empty() {
        let listed = files.readdir_object_into(&caller, &directory, wish, entries).await;
        let (entries, is_end) = listed.or_status()?;
        return entries.finish(answer, is_end);
    }
    let is_end = list_with_lists(&files, (&caller, &directory), wish, &mut entries).await?;
    entries.finish(answer, is_end)
}

/// Encodes entries with their access lists, in batches to bound memory. Returns whether the
/// directory has ended.
async fn list_with_lists(
    files: &RequestFiles,
    (caller, directory): (&Arc<Caller>, &Object),
    mut wish: ListWish,
    entries: &mut EntryWriter,
) -> Result<bool, NfsStatus> {
    let mut left = wish.count_max;
    loop {
        wish.count_max = left.min(READDIR_PART_ENTRIES);
        let part = EntryBatch::default();
        let listed = files.readdir_object_into(caller, directory, wish, part).await;
        let (EntryBatch(part), is_end) = listed.or_status()?;
        let Some((cookie, name_bytes)) = extent_of(&part) else { return Ok(is_end) };
        left = left.saturating_sub(part.len());
        for entry in part {
            // Each access list costs an open, so other requests get their turn in between.
            yield_once().await;
            let is_put = match entry {
                Ok(entry) => {
                    let list = find_list(files, (caller, directory), &entry).await;
                    entries.put_listed(&entry, list)
                }
                Err(unreadable) => entries.take_unreadable(unreadable),
            };
            if !is_put {
                return Ok(false);
            }
        }
        if is_end || left == 0 || name_bytes >= wish.name_bytes_max {
            return Ok(is_end);
        }
        wish.cookie = cookie;
        wish.name_bytes_max -= name_bytes;
    }
}

/// Last cookie and total name bytes of a batch; None if it is empty.
fn extent_of(part: &[Result<ListedObject, UnreadableObject>]) -> Option<(u64, usize)> {
    let of = |entry: &Result<ListedObject, UnreadableObject>| match entry {
        Ok(entry) => (entry.cookie, entry.name.as_bytes().len()),
        Err(unreadable) => (unreadable.cookie, unreadable.name.as_bytes().len()),
    };
    let (cookie, _) = part.last().map(of)?;
    Some((cookie, part.iter().map(|entry| of(entry).1).sum()))
}

/// Yields to other tasks once.
async fn yield_once() {
    let mut was_asked = false;
    let ask = |cx: &mut Context<'_>| {
        if std::mem::replace(&mut was_asked, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    };
    std::future::poll_fn(ask).await;
}

/// Batch of entries whose access lists are read before they are encoded.
#[derive(Default)]
struct EntryBatch(Vec<Result<ListedObject, UnreadableObject>>);

impl ObjectListSink for EntryBatch {
    fn take(&mut self, entry: ListedObject) -> bool {
        self.0.push(Ok(entry));
        true
    }

    fn take_unreadable(&mut self, entry: UnreadableObject) -> bool {
        self.0.push(Err(entry));
        true
    }
}

fn wish(
    run: &CompoundRun<'_>,
    args: &ReadDirArgs,
    around: &FileSystemFacts,
    export: &Export,
) -> ListWish {
    let bytes_max = args.bytes_max as usize;
    let name_bytes_max = match args.directory_bytes as usize {
        0 => bytes_max,
        wanted => wanted.min(bytes_max),
    };
    ListWish {
        cookie: args.cookie.saturating_sub(COOKIE_FIRST),
        count_max: (bytes_max / READDIR_ENTRY_BYTES_MIN).clamp(1, READDIR_ENTRIES_MAX),
        name_bytes_max,
        bytes_max,
        entry_bytes: entry_bytes_min(run, args, around),
        handles: args.requested.contains(attribute::FILEHANDLE).then_some(export.id),
        stored: args.requested.contains(attribute::TIME_CREATE),
    }
}

/// The access list of an entry; None if the entry is gone or the caller may not read it.
async fn find_list(
    files: &RequestFiles,
    (caller, directory): (&Arc<Caller>, &Object),
    entry: &ListedObject,
) -> Option<NamedList> {
    let object = files.lookup(caller, directory, &entry.name).await.ok()?;
    files.object_acl(caller, &object).await.ok()
}

/// Smallest size of an entry beside its name: cookie, length, attributes, and the flag of a next
/// entry. RFC 8881 18.23.2.
fn entry_bytes_min(run: &CompoundRun<'_>, args: &ReadDirArgs, around: &FileSystemFacts) -> usize {
    let handle = FileHandle::new(&[0; HANDLE_BYTES_MIN]);
    let mut written = Vec::new();
    let shown = ReportedObject { handle, ..shown_pseudo(run, ROOT) };
    put(&mut XdrWriter::new(&mut written), args.requested, &shown, around);
    16 + written.len()
}

/// Lists the shares that the client may reach, as directories. Returns whether the list has ended.
/// Path components are not listed in the root, so that a recursive walk, as of a backup, meets each
/// share once.
///
/// # Errors
/// DELAY while a host lookup is in flight: the client would cache the list without the share.
fn list_shares(
    run: &CompoundRun<'_>,
    args: &ReadDirArgs,
    entries: &mut EntryWriter,
) -> Result<bool, NfsStatus> {
    let peer = run.call.conn.link.facts.peer.ip();
    let mut shares = Vec::new();
    for export in &run.config.exports {
        match export.verdict(peer) {
            HostVerdict::Admitted => shares.push((cookie_of(&export.name), export)),
            HostVerdict::Refused | HostVerdict::Unanswered => {}
            HostVerdict::Unknown => return Err(NfsStatus::DELAY),
        }
    }
    shares.sort_unstable_by_key(|(cookie, _)| *cookie);
    for (cookie, export) in shares.into_iter().filter(|(cookie, _)| *cookie > args.cookie) {
        if !entries.put(cookie, &export.name, &shown_share(run, export)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Lists the path components that lead to the client's shares. Returns whether the list has ended.
///
/// # Errors
/// DELAY while a host lookup is in flight.
fn list_pseudo(
    run: &CompoundRun<'_>,
    args: &ReadDirArgs,
    id: PseudoId,
    entries: &mut EntryWriter,
) -> Result<bool, NfsStatus> {
    let (config, peer) = (&run.config, run.call.conn.link.facts.peer.ip());
    let mut found = Vec::new();
    for (name, at) in config.tree.list(id, &config.exports, peer) {
        found.push((cookie_of(name), name, at));
    }
    found.sort_unstable_by_key(|(cookie, ..)| *cookie);
    for (cookie, name, at) in found {
        let shown = match at {
            PseudoTarget::Unknown => return Err(NfsStatus::DELAY),
            _ if cookie <= args.cookie => continue,
            PseudoTarget::Directory(id) => shown_pseudo(run, id),
            PseudoTarget::Export(export) => shown_share(run, export),
        };
        if !entries.put(cookie, name, &shown) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Root of a share as listed in the pseudo root: its fsid shows the client that another file system
/// begins.
fn shown_share(run: &CompoundRun<'_>, export: &Arc<Export>) -> ReportedObject {
    let mut shown = shown_pseudo(run, ROOT);
    shown.attributes.key.inode = mount_point(export);
    shown.mounted_on = mount_point(export);
    shown.fsid = fsid(export, vfs::FileKey { device: 0, inode: 0 });
    shown
}

/// Encoder of directory entries.
struct EntryWriter {
    /// Copy of the reply, with the entries.
    out: Vec<u8>,
    writer: DirectoryWriter,
    /// Share that is listed.
    export: Option<Arc<Export>>,
    requested: Bitmap4,
    around: FileSystemFacts,
    /// Limit of the whole result.
    bytes_max: usize,
    /// An entry did not fit.
    is_full: bool,
    /// Error of an entry's stat, if the client did not request rdattr_error.
    failed: Option<NfsStatus>,
}

impl EntryWriter {
    /// Begins behind the content of `answer`.
    fn begin_after(
        answer: &ReplyBuffer,
        args: &ReadDirArgs,
        around: FileSystemFacts,
        export: Option<Arc<Export>>,
    ) -> Self {
        let bytes_max = answer.room().min(args.bytes_max as usize);
        let mut out = Vec::with_capacity(answer.out.len() + bytes_max.min(READDIR_SHORT_BYTES));
        out.extend_from_slice(&answer.out);
        let writer = DirectoryWriter::begin(&mut XdrWriter::new(&mut out), Verifier::default());
        let requested = args.requested;
        Self { out, writer, export, requested, around, bytes_max, is_full: false, failed: None }
    }

    /// Encodes an entry. Returns whether it fits.
    fn put(&mut self, cookie: u64, name: &[u8], shown: &ReportedObject) -> bool {
        let (requested, around) = (self.requested, self.around);
        self.put_with(cookie, name, |w| put(w, requested, shown, &around))
    }

    /// Encodes an entry with the attributes that `put` writes. Returns whether it fits.
    #[inline]
    fn put_with(&mut self, cookie: u64, name: &[u8], put: impl FnOnce(&mut XdrWriter<'_>)) -> bool {
        let w = &mut XdrWriter::new(&mut self.out);
        self.writer.begin_entry(w, cookie, name);
        put(w);
        if self.writer.result_bytes(w) > self.bytes_max {
            self.writer.discard_entry(w);
            self.is_full = true;
            return false;
        }
        true
    }

    fn put_listed(&mut self, entry: &ListedObject, list: Option<NamedList>) -> bool {
        let attributes = entry.attributes;
        let of = |export: &Arc<Export>| fsid(export, attributes.key);
        let handle = entry.handle.as_ref();
        let shown = ReportedObject {
            fsid: self.export.as_ref().map(of).unwrap_or_default(),
            attributes,
            mounted_on: entry.mounted_on,
            handle: handle.and_then(|handle| FileHandle::new(handle.as_bytes())),
            list,
        };
        self.put(entry.cookie.saturating_add(COOKIE_FIRST), entry.name.as_bytes(), &shown)
    }

    /// Completes the entries and makes them the reply.
    ///
    /// # Errors
    /// TOOSMALL if no entry fits; the error of an entry's stat.
    fn finish(mut self, answer: &mut ReplyBuffer, is_end: bool) -> Result<(), NfsStatus> {
        if let Some(status) = self.failed {
            return Err(status);
        }
        let is_end = is_end && !self.is_full;
        let w = &mut XdrWriter::new(&mut self.out);
        let is_empty = self.writer.entries() == 0;
        if self.writer.result_bytes(w) > self.bytes_max || (is_empty && !is_end) {
            return Err(NfsStatus::TOOSMALL);
        }
        self.writer.finish(w, is_end);
        answer.out = self.out;
        Ok(())
    }
}

impl ObjectListSink for EntryWriter {
    /// Reserves all room at once. Otherwise the worker's heap would grow, and retain memory after
    /// another thread has sent the reply.
    fn expect_more(&mut self) {
        self.out.reserve_exact(self.bytes_max);
    }

    fn take(&mut self, entry: ListedObject) -> bool {
        self.put_listed(&entry, None)
    }

    fn take_unreadable(&mut self, entry: UnreadableObject) -> bool {
        let (requested, status) = (self.requested, status_of(entry.error));
        let needs_stat = !KNOWN_WITHOUT_STAT.contains_all(requested);
        if needs_stat && !requested.contains(attribute::RDATTR_ERROR) {
            self.failed = Some(status);
            return false;
        }
        let why = if needs_stat { status } else { NfsStatus::OK };
        let cookie = entry.cookie.saturating_add(COOKIE_FIRST);
        self.put_with(cookie, entry.name.as_bytes(), |w| {
            put_inaccessible(w, requested, entry.mounted_on, why);
        })
    }
}
