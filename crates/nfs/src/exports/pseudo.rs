//! The pseudo file system: the root of all shares, and the directories of their server paths.
//! RFC 8881 7.3, 7.4.
//!
//! A client mounts `server:/srv/data` or `server:/data`: both lead to the root of the same share.
//! The directories between belong to no file system. A client sees only those that lead to a share
//! it may reach.

use crate::exports::export::{Export, HostVerdict};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

/// A directory of the pseudo file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PseudoId {
    index: usize,
    /// Number in file handles, stable over restarts; zero for the root.
    number: u64,
}

/// The root of all shares.
pub const ROOT: PseudoId = PseudoId { index: 0, number: 0 };

/// Bit in the inode numbers of pseudo directories, which no share's mount point has.
const INODE_BIT: u64 = 1 << 63;
/// Inode number of the root.
const ROOT_INODE: u64 = 1;

/// Whether bytes have the form of a pseudo directory's handle, of any configuration.
pub fn is_handle(handle: &[u8]) -> bool {
    handle.len() == 16 && handle[..8] == [0; 8]
}

impl PseudoId {
    /// Whether it is the root of all shares.
    pub fn is_root(self) -> bool {
        self == ROOT
    }

    /// Inode number in the pseudo file system.
    pub fn inode(self) -> u64 {
        if self.is_root() { ROOT_INODE } else { INODE_BIT | self.number >> 1 }
    }

    /// File handle, with volume zero, which no share has.
    pub fn handle(self) -> Vec<u8> {
        let number = self.number.to_be_bytes();
        if self.is_root() { vec![0; 8] } else { [[0; 8], number].concat() }
    }
}

/// Targets of a name in a pseudo directory.
#[derive(Clone, Debug, Default)]
struct Child {
    /// Share whose path ends here.
    export: Option<usize>,
    /// Directory that leads to shares further down.
    directory: Option<usize>,
}

#[derive(Clone, Debug)]
struct PseudoDirectory {
    id: PseudoId,
    parent: PseudoId,
    children: BTreeMap<Vec<u8>, Child>,
    /// Shares below.
    exports: Vec<usize>,
}

/// Tree of all pseudo directories.
#[derive(Clone, Debug)]
pub struct PseudoTree {
    /// The first is the root.
    directories: Vec<PseudoDirectory>,
    /// All but the root by inode number: every request presents a handle.
    by_inode: HashMap<u64, usize>,
}

impl Default for PseudoTree {
    fn default() -> Self {
        let root = PseudoDirectory {
            id: ROOT,
            parent: ROOT,
            children: BTreeMap::new(),
            exports: Vec::new(),
        };
        Self { directories: vec![root], by_inode: HashMap::new() }
    }
}

/// Target of a name for one client.
#[derive(Debug)]
pub enum PseudoTarget<'a> {
    Directory(PseudoId),
    Export(&'a Arc<Export>),
    /// A host lookup is in flight.
    Unknown,
}

impl PseudoTree {
    /// The directories for shares, each with its index and absolute path. Ignores `/` and paths
    /// with components such as `..`.
    #[must_use]
    pub fn new<'a>(paths: impl IntoIterator<Item = (usize, &'a [u8])>) -> Self {
        let mut tree = Self::default();
        for (export, path) in paths {
            let parts: Vec<&[u8]> =
                path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
            let is_plain = parts.iter().all(|part| !matches!(*part, b"." | b".."));
            if path.first() == Some(&b'/') && is_plain {
                tree.add(export, &parts);
            }
        }
        tree
    }

    fn add(&mut self, export: usize, parts: &[&[u8]]) {
        let Some((last, above)) = parts.split_last() else { return };
        let mut at = 0;
        let mut number = FNV_START;
        for part in above {
            number = fnv(fnv(number, part), b"/");
            let Some(next) = self.ensure_directory(at, part, number) else { return };
            at = next;
        }
        let child = self.directories[at].children.entry(last.to_vec()).or_default();
        // Of two shares with the same path the first gets it.
        if child.export.is_none() {
            child.export = Some(export);
            self.note_below(at, export);
        }
    }

    /// The child directory of this name, created on demand. None if its number collides.
    fn ensure_directory(&mut self, at: usize, name: &[u8], number: u64) -> Option<usize> {
        if let Some(known) =
            self.directories[at].children.get(name).and_then(|child| child.directory)
        {
            return Some(known);
        }
        let id = PseudoId { index: self.directories.len(), number };
        if number == 0 || self.by_inode.contains_key(&id.inode()) {
            return None;
        }
        self.by_inode.insert(id.inode(), id.index);
        let parent = self.directories[at].id;
        self.directories.push(PseudoDirectory {
            id,
            parent,
            children: BTreeMap::new(),
            exports: Vec::new(),
        });
        self.directories[at].children.entry(name.to_vec()).or_default().directory = Some(id.index);
        Some(id.index)
    }

    fn note_below(&mut self, mut at: usize, export: usize) {
        loop {
            self.directories[at].exports.push(export);
            if at == 0 {
                return;
            }
            at = self.directories[at].parent.index;
        }
    }

    /// Whether any share has a path.
    #[must_use]
    pub fn has_paths(&self) -> bool {
        !self.directories[0].exports.is_empty()
    }

    /// The directory with this handle.
    #[must_use]
    pub fn of_handle(&self, handle: &[u8]) -> Option<PseudoId> {
        if *handle == [0; 8] {
            return Some(ROOT);
        }
        if !is_handle(handle) {
            return None;
        }
        let number = u64::from_be_bytes(*handle.last_chunk()?);
        let inode = PseudoId { index: 0, number }.inode();
        let found = self.directories.get(*self.by_inode.get(&inode)?)?.id;
        (found.number == number).then_some(found)
    }

    /// The parent directory.
    #[must_use]
    pub fn parent(&self, id: PseudoId) -> PseudoId {
        self.directories.get(id.index).map_or(ROOT, |directory| directory.parent)
    }

    /// Whether the directory leads the client to a share that it may reach.
    #[must_use]
    pub fn verdict(&self, id: PseudoId, exports: &[Arc<Export>], peer: IpAddr) -> HostVerdict {
        if id.is_root() {
            return HostVerdict::Admitted;
        }
        let below =
            self.directories.get(id.index).into_iter().flat_map(|directory| &directory.exports);
        let mut verdict = HostVerdict::Refused;
        for export in below.filter_map(|export| exports.get(*export)) {
            match export.verdict(peer) {
                HostVerdict::Admitted => return HostVerdict::Admitted,
                HostVerdict::Unanswered if verdict == HostVerdict::Refused => {
                    verdict = HostVerdict::Unanswered;
                }
                HostVerdict::Refused | HostVerdict::Unanswered => {}
                HostVerdict::Unknown => verdict = HostVerdict::Unknown,
            }
        }
        verdict
    }

    /// The target of a name for the client. An outer share hides shares within it: its own
    /// directories apply.
    #[must_use]
    pub fn find<'a>(
        &self,
        id: PseudoId,
        name: &[u8],
        exports: &'a [Arc<Export>],
        peer: IpAddr,
    ) -> Option<PseudoTarget<'a>> {
        let child = self.directories.get(id.index)?.children.get(name)?;
        self.target_for(child, exports, peer)
    }

    fn target_for<'a>(
        &self,
        child: &Child,
        exports: &'a [Arc<Export>],
        peer: IpAddr,
    ) -> Option<PseudoTarget<'a>> {
        if let Some(export) = child.export.and_then(|export| exports.get(export)) {
            match export.verdict(peer) {
                HostVerdict::Admitted => return Some(PseudoTarget::Export(export)),
                HostVerdict::Unknown => return Some(PseudoTarget::Unknown),
                HostVerdict::Refused | HostVerdict::Unanswered => {}
            }
        }
        let directory = self.directories.get(child.directory?)?.id;
        match self.verdict(directory, exports, peer) {
            HostVerdict::Admitted => Some(PseudoTarget::Directory(directory)),
            HostVerdict::Unknown => Some(PseudoTarget::Unknown),
            HostVerdict::Refused | HostVerdict::Unanswered => None,
        }
    }

    /// Lists the entries that the client may see, with their targets.
    pub fn list<'a>(
        &'a self,
        id: PseudoId,
        exports: &'a [Arc<Export>],
        peer: IpAddr,
    ) -> impl Iterator<Item = (&'a [u8], PseudoTarget<'a>)> {
        let children =
            self.directories.get(id.index).into_iter().flat_map(|directory| &directory.children);
        children.filter_map(move |(name, child)| {
            Some((&name[..], self.target_for(child, exports, peer)?))
        })
    }
}

/// READDIR cookie of an entry, which also orders the entries. It depends on the name alone, so it
/// reveals no hidden sibling and is stable when siblings come and go.
pub fn cookie_of(name: &[u8]) -> u64 {
    // RFC 8881 18.23.3 reserves 0 to 2. Some clients read values from 2^63 on as negative.
    (fnv(FNV_START, name) >> 1) | COOKIE_BIT
}

/// See [`cookie_of`].
const COOKIE_BIT: u64 = 1 << 62;
const FNV_START: u64 = 0xCBF2_9CE4_8422_2325;

/// FNV-1a with 64 bits: numbers of paths must not depend on the process.
fn fnv(number: u64, bytes: &[u8]) -> u64 {
    let step = |number: u64, byte: &u8| (number ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
    bytes.iter().fold(number, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pseudo_handle_is_independent_of_other_shares() {
        let one = PseudoTree::new([(0, &b"/srv/deep/data"[..])]);
        let two = PseudoTree::new([(0, &b"/home"[..]), (1, b"/srv/a"), (2, b"//srv//deep/x/")]);
        for tree in [&one, &two] {
            let handles: Vec<_> =
                tree.directories.iter().map(|directory| directory.id.handle()).collect();
            for handle in &handles {
                let found = tree.of_handle(handle).unwrap();
                assert_eq!(found.handle(), *handle);
            }
        }
        let deep = one.directories.last().unwrap().id.handle();
        assert!(two.of_handle(&deep).is_some());
        assert_eq!(two.of_handle(&[0; 8]), Some(ROOT));
        assert_eq!(two.of_handle(&[0; 16]), None);
        let mut other = deep.clone();
        other[15] ^= 1;
        assert_eq!(two.of_handle(&other), None, "of the same number in the file system");
        assert_eq!(two.of_handle(&[deep, vec![0]].concat()), None);
        assert_eq!(two.of_handle(&[0; 4]), None);
    }

    #[test]
    fn path_with_special_components_is_ignored() {
        for path in [&b"/"[..], b"", b"srv/a", b"/srv/../a", b"/./a"] {
            let tree = PseudoTree::new([(0, path)]);
            assert!(
                tree.directories.len() == 1 && tree.directories[0].children.is_empty(),
                "{path:?}"
            );
        }
    }
}
