//! The operations, step by step.

use super::{
    Cells, FileOperation, ModelAnswer, ModelLock, ModelRequest, ModelRules, ModelState, OpId,
    OperationProgress, ReferenceFile, ReferenceOpen, creates, kinds, replaces,
};
use wire::fscc;
use wire::ntstatus::NtStatus;

/// Possible next states.
type NextStates = Vec<(ModelState, OperationProgress)>;

fn done(state: &ModelState, answer: ModelAnswer) -> NextStates {
    vec![(state.clone(), OperationProgress::Done(answer))]
}

fn refused(state: &ModelState, status: NtStatus) -> NextStates {
    done(state, ModelAnswer::refused(status))
}

fn then(state: ModelState, stage: u8, file: OpId) -> NextStates {
    vec![(state, OperationProgress::At(stage, file))]
}

/// Changes a file, and succeeds.
fn change(state: &ModelState, file: OpId, run: impl FnOnce(&mut ReferenceFile)) -> NextStates {
    let mut state = state.clone();
    state.with_file(file, run);
    done(&state, ModelAnswer::success())
}

impl ModelState {
    /// All possible results of a request's next step; empty if it must wait.
    #[must_use]
    pub fn step(
        &self,
        request: &ModelRequest,
        progress: &OperationProgress,
        rules: ModelRules,
    ) -> NextStates {
        let (stage, file) = match progress {
            OperationProgress::New => (0, 0),
            OperationProgress::At(stage, file) => (*stage, *file),
            OperationProgress::Done(_) => return Vec::new(),
        };
        if let FileOperation::Create { .. } = request.op {
            return self.create(request, stage, file, rules);
        }
        if stage > 0 {
            return self.go_on(request, stage, file, rules);
        }
        let Some(open) = request.op.open() else { return Vec::new() };
        match self.opens.get(&open).filter(|o| !o.is_closing && o.session == request.session) {
            Some(found) => self.begin(request, found, rules),
            None => refused(self, NtStatus::FILE_CLOSED),
        }
    }

    /// The first step on an existing open: access checks.
    fn begin(&self, request: &ModelRequest, open: &ReferenceOpen, rules: ModelRules) -> NextStates {
        let file = open.file;
        let Some(content) = self.files.get(&file) else { return done(self, ModelAnswer::Any) };
        let may = |access| open.access & access != 0;
        match request.op {
            FileOperation::Close { open: id } => {
                let mut state = self.clone();
                if let Some(open) = state.opens.get_mut(&id) {
                    open.is_closing = true;
                }
                then(state, 1, file)
            }
            FileOperation::Dispose { .. } | FileOperation::Rename { .. } if !may(kinds::DELETE) => {
                refused(self, NtStatus::ACCESS_DENIED)
            }
            FileOperation::Flush { .. }
            | FileOperation::SetSize { .. }
            | FileOperation::Write { .. }
                if !may(kinds::WRITE) =>
            {
                refused(self, NtStatus::ACCESS_DENIED)
            }
            FileOperation::Read { .. } if !may(kinds::READ) => {
                refused(self, NtStatus::ACCESS_DENIED)
            }
            FileOperation::Read { open, cells } if !content.may_read(open, cells) => {
                refused(self, NtStatus::FILE_LOCK_CONFLICT)
            }
            FileOperation::SetSize { open, count } => {
                let present = content.cells.len() as u8;
                let at = present.min(count);
                let changed = Cells { at, count: present.max(count) - at };
                if content.may_write(open, changed) {
                    then(self.clone(), 1, file)
                } else {
                    refused(self, NtStatus::FILE_LOCK_CONFLICT)
                }
            }
            FileOperation::Write { open, cells, .. } if !content.may_write(open, cells) => {
                refused(self, NtStatus::FILE_LOCK_CONFLICT)
            }
            FileOperation::Write { .. } => self.write(request, file, rules),
            FileOperation::Lock { .. } => self.lock(request, file),
            FileOperation::Unlock { open, lock } => {
                let mut state = self.clone();
                let had = state.file(file).is_some_and(|f| f.unlock(open, lock));
                let status = if had { NtStatus::SUCCESS } else { NtStatus::RANGE_NOT_LOCKED };
                refused(&state, status)
            }
            _ => then(self.clone(), 1, file),
        }
    }

    /// The steps after the first.
    fn go_on(
        &self,
        request: &ModelRequest,
        stage: u8,
        file: OpId,
        rules: ModelRules,
    ) -> NextStates {
        let mut after = Vec::new();
        let can_break =
            matches!(request.op, FileOperation::Read { .. } | FileOperation::Flush { .. })
                || matches!(request.op, FileOperation::Write { .. });
        if rules.failures && can_break {
            after.extend(done(self, ModelAnswer::Broken));
        }
        let sync = |f: &mut ReferenceFile| {
            if rules.power {
                f.sync();
            }
        };
        after.extend(match request.op {
            FileOperation::Close { open } => self.close(open, stage, file),
            FileOperation::Dispose { open, delete } => match self.opens.get(&open) {
                Some(_) => change(self, file, |f| f.is_delete_pending = delete),
                None => refused(self, NtStatus::FILE_DELETED),
            },
            FileOperation::Flush { .. } | FileOperation::Write { .. } => change(self, file, sync),
            FileOperation::Lock { .. } => self.wait_for_lock(request, stage, file),
            FileOperation::Read { cells, .. } => done(self, self.read(file, cells)),
            FileOperation::Rename { open, to, replace } => self.rename(open, file, to, replace),
            FileOperation::SetSize { count, .. } => change(self, file, |f| f.set_size(count)),
            FileOperation::Create { .. } | FileOperation::Unlock { .. } => Vec::new(),
        });
        after
    }

    fn read(&self, file: OpId, cells: Cells) -> ModelAnswer {
        // The file was closed and removed meanwhile, so the contents are undefined.
        let Some(file) = self.files.get(&file) else { return ModelAnswer::Any };
        let range = usize::from(cells.at)..usize::from(cells.end()).min(file.cells.len());
        match file.cells.get(range) {
            Some(found) if !found.is_empty() => ModelAnswer::Cells(found.to_vec()),
            _ => ModelAnswer::refused(NtStatus::END_OF_FILE),
        }
    }

    fn write(&self, request: &ModelRequest, file: OpId, rules: ModelRules) -> NextStates {
        let FileOperation::Write { cells, through, .. } = request.op else { return Vec::new() };
        let written = |count| {
            let mut state = self.clone();
            if let Some(file) = state.file(file) {
                file.write(Cells { count, ..cells }, request.stamp());
            }
            state
        };
        let mut after = if through {
            then(written(cells.count), 1, file)
        } else {
            done(&written(cells.count), ModelAnswer::success())
        };
        if rules.failures {
            after.extend((0..=cells.count).flat_map(|n| done(&written(n), ModelAnswer::Broken)));
        }
        after
    }

    fn lock(&self, request: &ModelRequest, file: OpId) -> NextStates {
        let FileOperation::Lock { open, lock, exclusive, waits } = request.op else {
            return Vec::new();
        };
        let wanted = ModelLock { open, cells: lock, exclusive };
        let taken = self.files.get(&file).is_some_and(|f| f.is_locked_against(&wanted));
        match (taken, waits) {
            (false, _) => change(self, file, |f| f.lock(wanted)),
            (true, false) => refused(self, NtStatus::LOCK_NOT_GRANTED),
            (true, true) => then(self.clone(), 1, file),
        }
    }

    /// Stage 1 waits; stage 2 holds the lock, and may have to release it.
    fn wait_for_lock(&self, request: &ModelRequest, stage: u8, file: OpId) -> NextStates {
        let FileOperation::Lock { open, lock, exclusive, .. } = request.op else {
            return Vec::new();
        };
        let wanted = ModelLock { open, cells: lock, exclusive };
        let mut after = Vec::new();
        let is_closing = self.opens.get(&open).is_none_or(|o| o.is_closing);
        if stage == 2 {
            after.extend(done(self, ModelAnswer::success()));
        } else if let Some(content) = self.files.get(&file)
            && self.opens.contains_key(&open)
            && !content.is_locked_against(&wanted)
        {
            let mut state = self.clone();
            state.with_file(file, |f| f.lock(wanted));
            after.extend(then(state, 2, file));
        }
        let mut gives_up = |status| {
            let mut state = self.clone();
            if stage == 2 {
                state.with_file(file, |f| f.release(&wanted));
            }
            after.extend(refused(&state, status));
        };
        if is_closing {
            gives_up(NtStatus::RANGE_NOT_LOCKED);
        }
        if request.is_cancelled {
            gives_up(NtStatus::CANCELLED);
        }
        after
    }

    fn rename(&self, open: OpId, file: OpId, to: u8, replace: bool) -> NextStates {
        let forbids = |(id, o): (OpId, &ReferenceOpen)| {
            id != open && o.access != 0 && o.share & kinds::DELETE == 0
        };
        if !self.opens.contains_key(&open) {
            // The client closed the open meanwhile, and the file may be removed.
            let mut after = refused(self, NtStatus::FILE_DELETED);
            after.extend(refused(self, NtStatus::OBJECT_NAME_NOT_FOUND));
            return after;
        }
        if self.files.get(&file).is_some_and(|f| f.is_delete_pending) {
            return refused(self, NtStatus::ACCESS_DENIED);
        }
        if self.opens_of(file).any(forbids) {
            return refused(self, NtStatus::SHARING_VIOLATION);
        }
        if self.files.get(&file).is_none_or(|f| f.name.is_none()) {
            return refused(self, NtStatus::OBJECT_NAME_NOT_FOUND);
        }
        let mut state = self.clone();
        if let Some(target) = self.named(to).filter(|target| *target != file) {
            if !replace {
                return refused(self, NtStatus::OBJECT_NAME_COLLISION);
            }
            if self.is_kept(target) || self.files[&target].is_delete_pending {
                return refused(self, NtStatus::ACCESS_DENIED);
            }
            state.files.remove(&target);
        }
        state.with_file(file, |f| f.set_name(Some(to)));
        done(&state, ModelAnswer::success())
    }

    /// Stage 1 releases the open; stage 2 removes the file.
    fn close(&self, open: OpId, stage: u8, file: OpId) -> NextStates {
        let mut state = self.clone();
        if stage == 1 {
            if state.release(open) {
                return then(state, 2, file);
            }
        } else {
            state.unlink(file);
        }
        done(&state, ModelAnswer::success())
    }

    /// Stage 1 adds the open of a newly created file; stage 2 truncates a replaced file.
    fn create(
        &self,
        request: &ModelRequest,
        stage: u8,
        file: OpId,
        rules: ModelRules,
    ) -> NextStates {
        let FileOperation::Create { name, access, disposition, delete_on_close, .. } = request.op
        else {
            return Vec::new();
        };
        match (stage, self.named(name)) {
            (0, None) => self.make(request, name, rules),
            (0, Some(_)) if disposition == fscc::FILE_CREATE => {
                refused(self, NtStatus::OBJECT_NAME_COLLISION)
            }
            (0, Some(_)) if delete_on_close && access & kinds::DELETE == 0 => {
                refused(self, NtStatus::ACCESS_DENIED)
            }
            (0, Some(found)) => match self.acquire(request, found) {
                Err(status) => refused(self, status),
                Ok(state) if replaces(disposition) => then(state, 2, found),
                Ok(state) => done(&state, ModelAnswer::Opened(FILE_OPENED)),
            },
            (1, _) => self.enter_made(request, file),
            _ => {
                let mut state = self.clone();
                state.with_file(file, |f| f.set_size(0));
                let superseded = disposition == fscc::FILE_SUPERSEDE;
                let action = if superseded { FILE_SUPERSEDED } else { FILE_OVERWRITTEN };
                done(&state, ModelAnswer::Opened(action))
            }
        }
    }

    /// Another client may open the new file before its creator. Then the creator may have to break
    /// that client's cache, or the file may be gone, and the creation starts over.
    fn enter_made(&self, request: &ModelRequest, file: OpId) -> NextStates {
        let mut after = match self.acquire(request, file) {
            Err(status) => refused(self, status),
            Ok(state) => done(&state, ModelAnswer::Opened(FILE_CREATED)),
        };
        if self.has_opens(file) || !self.files.contains_key(&file) {
            after.push((self.clone(), OperationProgress::New));
        }
        after
    }

    fn make(&self, request: &ModelRequest, name: u8, rules: ModelRules) -> NextStates {
        let FileOperation::Create { access, disposition, delete_on_close, .. } = request.op else {
            return Vec::new();
        };
        if !creates(disposition) {
            return refused(self, NtStatus::OBJECT_NAME_NOT_FOUND);
        }
        if delete_on_close && access & kinds::DELETE == 0 {
            return refused(self, NtStatus::ACCESS_DENIED);
        }
        let mut state = self.clone();
        state
            .files
            .insert(request.id, ReferenceFile { name: Some(name), ..ReferenceFile::default() });
        let mut after = then(state, 1, request.id);
        if rules.failures {
            after.extend(done(self, ModelAnswer::Broken));
        }
        after
    }

    fn acquire(&self, request: &ModelRequest, file: OpId) -> Result<Self, NtStatus> {
        let FileOperation::Create { access, share, disposition, delete_on_close, .. } = request.op
        else {
            return Err(NtStatus::INVALID_PARAMETER);
        };
        if self.files.get(&file).is_none_or(|f| f.is_delete_pending) {
            return Err(NtStatus::DELETE_PENDING);
        }
        // Truncation is a write, which a share mode may prevent.
        let used = access | if replaces(disposition) { kinds::WRITE } else { 0 };
        if self.conflicts(file, used, share) {
            return Err(NtStatus::SHARING_VIOLATION);
        }
        let session = request.session;
        let open = ReferenceOpen {
            file,
            session,
            access,
            share,
            deletes_on_close: delete_on_close,
            is_closing: false,
        };
        let mut state = self.clone();
        state.opens.insert(request.id, open);
        Ok(state)
    }
}

/// Create action. MS-SMB2 2.2.14.
const FILE_SUPERSEDED: u32 = 0;
const FILE_OPENED: u32 = 1;
const FILE_CREATED: u32 = 2;
const FILE_OVERWRITTEN: u32 = 3;
