//! Dispatch of operations to their functions, one line each.
//!
//! The future of a request has room for its largest operation and is moved when it starts. So all
//! operations except the most frequent, small ones are boxed.

use crate::ops::{
    allocate, attributes, clone, close, commit, copy, create, delegation, handle, io_advise, link,
    lock, lookup, open, read, read_plus, readdir, readlink, remove, rename, secinfo, seek, session,
    state, write, xattr,
};
use crate::request::operations::{
    Group, extensions_group, files_group, group, names_group, state_group, unsupported,
};
use crate::request::reply::{ReplyBuffer, ResultsBuilder};
use crate::request::run::CompoundRun;
use wire::nfs::ops::{ListXattrsResult, Operation};
use wire::nfs::{NfsStatus, OperationNumber};

impl CompoundRun<'_> {
    /// Executes one operation of a session.
    pub async fn operate(
        &mut self,
        operation: &Operation<'_>,
        is_last: bool,
        answer: &mut ReplyBuffer,
        results: &mut ResultsBuilder,
    ) {
        let number = operation.number();
        // An operation that may change the object voids its attributes.
        let changes_nothing = matches!(
            operation,
            Operation::Access(_) | Operation::GetAttr(_) | Operation::GetFh | Operation::SaveFh
        );
        if !changes_nothing {
            self.seen = None;
        }
        if self.is_refused_as_read_only(operation) {
            return results.fail(answer, number, NfsStatus::ROFS);
        }
        match group(operation) {
            Group::Files => self.operate_files(number, operation, answer, results).await,
            Group::Names => self.operate_names(number, operation, answer, results).await,
            Group::State => self.operate_state(number, operation, is_last, answer, results).await,
            Group::Extensions => self.operate_extension(number, operation, answer, results).await,
            Group::Unsupported => results.fail(answer, number, NfsStatus::NOTSUPP),
        }
    }

    /// Operations on file handles, data and attributes.
    async fn operate_files(
        &mut self,
        number: OperationNumber,
        operation: &Operation<'_>,
        answer: &mut ReplyBuffer,
        results: &mut ResultsBuilder,
    ) {
        match operation {
            Operation::Sequence(_) => results.fail(answer, number, NfsStatus::SEQUENCE_POS),
            Operation::PutFh(args) => results.push(answer, number, &handle::put(self, args)),
            Operation::PutRootFh | Operation::PutPubFh => {
                results.push(answer, number, &handle::put_root(self));
            }
            Operation::GetFh => results.push(answer, number, &handle::get(self)),
            Operation::SaveFh => results.push(answer, number, &self.save()),
            Operation::RestoreFh => results.push(answer, number, &self.restore()),
            Operation::Read(args) => {
                let put = results.begin_put(answer, number);
                let result = read::read(self, args, answer).await;
                results.end_put(answer, put, result);
            }
            Operation::Write(args) => {
                results.push(answer, number, &write::write(self, args).await);
            }
            Operation::Commit(args) => {
                results.push(answer, number, &Box::pin(commit::commit(self, args)).await);
            }
            Operation::GetAttr(args) => match attributes::get(self, args.requested).await {
                Ok(found) => results.put(answer, number, |answer| {
                    found.put(&mut answer.writer(), args.requested);
                    Ok(())
                }),
                Err(status) => results.fail(answer, number, status),
            },
            Operation::Access(args) => {
                results.push(answer, number, &Box::pin(attributes::access(self, args)).await);
            }
            Operation::SetAttr(args) => {
                results.push(answer, number, &Box::pin(attributes::set(self, args)).await);
            }
            Operation::Verify(args) => {
                results.push(answer, number, &Box::pin(attributes::verify(self, args, true)).await);
            }
            Operation::NVerify(args) => {
                results.push(
                    answer,
                    number,
                    &Box::pin(attributes::verify(self, args, false)).await,
                );
            }
            // Other groups: `operate` does not pass them here.
            names_group!() | state_group!() | extensions_group!() | unsupported!() => {
                results.fail(answer, number, NfsStatus::SERVERFAULT);
            }
        }
    }

    /// Operations on names.
    async fn operate_names(
        &mut self,
        number: OperationNumber,
        operation: &Operation<'_>,
        answer: &mut ReplyBuffer,
        results: &mut ResultsBuilder,
    ) {
        match operation {
            Operation::Lookup(args) => {
                results.push(answer, number, &Box::pin(lookup::lookup(self, args)).await);
            }
            Operation::LookupParent => {
                results.push(answer, number, &Box::pin(lookup::lookup_parent(self)).await);
            }
            Operation::ReadLink => {
                let text = Box::pin(readlink::readlink(self)).await;
                results.push(answer, number, &text.as_deref().map_err(|status| *status));
            }
            Operation::ReadDir(args) => {
                let put = results.begin_put(answer, number);
                let result = Box::pin(readdir::readdir(self, args, answer)).await;
                results.end_put(answer, put, result);
            }
            Operation::Create(args) => {
                results.push(answer, number, &Box::pin(create::create(self, args)).await);
            }
            Operation::Remove(args) => {
                results.push(answer, number, &Box::pin(remove::remove(self, args)).await);
            }
            Operation::Rename(args) => {
                results.push(answer, number, &Box::pin(rename::rename(self, args)).await);
            }
            Operation::Link(args) => {
                results.push(answer, number, &Box::pin(link::link(self, args)).await);
            }
            Operation::SecInfo(args) => {
                results.push(answer, number, &Box::pin(secinfo::of_name(self, args)).await);
            }
            Operation::SecInfoNoName(args) => {
                results.push(answer, number, &Box::pin(secinfo::of_handle(self, args)).await);
            }
            // Other groups: `operate` does not pass them here.
            files_group!() | state_group!() | extensions_group!() | unsupported!() => {
                results.fail(answer, number, NfsStatus::SERVERFAULT);
            }
        }
    }

    /// Operations on opens, locks, sessions and clients.
    async fn operate_state(
        &mut self,
        number: OperationNumber,
        operation: &Operation<'_>,
        is_last: bool,
        answer: &mut ReplyBuffer,
        results: &mut ResultsBuilder,
    ) {
        match operation {
            Operation::Open(args) => {
                results.push(answer, number, &Box::pin(open::open(self, args)).await);
            }
            Operation::OpenDowngrade(args) => {
                results.push(answer, number, &open::downgrade(self, args));
            }
            Operation::DelegReturn(args) => {
                results.push(answer, number, &Box::pin(delegation::delegreturn(self, args)).await);
            }
            Operation::Close(args) => {
                results.push(answer, number, &Box::pin(close::close(self, args)).await)
            }
            Operation::Lock(args) => {
                results.push(answer, number, &lock::lock(self, args).reply());
            }
            Operation::LockTest(args) => {
                results.push(answer, number, &Box::pin(lock::test(self, args)).await.test_reply());
            }
            Operation::Unlock(args) => results.push(answer, number, &lock::unlock(self, args)),
            Operation::TestStateId(args) => {
                results.push(answer, number, &state::test(self, args));
            }
            Operation::FreeStateId(args) => {
                results.push(answer, number, &state::free(self, args));
            }
            Operation::ExchangeId(args) => {
                let config = self.config.clone();
                results.push(answer, number, &session::exchange_id(self, &config, args));
            }
            Operation::CreateSession(args) => {
                results.push(answer, number, &Box::pin(session::create_session(self, args)).await);
            }
            Operation::BindConnToSession(_) => results.fail(answer, number, NfsStatus::NOT_ONLY_OP),
            Operation::BackchannelCtl(args) => {
                results.push(answer, number, &session::backchannel_ctl(self, args));
            }
            Operation::DestroySession(args) => {
                results.push(answer, number, &session::destroy_session(self, args, is_last));
            }
            Operation::DestroyClientId(args) => {
                results.push(answer, number, &session::destroy_client(self, args));
            }
            Operation::ReclaimComplete(args) => {
                results.push(answer, number, &session::reclaim_complete(self, args));
            }
            // Other groups: `operate` does not pass them here.
            files_group!() | names_group!() | extensions_group!() | unsupported!() => {
                results.fail(answer, number, NfsStatus::SERVERFAULT);
            }
        }
    }

    /// NFSv4.2 operations and extended attributes.
    async fn operate_extension(
        &mut self,
        number: OperationNumber,
        operation: &Operation<'_>,
        answer: &mut ReplyBuffer,
        results: &mut ResultsBuilder,
    ) {
        match operation {
            Operation::Allocate(args) => {
                results.push(answer, number, &Box::pin(allocate::allocate(self, args)).await);
            }
            Operation::Deallocate(args) => {
                results.push(answer, number, &Box::pin(allocate::deallocate(self, args)).await);
            }
            Operation::Seek(args) => {
                results.push(answer, number, &Box::pin(seek::seek(self, args)).await)
            }
            Operation::IoAdvise(args) => {
                results.push(answer, number, &Box::pin(io_advise::io_advise(self, args)).await);
            }
            Operation::ReadPlus(args) => {
                let put = results.begin_put(answer, number);
                let result = Box::pin(read_plus::read_plus(self, args, answer)).await;
                results.end_put(answer, put, result);
            }
            Operation::Copy(args) => {
                results.push(answer, number, &Box::pin(copy::copy(self, args)).await)
            }
            Operation::OffloadStatus(args) => {
                results.push(answer, number, &copy::offload_status(self, args));
            }
            Operation::OffloadCancel(args) => {
                results.push(answer, number, &copy::offload_cancel(self, args));
            }
            Operation::Clone(args) => {
                results.push(answer, number, &Box::pin(clone::clone(self, args)).await)
            }
            Operation::GetXattr(args) => {
                let value = Box::pin(xattr::get(self, args, answer.room())).await;
                results.push(answer, number, &value.as_deref().map_err(|status| *status));
            }
            Operation::SetXattr(args) => {
                results.push(answer, number, &Box::pin(xattr::set(self, args)).await);
            }
            Operation::ListXattrs(args) => {
                let listed = Box::pin(xattr::list(self, args, answer.room())).await;
                let result = listed.as_ref().map_err(|status| *status).map(|listed| {
                    let names: Vec<&[u8]> = listed.names.iter().map(|n| n.as_bytes()).collect();
                    let (cookie, is_end) = (listed.cookie, listed.is_end);
                    ListXattrsResult { cookie, names: names.into(), is_end }
                });
                results.push(answer, number, &result);
            }
            Operation::RemoveXattr(args) => {
                results.push(answer, number, &Box::pin(xattr::remove(self, args)).await);
            }
            // Other groups: `operate` does not pass them here.
            files_group!() | names_group!() | state_group!() | unsupported!() => {
                results.fail(answer, number, NfsStatus::SERVERFAULT);
            }
        }
    }
}
