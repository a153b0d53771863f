//! [`WsdResponder`]: Hello, Bye, and the answers to Probe and Resolve.

use super::envelope::{DiscoveryAction, Envelope};
use super::message::{MessageHeader, WsdComputer};
use crate::limits::{APP_MAX_DELAY, DELAYED_MAX, DELAYED_OF_ADDRESS_MAX, MESSAGE_IDS_MAX};
use crate::{DatagramOutcome, Jitter, Recipient, Transmit};
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// Sendings of a message to the group, and to a client. SOAP over UDP, appendix I.
const GROUP_SENDINGS: u32 = 4;
const CLIENT_SENDINGS: u32 = 2;
/// Range of the time before the first repetition; it doubles up to the upper bound.
const REPEAT_DELAY: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(250)];
const REPEAT_DELAY_MAX: Duration = Duration::from_millis(500);

/// The responder of one address.
///
/// Inputs are `handle_*`; output is taken with `poll_transmit(now)` until it is `None`.
#[derive(Debug)]
pub struct WsdResponder {
    computer: WsdComputer,
    own: IpAddr,
    number: u32,
    /// Messages with their due times, unordered.
    delayed: Vec<(Instant, Transmit)>,
    /// Hashes of the ids of recent messages.
    seen: VecDeque<u64>,
    jitter: Jitter,
}

impl WsdResponder {
    /// Announces the computer at its address `own`.
    #[must_use]
    pub fn new(computer: WsdComputer, own: IpAddr, jitter: Jitter, now: Instant) -> Self {
        let (delayed, seen) = (Vec::new(), VecDeque::new());
        let mut responder = Self { computer, own, number: 0, delayed, seen, jitter };
        let header = responder.header(None);
        let hello = responder.computer.hello(&header, own);
        responder.schedule(Recipient::Group, hello, GROUP_SENDINGS, now);
        responder
    }

    /// The messages that end the announcement.
    pub fn close(&mut self) -> Vec<Transmit> {
        self.delayed.clear();
        let header = self.header(None);
        let payload = self.computer.bye(&header);
        vec![Transmit { to: Recipient::Group, payload }; CLIENT_SENDINGS as usize]
    }

    /// Handles one datagram.
    pub fn handle_datagram(
        &mut self,
        from: SocketAddr,
        datagram: &[u8],
        now: Instant,
    ) -> DatagramOutcome {
        let Ok(envelope) = Envelope::read(datagram) else { return DatagramOutcome::Malformed };
        let is_for_us = match &envelope.action {
            DiscoveryAction::Probe { is_match } => *is_match,
            DiscoveryAction::Resolve(address) => *address == self.computer.address(),
            DiscoveryAction::Get | DiscoveryAction::Other => false,
        };
        if !is_for_us {
            return DatagramOutcome::Ignored;
        }
        let id = hash(&envelope.message_id);
        if self.seen.contains(&id) {
            return DatagramOutcome::Duplicate;
        }
        let header = self.header(Some(&envelope.message_id));
        let answer = match envelope.action {
            DiscoveryAction::Resolve(_) => self.computer.resolve_match(&header, self.own),
            _ => self.computer.probe_match(&header),
        };
        match self.schedule(Recipient::Client(from), answer, CLIENT_SENDINGS, now) {
            true => {
                // Without room for the answer, the client's repetition gets another chance.
                self.seen.truncate(MESSAGE_IDS_MAX - 1);
                self.seen.push_front(id);
                DatagramOutcome::Answered
            }
            false => DatagramOutcome::Ignored,
        }
    }

    /// The next datagram that is due at `now`.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        let due = self.delayed.iter().position(|(due, _)| *due <= now)?;
        Some(self.delayed.swap_remove(due).1)
    }

    /// When the next datagram is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.delayed.iter().map(|(due, _)| *due).min()
    }

    fn header<'a>(&mut self, relates_to: Option<&'a str>) -> MessageHeader<'a> {
        self.number = self.number.wrapping_add(1);
        MessageHeader { id: self.jitter.uuid(), relates_to, number: Some(self.number) }
    }

    /// Schedules a message and its repetitions after a random delay; false if too many wait.
    fn schedule(&mut self, to: Recipient, payload: Vec<u8>, sendings: u32, now: Instant) -> bool {
        let sendings_of_all = self.delayed.len() + sendings as usize;
        let of_address = self.delayed.iter().filter(|(_, other)| is_same_host(other.to, to));
        let is_full = to != Recipient::Group
            && of_address.count() + sendings as usize > DELAYED_OF_ADDRESS_MAX;
        if is_full || sendings_of_all > DELAYED_MAX {
            return false;
        }
        let mut due = now + self.jitter.delay(Duration::ZERO, APP_MAX_DELAY);
        let mut pause = self.jitter.delay(REPEAT_DELAY[0], REPEAT_DELAY[1]);
        for _ in 0..sendings {
            self.delayed.push((due, Transmit { to, payload: payload.clone() }));
            due += pause;
            pause = (pause * 2).min(REPEAT_DELAY_MAX);
        }
        true
    }
}

fn is_same_host(one: Recipient, other: Recipient) -> bool {
    match (one, other) {
        (Recipient::Client(one), Recipient::Client(other)) => one.ip() == other.ip(),
        _ => false,
    }
}

fn hash(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Uuid;
    use crate::wsd::{METADATA_PORT, MalformedEnvelope};

    const PROBE: &str = include_str!("probe-windows.xml");
    const CLIENT: &str = "10.0.0.2:54321";
    const ENDPOINT: &str = "01020304-0506-8708-890a-0b0c0d0e0f10";

    fn computer() -> WsdComputer {
        let bytes = std::array::from_fn(|at| at as u8 + 1);
        WsdComputer {
            endpoint: Uuid::of(bytes, 8),
            instance_id: 1_700_000_000,
            name: "NAS".into(),
            workgroup: "R&D".into(),
        }
    }

    fn responder(now: Instant) -> WsdResponder {
        WsdResponder::new(computer(), "10.0.0.1".parse().unwrap(), Jitter::new(3), now)
    }

    fn later(now: Instant) -> Instant {
        now + Duration::from_secs(10)
    }

    fn run(responder: &mut WsdResponder, until: Instant) -> Vec<Transmit> {
        std::iter::from_fn(|| responder.poll_transmit(until)).collect()
    }

    /// A responder after its Hello.
    fn settled(now: Instant) -> WsdResponder {
        let mut responder = responder(now);
        run(&mut responder, later(now));
        responder
    }

    fn resolve() -> String {
        PROBE.replace("discovery/Probe", "discovery/Resolve").replace(
            "<wsd:Probe><wsd:Types>wsdp:Device</wsd:Types></wsd:Probe>",
            &format!(
                "<wsd:Resolve><wsa:EndpointReference><wsa:Address>urn:uuid:{ENDPOINT}</wsa:Address>\
             </wsa:EndpointReference></wsd:Resolve>"
            ),
        )
    }

    fn ask(responder: &mut WsdResponder, message: &str, now: Instant) -> DatagramOutcome {
        responder.handle_datagram(CLIENT.parse().unwrap(), message.as_bytes(), now)
    }

    /// The message without its id, which is random.
    fn text(sent: &Transmit) -> String {
        let text = String::from_utf8(sent.payload.clone()).unwrap();
        let (before, rest) = text.split_once("<wsa:MessageID>urn:uuid:").unwrap();
        let (id, after) = rest.split_once("</wsa:MessageID>").unwrap();
        assert_eq!(id.len(), 36);
        format!("{before}<wsa:MessageID/>{after}")
    }

    const HEAD: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\
    <soap:Envelope xmlns:soap=\"http://www.w3.org/2003/05/soap-envelope\" \
    xmlns:wsa=\"http://schemas.xmlsoap.org/ws/2004/08/addressing\" \
    xmlns:wsd=\"http://schemas.xmlsoap.org/ws/2005/04/discovery\" \
    xmlns:wsdp=\"http://schemas.xmlsoap.org/ws/2006/02/devprof\" \
    xmlns:wsx=\"http://schemas.xmlsoap.org/ws/2004/09/mex\" \
    xmlns:pnpx=\"http://schemas.microsoft.com/windows/pnpx/2005/10\" \
    xmlns:pub=\"http://schemas.microsoft.com/windows/pub/2005/07\"><soap:Header>";

    #[test]
    fn hello_is_sent_four_times_with_the_transport_address() {
        let now = Instant::now();
        let mut responder = responder(now);
        assert!(responder.poll_timeout().unwrap() <= now + APP_MAX_DELAY);
        let sent = run(&mut responder, later(now));
        assert_eq!(sent.len(), 4);
        assert!(sent.iter().all(|one| *one == sent[0]));
        let expected = format!(
            "{HEAD}<wsa:To>urn:schemas-xmlsoap-org:ws:2005:04:discovery</wsa:To>\
         <wsa:Action>http://schemas.xmlsoap.org/ws/2005/04/discovery/Hello</wsa:Action>\
         <wsa:MessageID/><wsd:AppSequence InstanceId=\"1700000000\" \
         SequenceId=\"urn:uuid:{ENDPOINT}\" MessageNumber=\"1\"/></soap:Header><soap:Body>\
         <wsd:Hello><wsa:EndpointReference><wsa:Address>urn:uuid:{ENDPOINT}</wsa:Address>\
         </wsa:EndpointReference><wsd:Types>wsdp:Device pub:Computer</wsd:Types>\
         <wsd:XAddrs>http://10.0.0.1:{METADATA_PORT}/{ENDPOINT}</wsd:XAddrs>\
         <wsd:MetadataVersion>1</wsd:MetadataVersion></wsd:Hello></soap:Body></soap:Envelope>"
        );
        assert_eq!(text(&sent[0]), expected);
    }

    #[test]
    fn probe_is_answered_twice_to_its_sender_after_a_delay() {
        let now = Instant::now();
        let mut responder = settled(now);
        assert_eq!(ask(&mut responder, PROBE, now), DatagramOutcome::Answered);
        assert!(responder.poll_timeout().unwrap() <= now + APP_MAX_DELAY);
        let sent = run(&mut responder, later(now));
        assert_eq!(sent.len(), 2);
        assert_eq!(sent[0].to, Recipient::Client(CLIENT.parse().unwrap()));
        let expected = format!(
            "{HEAD}<wsa:To>http://schemas.xmlsoap.org/ws/2004/08/addressing/role/anonymous</wsa:To>\
         <wsa:Action>http://schemas.xmlsoap.org/ws/2005/04/discovery/ProbeMatches</wsa:Action>\
         <wsa:MessageID/>\
         <wsa:RelatesTo>urn:uuid:5eb0eb22-d3bb-4b4d-9b1b-1a2b3c4d5e6f</wsa:RelatesTo>\
         <wsd:AppSequence InstanceId=\"1700000000\" SequenceId=\"urn:uuid:{ENDPOINT}\" \
         MessageNumber=\"2\"/></soap:Header><soap:Body><wsd:ProbeMatches><wsd:ProbeMatch>\
         <wsa:EndpointReference><wsa:Address>urn:uuid:{ENDPOINT}</wsa:Address>\
         </wsa:EndpointReference><wsd:Types>wsdp:Device pub:Computer</wsd:Types>\
         <wsd:MetadataVersion>1</wsd:MetadataVersion></wsd:ProbeMatch></wsd:ProbeMatches>\
         </soap:Body></soap:Envelope>"
        );
        assert_eq!(text(&sent[0]), expected);
    }

    #[test]
    fn resolve_of_own_endpoint_gets_transport_address() {
        let now = Instant::now();
        let mut responder = settled(now);
        assert_eq!(ask(&mut responder, &resolve(), now), DatagramOutcome::Answered);
        let sent = run(&mut responder, later(now));
        let url = format!("<wsd:XAddrs>http://10.0.0.1:5357/{ENDPOINT}</wsd:XAddrs>");
        assert!(text(&sent[0]).contains("<wsd:ResolveMatches><wsd:ResolveMatch>"));
        assert!(text(&sent[0]).contains(&url));
        let other = resolve().replace("01020304", "ff020304");
        assert_eq!(ask(&mut responder, &other, now), DatagramOutcome::Ignored);
    }

    #[test]
    fn repeated_message_is_ignored() {
        let now = Instant::now();
        let mut responder = settled(now);
        assert_eq!(ask(&mut responder, PROBE, now), DatagramOutcome::Answered);
        assert_eq!(ask(&mut responder, PROBE, now), DatagramOutcome::Duplicate);
        assert_eq!(ask(&mut responder, &resolve(), now), DatagramOutcome::Duplicate, "the same id");
    }

    #[test]
    fn probe_flood_leaves_a_bounded_number_of_answers() {
        let now = Instant::now();
        let mut responder = settled(now);
        for number in 0..10_000 {
            ask(&mut responder, &PROBE.replace("5eb0eb22", &format!("{number:08}")), now);
        }
        assert_eq!(responder.delayed.len(), DELAYED_OF_ADDRESS_MAX);
        assert_eq!(ask(&mut responder, PROBE, now), DatagramOutcome::Ignored);
        for last in 3..200u8 {
            let probe = PROBE.replace("5eb0eb22", &format!("f{last:07}"));
            let from = SocketAddr::from(([10, 0, 0, last], 40_000));
            responder.handle_datagram(from, probe.as_bytes(), now);
        }
        assert_eq!(run(&mut responder, later(now)).len(), DELAYED_MAX);
        assert!(responder.seen.len() <= MESSAGE_IDS_MAX);
        assert_eq!(ask(&mut responder, "garbage", now), DatagramOutcome::Malformed);
        let outcome = ask(&mut responder, PROBE, now);
        assert_eq!(outcome, DatagramOutcome::Answered, "the refused id was not remembered");
    }

    #[test]
    fn hostile_message_id_is_escaped() {
        let now = Instant::now();
        let mut responder = settled(now);
        let id = "urn:uuid:5eb0eb22-d3bb-4b4d-9b1b-1a2b3c4d5e6f";
        let hostile = PROBE.replace(id, "&lt;/wsa:RelatesTo&gt;&lt;evil/&gt;&quot;");
        ask(&mut responder, &hostile, now);
        let sent = run(&mut responder, later(now));
        let expected = "<wsa:RelatesTo>&lt;/wsa:RelatesTo&gt;&lt;evil/&gt;&quot;</wsa:RelatesTo>";
        assert!(text(&sent[0]).contains(expected), "{}", text(&sent[0]));
    }

    #[test]
    fn bye_names_the_endpoint() {
        let now = Instant::now();
        let sent = responder(now).close();
        assert_eq!(sent.len(), 2);
        let body = format!(
            "<soap:Body><wsd:Bye><wsa:EndpointReference><wsa:Address>urn:uuid:{ENDPOINT}</wsa:Address>\
         </wsa:EndpointReference></wsd:Bye></soap:Body></soap:Envelope>"
        );
        assert!(text(&sent[0]).ends_with(&body), "{}", text(&sent[0]));
    }

    #[test]
    fn get_is_answered_with_computer_and_workgroup() {
        let get = PROBE
            .replace(
                "http://schemas.xmlsoap.org/ws/2005/04/discovery/Probe",
                "http://schemas.xmlsoap.org/ws/2004/09/transfer/Get",
            )
            .replace(
                "urn:schemas-xmlsoap-org:ws:2005:04:discovery",
                &format!("urn:uuid:{ENDPOINT}"),
            );
        let describe = |path: &str, get: &str| {
            computer().describe(path, get.as_bytes(), Jitter::new(1).uuid())
        };
        let answer = String::from_utf8(describe(ENDPOINT, &get).unwrap()).unwrap();
        let host = format!(
            "<wsdp:Types>pub:Computer</wsdp:Types><wsdp:ServiceId>urn:uuid:{ENDPOINT}</wsdp:ServiceId>\
         <pub:Computer>NAS/Workgroup:R&amp;D</pub:Computer></wsdp:Host></wsdp:Relationship>"
        );
        assert!(answer.contains(&host), "{answer}");
        assert!(answer.contains("/ws/2004/09/transfer/GetResponse</wsa:Action>"));
        assert!(answer.contains("<wsa:RelatesTo>urn:uuid:5eb0eb22-"));
        assert!(!answer.contains("AppSequence"));
        assert_eq!(describe("other", &get), Err(MalformedEnvelope));
        assert_eq!(
            describe(ENDPOINT, &get.replace("01020304", "ff020304")),
            Err(MalformedEnvelope)
        );
        assert_eq!(describe(ENDPOINT, PROBE), Err(MalformedEnvelope));
    }
}
