//! Reports of operations to the audit of their share: see [`crate::FileAudit`].

use crate::context::{ClientOrigin, RequestContext};
use crate::file_audit::{OpenUse, is_refusal, outcome_of};
use crate::{
    AuditedOperation, AuditedPath, AuditedUser, Caller, FileAudit, FileEvent, Object, OpenFile,
    Volume,
};
use std::sync::atomic::Ordering;
use vfs::{FileKey, FsError, Name, RelPath, Result};

/// Paths of an event: of the file, and of its new name.
pub(crate) type AuditedPaths = (AuditedPath, Option<AuditedPath>);

impl AuditedUser {
    fn of(caller: &Caller) -> Self {
        Self { name: caller.name.clone(), uid: caller.identity.uid, sid: caller.token.user.clone() }
    }
}

impl AuditedPath {
    fn of(path: &RelPath, key: FileKey) -> Self {
        match path.is_nameless() {
            true => Self::Unknown(key),
            false => Self::Known(path.as_bytes().to_vec()),
        }
    }

    /// The path of a name in an object, or of the object itself.
    pub(crate) fn of_object(object: &Object, name: Option<&Name>) -> Self {
        match name {
            Some(name) if !object.path.is_nameless() => {
                Self::Known(object.path.join(name).as_bytes().to_vec())
            }
            _ => Self::of(&object.path, object.key()),
        }
    }

    /// The path by which a file is open.
    pub(crate) fn of_open(open: &OpenFile) -> Self {
        Self::of(&open.path(), open.key()).with_stream(open.stream().as_ref())
    }

    pub(crate) fn with_stream(self, stream: Option<&vfs::StreamName>) -> Self {
        match (self, stream) {
            (Self::Known(mut path), Some(stream)) => {
                path.push(b':');
                path.extend_from_slice(stream.as_bytes());
                Self::Known(path)
            }
            (path, _) => path,
        }
    }
}

impl FileAudit {
    /// Reports the result of an operation if the share selects it.
    pub(crate) fn report(
        &self,
        origin: Option<ClientOrigin>,
        caller: &Caller,
        (operation, outcome): (AuditedOperation, Result<()>),
        paths: impl FnOnce() -> AuditedPaths,
    ) {
        if !self.selects(operation, outcome) {
            return;
        }
        let (path, new_path) = paths();
        self.sink.take(FileEvent {
            share: self.share.clone(),
            operation,
            user: AuditedUser::of(caller),
            origin,
            path,
            new_path,
            outcome,
        });
    }
}

impl Volume {
    /// The audit of the share, if it has one.
    #[inline]
    pub(crate) fn audit(&self) -> Option<&FileAudit> {
        self.options.audit.as_deref()
    }

    /// Reports the result of an operation by `caller`.
    pub(crate) fn report_operation(
        &self,
        context: &RequestContext,
        caller: &Caller,
        (operation, outcome): (AuditedOperation, Result<()>),
        paths: impl FnOnce() -> AuditedPaths,
    ) {
        if let Some(audit) = self.audit() {
            audit.report(context.origin(), caller, (operation, outcome), paths);
        }
    }
}

impl Object {
    /// Reports an operation that a protocol refuses by its own rules, such as the terms of an NFS
    /// client. `name` is the entry of this directory that it concerns, if any.
    pub fn report_refusal(
        &self,
        context: &RequestContext,
        caller: &Caller,
        (operation, error): (AuditedOperation, FsError),
        name: Option<&Name>,
    ) {
        self.report_operation(context, caller, (operation, Err(error)), name);
    }

    /// Reports the result of an operation on the object, or on the entry `name` of it.
    pub(crate) fn report_operation(
        &self,
        context: &RequestContext,
        caller: &Caller,
        done: (AuditedOperation, Result<()>),
        name: Option<&Name>,
    ) {
        let paths = || (AuditedPath::of_object(self, name), None);
        self.volume.report_operation(context, caller, done, paths);
    }
}

impl OpenFile {
    /// Reports the result of an operation by the open's user.
    pub(crate) fn report_operation<T>(
        &self,
        context: &RequestContext,
        operation: AuditedOperation,
        result: &Result<T>,
    ) {
        let done = (operation, outcome_of(result));
        let paths = || (AuditedPath::of_open(self), None);
        self.volume().report_operation(context, &self.caller, done, paths);
    }

    /// Reports a read by `caller` if it is the first of the open.
    #[inline]
    pub(crate) fn report_read<T>(
        &self,
        context: &RequestContext,
        caller: &Caller,
        result: &Result<T>,
    ) {
        if self.unreported_uses.load(Ordering::Relaxed) != 0 {
            self.report_use(context, caller, OpenUse::READ, outcome_of(result));
        }
    }

    /// Reports a change of data or size by `caller` if it is the first of the open.
    #[inline]
    pub(crate) fn report_write<T>(
        &self,
        context: &RequestContext,
        caller: &Caller,
        result: &Result<T>,
    ) {
        if self.unreported_uses.load(Ordering::Relaxed) != 0 {
            self.report_use(context, caller, OpenUse::WRITE, outcome_of(result));
        }
    }

    #[cold]
    fn report_use(
        &self,
        context: &RequestContext,
        caller: &Caller,
        open_use: OpenUse,
        outcome: Result<()>,
    ) {
        let bit = match outcome {
            Ok(()) => open_use.done,
            Err(error) if is_refusal(error) => open_use.refused,
            Err(_) => return,
        };
        // The load spares later uses the write.
        let is_reported = self.unreported_uses.load(Ordering::Relaxed) & bit == 0
            || self.unreported_uses.fetch_and(!bit, Ordering::Relaxed) & bit == 0;
        if !is_reported {
            let paths = || (AuditedPath::of_open(self), None);
            let done = (open_use.operation, outcome);
            self.volume().report_operation(context, caller, done, paths);
        }
    }
}
