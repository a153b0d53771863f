//! Messages of multicast DNS and WS-Discovery, which any machine of the link can send.

use ::discovery::limits::{DELAYED_MAX, PACKET_BYTES};
use ::discovery::mdns::{Announcement, DnsMessage, MdnsResponder};
use ::discovery::wsd::{Envelope, WsdComputer, WsdResponder};
use ::discovery::{Jitter, Uuid};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

const OWN: [u8; 4] = [10, 0, 0, 1];
/// A resolver of plain DNS, and another responder.
const SENDERS: [([u8; 4], u16); 2] = [([10, 0, 0, 2], 40_000), ([10, 0, 0, 2], 5353)];

/// A responder that probes and one that has announced its name: what they send is well-formed and
/// bounded.
pub fn mdns(bytes: &[u8]) {
    let start = Instant::now();
    for age in [Duration::from_millis(300), Duration::from_secs(20)] {
        let mut responder = MdnsResponder::new(announcement(), Jitter::new(1), start);
        let now = start + age;
        let mut sent = 0;
        run(&mut responder, now, &mut sent);
        for (address, port) in SENDERS {
            sent = 0;
            let from = SocketAddr::from((address, port));
            let _ = responder.handle_datagram(from, false, bytes, now);
            run(&mut responder, now + Duration::from_millis(600), &mut sent);
            assert!(sent <= 16, "{sent} messages for one");
        }
    }
}

fn announcement() -> Announcement {
    Announcement {
        name: "NAS".into(),
        addresses: vec![IpAddr::from(OWN)],
        smb_port: 445,
        model: "MacSamba".into(),
        backup_shares: vec!["Backups".into()],
    }
}

fn run(responder: &mut MdnsResponder, until: Instant, sent: &mut usize) {
    loop {
        while let Some(transmit) = responder.poll_transmit() {
            assert!(transmit.payload.len() <= PACKET_BYTES);
            assert!(DnsMessage::decode(&transmit.payload).is_some());
            *sent += 1;
        }
        let Some(due) = responder.poll_timeout().filter(|due| *due <= until) else { return };
        responder.handle_timeout(due);
    }
}

/// Answers are well-formed, whatever the message id contains.
pub fn wsd(bytes: &[u8]) {
    let now = Instant::now();
    let (endpoint, name) = (Uuid::of([1; 16], 8), "NAS".to_owned());
    let computer =
        WsdComputer { endpoint, instance_id: 1, name, workgroup: "WORKGROUP".to_owned() };
    if let Ok(answer) = computer.describe(&endpoint.to_string(), bytes, endpoint) {
        assert!(Envelope::read(&answer).is_ok());
    }
    let mut responder = WsdResponder::new(computer, IpAddr::from(OWN), Jitter::new(1), now);
    let _ = responder.handle_datagram(SocketAddr::from(SENDERS[0]), bytes, now);
    let sent = std::iter::from_fn(|| responder.poll_transmit(now + Duration::from_secs(10)));
    let sent: Vec<_> = sent.collect();
    assert!(sent.len() <= DELAYED_MAX);
    assert!(sent.iter().all(|transmit| Envelope::read(&transmit.payload).is_ok()));
}
