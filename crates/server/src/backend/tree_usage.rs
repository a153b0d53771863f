//! The used size of a tree, measured through its backend.

use super::SpaceMeter;
use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use vfs::{Actor, AttributeRequest, FileKind, Name, Node, OpenHow, RelPath, ServerWork, Vfs, Wait};

/// Hard-linked files that are recognised; further ones count once per name.
const LINKED_MAX: usize = 1 << 20;

/// Names of a directory that are in memory at a time.
const NAMES_MAX: usize = 1024;

/// Measures a tree by listing it, for a backend whose storage does not count by itself.
///
/// Directories whose path is longer than the backend takes are left out.
#[derive(Clone, Debug)]
pub struct TreeUsage(
    /// The tree.
    pub Arc<dyn Vfs>,
);

impl SpaceMeter for TreeUsage {
    fn used_bytes(&self) -> io::Result<u64> {
        let actor = Actor::server(ServerWork::ShareRoot);
        let open = |path: &RelPath, reads| {
            let how = OpenHow { read: reads, ..OpenHow::looking(Wait::Allowed) };
            self.0.open(actor, path, how)
        };
        let top = open(&RelPath::root(), false).map_err(io::Error::other)?.attributes;
        let (mut bytes, mut linked) = (top.allocated_bytes, HashSet::new());
        let mut directories = vec![RelPath::root()];
        while let Some(path) = directories.pop() {
            let Ok(opened) = open(&path, true) else { continue };
            for name in NameBatches::of(&*opened.node).flatten() {
                let wanted = AttributeRequest { dos: None };
                let Ok(found) = opened.node.child_attributes(actor, &name, wanted) else {
                    continue;
                };
                let is_directory = found.kind == FileKind::Directory;
                let has_others = !is_directory && found.links > 1;
                if found.key.device != top.key.device
                    || (has_others && linked.len() < LINKED_MAX && !linked.insert(found.key))
                {
                    continue;
                }
                bytes += found.allocated_bytes;
                let mut child = path.clone();
                if is_directory && child.try_push(name.as_bytes()).is_ok() {
                    directories.push(child);
                }
            }
        }
        Ok(bytes)
    }
}

/// The names in a directory up to the first error, at most [`NAMES_MAX`] at a time.
struct NameBatches<'a> {
    directory: &'a dyn Node,
    /// Where the listing continues; `None` at its end.
    cookie: Option<u64>,
}

impl<'a> NameBatches<'a> {
    fn of(directory: &'a dyn Node) -> Self {
        Self { directory, cookie: Some(0) }
    }
}

impl Iterator for NameBatches<'_> {
    type Item = Vec<Name>;

    fn next(&mut self) -> Option<Vec<Name>> {
        let mut names = Vec::new();
        let mut last = self.cookie.take()?;
        let listed = self.directory.readdir(last, &mut |entry| {
            names.push(entry.name);
            last = entry.next;
            names.len() < NAMES_MAX
        });
        // A backend that stops without an entry would otherwise be asked for ever.
        self.cookie = (listed == Ok(false) && !names.is_empty()).then_some(last);
        Some(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::memory::{MemoryOptions, MemoryVfs, StillClock};
    use vfs::{Case, CreateHow, Replace};

    fn create(vfs: &MemoryVfs, path: &str, kind: FileKind) -> Arc<dyn Node> {
        let path = RelPath::of_bytes(path.as_bytes()).unwrap();
        let how = CreateHow::plain(kind, 0o755);
        vfs.create(Actor::SUPERUSER, &path, Case::Sensitive, how).unwrap().node
    }

    #[test]
    fn large_directory_is_listed_in_batches_and_counted_once() {
        let options = MemoryOptions::default();
        let vfs = Arc::new(MemoryVfs::new(options, Arc::new(StillClock::default())));
        let meter = TreeUsage(vfs.clone());
        let directory = create(&vfs, "a", FileKind::Directory);
        let empty = meter.used_bytes().unwrap();
        let mut allocated = 0;
        for number in 0..2 * NAMES_MAX + 1 {
            let file = create(&vfs, &format!("a/{number}"), FileKind::File);
            file.write(Actor::SUPERUSER, 0, b"data").unwrap();
            allocated += file.attributes(AttributeRequest::default()).unwrap().allocated_bytes;
        }
        assert!(allocated > 0);
        assert_eq!(meter.used_bytes().unwrap() - empty, allocated);
        let batches: Vec<usize> = NameBatches::of(&*directory).map(|names| names.len()).collect();
        assert_eq!(batches, [NAMES_MAX, NAMES_MAX, 1]);
    }

    #[test]
    fn tree_usage_counts_hard_links_once_at_any_depth() {
        let options = MemoryOptions::default();
        let vfs = Arc::new(MemoryVfs::new(options, Arc::new(StillClock::default())));
        let meter = TreeUsage(vfs.clone());
        let empty = meter.used_bytes().unwrap();
        create(&vfs, "a", FileKind::Directory);
        create(&vfs, "a/b", FileKind::Directory);
        let file = create(&vfs, "a/b/file", FileKind::File);
        file.write(Actor::SUPERUSER, 0, &vec![1; 1 << 20]).unwrap();
        let again = RelPath::of_bytes(b"again").unwrap();
        vfs.link(Actor::SUPERUSER, &*file, &again, Replace::Never).unwrap();
        let used = meter.used_bytes().unwrap() - empty;
        assert!((1 << 20..(1 << 20) + 65_536).contains(&used), "{used}");
    }
}
