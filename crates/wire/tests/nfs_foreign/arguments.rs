//! Expected values of the foreign argument bytes.

use super::*;
use wire::nfs::attributes::LayoutContent;

pub fn expected(name: &str) -> Operation<'static> {
    match name {
        "put_fh" => Operation::PutFh(PutFhArgs { object: FileHandle::new(&[1, 2, 3]).unwrap() }),
        "put_root_fh" => Operation::PutRootFh,
        "lookup" => Operation::Lookup(LookupArgs { name: b"name" }),
        "access" => Operation::Access(AccessArgs { access: Access(0x3F) }),
        "get_attr" => Operation::GetAttr(GetAttrArgs { requested: Bitmap4::of(&[0, 33, 82]) }),
        "set_attr" => {
            Operation::SetAttr(SetAttrArgs { state_id: STATE_ID, attributes: SIZE_AND_MODE })
        }
        "read_dir" => Operation::ReadDir(ReadDirArgs {
            cookie: 77,
            cookie_verifier: VERIFIER,
            directory_bytes: 1000,
            bytes_max: 65536,
            requested: Bitmap4::of(&[1, 20]),
        }),
        "create" => Operation::Create(CreateArgs {
            object_type: CreateType::Link(b"target"),
            name: b"link",
            attributes: SIZE_AND_MODE,
        }),
        "close" => Operation::Close(CloseArgs { sequence_id: 1, state_id: STATE_ID }),
        "read" => Operation::Read(ReadArgs { state_id: STATE_ID, offset: 1 << 33, count: 65536 }),
        "write" => Operation::Write(WriteArgs {
            state_id: STATE_ID,
            offset: 4096,
            stable: StableHow::DataSync,
            data: b"hello",
        }),
        "test_state_id" => {
            Operation::TestStateId(TestStateIdArgs { state_ids: List(vec![STATE_ID; 2]) })
        }
        "set_xattr" => Operation::SetXattr(SetXattrArgs {
            option: SetXattrOption::Create,
            name: b"key",
            value: b"value",
        }),
        "list_xattrs" => Operation::ListXattrs(ListXattrsArgs { cookie: 1, bytes_max: 4096 }),
        _ => of_sessions(name)
            .or_else(|| of_opens_and_locks(name))
            .or_else(|| of_copies(name))
            .unwrap_or_else(|| of_layouts(name)),
    }
}

fn of_sessions(name: &str) -> Option<Operation<'static>> {
    Some(match name {
        "exchange_id" => Operation::ExchangeId(ExchangeIdArgs {
            client_owner: ClientOwner { verifier: VERIFIER, owner_id: Opaque(b"owner") },
            flags: ExchangeIdFlags::SUPP_MOVED_REFER | ExchangeIdFlags::USE_NON_PNFS,
            state_protect: StateProtectArgs::None,
            implementation_id: List(vec![ImplementationId {
                domain: Opaque(b"example.org"),
                name: Opaque(b"impl"),
                date: TIME,
            }]),
        }),
        "create_session" => Operation::CreateSession(CreateSessionArgs {
            client_id: ClientId(0x1122_3344_5566_7788),
            sequence_id: 9,
            flags: CreateSessionFlags::CONN_BACK_CHAN,
            fore_channel: ChannelAttributes {
                header_pad_bytes: 0,
                request_bytes_max: 1_049_000,
                response_bytes_max: 1_049_001,
                response_cached_bytes_max: 4096,
                operations_max: 16,
                requests_max: 64,
                rdma_ird: List(vec![]),
            },
            back_channel: ChannelAttributes {
                header_pad_bytes: 0,
                request_bytes_max: 4096,
                response_bytes_max: 4097,
                response_cached_bytes_max: 0,
                operations_max: 2,
                requests_max: 16,
                rdma_ird: List(vec![3]),
            },
            callback_program: 0x4000_0000,
            callback_security: List(vec![
                CallbackSecurity::None,
                CallbackSecurity::Sys(AuthSys {
                    stamp: 1,
                    machine_name: Opaque(b"host"),
                    uid: 1000,
                    gid: 100,
                    groups: Groups::new(&[4, 24]),
                }),
            ]),
        }),
        "sequence" => Operation::Sequence(SequenceArgs {
            session_id: SESSION,
            sequence_id: 3,
            slot_id: 1,
            highest_slot_id: 5,
            cache_this: true,
        }),
        "bind" => Operation::BindConnToSession(BindConnToSessionArgs {
            session_id: SESSION,
            direction: ChannelFromClient::ForeOrBoth,
            use_rdma: false,
        }),
        _ => return None,
    })
}

fn of_opens_and_locks(name: &str) -> Option<Operation<'static>> {
    Some(match name {
        "open_by_name" => Operation::Open(OpenArgs {
            sequence_id: 0,
            share_access: ShareAccess::BOTH | ShareAccess::WANT_READ_DELEG,
            share_deny: ShareDeny::WRITE,
            owner: OWNER,
            how: NfsOpenHow::Create(NfsCreateHow::ExclusiveWithAttributes(VERIFIER, SIZE_AND_MODE)),
            claim: OpenClaim::Null(b"file"),
        }),
        "open_by_handle" => Operation::Open(OpenArgs {
            sequence_id: 0,
            share_access: ShareAccess::READ,
            share_deny: ShareDeny(0),
            owner: OWNER,
            how: NfsOpenHow::NoCreate,
            claim: OpenClaim::DelegateCurrentFileHandle(STATE_ID),
        }),
        "lock_new" => Operation::Lock(LockArgs {
            lock_type: LockType::WriteWait,
            reclaim: false,
            offset: 1,
            length: u64::MAX,
            locker: Locker::New(OpenToLockOwner {
                open_sequence_id: 1,
                open_state_id: STATE_ID,
                lock_sequence_id: 2,
                lock_owner: LOCK_OWNER,
            }),
        }),
        "lock_more" => Operation::Lock(LockArgs {
            lock_type: LockType::Read,
            reclaim: true,
            offset: 0,
            length: 10,
            locker: Locker::Existing(ExistingLockOwner {
                lock_state_id: STATE_ID,
                lock_sequence_id: 3,
            }),
        }),
        "unlock" => Operation::Unlock(UnlockArgs {
            lock_type: LockType::Read,
            sequence_id: 4,
            lock_state_id: STATE_ID,
            offset: 0,
            length: 10,
        }),
        "want_delegation" => Operation::WantDelegation(WantDelegationArgs {
            want: ShareAccess::WANT_READ_DELEG,
            claim: DelegationClaim::Previous(DelegationType::Read),
        }),
        "get_dir_delegation" => Operation::GetDirDelegation(GetDirDelegationArgs {
            signal_available: true,
            notification_types: Bitmap4::of(&[2, 3]),
            child_attributes_delay: TIME,
            directory_attributes_delay: TIME,
            child_attributes: Bitmap4::of(&[1]),
            directory_attributes: Bitmap4::EMPTY,
        }),
        _ => return None,
    })
}

fn of_copies(name: &str) -> Option<Operation<'static>> {
    Some(match name {
        "copy" => Operation::Copy(CopyArgs {
            source_state_id: STATE_ID,
            destination_state_id: STATE_ID,
            source_offset: 1,
            destination_offset: 2,
            count: 3,
            is_consecutive: true,
            is_synchronous: false,
            source_servers: List(vec![NetLocation::Address(NetAddress {
                network_id: b"tcp",
                universal_address: b"192.0.2.1.8.1",
            })]),
        }),
        "clone" => Operation::Clone(CloneArgs {
            source_state_id: STATE_ID,
            destination_state_id: STATE_ID,
            source_offset: 1,
            destination_offset: 2,
            count: 3,
        }),
        "seek" => {
            Operation::Seek(SeekArgs { state_id: STATE_ID, offset: 9, what: DataContent::Hole })
        }
        "io_advise" => Operation::IoAdvise(IoAdviseArgs {
            state_id: STATE_ID,
            offset: 0,
            count: 0,
            hints: Bitmap4::of(&[io_advice::SEQUENTIAL]),
        }),
        "write_same" => Operation::WriteSame(WriteSameArgs {
            state_id: STATE_ID,
            stable: StableHow::FileSync,
            block: AppDataBlock {
                offset: 1,
                block_bytes: 2,
                block_count: 3,
                number_offset: 4,
                block_number: 5,
                pattern_offset: 6,
                pattern: b"pat",
            },
        }),
        _ => return None,
    })
}

fn of_layouts(name: &str) -> Operation<'static> {
    match name {
        "layout_get" => Operation::LayoutGet(LayoutGetArgs {
            signal_available: true,
            layout_type: 1,
            io_mode: LayoutIoMode::ReadWrite,
            offset: 1,
            length: 2,
            length_min: 3,
            state_id: STATE_ID,
            bytes_max: 4096,
        }),
        "layout_return" => Operation::LayoutReturn(LayoutReturnArgs {
            reclaim: false,
            layout_type: 1,
            io_mode: LayoutIoMode::Any,
            what: LayoutReturn::File(LayoutReturnFile {
                offset: 0,
                length: 5,
                state_id: STATE_ID,
                body: b"body",
            }),
        }),
        "layout_commit" => Operation::LayoutCommit(LayoutCommitArgs {
            offset: 1,
            length: 2,
            reclaim: false,
            state_id: STATE_ID,
            last_write_offset: Some(8),
            time_modify: None,
            update: LayoutContent { layout_type: 1, body: b"u" },
        }),
        "get_device_info" => Operation::GetDeviceInfo(GetDeviceInfoArgs {
            device_id: SESSION.0,
            layout_type: 1,
            bytes_max: 100,
            notification_types: Bitmap4::EMPTY,
        }),
        _ => panic!("{name}"),
    }
}
