//! Projects of store files, if the temporary directory's file system has projects.

use super::*;

/// Assigns a file to a project; false if the file system has none.
fn give(path: &Path, project: u32) -> bool {
    let file = std::fs::File::open(path).unwrap();
    project::give(file.as_fd(), project).is_ok()
}

fn project_of(path: &Path) -> u32 {
    let node = LocalNode::of_stream(std::fs::File::open(path).unwrap().into()).unwrap();
    project::project_of(&node).unwrap()
}

#[test]
fn stream_is_counted_to_the_project_of_its_file() {
    let Some((_folder, share)) = share() else { return };
    drop(share.create("f"));
    if !give(&share.root.join("f"), 70) {
        return eprintln!("skipped: no projects here");
    }
    let node = share.look("f");
    node.need_streams().unwrap().create_stream(WHO, &stream("s"), Case::Insensitive).unwrap();
    node.need_streams().unwrap().write_stream(WHO, &stream("s"), 0, &bytes(LONG, 51)).unwrap();
    assert_eq!(project_of(&share.files()[0]), 70);
    assert!(give(&share.root.join("f"), 71));
    sweep::look_at_all(&mut sweep::Breaks::default());
    assert_eq!(project_of(&share.files()[0]), 71, "what local programs change the look follows");
}

#[test]
fn store_of_another_project_takes_the_file() {
    let Some((folder, share)) = share() else { return };
    if !give(folder.path(), 80) {
        return eprintln!("skipped: no projects here");
    }
    let root = std::fs::File::open(folder.path()).unwrap();
    project::start_inheritance(root.as_fd()).unwrap();
    drop(share.put("f", &bytes(LONG, 52)));
    assert_eq!(project_of(&share.files()[0]), 80);
    drop(share.create("g"));
    assert!(give(&share.root.join("g"), 81));
    let node = share.look("g");
    node.need_streams().unwrap().create_stream(WHO, &stream("s"), Case::Insensitive).unwrap();
    node.need_streams().unwrap().write_stream(WHO, &stream("s"), 0, &bytes(LONG, 53)).unwrap();
    assert_eq!(share.files().iter().map(|file| project_of(file)).max(), Some(81));
}
