//! Re-authentication: by the account that created the session's keys only.

use crate::harness::{ALICE, BOB, Net, PASSWORD};
use smb::{Accounts, EncryptionPolicy, SmbConfig, SmbShare};
use std::sync::atomic::Ordering;
use wire::ntstatus::NtStatus;
use wire::smb::negotiate::capabilities;
use wire::smb::{Command, Dialect};

/// A relay of BOB's logon would act as BOB under keys that the attacker knows.
#[test]
fn reauthentication_by_another_account_ends_the_session() {
    let net = Net::new();
    let mut client = net.ready_as(ALICE);
    assert_eq!(client.renew(BOB, PASSWORD), NtStatus::ACCESS_DENIED);
    assert_eq!(client.plain(Command::ECHO), NtStatus::USER_SESSION_DELETED);
    assert_eq!(client.connect_tree("data"), NtStatus::USER_SESSION_DELETED);
}

#[test]
fn reauthentication_by_the_same_account_succeeds() {
    let net = Net::new();
    let mut client = net.ready_as(ALICE);
    assert_eq!(client.renew(ALICE, PASSWORD), NtStatus::SUCCESS);
    assert_eq!(client.connect_tree("data"), NtStatus::SUCCESS);
}

/// A forged message fails, and must not end the session.
#[test]
fn unsigned_message_in_a_reauthentication_leaves_it() {
    let net = Net::new();
    let mut client = net.ready_as(ALICE);
    let key = client.signing.clone();
    assert_eq!(client.begin(0, key.as_deref()), NtStatus::MORE_PROCESSING_REQUIRED);
    assert_eq!(client.finish(0, None, BOB, "wrong").0, NtStatus::ACCESS_DENIED);
    assert_eq!(client.finish(0, key.as_deref(), ALICE, PASSWORD).0, NtStatus::SUCCESS);
    assert_eq!(client.plain(Command::ECHO), NtStatus::SUCCESS);
}

#[test]
fn reauthentication_disconnects_forbidden_trees() {
    let net = Net::new();
    let mut client = net.ready_as(ALICE);
    net.reload(|_, share| share.admission.denied_users = Accounts(vec![ALICE.into()]));
    assert_eq!(client.renew(ALICE, PASSWORD), NtStatus::SUCCESS);
    assert_eq!(client.plain(Command::TREE_DISCONNECT), NtStatus::NETWORK_NAME_DELETED);
    assert_eq!(client.plain(Command::ECHO), NtStatus::SUCCESS);
    assert_eq!(client.connect_tree("data"), NtStatus::ACCESS_DENIED);
}

/// Such sessions have no secret key, so they can neither sign nor encrypt.
#[test]
fn required_protection_refuses_guest_and_anonymous_sessions() {
    let net = Net::new();
    net.has_guest.store(true, Ordering::Relaxed);
    for (signing, encryption, ntlm, is_taken) in [
        (false, EncryptionPolicy::Off, true, true),
        (false, EncryptionPolicy::Offered, true, true),
        (true, EncryptionPolicy::Off, true, false),
        (false, EncryptionPolicy::Required, true, false),
        (false, EncryptionPolicy::Off, false, false),
    ] {
        net.reload(|config, share| {
            (config.signing_required, config.encryption, config.ntlm) = (signing, encryption, ntlm);
            share.admission.guests = true;
        });
        for user in ["", "stranger"] {
            let status = net.connect().log_on(user);
            let case = format!("{user:?}, {signing} {encryption:?} {ntlm}: {status:?}");
            assert_eq!(status == NtStatus::SUCCESS, is_taken, "{case}");
        }
    }
}

#[test]
fn protection_required_during_a_logon_applies_to_it() {
    let net = Net::new();
    net.has_guest.store(true, Ordering::Relaxed);
    net.reload(|config, _| config.signing_required = false);
    let mut client = net.connect();
    assert_eq!(client.begin(0, None), NtStatus::MORE_PROCESSING_REQUIRED);
    net.reload(|config, _| config.signing_required = true);
    assert_eq!(client.finish(0, None, "", "").0, NtStatus::ACCESS_DENIED);
}

#[test]
fn signed_session_reauthenticates_as_anonymous() {
    let net = Net::new();
    net.has_guest.store(true, Ordering::Relaxed);
    let mut client = net.ready_as(ALICE);
    assert_eq!(client.renew("", ""), NtStatus::SUCCESS);
    assert_eq!(client.plain(Command::ECHO), NtStatus::SUCCESS);
}

#[test]
fn encrypted_share_refuses_anonymous() {
    let net = Net::new();
    net.has_guest.store(true, Ordering::Relaxed);
    net.reload(|config, share| {
        config.signing_required = false;
        config.encryption = EncryptionPolicy::Offered;
        (share.admission.guests, share.encryption_required) = (true, true);
    });
    let mut client = net.connect_with(capabilities::ENCRYPTION);
    assert_eq!(client.log_on(""), NtStatus::SUCCESS);
    client.signing = None;
    assert_eq!(client.connect_tree("data"), NtStatus::ACCESS_DENIED);
}

#[test]
fn blocked_ntlm_permits_kerberos() {
    let net = Net::new();
    net.reload(|config, _| config.ntlm = false);
    let mut client = net.connect();
    assert_eq!(client.begin(0, None), NtStatus::NTLM_BLOCKED);
    let ticket = client.send_ticket(BOB);
    assert_eq!(client.status_of_ticket(ticket), Some(NtStatus::SUCCESS));
}

/// The results for the guest's and ALICE's sessions after a reload, and the number of connections
/// to close.
fn after_reload(
    change: impl FnOnce(&Net, &mut SmbConfig, &mut SmbShare),
) -> (NtStatus, NtStatus, usize) {
    let net = Net::new();
    net.has_guest.store(true, Ordering::Relaxed);
    let before = |config: &mut SmbConfig, share: &mut SmbShare| {
        (config.signing_required, share.admission.guests) = (false, true);
    };
    net.reload(before);
    let mut guest = net.connect();
    assert_eq!(guest.log_on("stranger"), NtStatus::SUCCESS);
    // A guest has no key.
    guest.signing = None;
    let mut alice = net.ready_as(ALICE);
    net.reload(|config, share| {
        before(config, share);
        change(&net, config, share);
    });
    let cut = net.server.end_refused_sessions();
    (guest.plain(Command::ECHO), alice.plain(Command::ECHO), cut.len())
}

#[test]
fn reload_ends_only_the_sessions_that_it_refuses() {
    const ENDED: NtStatus = NtStatus::USER_SESSION_DELETED;
    const STAYS: NtStatus = NtStatus::SUCCESS;
    assert_eq!(after_reload(|_, _, _| ()), (STAYS, STAYS, 0));
    let guest_off = after_reload(|net, _, _| net.has_guest.store(false, Ordering::Relaxed));
    assert_eq!(guest_off, (ENDED, STAYS, 0));
    let guest_ok_off = after_reload(|_, _, share| share.admission.guests = false);
    assert_eq!(guest_ok_off, (ENDED, STAYS, 0));
    let ntlm_off = after_reload(|_, config, _| config.ntlm = false);
    assert_eq!(ntlm_off, (ENDED, ENDED, 0));
    // ALICE's client may reconnect its durable opens after a new negotiation.
    let signed = after_reload(|_, config, _| config.signing_required = true);
    assert_eq!(signed, (ENDED, ENDED, 1));
    let sealed = after_reload(|_, config, _| config.encryption = EncryptionPolicy::Required);
    assert_eq!(sealed, (ENDED, ENDED, 1));
    let dialect = after_reload(|_, config, _| config.dialect_min = Dialect::Smb311);
    assert_eq!(dialect, (ENDED, ENDED, 2));
}

#[test]
fn signed_session_survives_a_reload_that_requires_signing() {
    let net = Net::new();
    let mut client = net.ready_as(ALICE);
    net.reload(|config, _| config.signing_required = true);
    assert!(net.server.end_refused_sessions().is_empty());
    assert_eq!(client.plain(Command::ECHO), NtStatus::SUCCESS);
}
