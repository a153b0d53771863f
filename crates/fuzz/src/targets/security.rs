//! Logon tokens and security descriptors.

use acl::{Access, AccessToken, Creator, Descriptor, Sid, check_access, inherit, maximal_access};
use wire::fscc::FileTime;
use wire::ntlm::{self, NtHash, TargetFacts};
use wire::spnego::{SpnegoAcceptor, SpnegoStep};

/// The tokens of one exchange, each after its length in two bytes. No input logs on, because none
/// contains the password.
pub fn security_tokens(mut input: &[u8]) {
    let facts = TargetFacts { name: "SERVER".into(), domain: "WORKGROUP".into() };
    let mut acceptor = SpnegoAcceptor::new(
        ntlm::NtlmAcceptor::new(facts, [1; 8], FileTime(1)),
        ntlm::GuestPolicy::default(),
    );
    while let Some((length, rest)) = input.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
        let (token, rest) = rest.split_at(length);
        let hash = NtHash::of_password("a password that no input proves");
        match acceptor.handle_token(token, |_| Some(hash)) {
            Ok(SpnegoStep::Continue(_)) => {}
            Ok(SpnegoStep::Done(_, logon)) => panic!("{} logged on without a proof", logon.user),
            Err(_) => return,
        }
        input = rest;
    }
}

/// Privilege attributes (PAC) of a ticket: a decoded SID has a text form.
pub fn ticket_pac(bytes: &[u8]) {
    if let Ok(sid) = wire::pac::user_sid(bytes) {
        assert!(sid.starts_with("S-1-") && sid.len() < 256, "{sid}");
    }
}

/// Decoded descriptors round-trip, and every use of them terminates.
pub fn security_descriptor(bytes: &[u8]) {
    let Ok(descriptor) = Descriptor::decode(bytes) else { return };
    let written = descriptor.encode();
    let again = Descriptor::decode(&written).unwrap();
    assert_eq!(again.encode(), written);
    assert_eq!((&again.owner, &again.group), (&descriptor.owner, &descriptor.group));
    assert_eq!(again.has_null_dacl(), descriptor.has_null_dacl());
    let token = AccessToken { user: Some(Sid::unix_user(1)), ..AccessToken::default() };
    let most = maximal_access(&descriptor, &token);
    if let Some(granted) = check_access(&descriptor, &token, Access::FILE_READ) {
        assert!(most.contains(granted), "{most:?} {granted:?}");
    }
    let creator = Creator { owner: Sid::unix_user(1), group: Sid::unix_group(1) };
    if let Some(inherited) = inherit(&descriptor, &creator, true) {
        Descriptor::decode(&inherited.encode()).unwrap();
    }
}
