//! One request drains the feed once. In a process of its own, because every change by the process
//! causes another drain.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::sync::Arc;
use vfs::{
    Actor, ArrivalOrder, AttributeRequest, Case, Name, OpenHow, RelPath, Timestamp, Vfs, Wait,
};
use vfs_cache::{CacheOptions, CachedVfs, Clock};
use vfs_local::LocalVfs;

/// Stored spelling of a name in the directory `Dir`.
fn spelt(cached: &CachedVfs, actor: Actor<'_>, name: &str) -> Option<String> {
    let path: RelPath =
        ["Dir", name].into_iter().map(|name| Name::new(name.as_bytes()).unwrap()).collect();
    let (read, write, no_follow) = (false, false, false);
    let (case, wanted, wait) = (Case::Insensitive, AttributeRequest::default(), Wait::Allowed);
    let how = OpenHow { read, write, case, wanted, no_follow, wait };
    let opened = cached.open(actor, &path, how).ok()?;
    Some(String::from_utf8_lossy(opened.path.as_bytes()).into_owned())
}

#[test]
fn request_sees_earlier_changes_with_one_drain() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join("Dir").join(name);
    std::fs::create_dir(at("")).unwrap();
    let local = Arc::new(LocalVfs::open(folder.path()).unwrap());
    let clock = Clock(Arc::new(|| Timestamp(0)));
    let cached = CachedVfs::new(local, CacheOptions::default(), clock);
    // Names and search permissions are cached from the second request on.
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
