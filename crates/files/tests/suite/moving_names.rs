//! Names that are renamed or removed during another call.

use crate::harness::*;
use files::{IfExists, IfMissing, OpenAction, OpenPlan};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use vfs::{FsError, Result};

type PausedOperation = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// Starts an operation at a point of the backend, which then waits; returns it for completion.
fn begin_at(
    served: &ServedVolume,
    when: HookPoint,
    call: impl Future<Output = Result<()>> + Send + 'static,
) -> Arc<Mutex<Option<PausedOperation>>> {
    let begun: Arc<Mutex<Option<PausedOperation>>> = Arc::default();
    let (slot, mut call): (_, PausedOperation) = (begun.clone(), Box::pin(call));
    served.hook_once(when, move |_| {
        let first = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(first.is_pending(), "it waits for its turn");
        *slot.lock().unwrap() = Some(call);
    });
    begun
}

fn end(begun: &Mutex<Option<PausedOperation>>) -> Result<()> {
    now(begun.lock().unwrap().take().expect("it was begun"))
}

#[test]
fn renames_of_one_file_are_serialised() {
    let served = serve();
    served.put("file", b"x");
    let (one, other) = (served.open("file", DELETE), served.open("file", DELETE));
    let (files, open) = (served.files.clone(), other.clone());
    let to = path("second");
    let second =
        begin_at(
            &served,
            HookPoint::BeforeRename,
            async move { files.rename(&open, &to, false).await },
        );
    now(served.files.rename(&one, &path("first"), false)).unwrap();
    // The name is free again, and refers to another file.
    served.put("file", b"other");
    end(&second).unwrap();
    assert_eq!(served.get("second").unwrap(), b"x");
    assert_eq!(served.get("file").unwrap(), b"other");
    assert_eq!(one.path(), path("second"));
}

#[test]
fn close_follows_earlier_rename_request() {
    let served = serve();
    served.put("file", b"x");
    // The close marks the name, so that the rename still finds it free of a mark.
    let plan = OpenPlan { delete_on_close: true, ..plan("file", DELETE) };
    let open = served.try_open(plan).unwrap().open;
    let (files, closing) = (served.files.clone(), open.clone());
    let close =
        begin_at(&served, HookPoint::BeforeRename, async move { files.close(closing).await });
    now(served.files.rename(&open, &path("moved"), false)).unwrap();
    end(&close).unwrap();
    assert!(!served.exists("moved") && !served.exists("file"));
    served.assert_nothing_held();
}

#[test]
fn rename_by_closed_open_is_refused() {
    let served = serve();
    served.put("file", b"x");
    let open = served.open("file", DELETE);
    served.close(open.clone());
    let renamed = now(served.files.rename(&open, &path("moved"), false));
    assert_eq!(renamed, Err(FsError::Stale));
    assert_eq!(now(served.files.link(&open, &path("linked"), false)), Err(FsError::Stale));
    assert!(served.exists("file"));
}

#[test]
fn rename_replaces_file_created_since_lookup() {
    let served = serve();
    served.put("file", b"x");
    let open = served.open("file", DELETE);
    served.hook_once(HookPoint::BeforeRename, |vfs| make_beneath(vfs, "target"));
    assert_eq!(now(served.files.rename(&open, &path("target"), true)), Ok(()));
    assert_eq!(served.get("target").unwrap(), b"x");
}

/// An open changes a file only once it is sure of its identity.
#[test]
fn open_that_lost_to_rename_changed_nothing() {
    let cut = OpenPlan { if_exists: IfExists::Overwrite, ..plan("file", ALL) };
    let doom = OpenPlan { delete_on_close: true, ..plan("file", ALL) };
    for wish in [cut, doom] {
        let served = serve();
        served.put("file", b"old");
        let mover = served.open("file", DELETE);
        let (files, open) = (served.files.clone(), mover.clone());
        served.hook_once(HookPoint::AfterOpen, move |_| {
            now(files.rename(&open, &path("moved"), false)).unwrap();
        });
        assert_eq!(served.refusal(wish), FsError::NotFound);
        served.unhook();
        assert!(!mover.is_delete_pending());
        served.close(mover);
        assert_eq!(served.get("moved").unwrap(), b"old");
        served.assert_nothing_held();
    }
}

#[test]
fn open_that_lost_to_removal_opens_no_removed_file() {
    for if_missing in [IfMissing::Fail, IfMissing::Create] {
        let served = serve();
        served.put("file", b"old");
        let last = served.open("file", DELETE);
        served.files.set_delete(&last, true, false).unwrap();
        let files = served.files.clone();
        served.hook_once(HookPoint::AfterOpen, move |_| now(files.close(last)).unwrap());
        let opened = served.try_open(OpenPlan { if_missing, ..plan("file", ALL) });
        served.unhook();
        match if_missing {
            IfMissing::Fail => assert_eq!(opened.unwrap_err(), FsError::NotFound),
            IfMissing::Create => assert_eq!(opened.unwrap().action, OpenAction::Created),
        }
        assert_eq!(served.exists("file"), if_missing == IfMissing::Create);
        served.assert_nothing_held();
    }
}
