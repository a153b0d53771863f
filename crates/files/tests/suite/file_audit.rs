//! Audit of file operations: what a share reports, alike for both protocols.

use crate::harness::*;
use files::{
    AuditedOperation, AuditedPath, BasicChange, Caller, ClientPeer, ClientProtocol, FileAudit,
    FileAuditKind, FileAuditKinds, FileEvent, FileEventSink, IfExists, NewMode, NewObject, Object,
    ObjectChanges, ObjectOpen, OpenAt, OpenFile, OpenPlan, RequestContext, ShareMode, TimeSetting,
    VolumeOptions,
};
use std::sync::{Arc, Mutex};
use vfs::{ArrivalOrder, FsError, Result, TimeChange, Timestamp};

/// Retains the events that it takes.
#[derive(Debug, Default)]
struct RecordedEvents(Mutex<Vec<FileEvent>>);

impl FileEventSink for RecordedEvents {
    fn take(&self, event: FileEvent) {
        self.0.lock().unwrap().push(event);
    }
}

/// A share with an audit, with the directory `d` and the file `d/f`.
struct AuditedShare {
    served: ServedVolume,
    events: Arc<RecordedEvents>,
}

/// Comparable parts of an event.
type ReportedOperation = (AuditedOperation, String, Option<String>, Result<()>);

fn text(path: &AuditedPath) -> String {
    match path {
        AuditedPath::Known(path) => String::from_utf8(path.clone()).unwrap(),
        AuditedPath::Unknown(key) => format!("{key:?}"),
    }
}

impl AuditedShare {
    fn new(kinds: impl IntoIterator<Item = FileAuditKind>) -> Self {
        let events = Arc::<RecordedEvents>::default();
        let kinds = FileAuditKinds::from_iter(kinds);
        let audit = FileAudit::new("data", kinds, events.clone());
        let options = VolumeOptions { audit: Some(Arc::new(audit)), ..VolumeOptions::default() };
        let served = serve_with(options, Arc::new(Inline));
        served.put_directory("d");
        served.put("d/f", b"data");
        let share = Self { served, events };
        share.take();
        share
    }

    /// The events since the last call.
    fn take(&self) -> Vec<FileEvent> {
        std::mem::take(&mut self.events.0.lock().unwrap())
    }

    fn reported(&self) -> Vec<ReportedOperation> {
        let of = |event: FileEvent| {
            let new_path = event.new_path.as_ref().map(text);
            (event.operation, text(&event.path), new_path, event.outcome)
        };
        self.take().into_iter().map(of).collect()
    }

    fn directory(&self) -> Object {
        self.served.object("d").unwrap()
    }

    fn file(&self) -> Object {
        self.served.object("d/f").unwrap()
    }

    /// Opens the file as an NFS client.
    fn open_object(&self, caller: &Arc<Caller>, plan: OpenPlan) -> Result<Arc<OpenFile>> {
        let at = OpenAt::Object(self.file());
        let opened = now(self.served.files.open_object(caller, &at, plan, ObjectOpen::default()))?;
        Ok(opened.open)
    }

    /// Performs an operation by path, as an SMB client does.
    fn perform_by_path(&self, caller: &Arc<Caller>, operation: AuditedOperation) -> Result<()> {
        let (served, files) = (&self.served, &self.served.files);
        let open = |plan| served.try_open_as(caller, plan).map(|opened| opened.open);
        let file = |desired| open(plan("d/f", desired));
        match operation {
            AuditedOperation::Create => open(new_file("d/new")).map(drop),
            AuditedOperation::Delete => {
                let file = file(DELETE)?;
                files.set_delete(&file, true, false)?;
                now(files.close(file))
            }
            AuditedOperation::Link => now(files.link(&file(LOOK)?, &path("d/new"), false)),
            AuditedOperation::Open => file(READ).map(drop),
            AuditedOperation::Overwrite => {
                open(OpenPlan { if_exists: IfExists::Overwrite, ..plan("d/f", WRITE) }).map(drop)
            }
            AuditedOperation::Read => {
                let file = file(READ)?;
                served.read(&file)?;
                served.read(&file).map(drop)
            }
            AuditedOperation::Rename => now(files.rename(&file(DELETE)?, &path("d/new"), false)),
            AuditedOperation::SetAttributes => {
                let modified = TimeSetting::Set(Timestamp(7));
                let change = BasicChange { modified, ..BasicChange::default() };
                files.set_attributes(&*file(files::Access::WRITE_ATTRIBUTES)?, &change)
            }
            AuditedOperation::SetPermissions => {
                files.set_mode(&*file(files::Access::WRITE_DAC)?, 0o600)
            }
            AuditedOperation::Write => {
                let file = file(WRITE)?;
                files.write(caller, &file, 0, b"x")?;
                now(files.set_size(caller, &file, 2))?;
                files.write(caller, &file, 0, b"y")
            }
        }
    }

    /// Performs an operation by handle, as an NFS client does.
    fn perform_by_handle(&self, caller: &Arc<Caller>, operation: AuditedOperation) -> Result<()> {
        let files = &self.served.files;
        let (directory, old, new) = (self.directory(), name("f"), name("new"));
        let set = |changes| now(files.set_object_attributes(caller, &self.file(), None, &changes));
        let posix = |desired| OpenPlan::posix(desired, ShareMode::ALL);
        match operation {
            AuditedOperation::Create => {
                let mode = Some(NewMode::exactly(0o644));
                let kind = vfs::SpecialKind::Fifo;
                let new_object = NewObject::Special { kind, mode };
                now(files.create_object(caller, &directory, &new, new_object)).map(drop)
            }
            AuditedOperation::Delete => now(files.remove_object(caller, &directory, &old)),
            AuditedOperation::Link => {
                now(files.link_object(caller, &self.file(), &directory, &new))
            }
            AuditedOperation::Open => self.open_object(caller, posix(READ)).map(drop),
            AuditedOperation::Overwrite => {
                let plan = OpenPlan { if_exists: IfExists::Overwrite, ..posix(WRITE) };
                self.open_object(caller, plan).map(drop)
            }
            AuditedOperation::Read => {
                let file = self.open_object(caller, posix(READ))?;
                self.served.read(&file)?;
                self.served.read(&file).map(drop)
            }
            AuditedOperation::Rename => {
                now(files.rename_object(caller, (&directory, &old), (&directory, &new)))
            }
            AuditedOperation::SetAttributes => {
                let modified = TimeChange::Set(Timestamp(7));
                set(ObjectChanges { modified, ..ObjectChanges::default() })
            }
            AuditedOperation::SetPermissions => {
                set(ObjectChanges { mode: Some(0o600), ..ObjectChanges::default() })
            }
            AuditedOperation::Write => {
                let file = self.open_object(caller, posix(WRITE))?;
                files.write(caller, &file, 0, b"x")?;
                let by = Some(&file);
                let changes = ObjectChanges { size_bytes: Some(2), ..ObjectChanges::default() };
                now(files.set_object_attributes(caller, &self.file(), by, &changes))?;
                files.write(caller, &file, 0, b"y")
            }
        }
    }
}

/// The one event of an operation.
fn expected(operation: AuditedOperation) -> ReportedOperation {
    let new = || Some("d/new".to_owned());
    let (path, new_path) = match operation {
        AuditedOperation::Create => ("d/new", None),
        AuditedOperation::Link | AuditedOperation::Rename => ("d/f", new()),
        AuditedOperation::Delete
        | AuditedOperation::Open
        | AuditedOperation::Overwrite
        | AuditedOperation::Read
        | AuditedOperation::SetAttributes
        | AuditedOperation::SetPermissions
        | AuditedOperation::Write => ("d/f", None),
    };
    (operation, path.to_owned(), new_path, Ok(()))
}

#[test]
fn both_protocols_report_each_operation_alike() {
    for operation in AuditedOperation::ALL {
        for is_by_path in [true, false] {
            let share = AuditedShare::new([operation.kind()]);
            let caller = Arc::new(share.served.alice.named("alice"));
            match is_by_path {
                true => share.perform_by_path(&caller, operation).unwrap(),
                false => share.perform_by_handle(&caller, operation).unwrap(),
            }
            let events = share.take();
            let [event] = events.as_slice() else {
                panic!("{operation:?} by path {is_by_path}: {events:?}")
            };
            let new_path = event.new_path.as_ref().map(text);
            let reported = (event.operation, text(&event.path), new_path, event.outcome);
            assert_eq!(reported, expected(operation), "by path: {is_by_path}");
            assert_eq!(event.user.name.as_deref(), Some("alice"));
            assert_eq!(event.user.uid, caller.identity.uid);
            assert_eq!(event.user.sid, caller.token.user);
            assert_eq!(&*event.share, "data");
        }
    }
}

#[test]
fn operations_of_other_kinds_are_not_reported() {
    for operation in AuditedOperation::ALL {
        // An operation by path opens its file first.
        let selected = [operation.kind(), FileAuditKind::Open];
        let others = || FileAuditKind::ALL.into_iter().filter(|kind| !selected.contains(kind));
        let share = AuditedShare::new(others());
        share.perform_by_path(&share.served.alice, operation).unwrap();
        assert_eq!(share.reported(), [], "{operation:?}");
        let share = AuditedShare::new(others());
        share.perform_by_handle(&share.served.alice, operation).unwrap();
        assert_eq!(share.reported(), [], "{operation:?}");
    }
}

#[test]
fn refused_operation_is_reported_once() {
    for operation in AuditedOperation::ALL {
        for is_by_path in [true, false] {
            let share = AuditedShare::new([FileAuditKind::Refused]);
            if !share.served.is_root {
                return eprintln!("SKIPPED: only root can act as another user");
            }
            share.served.set_mode("d", 0o755);
            share.served.set_mode("d/f", 0o600);
            let bob = user(4002, 4002);
            let result = match is_by_path {
                true => share.perform_by_path(&bob, operation),
                false => share.perform_by_handle(&bob, operation),
            };
            let reported = share.reported();
            let [(_, _, _, outcome)] = reported.as_slice() else {
                panic!("{operation:?} by path {is_by_path}, {result:?}: {reported:?}")
            };
            assert_eq!(*outcome, result, "{operation:?}");
            assert!(result.is_err(), "{operation:?}");
        }
    }
}

#[test]
fn refused_writes_of_one_open_are_reported_once() {
    let share = AuditedShare::new([FileAuditKind::Refused, FileAuditKind::Write]);
    let open = share.served.open("d/f", READ);
    for _ in 0..3 {
        let refused = share.served.files.write(open.caller(), &open, 0, b"x");
        assert_eq!(refused, Err(FsError::AccessDenied));
    }
    let refused = Err(FsError::AccessDenied);
    assert_eq!(share.reported(), [(AuditedOperation::Write, "d/f".into(), None, refused)]);
}

#[test]
fn absent_name_is_not_reported() {
    let share = AuditedShare::new(FileAuditKind::ALL);
    assert_eq!(share.served.refusal(plan("d/absent", READ)), FsError::NotFound);
    let removed =
        now(share.served.files.remove_object(&share.served.alice, &share.directory(), &name("x")));
    assert_eq!(removed, Err(FsError::NotFound));
    assert_eq!(share.reported(), []);
}

#[test]
fn rename_over_a_file_reports_its_removal() {
    for is_by_path in [true, false] {
        let share = AuditedShare::new([FileAuditKind::Delete, FileAuditKind::Rename]);
        share.served.put("d/new", b"old");
        share.take();
        let files = &share.served.files;
        match is_by_path {
            true => {
                now(files.rename(&share.served.open("d/f", DELETE), &path("d/new"), true)).unwrap();
            }
            false => {
                share.perform_by_handle(&share.served.alice, AuditedOperation::Rename).unwrap()
            }
        }
        let removed = (AuditedOperation::Delete, "d/new".into(), None, Ok(()));
        assert_eq!(share.reported(), [removed, expected(AuditedOperation::Rename)]);
    }
}

#[test]
fn stream_is_reported_with_its_name() {
    let share = AuditedShare::new([FileAuditKind::Delete]);
    let stream = Some(vfs::StreamName::new(b"notes".as_slice()).unwrap());
    let made = share.served.try_open(OpenPlan { stream, ..new_file("d/f") }).unwrap().open;
    share.served.files.set_delete(&made, true, false).unwrap();
    share.served.close(made);
    assert_eq!(share.reported(), [(AuditedOperation::Delete, "d/f:notes".into(), None, Ok(()))]);
}

/// Such an open may end with its connection, when no request is left.
#[test]
fn removal_at_disconnect_reports_the_openers_address() {
    let share = AuditedShare::new([FileAuditKind::Delete]);
    let peer = ClientPeer::new("192.0.2.7:445".parse().unwrap());
    peer.set_name(|| "DESK".into());
    let context = RequestContext::new(ClientProtocol::Smb, [1; 16], None, ArrivalOrder::next())
        .from_peer(&peer);
    let files = share.served.files.for_request(&context, files::CallHolder::Server);
    let with = OpenPlan { delete_on_close: true, ..plan("d/f", DELETE) };
    let opened = now(files.open(&share.served.volume, &share.served.alice, with)).unwrap();
    drop((context, opened));
    let [event] = share.take().try_into().unwrap();
    let origin = event.origin.unwrap();
    assert_eq!((origin.protocol, origin.peer.address), (ClientProtocol::Smb, peer.address));
    assert_eq!(origin.peer.name().map(|name| &**name), Some("DESK"));
}
