//! Delegations against opens, leases and changes of Windows clients.

use crate::harness::*;
use files::{
    Access, CacheBreak, CacheHolder, CacheKeyWish, CacheWish, CachingRights, ClientProtocol,
    Delegation, DelegationKind, NewObject, Object, ObjectChanges, ObjectOpen, OpenAt, OpenFile,
    OpenPlan, OpenProgress, Patience, RequestContext, ShareMode, WaitingOpen, delegation_key,
};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vfs::{ArrivalOrder, FsError};

/// A client that records its break notifications.
#[derive(Debug)]
struct DelegationClient {
    id: [u8; 16],
    breaks: Mutex<Vec<CacheBreak>>,
}

impl CacheHolder for DelegationClient {
    fn handle_break(&self, cache_break: &CacheBreak) {
        self.breaks.lock().unwrap().push(*cache_break);
    }

    fn client(&self) -> Option<[u8; 16]> {
        Some(self.id)
    }
}

impl DelegationClient {
    fn new(id: u8) -> Arc<Self> {
        Arc::new(Self { id: [id; 16], breaks: Mutex::default() })
    }

    /// Number of recalls to no caching.
    fn recalls(&self) -> usize {
        let breaks = std::mem::take(&mut *self.breaks.lock().unwrap());
        assert!(
            breaks
                .iter()
                .all(|cache_break| cache_break.to == CachingRights::NONE && cache_break.acknowledge),
            "{breaks:?}"
        );
        breaks.len()
    }
}

impl ServedVolume {
    fn file(&self, at: &str) -> Object {
        let root = now(self.files.root_object(&self.volume)).unwrap();
        now(self.files.lookup(&self.alice, &root, &name(at))).unwrap()
    }

    fn begin_by(
        &self,
        client: &Arc<DelegationClient>,
        object: &Object,
        access: Access,
    ) -> OpenProgress {
        let key = delegation_key(client.id, object.key());
        let key = CacheKeyWish { key, epoch: 0, parent: None, of_directories: false };
        let caching =
            CacheWish { wanted: CachingRights::NONE, key: Some(key), holder: client.clone() };
        let plan = OpenPlan { caching: Some(caching), ..OpenPlan::posix(access, ShareMode::ALL) };
        let at = OpenAt::Object(object.clone());
        let open = self.files.begin_open_object(&self.alice, &at, plan, ObjectOpen::default());
        now(open).unwrap()
    }

    fn open_by(
        &self,
        client: &Arc<DelegationClient>,
        object: &Object,
        access: Access,
    ) -> Arc<OpenFile> {
        opened(self.begin_by(client, object, access))
    }

    /// An open by the delegation's client, with its delegation.
    fn delegated(
        &self,
        client: &Arc<DelegationClient>,
        object: &Object,
        delegate: DelegationKind,
    ) -> (Arc<OpenFile>, Delegation) {
        let access = if delegate == DelegationKind::Read { READ } else { READ | WRITE };
        let open = self.open_by(client, object, access);
        let delegation =
            self.files.grant_delegation(&open, delegate).unwrap().expect("there is no conflict");
        drop(delegation.granting());
        (open, delegation)
    }

    fn begin(&self, plan: OpenPlan) -> OpenProgress {
        now(self.files.begin_open(&self.volume, &self.alice, plan)).unwrap()
    }

    fn give_back(&self, delegation: Delegation) {
        now(self.files.return_delegation(delegation)).unwrap();
    }
}

fn opened(begun: OpenProgress) -> Arc<OpenFile> {
    match begun {
        OpenProgress::Opened(result) => result.open,
        OpenProgress::Waiting(_) => panic!("it waits"),
    }
}

fn waits(begun: OpenProgress) -> WaitingOpen {
    match begun {
        OpenProgress::Waiting(waiting) => waiting,
        OpenProgress::Opened(_) => panic!("it does not wait"),
    }
}

#[test]
fn windows_writer_waits_for_delegation_return() {
    let served = serve();
    served.put("f", b"x");
    let (client, object) = (DelegationClient::new(1), served.file("f"));
    let (open, delegation) = served.delegated(&client, &object, DelegationKind::Read);
    served.close(served.open("f", READ));
    served.close(open);
    assert_eq!(client.recalls(), 0, "it outlives its open, and readers do not mind");
    let waiting = waits(served.begin(plan("f", WRITE)));
    assert_eq!(client.recalls(), 1);
    let mut waiting = Box::pin(waiting.opened());
    assert!(waiting.as_mut().now_or_never().is_none());
    served.give_back(delegation);
    let writer = waiting.as_mut().now_or_never().expect("it was given back").unwrap().open;
    served.close(writer);
    assert_eq!(client.recalls(), 0);
    served.assert_nothing_held();
}

#[test]
fn open_waits_for_return_of_write_delegation() {
    let served = serve();
    served.put("f", b"x");
    let (one, two, object) = (DelegationClient::new(1), DelegationClient::new(2), served.file("f"));
    let (open, delegation) = served.delegated(&one, &object, DelegationKind::Write);
    let own = served.open_by(&one, &object, READ | WRITE);
    served.files.write(own.caller(), &own, 0, b"own").unwrap();
    assert_eq!(one.recalls(), 0, "its own opens and writes do not disturb it");
    let waiting = waits(served.begin_by(&two, &object, READ));
    assert_eq!(one.recalls(), 1);
    drop(waiting);
    assert!(
        served.files.grant_delegation(&own, DelegationKind::Read).unwrap().is_none(),
        "it has one"
    );
    served.give_back(delegation);
    let reader = served.open_by(&two, &object, READ);
    assert!(
        served.files.grant_delegation(&reader, DelegationKind::Read).unwrap().is_none(),
        "one writes"
    );
    drop((open, own));
    let delegation = served.files.grant_delegation(&reader, DelegationKind::Read).unwrap().unwrap();
    assert_eq!(delegation.delegate(), DelegationKind::Read);
    assert!(!delegation.is_revoked());
}

#[test]
fn open_by_handle_breaks_windows_lease() {
    let served = serve();
    served.put("f", b"x");
    let (windows, client, object) =
        (DelegationClient::new(9), DelegationClient::new(1), served.file("f"));
    let oplock = CacheWish { wanted: CachingRights::EXCLUSIVE, key: None, holder: windows.clone() };
    let plan = OpenPlan { caching: Some(oplock), ..plan("f", READ | WRITE) };
    let holder = served.try_open(plan).unwrap();
    assert_eq!(holder.caching.has, CachingRights::EXCLUSIVE);
    let waiting = waits(served.begin_by(&client, &object, READ));
    assert_eq!(windows.breaks.lock().unwrap().len(), 1);
    served.files.acknowledge(&holder.open, CachingRights::READ).unwrap();
    let reader = waiting.opened().now_or_never().unwrap().unwrap().open;
    assert!(
        served.files.grant_delegation(&reader, DelegationKind::Read).unwrap().is_none(),
        "it may write"
    );
}

#[test]
fn changes_by_others_recall_delegation_and_wait() {
    let served = serve();
    let root = now(served.files.root_object(&served.volume)).unwrap();
    for at in ["f", "g"] {
        served.put(at, b"x");
    }
    let (client, object) = (DelegationClient::new(1), served.file("f"));
    let (_open, first) = served.delegated(&client, &object, DelegationKind::Read);
    let mut delegation = Some(first);
    let mode = ObjectChanges { mode: Some(0o600), ..Default::default() };
    let files = &served.files;
    let (e, f, g, h) = (name("e"), name("f"), name("g"), name("h"));
    let alice = &served.alice;
    let steps: [(&str, futures_util::future::BoxFuture<'_, vfs::Result<()>>); 5] = [
        ("mode", files.set_object_attributes(alice, &object, None, &mode).boxed()),
        ("link", files.link_object(alice, &object, &root, &h).boxed()),
        ("rename", files.rename_object(alice, (&root, &f), (&root, &e)).boxed()),
        ("replace", files.rename_object(alice, (&root, &g), (&root, &e)).boxed()),
        ("remove", files.remove_object(alice, &root, &h).boxed()),
    ];
    for (what, mut step) in steps {
        assert_eq!(step.as_mut().now_or_never(), None, "{what} waits");
        assert_eq!(client.recalls(), 1, "{what}");
        served.give_back(delegation.take().unwrap());
        assert_eq!(step.as_mut().now_or_never(), Some(Ok(())), "{what}");
        let again = served.open_by(&client, &object, READ);
        delegation = files.grant_delegation(&again, DelegationKind::Read).unwrap();
        assert!(delegation.is_some(), "after {what}");
        drop(delegation.as_ref().and_then(Delegation::granting));
    }
}

#[test]
fn own_changes_leave_delegation() {
    let served = serve();
    served.put("f", b"x");
    let (one, two, object) = (DelegationClient::new(1), DelegationClient::new(2), served.file("f"));
    let (open, _delegation) = served.delegated(&one, &object, DelegationKind::Read);
    let (other, _theirs) = served.delegated(&two, &object, DelegationKind::Read);
    let mode = ObjectChanges { mode: Some(0o600), ..Default::default() };
    let set = |by| served.files.set_object_attributes(&served.alice, &object, by, &mode);
    assert!(set(Some(&open)).now_or_never().is_none(), "the other one has one, too");
    assert_eq!((one.recalls(), two.recalls()), (0, 1));
    drop((other, _theirs));
    assert_eq!(set(Some(&open)).now_or_never(), Some(Ok(())));
    let (own, _answer) = served.requests_of(one.id);
    let set = own.set_object_attributes(&served.alice, &object, None, &mode);
    assert_eq!(set.now_or_never(), Some(Ok(())), "the requester is known");
    assert_eq!(one.recalls(), 0);
}

#[test]
fn silent_client_loses_delegation() {
    let served = serve();
    served.put("f", b"x");
    let (client, object) = (DelegationClient::new(1), served.file("f"));
    let (_open, delegation) = served.delegated(&client, &object, DelegationKind::Read);
    let wait = waits(served.begin(plan("f", WRITE))).opened();
    let mut wait = Box::pin(wait);
    assert!(wait.as_mut().now_or_never().is_none(), "its time is not up");
    drop(delegation);
    assert!(wait.as_mut().now_or_never().expect("it was taken away").is_ok());
    assert_eq!(client.recalls(), 1);
}

#[test]
fn impatient_open_gets_delay_and_recall_continues() {
    let served = serve_with(Default::default(), Arc::new(HurriedClock));
    served.put("f", b"x");
    let (client, object) = (DelegationClient::new(1), served.file("f"));
    let (_open, delegation) = served.delegated(&client, &object, DelegationKind::Read);
    let carried = Arc::new(Mutex::new(Vec::new()));
    let carry_on = {
        let carried = carried.clone();
        Arc::new(move |rest| carried.lock().unwrap().push(rest))
    };
    let patience = Patience { limit: Duration::from_secs(5), carry_on };
    let context =
        RequestContext::new(ClientProtocol::Nfs, [2; 16], Some(patience), ArrivalOrder::next());
    let hurried = served.files.for_request(&context, files::CallHolder::Server);
    let mode = ObjectChanges { mode: Some(0o600), ..Default::default() };
    let set = || hurried.set_object_attributes(&served.alice, &object, None, &mode);
    assert_eq!(set().now_or_never(), Some(Err(FsError::Unavailable)));
    assert_eq!((client.recalls(), carried.lock().unwrap().len()), (1, 1));
    drop(delegation);
    assert_eq!(set().now_or_never(), Some(Ok(())));
    carried.lock().unwrap().drain(..).for_each(|rest: BoxFuture<'static, ()>| {
        assert!(rest.now_or_never().is_some(), "no wait is left");
    });
}

#[test]
fn internal_open_leaves_own_delegation() {
    let served = serve();
    served.put("f", b"x");
    let (one, object) = (DelegationClient::new(1), served.file("f"));
    let (open, delegation) = served.delegated(&one, &object, DelegationKind::Write);
    served.close(open);
    let (own, _answer) = served.requests_of(one.id);
    let size = ObjectChanges { size_bytes: Some(0), ..Default::default() };
    let set = own.set_object_attributes(&served.alice, &object, None, &size);
    assert_eq!(set.now_or_never(), Some(Ok(())));
    served
        .files
        .write(delegation.open().caller(), delegation.open(), 0, b"by the delegation alone")
        .unwrap();
    let root = now(served.files.root_object(&served.volume)).unwrap();
    let to = name("g");
    let from = name("f");
    let rename = own.rename_object(&served.alice, (&root, &from), (&root, &to));
    assert_eq!(rename.now_or_never(), Some(Ok(())));
    let remove = own.remove_object(&served.alice, &root, &to);
    assert_eq!(remove.now_or_never(), Some(Ok(())));
    assert_eq!(one.recalls(), 0);
    served.give_back(delegation);
    served.assert_nothing_held();
}

/// A clock on which seconds pass at once, and longer times never.
struct HurriedClock;

impl files::Workers for HurriedClock {
    fn run(&self, _: &files::CallHolder, task: Box<dyn FnOnce() + Send>) {
        task();
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        match time < Duration::from_secs(10) {
            true => Box::pin(std::future::ready(())),
            false => Box::pin(std::future::pending()),
        }
    }
}

#[test]
fn directory_rename_waits_for_delegation_return_below() {
    let served = serve();
    let root = now(served.files.root_object(&served.volume)).unwrap();
    let directory = NewObject::Directory { mode: None };
    let directory =
        now(served.files.create_object(&served.alice, &root, &name("d"), directory)).unwrap();
    served.put("d/f", b"x");
    let object = now(served.files.lookup(&served.alice, &directory, &name("f"))).unwrap();
    let client = DelegationClient::new(1);
    let (open, delegation) = served.delegated(&client, &object, DelegationKind::Write);
    served.close(open);
    let windows = served.open("d", DELETE);
    let to = path("e");
    let mut rename = Box::pin(served.files.rename(&windows, &to, false));
    assert!(rename.as_mut().now_or_never().is_none());
    assert_eq!(client.recalls(), 1);
    served.give_back(delegation);
    assert_eq!(rename.as_mut().now_or_never(), Some(Ok(())));
}

#[test]
fn client_receives_delegation_before_its_recall() {
    let served = serve();
    served.put("f", b"x");
    let (client, object) = (DelegationClient::new(1), served.file("f"));
    let open = served.open_by(&client, &object, READ);
    let delegation = served.files.grant_delegation(&open, DelegationKind::Read).unwrap().unwrap();
    assert!(delegation.granting().is_some() && delegation.granting().is_none());
    let keyless = served.open("f", READ);
    let refused = served.files.grant_delegation(&keyless, DelegationKind::Read);
    assert_eq!(refused.map(|_| ()).unwrap_err(), FsError::InvalidParameter);
}
