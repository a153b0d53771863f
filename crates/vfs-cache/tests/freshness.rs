//! One request asks once for what was changed before it came. By itself: whatever this process
//! changes meanwhile makes it ask again.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::sync::Arc;
use vfs::{
    Actor, ArrivalOrder, AttributeRequest, Case, Name, OpenHow, RelPath, Timestamp, Vfs, Wait,
};
use vfs_cache::{CacheOptions, CachedVfs, Clock};
use vfs_local::LocalVfs;

/// How a name in the directory `Dir` is spelt, if it is there.
fn spelt(cached: &CachedVfs, who: Actor<'_>, name: &str) -> Option<String> {
    let path: RelPath =
        ["Dir", name].into_iter().map(|name| Name::new(name.as_bytes()).unwrap()).collect();
    let (read, write, no_follow) = (false, false, false);
    let (case, wanted, wait) = (Case::Insensitive, AttributeRequest::default(), Wait::Allowed);
    let how = OpenHow { read, write, case, wanted, no_follow, wait };
    let opened = cached.open(who, &path, how).ok()?;
    Some(String::from_utf8_lossy(opened.path.as_bytes()).into_owned())
}

#[test]
fn a_request_hears_of_what_was_done_before_it_came_and_asks_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join("Dir").join(name);
    std::fs::create_dir(at("")).unwrap();
    let local = Arc::new(LocalVfs::open(folder.path()).unwrap());
    let clock = Clock(Arc::new(|| Timestamp(0)));
    let cached = CachedVfs::new(local, CacheOptions::default(), clock);
    // From the second time on names are known, and who may look for them.
    (0..10).for_each(|_| assert_eq!(spelt(&cached, Actor::SUPERUSER, "NONE"), None));
    for round in 0..100 {
        let [new, late] = ["New", "Late"].map(|name| format!("{name}{round}"));
        std::fs::write(at(&new), b"").unwrap();
        {
            let request = Actor::SUPERUSER.in_order(ArrivalOrder::next());
            let found = spelt(&cached, request, &new.to_uppercase());
            assert_eq!(found, Some(format!("Dir/{new}")), "done before it came");
            std::fs::write(at(&late), b"").unwrap();
            assert_eq!(
                spelt(&cached, request, &late.to_uppercase()),
                None,
                "it does not ask again"
            );
        }
        {
            let request = Actor::SUPERUSER.in_order(ArrivalOrder::next());
            let found = spelt(&cached, request, &late.to_uppercase());
            assert_eq!(found, Some(format!("Dir/{late}")), "the next one does");
        }
    }
}
