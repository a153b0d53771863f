//! A client that addresses files by handle and calls the file layer directly, like the NFS server
//! does. It runs beside the SMB clients and is judged by the same model.

use crate::model::{
    CELL_BYTES, CELLS_MAX, Cells, FileOperation, ModelAnswer, ModelRequest, NAMES, OpId, kinds,
};
use crate::process::Process;
use crate::random::Random;
use crate::server_side::Flag;
use files::{
    Access, Caller, IfExists, IfMissing, Object, ObjectOpen, OpenAction, OpenAt, OpenFile,
    OpenPlan, RequestFiles, ShareMode, Volume,
};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use vfs::{FsError, Name};
use wire::fscc;
use wire::ntstatus::NtStatus;

/// An answer, and the resulting open.
type AnswerAndOpen = (ModelAnswer, Option<Arc<OpenFile>>);
type DirectWork = Pin<Box<dyn Future<Output = AnswerAndOpen> + Send>>;

/// An operation in flight.
pub struct OperationInFlight {
    request: ModelRequest,
    work: DirectWork,
    flag: Arc<Flag>,
}

impl OperationInFlight {
    /// Polls the operation; returns it if it has not finished.
    pub fn go_on(mut self) -> (ModelRequest, Result<AnswerAndOpen, Self>) {
        self.flag.lower();
        let waker = Waker::from(self.flag.clone());
        let request = self.request.clone();
        match self.work.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answered) => (request, Ok(answered)),
            Poll::Pending => (request, Err(self)),
        }
    }
}

/// The client. It has at most one operation in flight.
pub struct Direct {
    /// Its session number.
    pub session: u32,
    at: DirectContext,
    opens: BTreeMap<OpId, Arc<OpenFile>>,
    running: Option<OperationInFlight>,
    /// A fiber is executing its operation.
    pub is_served: bool,
}

/// The context of its operations.
#[derive(Clone)]
struct DirectContext {
    files: RequestFiles,
    volume: Arc<Volume>,
    caller: Arc<Caller>,
}

impl Direct {
    pub fn new(session: u32, process: &Process) -> Self {
        let (files, volume) = (process.files.for_server(), process.volume.clone());
        let at = DirectContext { files, volume, caller: process.environment.caller.clone() };
        Self { session, at, opens: BTreeMap::new(), running: None, is_served: false }
    }

    /// True if it can start an operation.
    pub fn is_idle(&self) -> bool {
        !self.is_served && self.running.is_none()
    }

    /// True if its operation can continue.
    pub fn can_go_on(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.flag.is_raised())
    }

    /// Takes the operation to continue it in a fiber.
    pub fn take(&mut self) -> Option<OperationInFlight> {
        let running = self.running.take();
        self.is_served = running.is_some();
        running
    }

    /// The operation has to wait.
    pub fn put_back(&mut self, running: OperationInFlight) {
        self.is_served = false;
        self.running = Some(running);
    }

    /// An operation has finished.
    pub fn end(&mut self, request: &ModelRequest, open: Option<Arc<OpenFile>>) {
        self.is_served = false;
        if let Some(open) = open {
            self.opens.insert(request.id, open);
        }
    }

    /// Draws the next operation.
    pub fn ask(&mut self, id: OpId, names: u8, random: &mut Random) -> ModelRequest {
        let opens: Vec<OpId> = self.opens.keys().copied().collect();
        let op = match opens.is_empty() || random.percent(30) {
            true => FileOperation::Create {
                name: random.small(names),
                access: random.pick(&[kinds::READ, kinds::WRITE, 3, 3]),
                share: if random.percent(75) { kinds::ALL } else { random.small(8) },
                disposition: random.pick(&[
                    fscc::FILE_OPEN,
                    fscc::FILE_CREATE,
                    fscc::FILE_OPEN_IF,
                    fscc::FILE_OPEN_IF,
                ]),
                delete_on_close: false,
            },
            false => on_open(random.pick(&opens), random),
        };
        let session = self.session;
        let request = ModelRequest { id, session, op, after: None, is_cancelled: false };
        let open = request.op.open().and_then(|open| self.opens.get(&open).cloned());
        if let FileOperation::Close { open } = request.op {
            self.opens.remove(&open);
        }
        let work: DirectWork = match open {
            Some(open) => Box::pin(use_open(self.at.files.clone(), open, request.clone())),
            None => Box::pin(create(self.at.clone(), request.op.clone())),
        };
        self.running =
            Some(OperationInFlight { request: request.clone(), work, flag: Flag::raised() });
        request
    }
}

fn on_open(open: OpId, random: &mut Random) -> FileOperation {
    let at = random.small(CELLS_MAX - 2);
    let cells = Cells { at, count: 1 + random.small(3.min(CELLS_MAX - at)) };
    match random.below(8) {
        0 | 1 => FileOperation::Close { open },
        2 => FileOperation::SetSize { open, count: random.small(CELLS_MAX) },
        3..=5 => FileOperation::Write { open, cells, through: false },
        _ => FileOperation::Read { open, cells },
    }
}

async fn create(at: DirectContext, op: FileOperation) -> AnswerAndOpen {
    match open_named(&at, &op).await {
        Ok(result) => {
            let action = match result.action {
                OpenAction::Created => CREATED,
                _ => OPENED,
            };
            (ModelAnswer::Opened(action), Some(result.open))
        }
        Err(error) => (refused(error), None),
    }
}

async fn open_named(at: &DirectContext, op: &FileOperation) -> vfs::Result<files::OpenResult> {
    let FileOperation::Create { name, access, share, disposition, .. } = *op else {
        return Err(FsError::InvalidParameter);
    };
    let (directory, name) = at.find(NAMES[usize::from(name)]).await?;
    let right = |bit, right| if access & bit != 0 { right } else { Access::NONE };
    let desired = right(kinds::READ, Access::READ_DATA) | right(kinds::WRITE, Access::WRITE_DATA);
    let if_exists = if disposition == fscc::FILE_CREATE { IfExists::Fail } else { IfExists::Open };
    let if_missing =
        if disposition == fscc::FILE_OPEN { IfMissing::Fail } else { IfMissing::Create };
    let plan =
        OpenPlan { if_exists, if_missing, ..OpenPlan::posix(desired, ShareMode(share.into())) };
    let name = OpenAt::Name(directory, name);
    at.files.open_object(&at.caller, &name, plan, ObjectOpen::default()).await
}

impl DirectContext {
    /// The directory of a name, and the name in it.
    async fn find(&self, shown: &str) -> vfs::Result<(Object, Name)> {
        let mut object = self.files.root_object(&self.volume).await?;
        let mut parts: Vec<&str> = shown.split('\\').collect();
        let last = Name::new(parts.pop().unwrap_or_default().as_bytes())?;
        for part in parts {
            let name = Name::new(part.as_bytes())?;
            object = self.files.lookup(&self.caller, &object, &name).await?;
        }
        Ok((object, last))
    }
}

async fn use_open(
    files: RequestFiles,
    open: Arc<OpenFile>,
    request: ModelRequest,
) -> AnswerAndOpen {
    let bytes = |cells: u8| u64::from(cells) * CELL_BYTES as u64;
    let result = match request.op {
        FileOperation::Close { .. } => files.close(open).await,
        FileOperation::Read { cells, .. } => {
            let mut data = Vec::new();
            let length = usize::from(cells.count) * CELL_BYTES;
            match files.read(&open, bytes(cells.at), length, &mut data).await {
                Ok(0) => return (ModelAnswer::Status(NtStatus::END_OF_FILE.0), None),
                Ok(_) => {
                    let whole = |cell: &[u8]| cell.iter().all(|byte| *byte == cell[0]);
                    assert!(data.chunks(CELL_BYTES).all(whole), "a torn cell is read");
                    let cells = data.chunks(CELL_BYTES).map(|cell| cell[0]).collect();
                    return (ModelAnswer::Cells(cells), None);
                }
                Err(error) => Err(error),
            }
        }
        FileOperation::SetSize { count, .. } => {
            files.set_size(open.caller(), &open, bytes(count)).await
        }
        FileOperation::Write { cells, .. } => {
            let data = vec![request.stamp(); usize::from(cells.count) * CELL_BYTES];
            files.write(open.caller(), &open, bytes(cells.at), &data)
        }
        _ => Err(FsError::NotSupported),
    };
    (result.map_or_else(refused, |()| ModelAnswer::Status(NtStatus::SUCCESS.0)), None)
}

/// Create action. MS-SMB2 2.2.14.
const OPENED: u32 = 1;
const CREATED: u32 = 2;

/// Converts an error to the model's terms.
fn refused(error: FsError) -> ModelAnswer {
    let status = match error {
        FsError::AccessDenied => NtStatus::ACCESS_DENIED,
        FsError::AlreadyExists => NtStatus::OBJECT_NAME_COLLISION,
        FsError::DeletePending => NtStatus::DELETE_PENDING,
        FsError::LockConflict => NtStatus::FILE_LOCK_CONFLICT,
        FsError::NoSpace => NtStatus::DISK_FULL,
        FsError::NotFound => NtStatus::OBJECT_NAME_NOT_FOUND,
        FsError::ShareViolation => NtStatus::SHARING_VIOLATION,
        _ => NtStatus::UNEXPECTED_IO_ERROR,
    };
    ModelAnswer::Status(status.0)
}
