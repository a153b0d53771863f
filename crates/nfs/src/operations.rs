//! What the server takes each operation for: its cost, whether it changes something, who carries it
//! out, and its name in the metrics.
//!
//! The tables name every operation, so that a new one does not compile before it is classified.

use meter::NfsOperation;
use wire::nfs::Operation;
use wire::nfs::ops::{OpenHow, ShareAccess};

/// The operations that this server does not have.
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

/// What has the same name in the metrics: operations with arguments, then those without.
macro_rules! same_name {
    ($operation:ident: $($with:ident)*; $($without:ident)*) => {
        match $operation {
            $(Operation::$with(_) => NfsOperation::$with,)*
            $(Operation::$without => NfsOperation::$without,)*
        }
    };
}

pub(crate) use {extensions_group, files_group, names_group, state_group, unsupported};

/// How an operation is charged to the limits of its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// Not at all: it says which file or session is meant, or does nothing with files.
    Nothing,
    /// As one operation, before it begins.
    Metadata,
    /// As one operation, unless one before it pays for it, on the same file handle:
    /// [`crate::limits::LOOKS_PER_CHARGE`].
    MetadataAlone,
    /// Once its open is known, by its bytes if it reads or writes, and by the limits of the file:
    /// in [`crate::ops::paid_open`], which alone finds such an open.
    ByOpen,
}

/// How an operation is charged.
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

/// Whether an operation changes something, so that there must be room for its answer before it
/// is begun.
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

/// Whether an operation changes a file or a name, or opens a file to do so.
#[must_use]
pub fn changes_files(operation: &Operation<'_>) -> bool {
    match operation {
        Operation::Open(args) => {
            args.share_access.contains(ShareAccess::WRITE) || matches!(args.how, OpenHow::Create(_))
        }
        Operation::OpenDowngrade(_) | Operation::Commit(_) => false,
        other => stable(other) != Stable::Nothing,
    }
}

/// What must be on stable storage before an operation is answered on a share that is stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stable {
    /// Nothing: it changes no file, or nothing that a loss of power may not take.
    Nothing,
    /// The names that it has made or removed. RFC 1813 1.3 and 4.8, which version 4 has kept: clients
    /// do nothing for them when a directory is to be synced.
    Names,
    /// The name, if it was made, with what was set of the file, and what was cut. An exclusive
    /// verifier, too: RFC 8881 18.16.3.
    NamesAndFile,
    /// What was set of the file: RFC 8881 18.30.4, RFC 8276 8.4.2 and 8.4.4; its space and its
    /// blocks: RFC 7862 15.1, 15.4, 15.13.
    File,
    /// Data, if the client asks for that, or else by COMMIT. RFC 8881 18.3.3, 18.32.3.
    DataIfAsked,
}

/// What must be on stable storage before an operation is answered.
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
        // Opens, locks and delegations end with the server; those of clients that come back are
        // taken up again by them. What is known of clients is kept by the journal.
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

/// By which part of [`crate::dispatch`] operations are carried out.
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
    /// None: the server replies NOTSUPP under the operation's number, and clients turn it off.
    Unsupported,
}

/// The group of an operation. [`crate::dispatch`] matches each group by the same patterns, so that
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

/// What an operation is counted as.
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
