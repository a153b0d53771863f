//! LOOKUP, LOOKUPP, READDIR, READLINK, CREATE, REMOVE, RENAME, LINK.
//! RFC 8881 18.4, 18.9, 18.13, 18.14, 18.23 to 18.26.

use super::attributes::{
    Wished, around, change_of, fsid, mount_point, set_list, shown_root, wished,
};
use crate::attributes::{Around, LISTS, Shown, check_readable, put};
use crate::compound::Run;
use crate::config::Export;
use crate::limits::{READDIR_ENTRIES_MAX, READDIR_ENTRY_BYTES_MIN};
use crate::place::Place;
use crate::status::{OrStatus, status_of};
use files::{Caller, Files, ListWish, ListedObject, NamedList, NewObject, Object};
use std::sync::Arc;
use vfs::SpecialKind;
use vfs::{Device, FileKind, FsError, Name};
use wire::nfs::attributes::attribute;
use wire::nfs::ops::{
    CreateArgs, CreateResult, CreateType, DirectoryWriter, LinkArgs, LookupArgs, ReadDirArgs,
    RemoveArgs, RenameArgs, RenameResult,
};
use wire::nfs::xdr::XdrWriter;
use wire::nfs::{ChangeInfo, FileHandle, NfsStatus, Verifier};

/// A name as files have it.
///
/// # Errors
/// INVAL for an empty one, BADNAME for what is not in a directory, BADCHAR, NAMETOOLONG.
pub(crate) fn name_of(bytes: &[u8]) -> Result<Name, NfsStatus> {
    match bytes {
        b"" => Err(NfsStatus::INVAL),
        b"." | b".." => Err(NfsStatus::BADNAME),
        _ if bytes.iter().any(|byte| matches!(byte, b'/' | 0)) => Err(NfsStatus::BADCHAR),
        _ => Name::new(bytes).or_status(),
    }
}

pub(crate) async fn look_up(run: &mut Run<'_>, args: &LookupArgs<'_>) -> Result<(), NfsStatus> {
    let name = match run.place()? {
        Place::Root => return enter_share(run, args.name).await,
        Place::Object(_) => name_of(args.name)?,
    };
    let (directory, caller) = run.object().await?;
    let export = run.object_place()?.export.clone();
    let (found, attributes) =
        run.server().files.look_at(&caller, &directory, &name).await.or_status()?;
    let key = found.key();
    run.go(Place::of(export, found));
    run.looked = Some((key, attributes));
    Ok(())
}

async fn enter_share(run: &mut Run<'_>, name: &[u8]) -> Result<(), NfsStatus> {
    name_of(name)?;
    let export = run.config.export_named(name).ok_or(NfsStatus::NOENT)?.clone();
    export.admit(&run.call.conn)?;
    let root = run.server().files.root_object(&export.volume).await.or_status()?;
    run.go(Place::of(export, root));
    Ok(())
}

pub(crate) async fn look_up_parent(run: &mut Run<'_>) -> Result<(), NfsStatus> {
    if matches!(run.place()?, Place::Root) {
        return Err(NfsStatus::NOENT);
    }
    let (directory, caller) = run.object().await?;
    if directory.kind() != FileKind::Directory {
        // Not SYMLINK, which LOOKUPP does not have for this.
        let is_link = directory.kind() == FileKind::Symlink;
        return Err(if is_link { NfsStatus::SYMLINK } else { NfsStatus::NOTDIR });
    }
    if directory.is_root() {
        run.go(Place::Root);
        return Ok(());
    }
    let export = run.object_place()?.export.clone();
    let found = run.server().files.look_up_parent(&caller, &directory).await.or_status()?;
    run.go(Place::of(export, found));
    Ok(())
}

pub(crate) async fn read_link(run: &mut Run<'_>) -> Result<Vec<u8>, NfsStatus> {
    if matches!(run.place()?, Place::Root) {
        return Err(NfsStatus::WRONG_TYPE);
    }
    let (object, _) = run.object().await?;
    if object.kind() != FileKind::Symlink {
        return Err(NfsStatus::WRONG_TYPE);
    }
    run.server().files.read_object_link(&object).await.or_status()
}

/// No handle of an object is shorter.
const HANDLE_BYTES_MIN: usize = 16;

/// An entry to be written.
#[allow(
    clippy::large_enum_variant,
    reason = "in all directories but one there is only the large one"
)]
enum Entry {
    /// In a share, with its access list if that is shown.
    Listed(ListedObject, Option<NamedList>),
    /// A share in the directory of all: cookie, name.
    Share(u64, Vec<u8>, Box<Shown>),
}

/// What READDIR answers: written behind its status.
pub(crate) struct Listing {
    /// The share that is listed.
    export: Option<Arc<Export>>,
    entries: Vec<Entry>,
    is_end: bool,
    around: Around,
}

/// Cookies 0, 1 and 2 mean something else. RFC 8881 18.23.3.
const COOKIE_FIRST: u64 = 3;

pub(crate) async fn list(run: &mut Run<'_>, args: &ReadDirArgs) -> Result<Listing, NfsStatus> {
    check_readable(args.requested)?;
    if matches!(args.cookie, 1 | 2) {
        return Err(NfsStatus::BAD_COOKIE);
    }
    if matches!(run.place()?, Place::Root) {
        return list_shares(run, args);
    }
    let (directory, caller) = run.object().await?;
    let export = run.object_place()?.export.clone();
    let handles = args.requested.contains(attribute::FILEHANDLE).then_some(export.id);
    let bytes_max = args.bytes_max as usize;
    let count = (bytes_max / READDIR_ENTRY_BYTES_MIN).clamp(1, READDIR_ENTRIES_MAX);
    let name_bytes = match args.directory_bytes as usize {
        0 => bytes_max,
        wanted => wanted.min(bytes_max),
    };
    let after = args.cookie.saturating_sub(COOKIE_FIRST);
    let around = around(run, Some(&export), args.requested)?;
    let wish = ListWish {
        cookie: after,
        count_max: count,
        name_bytes_max: name_bytes,
        bytes_max,
        entry_bytes: entry_bytes_min(run, args, &around),
        handles,
        stored: args.requested.contains(attribute::TIME_CREATE),
    };
    let listed = run.server().files.list_objects(&caller, &directory, wish).await.or_status()?;
    let mut entries: Vec<Entry> =
        listed.entries.into_iter().map(|entry| Entry::Listed(entry, None)).collect();
    if !(args.requested & LISTS).is_empty() {
        find_lists(&run.server().files, (&caller, &directory), &mut entries).await;
    }
    Ok(Listing { export: Some(export), entries, is_end: listed.is_end, around })
}

/// Finds the access lists of entries, one after the other: nobody asks for them but who
/// shows them. Of who has gone, or may not be looked at, there is none.
async fn find_lists(
    files: &Files,
    (caller, directory): (&Arc<Caller>, &Object),
    entries: &mut [Entry],
) {
    for entry in entries {
        let Entry::Listed(entry, list) = entry else { continue };
        if let Ok(object) = files.look_up(caller, directory, &entry.name).await {
            *list = files.object_list(caller, &object).await.ok();
        }
    }
}

/// The fewest bytes that an entry takes beside its name: cookie, length, attributes, and
/// whether there is another. RFC 8881 18.23.2.
fn entry_bytes_min(run: &Run<'_>, args: &ReadDirArgs, around: &Around) -> usize {
    let handle = FileHandle::new(&[0; HANDLE_BYTES_MIN]);
    let mut written = Vec::new();
    let shown = Shown { handle, ..shown_root(run) };
    put(&mut XdrWriter::new(&mut written), args.requested, &shown, around);
    16 + written.len()
}

/// The shares that the client's machine may reach, as directories.
fn list_shares(run: &Run<'_>, args: &ReadDirArgs) -> Result<Listing, NfsStatus> {
    let peer = run.call.conn.facts.peer.ip();
    let mut entries = Vec::new();
    for (at, export) in run.config.exports.iter().enumerate() {
        let cookie = COOKIE_FIRST + at as u64;
        if cookie > args.cookie && export.hosts.admits(peer) {
            let shown = Box::new(shown_share(run, export));
            entries.push(Entry::Share(cookie, export.name.clone(), shown));
        }
    }
    let around = around(run, None, args.requested)?;
    Ok(Listing { export: None, entries, is_end: true, around })
}

/// A share's own root, as it is listed: a client that asks for attributes sees that
/// another file system begins.
fn shown_share(run: &Run<'_>, export: &Arc<Export>) -> Shown {
    let mut shown = shown_root(run);
    shown.attributes.key.inode = mount_point(export);
    shown.mounted_on = mount_point(export);
    shown.fsid = fsid(export, vfs::FileKey { device: 0, inode: 0 });
    shown
}

impl Listing {
    fn shown(&self, entry: &ListedObject, list: &Option<NamedList>) -> Shown {
        let attributes = entry.attributes;
        let of = |export: &Arc<Export>| fsid(export, attributes.key);
        let handle = entry.handle.as_ref();
        Shown {
            fsid: self.export.as_ref().map(of).unwrap_or_default(),
            attributes,
            mounted_on: entry.mounted_on,
            handle: handle.and_then(|handle| FileHandle::new(handle.as_bytes())),
            list: list.clone(),
        }
    }

    /// Writes as many entries as fit into `bytes_max`.
    ///
    /// # Errors
    /// TOOSMALL if not even one does.
    pub fn put(
        &self,
        w: &mut XdrWriter<'_>,
        args: &ReadDirArgs,
        bytes_max: usize,
    ) -> Result<(), NfsStatus> {
        let bytes_max = bytes_max.min(args.bytes_max as usize);
        let mut list = DirectoryWriter::begin(w, Verifier::default());
        let mut is_end = self.is_end;
        for entry in &self.entries {
            match entry {
                Entry::Share(cookie, name, shown) => {
                    list.begin_entry(w, *cookie, name);
                    put(w, args.requested, shown, &self.around);
                }
                Entry::Listed(entry, names) => {
                    let cookie = entry.cookie.saturating_add(COOKIE_FIRST);
                    list.begin_entry(w, cookie, entry.name.as_bytes());
                    put(w, args.requested, &self.shown(entry, names), &self.around);
                }
            }
            if list.result_bytes(w) > bytes_max {
                list.take_back_entry(w);
                is_end = false;
                break;
            }
        }
        if list.result_bytes(w) > bytes_max || (list.entries() == 0 && !is_end) {
            return Err(NfsStatus::TOOSMALL);
        }
        list.finish(w, is_end);
        Ok(())
    }
}

/// The change attribute around a change of a directory. Others may have changed it, too.
pub(crate) fn change_info(run: &Run<'_>, directory: &Object, before: u64) -> ChangeInfo {
    ChangeInfo { is_atomic: false, before, after: change_of(run, directory) }
}

pub(crate) async fn create(
    run: &mut Run<'_>,
    args: &CreateArgs<'_>,
) -> Result<CreateResult, NfsStatus> {
    let mut wished = wished(run, &args.attributes)?;
    let (directory, caller) = run.object().await?;
    let export = run.object_place()?.export.clone();
    let options = &export.volume.options;
    let is_directory = matches!(args.object_type, CreateType::Directory);
    let mode = if is_directory { options.directory_mode } else { options.file_mode };
    wished.complete_mode(|| Some(mode));
    let new_mode = wished.new_mode();
    let Wished { mut changes, list, mask, .. } = wished;
    let special = |kind| NewObject::Special { kind, mode: changes.mode };
    let device = |is_block, device: wire::nfs::attributes::SpecData| {
        let (major, minor) = (device.major, device.minor);
        special(SpecialKind::Device(Device { is_block, major, minor }))
    };
    let new = match args.object_type {
        CreateType::Block(numbers) => device(true, numbers),
        CreateType::Character(numbers) => device(false, numbers),
        CreateType::Directory => NewObject::Directory { mode: new_mode },
        CreateType::Fifo => special(SpecialKind::Fifo),
        CreateType::Link(target) => NewObject::Symlink { target: target.to_vec() },
        CreateType::Socket => special(SpecialKind::Socket),
        CreateType::Other(_) => return Err(NfsStatus::BADTYPE),
    };
    let name = name_of(args.name)?;
    let before = change_of(run, &directory);
    let files = run.server().files.clone();
    let made = files.make_object(&caller, &directory, &name, new).await.or_status()?;
    // Of a link the mode means nothing; of the others it is there already.
    changes.mode = None;
    changes.size_bytes = None;
    if changes != Default::default() {
        files.set_object_attributes(&caller, &made, None, &changes).await.or_status()?;
    }
    set_list(run, (&made, &caller), list.as_ref()).await?;
    let change = change_info(run, &directory, before);
    run.go(Place::of(export, made));
    Ok(CreateResult { change, attributes_set: mask })
}

pub(crate) async fn remove(
    run: &mut Run<'_>,
    args: &RemoveArgs<'_>,
) -> Result<ChangeInfo, NfsStatus> {
    let (directory, caller) = run.object().await?;
    let name = name_of(args.name)?;
    let before = change_of(run, &directory);
    let files = run.server().files.clone();
    let removed = files.remove_object(&caller, &directory, &name).await;
    removed.map_err(in_use)?;
    Ok(change_info(run, &directory, before))
}

/// What others' opens keep from being removed or renamed.
fn in_use(error: FsError) -> NfsStatus {
    match error {
        FsError::ShareViolation => NfsStatus::FILE_OPEN,
        other => status_of(other),
    }
}

pub(crate) async fn rename(
    run: &mut Run<'_>,
    args: &RenameArgs<'_>,
) -> Result<RenameResult, NfsStatus> {
    let (source, _) = run.saved_object().await?;
    let (target, caller) = run.object().await?;
    let (old, new) = (name_of(args.old_name)?, name_of(args.new_name)?);
    let before = (change_of(run, &source), change_of(run, &target));
    let files = run.server().files.clone();
    let renamed = files.rename_object(&caller, (&source, &old), (&target, &new)).await;
    renamed.map_err(|error| match error {
        FsError::IsDirectory => NfsStatus::EXIST,
        FsError::NotEmpty => NfsStatus::EXIST,
        other => in_use(other),
    })?;
    Ok(RenameResult {
        source: change_info(run, &source, before.0),
        target: change_info(run, &target, before.1),
    })
}

pub(crate) async fn link(run: &mut Run<'_>, args: &LinkArgs<'_>) -> Result<ChangeInfo, NfsStatus> {
    let (object, _) = run.saved_object().await?;
    let (directory, caller) = run.object().await?;
    let name = name_of(args.new_name)?;
    let before = change_of(run, &directory);
    let files = run.server().files.clone();
    files.link_object(&caller, &object, &directory, &name).await.map_err(in_use)?;
    Ok(change_info(run, &directory, before))
}
