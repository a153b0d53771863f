//! Binding of connections as channels. MS-SMB2 3.3.5.5.2.

use crate::harness::{ALICE, BOB, Net};
use smb::limits::BIND_WAIT_MAX;
use smb::{Dialect, MultichannelPolicy};
use std::sync::atomic::Ordering;
use wire::crypto::SigningAlgorithm;
use wire::ntstatus::NtStatus;
use wire::smb::negotiate::capabilities;
use wire::smb::{Command, FileId, Flags, SessionSetupRequest, TreeId, fsctl};

#[test]
fn channel_beyond_the_configured_number_is_refused() {
    let net = Net::new();
    let first = net.ready();
    let mut more: Vec<_> = (1..4).map(|_| net.bound(&first)).collect();
    assert_eq!(net.channels(), [4]);
    assert_eq!(net.connect().bind(&first, ALICE), NtStatus::INSUFFICIENT_RESOURCES);
    // A freed channel slot is available.
    more.pop().unwrap().cut();
    assert_eq!(net.channels(), [3]);
    more.push(net.bound(&first));
    // A reload can raise the number.
    net.configure(MultichannelPolicy { channels_max: 32, ..MultichannelPolicy::default() });
    more.extend((4..32).map(|_| net.bound(&first)));
    assert_eq!(net.channels(), [32]);
    assert_eq!(net.connect().bind(&first, ALICE), NtStatus::INSUFFICIENT_RESOURCES);
    for client in &mut more {
        assert_eq!(client.plain(Command::ECHO), NtStatus::SUCCESS);
    }
}

#[test]
fn waiting_binding_replaces_a_dead_channel() {
    let net = Net::new();
    net.doubts.can_ask.store(true, Ordering::Relaxed);
    let first = net.ready();
    let mut more: Vec<_> = (1..4).map(|_| net.bound(&first)).collect();
    let mut next = net.connect();
    let id = next.send_binding(&first);
    assert_eq!(next.status_of_setup(id), None);
    assert_eq!(*net.doubts.asked.lock().unwrap(), [1, 2, 3, 4]);
    // All channels may still be alive.
    let look = next.next_look().unwrap();
    next.pass(look);
    assert_eq!(next.status_of_setup(id), None);
    more.pop().unwrap().cut();
    let later = next.next_look().unwrap();
    assert!(later > look && later <= 2 * look);
    next.pass(later);
    assert_eq!(next.status_of_setup(id), Some(NtStatus::MORE_PROCESSING_REQUIRED));
    assert_eq!(next.end_binding(&first, ALICE), NtStatus::SUCCESS);
    assert_eq!(next.plain(Command::ECHO), NtStatus::SUCCESS);
    assert_eq!(net.channels(), [4]);
    assert_eq!(next.next_look(), None);
}

#[test]
fn waiting_binding_is_refused_when_all_channels_live() {
    let net = Net::new();
    net.doubts.can_ask.store(true, Ordering::Relaxed);
    let first = net.ready();
    let _more: Vec<_> = (1..4).map(|_| net.bound(&first)).collect();
    let mut next = net.connect();
    let id = next.send_binding(&first);
    let mut looks = 0;
    let refused = loop {
        if let Some(status) = next.status_of_setup(id) {
            break status;
        }
        let look = next.next_look().unwrap();
        assert!(look <= BIND_WAIT_MAX);
        next.pass(look);
        looks += 1;
    };
    assert_eq!((refused, looks), (NtStatus::INSUFFICIENT_RESOURCES, 40));
    // The server probed them once.
    assert_eq!(*net.doubts.asked.lock().unwrap(), [1, 2, 3, 4]);
    assert_eq!(next.next_look(), None);
}

#[test]
fn one_signed_binding_of_a_connection_waits_for_a_probe() {
    let net = Net::new();
    net.doubts.can_ask.store(true, Ordering::Relaxed);
    let first = net.ready();
    let _more: Vec<_> = (1..4).map(|_| net.bound(&first)).collect();
    let (mut next, mut stranger) = (net.connect(), net.connect());
    stranger.session = first.session;
    let flags = SessionSetupRequest::BINDING;
    assert_eq!(stranger.begin(flags, None), NtStatus::INVALID_PARAMETER);
    let other = net.ready();
    assert_eq!(stranger.begin(flags, other.signing.as_deref()), NtStatus::ACCESS_DENIED);
    assert!(net.doubts.asked.lock().unwrap().is_empty());
    let id = next.send_binding(&first);
    assert_eq!(next.begin_binding(&first), NtStatus::INSUFFICIENT_RESOURCES);
    assert_eq!(next.status_of_setup(id), None);
}

#[test]
fn last_channel_goes_to_one_of_two_simultaneous_bindings() {
    let net = Net::new();
    net.configure(MultichannelPolicy { channels_max: 2, ..MultichannelPolicy::default() });
    let first = net.ready();
    let (mut second, mut third) = (net.connect(), net.connect());
    assert_eq!(second.begin_binding(&first), NtStatus::MORE_PROCESSING_REQUIRED);
    assert_eq!(third.begin_binding(&first), NtStatus::MORE_PROCESSING_REQUIRED);
    assert_eq!(third.end_binding(&first, ALICE), NtStatus::SUCCESS);
    assert_eq!(second.end_binding(&first, ALICE), NtStatus::INSUFFICIENT_RESOURCES);
    assert_eq!(net.channels(), [2]);
    assert_eq!(third.plain(Command::ECHO), NtStatus::SUCCESS);
}

#[test]
fn multichannel_off_offers_binds_and_lists_nothing() {
    let net = Net::new();
    let mut before = net.ready();
    assert_ne!(before.capabilities & capabilities::MULTI_CHANNEL, 0);
    let mut second = net.bound(&before);
    net.configure(MultichannelPolicy { enabled: false, ..MultichannelPolicy::default() });
    let mut first = net.ready();
    assert_eq!(first.capabilities & capabilities::MULTI_CHANNEL, 0);
    for session in [&first, &before] {
        assert_eq!(net.connect().bind(session, ALICE), NtStatus::REQUEST_NOT_ACCEPTED);
    }
    for client in [&mut first, &mut before] {
        let refused = client.query_interfaces().header.status;
        assert_eq!(refused, NtStatus::INVALID_DEVICE_REQUEST);
        assert_eq!(client.connect_tree("IPC$"), NtStatus::SUCCESS);
        assert_eq!(client.query_interfaces().header.status, NtStatus::FS_DRIVER_REQUIRED);
    }
    // Existing channels stay.
    assert_eq!(second.plain(Command::ECHO), NtStatus::SUCCESS);
}

#[test]
fn multichannel_enabled_later_applies_to_new_sessions() {
    let net = Net::new();
    net.configure(MultichannelPolicy { enabled: false, ..MultichannelPolicy::default() });
    let old = net.ready();
    let marked = || {
        let sessions = net.server.snapshot().sessions;
        sessions.iter().map(|s| (s.needs_reconnect, s.channels_max)).collect::<Vec<_>>()
    };
    assert_eq!(marked(), [(false, 1)]);
    net.configure(MultichannelPolicy::default());
    assert_eq!(marked(), [(true, 1)]);
    old.cut();
    let new = net.ready();
    assert_eq!(marked(), [(false, 4)]);
    net.bound(&new);
}

#[test]
fn dialect_below_the_minimum_has_one_channel() {
    let net = Net::new();
    net.configure(MultichannelPolicy {
        dialect_min: Dialect::Smb311,
        ..MultichannelPolicy::default()
    });
    let first = net.ready();
    assert_eq!(first.capabilities & capabilities::MULTI_CHANNEL, 0);
    assert_eq!(net.connect().bind(&first, ALICE), NtStatus::REQUEST_NOT_ACCEPTED);
}

#[test]
fn only_the_sessions_own_user_binds() {
    let net = Net::new();
    let first = net.ready();
    let mut second = net.connect();
    assert_eq!(second.bind(&first, BOB), NtStatus::ACCESS_DENIED);
    assert_eq!(net.channels(), [1]);
    // A client that cannot sign for the session is refused.
    let other = net.ready();
    let mut third = net.connect();
    third.session = first.session;
    let stolen = third.begin(1, None);
    assert_eq!(stolen, NtStatus::INVALID_PARAMETER);
    drop(other);
}

#[test]
fn interfaces_are_listed_for_the_client_port() {
    let net = Net::new();
    let reply = net.ready().query_interfaces();
    assert_eq!(reply.header.status, NtStatus::SUCCESS);
    // The address follows 48 bytes of the response and 24 of the entry.
    let entry = &reply.bytes[64 + 48..];
    assert_eq!(entry.len(), 152);
    assert_eq!(&entry[24..32], [2, 0, 0, 0, 192, 0, 2, 45]);
}

#[test]
fn logoff_during_a_binding_refuses_it() {
    let net = Net::new();
    let mut first = net.ready();
    let mut second = net.connect();
    assert_eq!(second.begin_binding(&first), NtStatus::MORE_PROCESSING_REQUIRED);
    assert_eq!(first.plain(Command::LOGOFF), NtStatus::SUCCESS);
    assert_eq!(second.end_binding(&first, ALICE), NtStatus::USER_SESSION_DELETED);
    net.assert_empty();
}

#[test]
fn loss_of_the_only_channel_during_a_binding_refuses_it() {
    let net = Net::new();
    let mut first = net.ready();
    first.create("f", 0);
    let mut second = net.connect();
    assert_eq!(second.begin_binding(&first), NtStatus::MORE_PROCESSING_REQUIRED);
    first.lose();
    net.assert_empty();
    assert_eq!(second.end_binding(&first, ALICE), NtStatus::USER_SESSION_DELETED);
    net.assert_empty();
    second.session = wire::smb::SessionId(0);
    assert_eq!(second.log_on(ALICE), NtStatus::SUCCESS, "the connection is still good");
}

#[test]
fn connection_lost_during_a_binding_leaves_no_state() {
    let net = Net::new();
    let mut first = net.ready();
    for _ in 0..100 {
        let mut second = net.connect();
        assert_eq!(second.begin_binding(&first), NtStatus::MORE_PROCESSING_REQUIRED);
        second.cut();
    }
    assert_eq!(net.channels(), [1]);
    assert_eq!(first.plain(Command::ECHO), NtStatus::SUCCESS);
    net.bound(&first);
}

/// Only the first message of a binding is sure to carry the flag.
#[test]
fn unsigned_message_in_a_binding_leaves_it_in_progress() {
    let net = Net::new();
    let first = net.ready();
    let mut second = net.connect();
    assert_eq!(second.begin_binding(&first), NtStatus::MORE_PROCESSING_REQUIRED);
    assert_eq!(second.finish(0, None, BOB, "wrong").0, NtStatus::ACCESS_DENIED);
    assert_eq!(second.end_binding(&first, ALICE), NtStatus::SUCCESS);
    assert_eq!(second.plain(Command::ECHO), NtStatus::SUCCESS);
}

#[test]
fn reauthentication_during_a_binding_does_not_affect_it() {
    let net = Net::new();
    let mut first = net.ready();
    let mut second = net.connect();
    assert_eq!(second.begin_binding(&first), NtStatus::MORE_PROCESSING_REQUIRED);
    assert_eq!(first.renew(ALICE, "a right password"), NtStatus::SUCCESS);
    assert_eq!(second.end_binding(&first, ALICE), NtStatus::SUCCESS);
    assert_eq!(second.plain(Command::ECHO), NtStatus::SUCCESS);
}

const OFFERS: [SigningAlgorithm; 3] =
    [SigningAlgorithm::AesGmac, SigningAlgorithm::AesCmac, SigningAlgorithm::HmacSha256];

#[test]
fn multichannel_client_signs_without_gmac() {
    let net = Net::new();
    let mut first = net.connect_311(capabilities::MULTI_CHANNEL, &OFFERS);
    assert_eq!(first.agreement.algorithm(), SigningAlgorithm::AesCmac);
    assert_eq!(first.log_on(ALICE), NtStatus::SUCCESS);
    let mut second = net.connect_311(capabilities::MULTI_CHANNEL, &OFFERS);
    assert_eq!(second.bind(&first, ALICE), NtStatus::SUCCESS);
    assert_eq!(second.plain(Command::ECHO), NtStatus::SUCCESS);
    assert_eq!(net.channels(), [2]);
    let alone = net.connect_311(0, &OFFERS);
    assert_eq!(alone.agreement.algorithm(), SigningAlgorithm::AesGmac);
    net.configure(MultichannelPolicy { enabled: false, ..MultichannelPolicy::default() });
    let without = net.connect_311(capabilities::MULTI_CHANNEL, &OFFERS);
    assert_eq!(without.agreement.algorithm(), SigningAlgorithm::AesGmac);
}

/// Each such message would reuse a nonce of the session's first connection.
#[test]
fn gmac_session_has_one_channel() {
    let net = Net::new();
    let connect = || net.connect_311(capabilities::MULTI_CHANNEL, &OFFERS[..1]);
    let mut first = connect();
    assert_eq!(first.agreement.algorithm(), SigningAlgorithm::AesGmac);
    assert_eq!(first.capabilities & capabilities::MULTI_CHANNEL, 0);
    assert_eq!(first.log_on(ALICE), NtStatus::SUCCESS);
    assert_eq!(first.plain(Command::ECHO), NtStatus::SUCCESS);
    let mut second = connect();
    let binding = second.send_binding(&first);
    let refused = second.reply_to(binding).unwrap().header;
    assert_eq!(refused.status, NtStatus::REQUEST_NOT_ACCEPTED);
    assert!(!refused.flags.contains(Flags::SIGNED));
    // A replay by an attacker on the path.
    second.signing = first.signing.clone();
    let echo = second.send(Command::ECHO, |w| w.u32(4));
    let refused = second.reply_to(echo).unwrap().header;
    assert_eq!(refused.status, NtStatus::USER_SESSION_DELETED);
    assert!(!refused.flags.contains(Flags::SIGNED));
    assert_eq!(net.channels(), [1]);
}

#[test]
fn ioctl_checks_its_tree_before_its_file() {
    let net = Net::new();
    let mut client = net.ready();
    let connected = client.tree;
    let codes = [
        fsctl::VALIDATE_NEGOTIATE_INFO,
        fsctl::QUERY_NETWORK_INTERFACE_INFO,
        fsctl::DFS_GET_REFERRALS,
        fsctl::SRV_REQUEST_RESUME_KEY,
    ];
    let nobodys = FileId { persistent: 7, volatile: 7 };
    for code in codes {
        client.tree = TreeId(0xFFFF);
        let status = client.ioctl(code, nobodys).header.status;
        assert_eq!(status, NtStatus::NETWORK_NAME_DELETED, "{code:#x}");
        client.tree = connected;
        let status = client.ioctl(code, nobodys).header.status;
        assert_ne!(status, NtStatus::NETWORK_NAME_DELETED, "{code:#x}");
    }
}
