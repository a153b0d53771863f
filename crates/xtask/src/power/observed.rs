//! Reads the content of a file system after a cut.

use super::journal::{CELL_BYTES, ObjectKind, cell_tag};
use super::long_streams::{self, ObservedStores};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Entries that the kernel and `power_disk.py` add at the root of a new file system.
const NOT_OURS: [&str; 2] = ["lost+found", ".power-sync"];
/// Prefixes of the extended attributes that the model covers.
const FOLLOWED: [&str; 3] = ["user.", "security.NTACL", "system.posix_acl_access"];
/// Largest value of an extended attribute, in bytes. XATTR_SIZE_MAX.
const VALUE_BYTES_MAX: usize = 1 << 16;

/// One inode.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ObservedInode {
    /// Its kind; none for kinds that the workload does not create.
    pub kind: Option<ObjectKind>,
    /// Permission bits.
    pub mode: u32,
    /// User and group.
    pub owner: (u32, u32),
    /// Size in bytes.
    pub size: u64,
    /// Modification time, in nanoseconds since 1970.
    pub modified: i128,
    /// The kernel's count of its names.
    pub links: u64,
    /// Values in hexadecimal; of a long stream its cells, see [`long_streams`].
    pub attributes: BTreeMap<String, String>,
    /// Tags of its cells; none for one of several writes.
    pub cells: Vec<Option<u64>>,
    /// Target of a symbolic link.
    pub target: Option<String>,
}

/// The whole file system, by inode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ObservedTree {
    /// Inode of the root.
    pub root: u64,
    /// Inodes by number.
    pub inodes: BTreeMap<u64, ObservedInode>,
    /// Entry by directory and name.
    pub names: BTreeMap<u64, BTreeMap<String, u64>>,
}

impl ObservedTree {
    /// Reads the file system that is mounted at `root`.
    pub fn read(root: &Path) -> Result<Self> {
        let mut tree = Self { root: fs::metadata(root)?.ino(), ..Self::default() };
        let mut folders = vec![root.to_owned()];
        let mut seen = BTreeSet::new();
        let mut stores = ObservedStores::default();
        tree.inodes.insert(tree.root, observe(root)?);
        while let Some(folder) = folders.pop() {
            let number = fs::metadata(&folder)?.ino();
            if !seen.insert(number) {
                continue;
            }
            let mut names = BTreeMap::new();
            for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
                let path = entry?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                if NOT_OURS.contains(&name.as_str()) {
                    continue;
                }
                if name == long_streams::STORE {
                    stores.add(&path)?;
                    continue;
                }
                let inode =
                    fs::symlink_metadata(&path).with_context(|| path.display().to_string())?.ino();
                if let std::collections::btree_map::Entry::Vacant(place) = tree.inodes.entry(inode)
                {
                    let found = observe(&path).with_context(|| path.display().to_string())?;
                    if place.insert(found).kind == Some(ObjectKind::Directory) {
                        folders.push(path);
                    }
                }
                names.insert(name, inode);
            }
            tree.names.insert(number, names);
        }
        stores.resolve(&mut tree);
        Ok(tree)
    }

    /// Number of names of an inode.
    pub fn names_of(&self, inode: u64) -> u64 {
        let all = self.names.values().flat_map(BTreeMap::values);
        all.filter(|other| **other == inode).count() as u64
    }
}

fn observe(path: &Path) -> Result<ObservedInode> {
    let found = fs::symlink_metadata(path)?;
    let kind = match found.file_type() {
        kind if kind.is_file() => Some(ObjectKind::File),
        kind if kind.is_dir() => Some(ObjectKind::Directory),
        kind if kind.is_symlink() => Some(ObjectKind::Symlink),
        _ => None,
    };
    let data = if kind == Some(ObjectKind::File) { fs::read(path)? } else { Vec::new() };
    let is_link = kind == Some(ObjectKind::Symlink);
    Ok(ObservedInode {
        kind,
        mode: found.mode() & 0o7777,
        owner: (found.uid(), found.gid()),
        size: if kind == Some(ObjectKind::File) { found.len() } else { 0 },
        modified: i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec()),
        links: found.nlink(),
        attributes: attributes(path)?,
        cells: data.chunks(CELL_BYTES).map(cell_tag).collect(),
        target: if is_link {
            Some(fs::read_link(path)?.to_string_lossy().into_owned())
        } else {
            None
        },
    })
}

fn attributes(path: &Path) -> Result<BTreeMap<String, String>> {
    let mut list = vec![0; VALUE_BYTES_MAX];
    let length = rustix::fs::llistxattr(path, &mut list[..]).context("list of attributes")?;
    let names = list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let mut found = BTreeMap::new();
    for name in names {
        let text = String::from_utf8_lossy(name).into_owned();
        if FOLLOWED.iter().any(|followed| text.starts_with(followed)) {
            let mut value = vec![0; VALUE_BYTES_MAX];
            let length = rustix::fs::lgetxattr(path, OsStr::from_bytes(name), &mut value[..])
                .with_context(|| text.clone())?;
            found.insert(text, hexadecimal(&value[..length]));
        }
    }
    Ok(found)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
