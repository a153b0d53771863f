//! Calls as clients send them, and responses as they decode them.

use super::super::names::{SidNames, UnixNames, machine_sid};
use super::*;
use std::sync::Arc;

fn facts() -> RpcFacts {
    let users = [("alice".to_owned(), 1001)];
    RpcFacts {
        user: "alice".into(),
        names: Arc::new(SidNames {
            machine: "SRV".into(),
            machine_sid: machine_sid(&[1; 16]),
            workgroup: "WG".into(),
            unix: Arc::new(UnixNames::new(users, [])),
        }),
        ..RpcFacts::default()
    }
}

fn with_handle(handles: &mut PolicyHandles, rest: &[u8]) -> Vec<u8> {
    let mut stub = call(OPEN_POLICY_2, &[], &facts(), handles).unwrap();
    stub.truncate(20);
    stub.extend_from_slice(rest);
    stub
}

/// Everyone, S-1-22-1-1001, and an account of an unknown machine.
fn sids_request() -> Vec<u8> {
    let mut out = Vec::new();
    let mut w = Writer::new(&mut out);
    [3, 0x2_0000, 3, 1, 2, 3].into_iter().for_each(|n| w.u32(n));
    put_sid(&mut w, &[1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
    put_sid(&mut w, &[1, 2, 0, 0, 0, 0, 0, 22, 1, 0, 0, 0, 0xE9, 3, 0, 0]);
    put_sid(&mut w, &[1, 2, 0, 0, 0, 0, 0, 5, 21, 0, 0, 0, 9, 0, 0, 0]);
    [0, 0, 1, 0].into_iter().for_each(|n| w.u32(n));
    out
}

fn names_request(names: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut w = Writer::new(&mut out);
    w.u32(names.len() as u32);
    w.u32(names.len() as u32);
    names.iter().for_each(|name| put_unicode(&mut w, name, 1));
    names.iter().for_each(|name| put_chars(&mut w, name));
    [0, 0, 1, 0, 0, 2].into_iter().for_each(|n| w.u32(n));
    out
}

fn status_of(answer: &[u8]) -> NtStatus {
    NtStatus(u32::from_le_bytes(*answer.last_chunk().unwrap()))
}

fn contains(answer: &[u8], text: &str) -> bool {
    let wanted: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    answer.windows(wanted.len()).any(|window| window == wanted)
}

#[test]
fn sids_translate_to_names_and_unknown_ones_to_text() {
    let mut handles = PolicyHandles::default();
    for opnum in [LOOKUP_SIDS, LOOKUP_SIDS_2] {
        let stub = with_handle(&mut handles, &sids_request());
        let answer = call(opnum, &stub, &facts(), &mut handles).unwrap();
        assert_eq!(status_of(&answer), NtStatus::SOME_NOT_MAPPED);
        for text in ["Everyone", "Unix User", "alice", "S-1-5-21-9"] {
            assert!(contains(&answer, text), "{text}");
        }
        assert_eq!(answer[answer.len() - 8..answer.len() - 4], [2, 0, 0, 0], "two were found");
    }
}

#[test]
fn names_translate_to_each_sid_form() {
    let mut handles = PolicyHandles::default();
    let sid = [1, 2, 0, 0, 0, 0, 0, 22, 1, 0, 0, 0, 0xE9, 3, 0, 0];
    for (opnum, whole) in [(LOOKUP_NAMES, false), (LOOKUP_NAMES_2, false), (LOOKUP_NAMES_3, true)] {
        let stub = with_handle(&mut handles, &names_request(&["SRV\\alice"]));
        let answer = call(opnum, &stub, &facts(), &mut handles).unwrap();
        assert_eq!(status_of(&answer), NtStatus::SUCCESS);
        assert_eq!(answer.windows(16).any(|window| window == sid), whole);
    }
    let nobody = call(LOOKUP_NAMES_4, &names_request(&["carol"]), &facts(), &mut handles).unwrap();
    assert_eq!(status_of(&nobody), NtStatus::NONE_MAPPED);
}

#[test]
fn closed_or_unopened_policy_handle_is_refused() {
    let mut handles = PolicyHandles::default();
    let stub = with_handle(&mut handles, &[5, 0]);
    let answer = call(QUERY_INFORMATION_POLICY_2, &stub, &facts(), &mut handles).unwrap();
    assert_eq!(status_of(&answer), NtStatus::SUCCESS);
    assert!(contains(&answer, "SRV"));
    assert_eq!(call(CLOSE, &stub, &facts(), &mut handles).unwrap(), [0; 24]);
    let again = call(QUERY_INFORMATION_POLICY_2, &stub, &facts(), &mut handles);
    assert_eq!(again, Err(RpcFault::Handle));
}

#[test]
fn policy_handles_of_one_pipe_are_bounded() {
    let mut handles = PolicyHandles::default();
    for _ in 0..HANDLES_MAX {
        let answer = call(OPEN_POLICY, &[], &facts(), &mut handles).unwrap();
        assert_eq!(status_of(&answer), NtStatus::SUCCESS);
    }
    let answer = call(OPEN_POLICY_3, &[], &facts(), &mut handles).unwrap();
    assert_eq!(status_of(&answer), NtStatus::INSUFFICIENT_RESOURCES);
}

#[test]
fn get_user_name_returns_the_caller() {
    let mut stub = vec![0; 4];
    stub.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    let answer = call(GET_USER_NAME, &stub, &facts(), &mut PolicyHandles::default()).unwrap();
    assert!(contains(&answer, "alice") && contains(&answer, "SRV"));
}

#[test]
fn excessive_or_truncated_lookups_take_no_memory() {
    let mut handles = PolicyHandles::default();
    let stub = with_handle(&mut handles, &[0xFF; 64]);
    assert_eq!(call(LOOKUP_SIDS, &stub, &facts(), &mut handles), Err(RpcFault::Ndr));
    for request in [sids_request(), names_request(&["alice", "bob"])] {
        let stub = with_handle(&mut handles, &request);
        for length in 0..stub.len() {
            for opnum in [LOOKUP_SIDS, LOOKUP_NAMES, LOOKUP_NAMES_3] {
                let _ = call(opnum, &stub[..length], &facts(), &mut handles);
            }
        }
    }
}
