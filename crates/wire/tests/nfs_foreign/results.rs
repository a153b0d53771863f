//! Expected values of the foreign result bytes.

use super::*;
use wire::nfs::rpc::AuthFlavor;

pub fn expected(name: &str) -> OperationResult<'static> {
    match name {
        "get_attr" => OperationResult::GetAttr(Ok(TYPE_AND_SIZE)),
        "set_attr" => OperationResult::SetAttr(SetAttrReply {
            status: NfsStatus::INVAL,
            attributes_set: Bitmap4::of(&[4]),
        }),
        "access" => OperationResult::Access(Ok(AccessResult {
            supported: Access(0x1F),
            access: Access::READ | Access::LOOKUP,
        })),
        "read" => OperationResult::Read(Ok(ReadResult { is_end: true, data: b"hello" })),
        "write" => OperationResult::Write(Ok(WriteResult {
            count: 5,
            committed: StableHow::FileSync,
            verifier: VERIFIER,
        })),
        "read_dir" => OperationResult::ReadDir(Ok(ReadDirResult {
            cookie_verifier: VERIFIER,
            entries: vec![
                DirectoryEntry { cookie: 1, name: b"aa", attributes: TYPE_AND_SIZE },
                DirectoryEntry { cookie: 2, name: b"b", attributes: TYPE_AND_SIZE },
            ],
            is_end: true,
        })),
        "create" => OperationResult::Create(Ok(CreateResult {
            change: CHANGE,
            attributes_set: Bitmap4::of(&[33]),
        })),
        "rename" => OperationResult::Rename(Ok(RenameResult { source: CHANGE, target: CHANGE })),
        "sec_info" => OperationResult::SecInfoNoName(Ok(List(vec![
            SecInfo::Gss(GssInfo { oid: Opaque(b"oid"), quality: 0, service: GssService::Privacy }),
            SecInfo::Flavor(AuthFlavor::SYS),
        ]))),
        "test_state_id" => OperationResult::TestStateId(Ok(TestStateIdResult {
            statuses: List(vec![NfsStatus::OK, NfsStatus::EXPIRED]),
        })),
        "list_xattrs" => OperationResult::ListXattrs(Ok(ListXattrsResult {
            cookie: 2,
            names: List(vec![b"k1", b"key2"]),
            is_end: true,
        })),
        _ => of_sessions(name)
            .or_else(|| of_opens_and_locks(name))
            .unwrap_or_else(|| of_version_2(name)),
    }
}

fn channel(first: u32) -> ChannelAttributes {
    ChannelAttributes {
        header_pad_bytes: 0,
        request_bytes_max: first,
        response_bytes_max: first + 1,
        response_cached_bytes_max: first + 2,
        operations_max: first + 3,
        requests_max: first + 4,
        rdma_ird: List(vec![]),
    }
}

fn of_sessions(name: &str) -> Option<OperationResult<'static>> {
    Some(match name {
        "exchange_id" => OperationResult::ExchangeId(Ok(ExchangeIdResult {
            client_id: ClientId(5),
            sequence_id: 1,
            flags: ExchangeIdFlags::CONFIRMED_R | ExchangeIdFlags::USE_NON_PNFS,
            state_protect: StateProtectResult::None,
            server_owner: ServerOwner { minor_id: 0, major_id: Opaque(b"major") },
            server_scope: Opaque(b"scope"),
            implementation_id: List(vec![]),
        })),
        "create_session" => OperationResult::CreateSession(Ok(CreateSessionResult {
            session_id: SESSION,
            sequence_id: 1,
            flags: CreateSessionFlags::CONN_BACK_CHAN,
            fore_channel: channel(1),
            back_channel: channel(6),
        })),
        "sequence" => OperationResult::Sequence(Ok(SequenceResult {
            session_id: SESSION,
            sequence_id: 3,
            slot_id: 1,
            highest_slot_id: 63,
            target_highest_slot_id: 62,
            status_flags: SequenceStatusFlags::CB_PATH_DOWN,
        })),
        "sequence_failed" => OperationResult::Sequence(Err(NfsStatus::BADSESSION)),
        _ => return None,
    })
}

fn opened(
    attributes_set: Bitmap4,
    delegation: OpenDelegation<'static>,
) -> OperationResult<'static> {
    OperationResult::Open(Ok(NfsOpenResult {
        state_id: STATE_ID,
        change: CHANGE,
        flags: OpenResultFlags::LOCKTYPE_POSIX,
        attributes_set,
        delegation,
    }))
}

fn of_opens_and_locks(name: &str) -> Option<OperationResult<'static>> {
    let permissions = NfsAce {
        ace_type: AceType::Allow,
        flags: AceFlags(0),
        mask: AceMask::EXECUTE,
        who: b"EVERYONE@",
    };
    let denied = |lock_type| LockDenied { offset: 1, length: 2, lock_type, owner: LOCK_OWNER };
    Some(match name {
        "open_none" => {
            opened(Bitmap4::of(&[4]), OpenDelegation::NoneWhy(NoDelegation::Contention(false)))
        }
        "open_write" => opened(
            Bitmap4::EMPTY,
            OpenDelegation::Write(WriteDelegation {
                state_id: STATE_ID,
                is_recalled: false,
                space_limit: SpaceLimit::SizeBytes(1000),
                permissions,
            }),
        ),
        "open_read" => opened(
            Bitmap4::EMPTY,
            OpenDelegation::Read(ReadDelegation {
                state_id: STATE_ID,
                is_recalled: true,
                permissions,
            }),
        ),
        "lock_denied" => OperationResult::Lock(LockReply::Denied(denied(LockType::Write))),
        "lock_test_denied" => {
            OperationResult::LockTest(LockTestReply::Denied(denied(LockType::Read)))
        }
        _ => return None,
    })
}

fn of_version_2(name: &str) -> OperationResult<'static> {
    match name {
        "copy" => OperationResult::Copy(CopyReply::Copied(CopyResult {
            response: NfsWriteResponse {
                callback_id: List(vec![STATE_ID]),
                count: 9,
                committed: StableHow::Unstable,
                verifier: VERIFIER,
            },
            requirements: CopyRequirements { is_consecutive: true, is_synchronous: false },
        })),
        "copy_requirements" => OperationResult::Copy(CopyReply::Requirements(CopyRequirements {
            is_consecutive: false,
            is_synchronous: true,
        })),
        "read_plus" => OperationResult::ReadPlus(Ok(ReadPlusResult {
            is_end: true,
            segments: List(vec![
                ReadPlusSegment::Hole { offset: 0, length: 4096 },
                ReadPlusSegment::Data { offset: 4096, data: b"abc" },
            ]),
        })),
        "seek" => OperationResult::Seek(Ok(SeekResult { is_end: false, offset: 4096 })),
        "layout_try_later" => OperationResult::LayoutGet(LayoutGetReply::TryLater(true)),
        "device_too_small" => OperationResult::GetDeviceInfo(GetDeviceInfoReply::TooSmall(200)),
        _ => panic!("{name}"),
    }
}
