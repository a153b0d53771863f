//! Classification of operations: cost, effect, group, and name in the metrics.
//!
//! The tables list every operation, so that a new one does not compile before it is classified.

use meter::NfsOperation;
use wire::nfs::Operation;
use wire::nfs::ops::{NfsOpenHow, ShareAccess};

/// Operations that this server does not support.
macro_rules! unsupported {
    () => {
        Operation::OpenAttr(_)
            | Operation::SetSsv(_)
            | Operation::DelegPurge(_)
            | Operation::WantDelegation(_)
            | Operation::GetDirDelegation(_)
            | Operation::WriteSame(_)
            | Operation::CopyNotify(_)
            | Operation::LayoutGet(_)
            | Operation::LayoutCommit(_)
            | Operation::LayoutReturn(_)
            | Operation::LayoutError(_)
            | Operation::LayoutStats(_)
            | Operation::GetDeviceInfo(_)
            | Operation::GetDeviceList(_)
    };
}

/// File handles, data and attributes: [`Group::Files`].
macro_rules! files_group {
    () => {
        Operation::PutFh(_)
            | Operation::PutPubFh
            | Operation::PutRootFh
            | Operation::GetFh
            | Operation::SaveFh
            | Operation::RestoreFh
            | Operation::Sequence(_)
            | Operation::Access(_)
            | Operation::GetAttr(_)
            | Operation::SetAttr(_)
            | Operation::Verify(_)
            | Operation::NVerify(_)
            | Operation::Read(_)
            | Operation::Write(_)
            | Operation::Commit(_)
    };
}

/// Names in directories: [`Group::Names`].
macro_rules! names_group {
    () => {
        Operation::Lookup(_)
            | Operation::LookupParent
            | Operation::ReadLink
            | Operation::ReadDir(_)
            | Operation::Create(_)
            | Operation::Remove(_)
            | Operation::Rename(_)
            | Operation::Link(_)
            | Operation::SecInfo(_)
            | Operation::SecInfoNoName(_)
    };
}

/// Opens, locks, sessions and clients: [`Group::State`].
macro_rules! state_group {
    () => {
        Operation::Open(_)
            | Operation::OpenDowngrade(_)
            | Operation::DelegReturn(_)
            | Operation::Close(_)
            | Operation::Lock(_)
            | Operation::LockTest(_)
            | Operation::Unlock(_)
            | Operation::TestStateId(_)
            | Operation::FreeStateId(_)
            | Operation::ExchangeId(_)
            | Operation::CreateSession(_)
            | Operation::BindConnToSession(_)
            | Operation::BackchannelCtl(_)
            | Operation::DestroySession(_)
            | Operation::DestroyClientId(_)
            | Operation::ReclaimComplete(_)
    };
}

/// NFSv4.2 and extended attributes: [`Group::Extensions`].
macro_rules! extensions_group {
    () => {
        Operation::Allocate(_)
            | Operation::Deallocate(_)
            | Operation::Seek(_)
            | Operation::IoAdvise(_)
            | Operation::ReadPlus(_)
            | Operation::Copy(_)
            | Operation::OffloadStatus(_)
            | Operation::OffloadCancel(_)
            | Operation::Clone(_)
            | Operation::GetXattr(_)
            | Operation::SetXattr(_)
            | Operation::ListXattrs(_)
            | Operation::RemoveXattr(_)
    };
}

/// Operations with the same name in the metrics: those with arguments, then those without.
macro_rules! same_name {
    ($operation:ident: $($with:ident)*; $($without:ident)*) => {
        match $operation {
            $(Operation::$with(_) => NfsOperation::$with,)*
            $(Operation::$without => NfsOperation::$without,)*
        }
    };
}

pub(crate) use {extensions_group, files_group, names_group, state_group, unsupported};

/// Charge of an operation to the limits of its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// No charge: the operation selects a file or session, or touches no file.
    Nothing,
    /// One operation, before it starts.
    Metadata,
    /// One operation, unless an earlier operation on the same file handle covers it:
    /// [`crate::limits::ATTRIBUTE_OPS_PER_CHARGE`].
    MetadataAlone,
    /// After the lookup of its open, by bytes for reads and writes, and also by the limits of the
    /// file. Only [`crate::ops::paid_open`] finds such an open.
    ByOpen,
}

/// The charge of an operation.
#[must_use]
pub fn charge(operation: &Operation<'_>) -> Charge {
    match operation {
        Operation::Access(_)
        | Operation::GetAttr(_)
        | Operation::Verify(_)
        | Operation::NVerify(_)
        | Operation::SecInfo(_)
        | Operation::SecInfoNoName(_) => Charge::MetadataAlone,
        Operation::Close(_)
        | Operation::Create(_)
        | Operation::GetXattr(_)
        | Operation::Link(_)
        | Operation::ListXattrs(_)
        | Operation::Lock(_)
        | Operation::LockTest(_)
        | Operation::Unlock(_)
        | Operation::Lookup(_)
        | Operation::LookupParent
        | Operation::Open(_)
        | Operation::OpenDowngrade(_)
        | Operation::ReadDir(_)
        | Operation::ReadLink
        | Operation::Remove(_)
        | Operation::RemoveXattr(_)
        | Operation::Rename(_)
        | Operation::SetAttr(_)
        | Operation::SetXattr(_) => Charge::Metadata,
        Operation::Allocate(_)
        | Operation::Clone(_)
        | Operation::Commit(_)
        | Operation::Copy(_)
        | Operation::Deallocate(_)
        | Operation::IoAdvise(_)
        | Operation::Read(_)
        | Operation::ReadPlus(_)
        | Operation::Seek(_)
        | Operation::Write(_) => Charge::ByOpen,
        Operation::PutFh(_)
        | Operation::PutPubFh
        | Operation::PutRootFh
        | Operation::GetFh
        | Operation::SaveFh
        | Operation::RestoreFh
        | Operation::BackchannelCtl(_)
        | Operation::BindConnToSession(_)
        | Operation::ExchangeId(_)
        | Operation::CreateSession(_)
        | Operation::DestroySession(_)
        | Operation::DestroyClientId(_)
        | Operation::ReclaimComplete(_)
        | Operation::Sequence(_)
        | Operation::DelegReturn(_)
        | Operation::FreeStateId(_)
        | Operation::TestStateId(_)
        | Operation::OffloadCancel(_)
        | Operation::OffloadStatus(_)
        | unsupported!() => Charge::Nothing,
    }
}

/// Whether an operation changes something, so that its result must fit before it starts.
#[must_use]
pub fn is_change(operation: &Operation<'_>) -> bool {
    match operation {
        Operation::Close(_)
        | Operation::Commit(_)
        | Operation::Create(_)
        | Operation::CreateSession(_)
        | Operation::DelegReturn(_)
        | Operation::DestroySession(_)
        | Operation::DestroyClientId(_)
        | Operation::ExchangeId(_)
        | Operation::FreeStateId(_)
        | Operation::Link(_)
        | Operation::Lock(_)
        | Operation::Unlock(_)
        | Operation::Open(_)
        | Operation::OpenDowngrade(_)
        | Operation::ReclaimComplete(_)
        | Operation::Remove(_)
        | Operation::Rename(_)
        | Operation::SetAttr(_)
        | Operation::Write(_)
        | Operation::Allocate(_)
        | Operation::Clone(_)
        | Operation::Copy(_)
        | Operation::Deallocate(_)
        | Operation::SetXattr(_)
        | Operation::RemoveXattr(_) => true,
        Operation::PutFh(_)
        | Operation::PutPubFh
        | Operation::PutRootFh
        | Operation::GetFh
        | Operation::SaveFh
        | Operation::RestoreFh
        | Operation::Lookup(_)
        | Operation::LookupParent
        | Operation::BackchannelCtl(_)
        | Operation::BindConnToSession(_)
        | Operation::Sequence(_)
        | Operation::Access(_)
        | Operation::GetAttr(_)
        | Operation::Verify(_)
        | Operation::NVerify(_)
        | Operation::ReadDir(_)
        | Operation::ReadLink
        | Operation::Read(_)
        | Operation::LockTest(_)
        | Operation::TestStateId(_)
        | Operation::SecInfo(_)
        | Operation::SecInfoNoName(_)
        | Operation::Seek(_)
        | Operation::ReadPlus(_)
        | Operation::IoAdvise(_)
        | Operation::OffloadCancel(_)
        | Operation::OffloadStatus(_)
        | Operation::GetXattr(_)
        | Operation::ListXattrs(_)
        | unsupported!() => false,
    }
}

/// Whether an operation changes a file or a name, or opens a file for that.
#[must_use]
pub fn changes_files(operation: &Operation<'_>) -> bool {
    match operation {
        Operation::Open(args) => {
            args.share_access.contains(ShareAccess::WRITE)
                || matches!(args.how, NfsOpenHow::Create(_))
        }
        Operation::OpenDowngrade(_) | Operation::Commit(_) => false,
        other => stable(other) != Stable::Nothing,
    }
}

/// Changes that must be on stable storage before the reply, on a share with `sync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stable {
    /// None: the operation changes no file, or only what a power loss may take.
    Nothing,
    /// Created or removed names. RFC 1813 1.3 and 4.8, which version 4 retains: clients send
    /// nothing for them when an application syncs a directory.
    Names,
    /// A created name, with the attributes set and a truncation; also an exclusive verifier:
    /// RFC 8881 18.16.3.
    NamesAndFile,
    /// Attributes set: RFC 8881 18.30.4, RFC 8276 8.4.2 and 8.4.4. Space and blocks: RFC 7862 15.1,
    /// 15.4, 15.13.
    File,
    /// Data, if the client requests it, else at COMMIT. RFC 8881 18.3.3, 18.32.3.
    DataIfAsked,
}

/// The stability class of an operation.
#[must_use]
pub fn stable(operation: &Operation<'_>) -> Stable {
    match operation {
        Operation::Create(_) | Operation::Link(_) | Operation::Remove(_) | Operation::Rename(_) => {
            Stable::Names
        }
        Operation::Open(_) => Stable::NamesAndFile,
        Operation::SetAttr(_)
        | Operation::SetXattr(_)
        | Operation::RemoveXattr(_)
        | Operation::Allocate(_)
        | Operation::Deallocate(_)
        | Operation::Clone(_) => Stable::File,
        Operation::Write(_) | Operation::Commit(_) | Operation::Copy(_) => Stable::DataIfAsked,
        // Opens, locks and delegations end with the server; returning clients reclaim them. The
        // journal stores the client records.
        Operation::Close(_)
        | Operation::OpenDowngrade(_)
        | Operation::DelegReturn(_)
        | Operation::Lock(_)
        | Operation::LockTest(_)
        | Operation::Unlock(_)
        | Operation::TestStateId(_)
        | Operation::FreeStateId(_)
        | Operation::ExchangeId(_)
        | Operation::CreateSession(_)
        | Operation::BindConnToSession(_)
        | Operation::BackchannelCtl(_)
        | Operation::DestroySession(_)
        | Operation::DestroyClientId(_)
        | Operation::ReclaimComplete(_)
        | Operation::Sequence(_)
        | Operation::PutFh(_)
        | Operation::PutPubFh
        | Operation::PutRootFh
        | Operation::GetFh
        | Operation::SaveFh
        | Operation::RestoreFh
        | Operation::Lookup(_)
        | Operation::LookupParent
        | Operation::ReadLink
        | Operation::ReadDir(_)
        | Operation::SecInfo(_)
        | Operation::SecInfoNoName(_)
        | Operation::Access(_)
        | Operation::GetAttr(_)
        | Operation::Verify(_)
        | Operation::NVerify(_)
        | Operation::Read(_)
        | Operation::ReadPlus(_)
        | Operation::Seek(_)
        | Operation::IoAdvise(_)
        | Operation::OffloadStatus(_)
        | Operation::OffloadCancel(_)
        | Operation::GetXattr(_)
        | Operation::ListXattrs(_)
        | unsupported!() => Stable::Nothing,
    }
}

/// Part of [`crate::compound::dispatch`] that executes an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// File handles, data and attributes.
    Files,
    /// Names in directories.
    Names,
    /// Opens, locks, sessions and clients.
    State,
    /// NFSv4.2 and extended attributes.
    Extensions,
    /// Not supported: the server replies NOTSUPP under the operation's number, and clients stop
    /// using it.
    Unsupported,
}

/// The group of an operation. [`crate::compound::dispatch`] matches each group by the same patterns, so that
/// an operation that has a group and is not served there does not compile.
#[must_use]
pub fn group(operation: &Operation<'_>) -> Group {
    match operation {
        files_group!() => Group::Files,
        names_group!() => Group::Names,
        state_group!() => Group::State,
        extensions_group!() => Group::Extensions,
        unsupported!() => Group::Unsupported,
    }
}

/// Name of an operation in the metrics.
#[must_use]
pub fn counted_as(operation: &Operation<'_>) -> NfsOperation {
    same_name!(operation:
        PutFh Lookup OpenAttr BackchannelCtl BindConnToSession ExchangeId CreateSession
        DestroySession DestroyClientId ReclaimComplete Sequence SetSsv Access GetAttr
        SetAttr Verify NVerify Create Link ReadDir Remove Rename Read Write Commit Open
        OpenDowngrade Close DelegReturn DelegPurge WantDelegation GetDirDelegation Lock
        LockTest Unlock FreeStateId TestStateId SecInfo SecInfoNoName Allocate Deallocate
        Seek ReadPlus IoAdvise WriteSame Copy CopyNotify Clone OffloadCancel OffloadStatus
        GetXattr SetXattr ListXattrs RemoveXattr LayoutGet LayoutCommit LayoutReturn
        LayoutError LayoutStats GetDeviceInfo GetDeviceList;
        PutPubFh PutRootFh GetFh SaveFh RestoreFh LookupParent ReadLink)
}
