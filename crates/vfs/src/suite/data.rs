//! Tests of file data.

use super::*;
use crate::FsError;

fn read(node: &dyn Node, offset: u64, length: usize) -> Vec<u8> {
    let mut bytes = b"before".to_vec();
    let count = node.read(offset, length, &mut bytes, Wait::Allowed).unwrap();
    assert_eq!(bytes.len(), 6 + count);
    assert!(bytes.starts_with(b"before"), "what was there stays");
    bytes.split_off(6)
}

pub fn data_reads_back_at_its_offset(vfs: &dyn Vfs) {
    let node = file(vfs, "a", b"hello");
    node.write(root(), 4096, b"far").unwrap();
    node.write(root(), 1, b"E").unwrap();
    node.write(root(), 9000, b"").unwrap();
    assert_eq!(read(&*node, 0, 6), b"hEllo\0");
    assert_eq!(read(&*node, 4095, 100), b"\0far");
    assert_eq!(read(&*node, 4099, 10), b"");
    assert_eq!(read(&*node, u64::MAX >> 2, 10), b"");
    assert_eq!(read(&*node, 0, 0), b"");
    assert_eq!(node.attributes(AttributeRequest::default()).unwrap().size_bytes, 4099);
    // The backend refuses with nothing appended, or returns the same bytes.
    let mut bytes = Vec::new();
    match node.read(0, 5, &mut bytes, Wait::Never) {
        Ok(5) => assert_eq!(bytes, b"hEllo"),
        other => assert_eq!((other, bytes.len()), (Err(FsError::WouldBlock), 0)),
    }
    node.sync(root(), true).unwrap();
    node.sync(root(), false).unwrap();
    assert_eq!(content_at(vfs, "a").unwrap().len(), 4099);
}

pub fn truncate_and_growth_leave_zeros(vfs: &dyn Vfs) {
    let node = file(vfs, "a", &[7; 5000]);
    node.set_size(root(), 10).unwrap();
    assert_eq!(content(&*node), [7; 10]);
    node.set_size(root(), 5000).unwrap();
    assert_eq!(content(&*node), [vec![7; 10], vec![0; 4990]].concat());
    node.set_size(root(), 0).unwrap();
    node.write(root(), 3, b"x").unwrap();
    assert_eq!(content(&*node), b"\0\0\0x");
}

pub fn holes_read_as_zeros_and_are_not_data(vfs: &dyn Vfs) {
    const FAR: u64 = 1 << 20;
    let node = file(vfs, "a", &[1; 4096]);
    node.write(root(), FAR, &[2; 8192]).unwrap();
    assert_eq!(read(&*node, FAR - 2, 4), [0, 0, 2, 2]);
    match node.need_extents().unwrap().punch_hole(root(), FAR, 4096) {
        Err(FsError::NotSupported) => return,
        other => other.unwrap(),
    }
    assert_eq!(read(&*node, FAR + 4094, 4), [0, 0, 2, 2]);
    let size = || node.attributes(AttributeRequest::default()).unwrap().size_bytes;
    assert_eq!(size(), FAR + 8192);
    node.need_extents().unwrap().punch_hole(root(), FAR + 4096, 1 << 30).unwrap();
    assert_eq!(size(), FAR + 8192, "a hole never makes a file longer");
    assert_eq!(read(&*node, FAR + 4096, 2), [0, 0]);
    let (start, end) = node.need_extents().unwrap().seek_data(0).unwrap().unwrap();
    assert!(start == 0 && end >= 4096);
    assert_eq!(node.need_extents().unwrap().seek_data(FAR + 8192).unwrap(), None);
    if vfs.features().sparse {
        assert!(end < FAR, "{end}");
        assert_eq!(node.need_extents().unwrap().seek_data(end).unwrap(), None);
        assert!(node.attributes(AttributeRequest::default()).unwrap().allocated_bytes < FAR);
    }
}

pub fn allocate_changes_neither_length_nor_content(vfs: &dyn Vfs) {
    let node = file(vfs, "a", b"abc");
    match node.need_extents().unwrap().allocate(root(), 0, 1 << 20) {
        Err(FsError::NotSupported) => return,
        other => other.unwrap(),
    }
    let attributes = node.attributes(AttributeRequest::default()).unwrap();
    assert_eq!(attributes.size_bytes, 3);
    assert!(attributes.allocated_bytes >= 1 << 20);
    assert_eq!(content(&*node), b"abc");
}

pub fn allocate_and_grow_extends_and_never_truncates(vfs: &dyn Vfs) {
    let node = file(vfs, "a", b"abc");
    match node.need_extents().unwrap().allocate_and_grow(root(), 1, 9) {
        Err(FsError::NotSupported) => return,
        other => other.unwrap(),
    }
    assert_eq!(content(&*node), b"abc\0\0\0\0\0\0\0");
    node.write(root(), 20, b"d").unwrap();
    node.need_extents().unwrap().allocate_and_grow(root(), 0, 5).unwrap();
    assert_eq!(node.attributes(AttributeRequest::default()).unwrap().size_bytes, 21);
}

pub fn copy_range_copies_between_files(vfs: &dyn Vfs) {
    let source = file(vfs, "a", &[&[1; 5000][..], &[2; 5000]].concat());
    let target = file(vfs, "b", &[3; 10]);
    let (mut from, mut left) = (4990, 20);
    while left > 0 {
        let copied = target.copy_range(root(), from - 4985, &*source, from, left).unwrap();
        assert!((1..=left).contains(&copied));
        from += copied;
        left -= copied;
    }
    assert_eq!(content(&*target), [vec![3; 5], vec![1; 10], vec![2; 10]].concat());
    assert_eq!(
        target.copy_range(root(), 0, &*source, 10_000, 5).unwrap(),
        0,
        "the source has ended"
    );
}

pub fn clone_shares_whole_blocks_or_nothing(vfs: &dyn Vfs) {
    let bytes = [&[1; 4096][..], &[2; 4096], &[3; 100]].concat();
    let source = file(vfs, "a", &bytes);
    let target = file(vfs, "b", &[4; 4096 * 3]);
    let cloned =
        target.need_extents().unwrap().clone_range(root(), 4096, &*source, 4096, 4096 + 100);
    if !vfs.features().reflink {
        assert_eq!(cloned, Err(FsError::NotSupported));
        return;
    }
    // A range up to the source's end may be unaligned only if the target ends with it.
    assert_eq!(cloned, Err(FsError::InvalidParameter));
    target.set_size(root(), 4096 * 2 + 100).unwrap();
    target.need_extents().unwrap().clone_range(root(), 4096, &*source, 4096, 4096 + 100).unwrap();
    assert_eq!(content(&*target), [&[4; 4096][..], &[2; 4096], &[3; 100]].concat());
    source.write(root(), 4096, &[5]).unwrap();
    assert_eq!(content(&*target)[4096], 2, "what was shared is not one file");
    for (to, from, length) in [(1, 0, 4096), (0, 1, 4096), (0, 0, 100), (0, 0, 1 << 20)] {
        let refused =
            target.need_extents().unwrap().clone_range(root(), to, &*source, from, length);
        assert_eq!(refused, Err(FsError::InvalidParameter), "{to} {from} {length}");
    }
    assert_eq!(
        source.need_extents().unwrap().clone_range(root(), 0, &*source, 0, 4096),
        Err(FsError::InvalidParameter)
    );
}

pub fn access_beyond_the_open_mode_is_refused(vfs: &dyn Vfs) {
    file(vfs, "a", b"abc");
    let open = |at, read, write| vfs.open(root(), &path(at), OpenHow { read, write, ..HOW });
    let looks = open("a", false, false).unwrap().node;
    let mut bytes = Vec::new();
    assert_eq!(looks.read(0, 3, &mut bytes, Wait::Allowed), Err(FsError::OpenMode));
    assert_eq!(looks.write(root(), 0, b"x"), Err(FsError::OpenMode));
    assert_eq!(looks.attributes(AttributeRequest::default()).unwrap().size_bytes, 3);
    let reads = open("a", true, false).unwrap().node;
    assert_eq!(reads.write(root(), 0, b"x"), Err(FsError::OpenMode));
    assert_eq!(content(&*reads), b"abc");
    directory(vfs, "d");
    let directory = open("d", true, true).unwrap().node;
    assert_eq!(directory.write(root(), 0, b"x"), Err(FsError::IsDirectory));
    assert_eq!(directory.read(0, 1, &mut bytes, Wait::Allowed), Err(FsError::IsDirectory));
    assert!(directory.is_empty().unwrap());
    assert_eq!(bytes, b"");
}

pub fn open_file_survives_removal_of_its_name(vfs: &dyn Vfs) {
    let node = file(vfs, "a", b"abc");
    vfs.remove(root(), &path("a"), node.key()).unwrap();
    node.write(root(), 3, b"def").unwrap();
    assert_eq!(content(&*node), b"abcdef");
    assert_eq!(node.attributes(AttributeRequest::default()).unwrap().links, 0);
    let other = file(vfs, "a", b"new");
    assert_ne!(other.key(), node.key());
    assert_eq!(content(&*node), b"abcdef");
}
