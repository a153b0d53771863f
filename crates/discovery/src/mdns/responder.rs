//! [`MdnsResponder`]: probing, announcing, answering, conflicts. RFC 6762 5 to 10.

use super::PORT;
use super::message::{DnsMessage, MessageSection, MessageWriter, Question, ResourceRecord, kind};
use super::name::DnsName;
use super::records::{Announcement, HOST_TTL_SECONDS};
use crate::limits::{ECHOES_MAX, RENAMES_MAX};
use crate::{DatagramOutcome, Jitter, Recipient, Transmit};
use std::collections::{BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hasher};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Probes, and the time between them. RFC 6762 8.1.
const PROBES: u8 = 3;
const PROBE_INTERVAL: Duration = Duration::from_millis(250);
/// Announcements; the time after the first doubles each time. RFC 6762 8.3.
const ANNOUNCEMENTS: u8 = 3;
const ANNOUNCEMENT_INTERVAL: Duration = Duration::from_secs(1);
/// Delay of the side that loses a tie of simultaneous probes. RFC 6762 8.2.
const TIE_DELAY: Duration = Duration::from_secs(1);
/// Conflicts after which each further one delays the next probe. RFC 6762 8.1.
const CONFLICTS_QUICK: u32 = 15;
const CONFLICT_DELAY: Duration = Duration::from_secs(5);
/// Time without a name after which the computer name is probed for again: a short attack, or a
/// machine that has left, must not silence the server until its restart.
const NAMELESS_FOR: Duration = Duration::from_secs(600);
/// Delay of an answer that other machines may give, too. RFC 6762 6.
const SHARED_DELAY: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(120)];
/// Delay of an answer to a query whose known answers continue in another message. RFC 6762 7.2.
const TRUNCATED_DELAY: [Duration; 2] = [Duration::from_millis(400), Duration::from_millis(500)];
/// Time between multicasts of one record, and if the query is a probe. RFC 6762 6.
const RECORD_INTERVAL: Duration = Duration::from_secs(1);
const RECORD_INTERVAL_PROBE: Duration = Duration::from_millis(250);
/// TTL of answers to legacy clients. RFC 6762 6.7.
const LEGACY_TTL_SECONDS: u32 = 10;

/// The responder of one interface.
///
/// Inputs are `handle_*`; output is taken with `poll_transmit` until it is `None`, and `handle_timeout`
/// is due at `poll_timeout`.
#[derive(Debug)]
pub struct MdnsResponder {
    announcement: Announcement,
    records: Vec<ResourceRecord>,
    /// When each record was last sent to the group.
    sent: Vec<Option<Instant>>,
    conflicts: u32,
    phase: Phase,
    /// When the phase continues.
    next: Option<Instant>,
    /// Records of the next answer to the group, and when it is due.
    delayed: Option<(Instant, BTreeSet<usize>)>,
    outgoing: VecDeque<Transmit>,
    /// Hashes of sent payloads, which the kernel loops back.
    echoes: VecDeque<u64>,
    jitter: Jitter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Asks whether the names are in use; so many probes were sent.
    Probing(u8),
    /// Announces; so many announcements were sent.
    Announcing(u8),
    /// Answers queries.
    Steady,
    /// Every name that was tried is in use; another try follows.
    Nameless,
}

impl MdnsResponder {
    /// Starts to probe within 250 ms of `now`.
    #[must_use]
    pub fn new(announcement: Announcement, jitter: Jitter, now: Instant) -> Self {
        let mut responder = Self {
            announcement,
            records: Vec::new(),
            sent: Vec::new(),
            conflicts: 0,
            phase: Phase::Probing(0),
            next: None,
            delayed: None,
            outgoing: VecDeque::new(),
            echoes: VecDeque::new(),
            jitter,
        };
        responder.probe_from(now);
        responder
    }

    /// The announced name, once probing is done: the computer name, or with a number after a conflict.
    #[must_use]
    pub fn announced_name(&self) -> Option<String> {
        matches!(self.phase, Phase::Announcing(_) | Phase::Steady).then(|| self.name())
    }

    /// Whether every name that was tried is in use.
    #[must_use]
    pub fn is_nameless(&self) -> bool {
        self.phase == Phase::Nameless
    }

    /// Applies changes of shares, addresses or the name: announces the new records, and withdraws
    /// those that are gone.
    pub fn update(&mut self, announcement: Announcement, now: Instant) {
        if announcement == self.announcement {
            return;
        }
        let has_new_name = announcement.name != self.announcement.name;
        let was_announced = self.announced_name().is_some();
        self.announcement = announcement;
        if has_new_name {
            self.conflicts = 0;
        }
        let name = self.name();
        let records = self.announcement.records(&name);
        if was_announced {
            let is_replaced = |old: &ResourceRecord| {
                let same = |new: &&ResourceRecord| new.name == old.name && new.kind == old.kind;
                records.iter().filter(same).any(|new| old.is_unique || new.data == old.data)
            };
            let gone = self.records.iter().filter(|record| !is_replaced(record)).cloned();
            let gone: Vec<_> = gone.collect();
            self.withdraw(&gone);
        }
        if has_new_name || !was_announced {
            self.probe_from(now);
            return;
        }
        // Names of further services need a probe, too.
        let before = self.unique_names();
        self.set_records(records);
        let has_new_service = self.unique_names().iter().any(|name| !before.contains(name));
        self.phase = if has_new_service { Phase::Probing(0) } else { Phase::Announcing(0) };
        self.next = Some(now);
    }

    /// Withdraws all services, at the end. Addresses are not withdrawn, because another responder of
    /// this machine may announce them, too; they expire within two minutes.
    pub fn close(&mut self) -> Vec<Transmit> {
        self.outgoing.clear();
        if self.announced_name().is_some() {
            let all = self.records.clone();
            self.withdraw(&all);
        }
        self.outgoing.drain(..).collect()
    }

    /// Handles one datagram. `is_own_machine`: its source is an address of this machine.
    pub fn handle_datagram(
        &mut self,
        from: SocketAddr,
        is_own_machine: bool,
        datagram: &[u8],
        now: Instant,
    ) -> DatagramOutcome {
        if is_own_machine && self.echoes.contains(&hash(datagram)) {
            return DatagramOutcome::Ignored;
        }
        let Some(message) = DnsMessage::decode(datagram) else { return DatagramOutcome::Malformed };
        match message.is_response {
            // RFC 6762 6: a response from another port is no multicast DNS.
            true if from.port() != PORT => DatagramOutcome::Ignored,
            true => self.handle_response(&message, is_own_machine, now),
            false => self.handle_query(from, &message, now),
        }
    }

    /// Continues the phase and sends delayed answers.
    pub fn handle_timeout(&mut self, now: Instant) {
        if let Some((_, records)) = self.delayed.take_if(|(due, _)| *due <= now) {
            self.multicast(&records, now);
        }
        while self.next.is_some_and(|next| next <= now) {
            self.next = None;
            match self.phase {
                Phase::Probing(PROBES) => {
                    self.phase = Phase::Announcing(0);
                    self.next = Some(now);
                }
                Phase::Probing(sent) => {
                    self.send_probe();
                    self.phase = Phase::Probing(sent + 1);
                    self.next = Some(now + PROBE_INTERVAL);
                }
                Phase::Announcing(sent) if sent < ANNOUNCEMENTS => {
                    self.multicast(&(0..self.records.len()).collect(), now);
                    self.phase = Phase::Announcing(sent + 1);
                    self.next = Some(now + ANNOUNCEMENT_INTERVAL * (1 << sent));
                }
                Phase::Announcing(_) => self.phase = Phase::Steady,
                Phase::Nameless => {
                    self.conflicts = 0;
                    self.probe_from(now);
                }
                Phase::Steady => {}
            }
        }
    }

    /// The next datagram to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.outgoing.pop_front()
    }

    /// When [`Self::handle_timeout`] is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.next.into_iter().chain(self.delayed.as_ref().map(|(due, _)| *due)).min()
    }

    fn name(&self) -> String {
        match self.conflicts {
            0 => self.announcement.name.clone(),
            conflicts => format!("{}-{}", self.announcement.name, conflicts + 1),
        }
    }

    /// Starts to probe for the present name.
    fn probe_from(&mut self, now: Instant) {
        let records = self.announcement.records(&self.name());
        self.set_records(records);
        self.delayed = None;
        self.phase = Phase::Probing(0);
        let pause = if self.conflicts > CONFLICTS_QUICK { CONFLICT_DELAY } else { Duration::ZERO };
        self.next = Some(now + pause + self.jitter.delay(Duration::ZERO, PROBE_INTERVAL));
    }

    fn set_records(&mut self, records: Vec<ResourceRecord>) {
        self.sent = vec![None; records.len()];
        self.records = records;
        self.delayed = None;
    }

    /// Names that only this machine may have.
    fn unique_names(&self) -> Vec<DnsName> {
        let mut names: Vec<DnsName> = Vec::new();
        for record in self.records.iter().filter(|record| record.is_unique) {
            if !names.contains(&record.name) {
                names.push(record.name.clone());
            }
        }
        names
    }

    /// The records that a probe claims. RFC 6762 8.2.
    fn claimed(&self) -> impl Iterator<Item = &ResourceRecord> {
        self.records.iter().filter(|record| record.is_unique && record.kind != kind::NSEC)
    }

    /// Sends a probe. It asks for multicast answers: a unicast one might reach another program of
    /// this machine that shares the port.
    fn send_probe(&mut self) {
        let mut writer = MessageWriter::query();
        for name in self.unique_names() {
            writer.internet_question(&name, kind::ANY);
        }
        for record in self.claimed() {
            // A claim that does not fit is missing from the comparison of simultaneous probes only.
            writer.record(MessageSection::Authority, record, record.ttl_seconds, false);
        }
        self.send(Recipient::Group, writer);
    }

    fn send(&mut self, to: Recipient, writer: MessageWriter) {
        if writer.is_empty() {
            return;
        }
        let payload = writer.finish();
        if to == Recipient::Group {
            self.echoes.truncate(ECHOES_MAX - 1);
            self.echoes.push_front(hash(&payload));
        }
        self.outgoing.push_back(Transmit { to, payload });
    }

    /// Sends records to the group, with those that receivers need next.
    fn multicast(&mut self, answers: &BTreeSet<usize>, now: Instant) {
        for at in answers {
            if let Some(sent) = self.sent.get_mut(*at) {
                *sent = Some(now);
            }
        }
        self.respond(Recipient::Group, answers, None);
    }

    /// Sends `answers` in as many messages as they need; with additional records if these fit into
    /// the last one. A `legacy` query gets its id and question back.
    fn respond(
        &mut self,
        to: Recipient,
        answers: &BTreeSet<usize>,
        legacy: Option<(u16, &Question)>,
    ) {
        let begin = || {
            let mut writer = MessageWriter::response(legacy.map_or(0, |(id, _)| id));
            if let Some((_, question)) = legacy {
                writer.question(&question.name, question.kind, question.class);
            }
            writer
        };
        let ttl = |record: &ResourceRecord| match legacy {
            Some(_) => record.ttl_seconds.min(LEGACY_TTL_SECONDS),
            None => record.ttl_seconds,
        };
        let is_flagged = legacy.is_none();
        let mut messages = Vec::new();
        let mut writer = begin();
        for record in answers.iter().filter_map(|at| self.records.get(*at)) {
            if !writer.record(MessageSection::Answer, record, ttl(record), is_flagged) {
                messages.push(std::mem::replace(&mut writer, begin()));
                writer.record(MessageSection::Answer, record, ttl(record), is_flagged);
            }
        }
        for at in self.additional_to(answers) {
            let record = &self.records[at];
            writer.record(MessageSection::Additional, record, ttl(record), is_flagged);
        }
        messages.push(writer);
        for message in messages {
            self.send(to, message);
        }
    }

    /// Records that a receiver of `answers` needs next. RFC 6763 12.
    fn additional_to(&self, answers: &BTreeSet<usize>) -> Vec<usize> {
        let mut targets: Vec<usize> = answers.iter().copied().collect();
        let mut at = 0;
        // A PTR leads to the records of an instance, and its SRV to the addresses.
        while let Some(record) = targets.get(at).and_then(|record| self.records.get(*record)) {
            at += 1;
            let name = match record.kind {
                kind::PTR => DnsName::decode(&record.data, 0),
                kind::SRV => DnsName::decode(&record.data, 6),
                kind::A | kind::AAAA => Some((record.name.clone(), 0)),
                _ => None,
            };
            let Some((name, _)) = name else { continue };
            for (found, other) in self.records.iter().enumerate() {
                if other.name == name && other.is_unique && !targets.contains(&found) {
                    targets.push(found);
                }
            }
        }
        targets.retain(|found| !answers.contains(found));
        targets
    }

    /// Sends the records of services with a TTL of zero. RFC 6762 10.1.
    fn withdraw(&mut self, records: &[ResourceRecord]) {
        let mut writer = MessageWriter::response(0);
        for record in records.iter().filter(|record| is_of_service(record)) {
            if !writer.record(MessageSection::Answer, record, 0, true) {
                let full = std::mem::replace(&mut writer, MessageWriter::response(0));
                self.send(Recipient::Group, full);
                writer.record(MessageSection::Answer, record, 0, true);
            }
        }
        self.send(Recipient::Group, writer);
    }
}

/// The records that end with the server. The list of service types is common to all machines, and
/// addresses may belong to another responder of this machine.
fn is_of_service(record: &ResourceRecord) -> bool {
    match record.kind {
        kind::SRV | kind::TXT => true,
        // A type refers to an instance, the list of types to a type, as `_smb`.
        kind::PTR => record.data.get(1) != Some(&b'_'),
        _ => false,
    }
}

/// Queries.
impl MdnsResponder {
    fn handle_query(
        &mut self,
        from: SocketAddr,
        message: &DnsMessage,
        now: Instant,
    ) -> DatagramOutcome {
        if let Phase::Probing(_) = self.phase {
            return self.compare_probes(message, now);
        }
        if self.phase == Phase::Nameless {
            return DatagramOutcome::Ignored;
        }
        let is_legacy = from.port() != PORT;
        let (mut unicast, mut group) = (BTreeSet::new(), BTreeSet::new());
        for question in message.questions.iter().filter(|question| question.is_internet) {
            let answers = self.answers_to(question, message);
            let wants_unicast = is_legacy || question.wants_unicast;
            if wants_unicast { &mut unicast } else { &mut group }.extend(answers);
        }
        if is_legacy {
            return self.answer_legacy(from, message, &unicast);
        }
        let has_unicast = !unicast.is_empty();
        if has_unicast {
            self.respond(Recipient::Client(from), &unicast, None);
        }
        let is_delayed = self.answer_group(message, group, now);
        if has_unicast || is_delayed { DatagramOutcome::Answered } else { DatagramOutcome::Ignored }
    }

    /// RFC 6762 6.7: a resolver of plain DNS gets a unicast answer to its first question.
    fn answer_legacy(
        &mut self,
        from: SocketAddr,
        message: &DnsMessage,
        answers: &BTreeSet<usize>,
    ) -> DatagramOutcome {
        let Some(question) = message.questions.first().filter(|_| !answers.is_empty()) else {
            return DatagramOutcome::Ignored;
        };
        self.respond(Recipient::Client(from), answers, Some((message.id, question)));
        DatagramOutcome::Answered
    }

    /// Schedules the answers to the group that were not sent moments ago.
    fn answer_group(
        &mut self,
        message: &DnsMessage,
        mut answers: BTreeSet<usize>,
        now: Instant,
    ) -> bool {
        let is_probe = !message.authorities.is_empty();
        let pause = if is_probe { RECORD_INTERVAL_PROBE } else { RECORD_INTERVAL };
        answers.retain(|at| self.sent[*at].is_none_or(|sent| sent + pause <= now));
        if answers.is_empty() {
            return false;
        }
        let is_shared = answers.iter().any(|at| !self.records[*at].is_unique);
        let delay = match (message.is_truncated, is_shared) {
            (true, _) => self.jitter.delay(TRUNCATED_DELAY[0], TRUNCATED_DELAY[1]),
            (false, true) => self.jitter.delay(SHARED_DELAY[0], SHARED_DELAY[1]),
            // A unique record has no other source, and a probe waits for it.
            (false, false) => Duration::ZERO,
        };
        let due = now + delay;
        let (earliest, records) = self.delayed.get_or_insert_with(|| (due, BTreeSet::new()));
        *earliest = due.min(*earliest);
        records.append(&mut answers);
        true
    }

    /// Records that answer the question, except those that the sender knows.
    fn answers_to(&self, question: &Question, message: &DnsMessage) -> BTreeSet<usize> {
        let of_name = self.records.iter().enumerate().filter(|(_, r)| r.name == question.name);
        let is_answer = |record: &ResourceRecord| match question.kind {
            kind::ANY => record.kind != kind::NSEC,
            wanted => record.kind == wanted,
        };
        let mut found: BTreeSet<usize> =
            of_name.clone().filter(|(_, record)| is_answer(record)).map(|(at, _)| at).collect();
        if found.is_empty() {
            // The name has no record of this type: say so instead of letting the sender wait.
            let denials = of_name.filter(|(_, record)| record.kind == kind::NSEC);
            found = denials.map(|(at, _)| at).collect();
        }
        found.retain(|at| !is_known(&self.records[*at], &message.answers));
        found
    }
}

/// RFC 6762 7.1: the sender knows the record for at least half of its lifetime.
fn is_known(record: &ResourceRecord, known: &[ResourceRecord]) -> bool {
    let is_same = |other: &&ResourceRecord| is_same_record(record, other);
    known.iter().filter(is_same).any(|other| other.ttl_seconds >= record.ttl_seconds / 2)
}

fn is_same_record(one: &ResourceRecord, other: &ResourceRecord) -> bool {
    let data_is_same = match one.kind {
        // Names within the data are case-insensitive.
        kind::PTR | kind::SRV => one.data.eq_ignore_ascii_case(&other.data),
        _ => one.data == other.data,
    };
    one.kind == other.kind && one.name == other.name && data_is_same
}

/// Conflicts.
impl MdnsResponder {
    /// RFC 6762 8.2: of two machines that probe for a name at the same time, the one with the
    /// greater data has it.
    fn compare_probes(&mut self, message: &DnsMessage, now: Instant) -> DatagramOutcome {
        for name in self.unique_names() {
            let theirs = sorted(message.authorities.iter().filter(|record| record.name == name));
            let ours = sorted(self.claimed().filter(|record| record.name == name));
            if !theirs.is_empty() && theirs > ours {
                self.phase = Phase::Probing(0);
                self.next = Some(now + TIE_DELAY);
                return DatagramOutcome::Conflict;
            }
        }
        DatagramOutcome::Ignored
    }

    fn handle_response(
        &mut self,
        message: &DnsMessage,
        is_own_machine: bool,
        now: Instant,
    ) -> DatagramOutcome {
        let all = message.answers.iter().chain(&message.additionals);
        let mut rescued = BTreeSet::new();
        for record in all {
            match self.compare(record, is_own_machine) {
                RecordComparison::Conflict => return self.handle_conflict(now),
                RecordComparison::Expiring(at) => drop(rescued.insert(at)),
                RecordComparison::Harmless => {}
            }
        }
        rescued.retain(|at| self.sent[*at].is_none_or(|sent| sent + RECORD_INTERVAL <= now));
        if self.announced_name().is_some() && !rescued.is_empty() {
            // RFC 6762 6.6: receivers must not drop a record because another responder ends.
            self.multicast(&rescued, now);
        }
        DatagramOutcome::Ignored
    }

    fn compare(&self, record: &ResourceRecord, is_own_machine: bool) -> RecordComparison {
        let own = self.records.iter().enumerate();
        let mut own = own.filter(|(_, own)| own.name == record.name && own.kind == record.kind);
        let same = own.clone().find(|(_, own)| is_same_record(own, record));
        if let Some((at, same)) = same {
            let is_expiring = record.ttl_seconds < same.ttl_seconds / 2;
            return match is_expiring && same.is_unique {
                true => RecordComparison::Expiring(at),
                false => RecordComparison::Harmless,
            };
        }
        // Another responder of this machine announces all of its addresses, and its own NSEC.
        let is_tolerated = matches!(record.kind, kind::A | kind::AAAA) && is_own_machine
            || record.kind == kind::NSEC
            || record.ttl_seconds == 0;
        match own.any(|(_, own)| own.is_unique) && !is_tolerated {
            true => RecordComparison::Conflict,
            false => RecordComparison::Harmless,
        }
    }

    /// RFC 6762 9: an established name is probed for again; a name that is probed for is replaced.
    fn handle_conflict(&mut self, now: Instant) -> DatagramOutcome {
        match self.phase {
            Phase::Announcing(_) | Phase::Steady => self.probe_from(now),
            // RFC 6762 8.1: before the first probe of the present name a response is no conflict.
            // One datagram with many names would use up all of them at once.
            Phase::Probing(0) | Phase::Nameless => return DatagramOutcome::Ignored,
            Phase::Probing(_) if self.conflicts < RENAMES_MAX => {
                self.conflicts += 1;
                self.probe_from(now);
            }
            Phase::Probing(_) => {
                self.phase = Phase::Nameless;
                self.next = Some(now + NAMELESS_FOR);
                self.delayed = None;
            }
        }
        DatagramOutcome::Conflict
    }
}

/// A received record beside the own ones.
enum RecordComparison {
    /// Another machine has the name.
    Conflict,
    /// The own record is about to expire at receivers.
    Expiring(usize),
    /// Neither.
    Harmless,
}

/// Type and data of records in the order of comparison. RFC 6762 8.2.1.
fn sorted<'a>(records: impl Iterator<Item = &'a ResourceRecord>) -> Vec<(u16, &'a [u8])> {
    let mut sorted: Vec<_> = records.map(|record| (record.kind, record.data.as_slice())).collect();
    sorted.sort_unstable();
    sorted
}

fn hash(payload: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(payload);
    hasher.finish()
}

const _: () = assert!(LEGACY_TTL_SECONDS <= HOST_TTL_SECONDS);

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    const CLIENT: &str = "10.0.0.2:5353";

    fn announcement() -> Announcement {
        let address: IpAddr = "10.0.0.1".parse().unwrap();
        Announcement {
            name: "NAS".into(),
            addresses: vec![address],
            smb_port: 445,
            model: "MacSamba".into(),
            backup_shares: vec!["Backups".into()],
        }
    }

    fn messages(responder: &mut MdnsResponder) -> Vec<(Recipient, DnsMessage)> {
        let decoded = |sent: Transmit| (sent.to, DnsMessage::decode(&sent.payload).unwrap());
        std::iter::from_fn(|| responder.poll_transmit()).map(decoded).collect()
    }

    /// Lets time pass until nothing is due before `until`.
    fn run(responder: &mut MdnsResponder, until: Instant) -> Vec<(Recipient, DnsMessage)> {
        let mut sent = messages(responder);
        while let Some(due) = responder.poll_timeout().filter(|due| *due <= until) {
            responder.handle_timeout(due);
            sent.extend(messages(responder));
        }
        sent
    }

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn started() -> (MdnsResponder, Instant) {
        let start = Instant::now();
        (MdnsResponder::new(announcement(), Jitter::new(7), start), start)
    }

    fn steady() -> (MdnsResponder, Instant) {
        let (mut responder, start) = started();
        run(&mut responder, start + seconds(10));
        assert_eq!(responder.phase, Phase::Steady);
        (responder, start + seconds(10))
    }

    fn name(labels: &[&str]) -> DnsName {
        DnsName::of(labels)
    }

    fn smb() -> DnsName {
        name(&["_smb", "_tcp", "local"])
    }

    fn question(asked: &DnsName, kind: u16, wants_unicast: bool) -> Vec<u8> {
        let mut writer = MessageWriter::query();
        writer.question(asked, kind, if wants_unicast { 0x8001 } else { 1 });
        writer.finish()
    }

    fn response(record: &ResourceRecord) -> Vec<u8> {
        let mut writer = MessageWriter::response(0);
        writer.record(MessageSection::Answer, record, record.ttl_seconds, true);
        writer.finish()
    }

    fn ask(
        responder: &mut MdnsResponder,
        from: &str,
        query: &[u8],
        now: Instant,
    ) -> DatagramOutcome {
        responder.handle_datagram(from.parse().unwrap(), false, query, now)
    }

    fn foreign_address() -> ResourceRecord {
        ResourceRecord {
            name: name(&["nas", "local"]),
            kind: kind::A,
            is_unique: true,
            ttl_seconds: 120,
            data: vec![10, 0, 0, 9],
        }
    }

    #[test]
    fn names_are_probed_three_times_then_announced_three_times() {
        let (mut responder, start) = started();
        assert_eq!(responder.announced_name(), None);
        let sent = run(&mut responder, start + seconds(20));
        let (probes, announced) = sent.split_at(3);
        for (to, probe) in probes {
            assert_eq!((*to, probe.is_response), (Recipient::Group, false));
            assert!(probe.questions.iter().all(|q| q.kind == kind::ANY && !q.wants_unicast));
            assert!(probe.authorities.iter().any(|r| r.kind == kind::A && r.data == [10, 0, 0, 1]));
        }
        assert_eq!(announced.len(), 3);
        for (_, message) in announced {
            assert!(message.is_response && message.questions.is_empty());
            for service in ["_smb", "_adisk", "_device-info"] {
                let instance = name(&["NAS", service, "_tcp", "local"]);
                let found =
                    message.answers.iter().find(|r| r.name == instance && r.kind == kind::SRV);
                assert!(found.is_some_and(|record| record.is_unique), "{service}");
            }
        }
        assert_eq!(responder.announced_name().as_deref(), Some("NAS"));
    }

    #[test]
    fn browse_query_gets_delayed_answer_with_all_records() {
        let (mut responder, now) = steady();
        let query = question(&smb(), kind::PTR, false);
        assert_eq!(ask(&mut responder, CLIENT, &query, now), DatagramOutcome::Answered);
        assert_eq!(messages(&mut responder), [], "others may answer, too");
        let due = responder.poll_timeout().unwrap();
        assert!((SHARED_DELAY[0]..=SHARED_DELAY[1]).contains(&(due - now)));
        let sent = run(&mut responder, due);
        let [(Recipient::Group, answer)] = &sent[..] else { panic!("{sent:?}") };
        assert_eq!(answer.answers.len(), 1);
        let kinds: Vec<u16> = answer.additionals.iter().map(|record| record.kind).collect();
        for needed in [kind::SRV, kind::TXT, kind::A] {
            assert!(kinds.contains(&needed), "{kinds:?}");
        }
    }

    #[test]
    fn known_answer_is_not_repeated() {
        let (mut responder, now) = steady();
        let mut writer = MessageWriter::query();
        writer.question(&smb(), kind::PTR, 1);
        let known = responder.records.iter().find(|r| r.name == smb()).unwrap().clone();
        writer.record(MessageSection::Answer, &known, known.ttl_seconds / 2, false);
        let query = writer.finish();
        assert_eq!(ask(&mut responder, CLIENT, &query, now), DatagramOutcome::Ignored);
        assert_eq!(responder.poll_timeout(), None);
    }

    #[test]
    fn record_is_multicast_at_most_once_a_second() {
        let (mut responder, now) = steady();
        let query = question(&smb(), kind::PTR, false);
        ask(&mut responder, CLIENT, &query, now);
        assert_eq!(run(&mut responder, now + Duration::from_millis(200)).len(), 1);
        let again = now + Duration::from_millis(500);
        assert_eq!(ask(&mut responder, CLIENT, &query, again), DatagramOutcome::Ignored);
        assert_eq!(
            ask(&mut responder, CLIENT, &query, now + seconds(2)),
            DatagramOutcome::Answered
        );
    }

    #[test]
    fn unicast_question_is_answered_to_its_sender() {
        let (mut responder, now) = steady();
        let query = question(&name(&["nas", "LOCAL"]), kind::A, true);
        assert_eq!(ask(&mut responder, CLIENT, &query, now), DatagramOutcome::Answered);
        let sent = messages(&mut responder);
        let [(Recipient::Client(to), answer)] = &sent[..] else { panic!("{sent:?}") };
        assert_eq!(to.to_string(), CLIENT);
        assert_eq!(answer.answers[0].data, [10, 0, 0, 1]);
    }

    #[test]
    fn legacy_query_gets_its_id_and_question_and_short_ttls() {
        let (mut responder, now) = steady();
        let mut query = question(&name(&["nas", "local"]), kind::A, false);
        query[..2].copy_from_slice(&[0x12, 0x34]);
        ask(&mut responder, "10.0.0.2:40000", &query, now);
        let sent = messages(&mut responder);
        let [(Recipient::Client(_), answer)] = &sent[..] else { panic!("{sent:?}") };
        assert_eq!((answer.id, answer.questions.len()), (0x1234, 1));
        let records = answer.answers.iter().chain(&answer.additionals);
        assert!(records.into_iter().all(|record| record.ttl_seconds <= 10 && !record.is_unique));
    }

    #[test]
    fn missing_record_type_is_denied() {
        let (mut responder, now) = steady();
        let query = question(&name(&["nas", "local"]), kind::AAAA, true);
        ask(&mut responder, CLIENT, &query, now);
        let sent = messages(&mut responder);
        assert_eq!(sent[0].1.answers[0].kind, kind::NSEC);
        let query = question(&name(&["other", "local"]), kind::A, true);
        assert_eq!(ask(&mut responder, CLIENT, &query, now), DatagramOutcome::Ignored);
    }

    #[test]
    fn name_in_use_gets_a_number_and_probes_again() {
        let (mut responder, start) = started();
        run(&mut responder, start + Duration::from_millis(300));
        let taken = response(&foreign_address());
        let now = start + Duration::from_millis(300);
        assert_eq!(ask(&mut responder, CLIENT, &taken, now), DatagramOutcome::Conflict);
        let sent = run(&mut responder, now + seconds(10));
        assert_eq!(responder.announced_name().as_deref(), Some("NAS-2"));
        let host = name(&["NAS-2", "local"]);
        assert!(sent[0].1.questions.iter().any(|question| question.name == host));
    }

    #[test]
    fn established_name_is_defended_by_a_probe() {
        let (mut responder, now) = steady();
        let foreign = response(&foreign_address());
        assert_eq!(ask(&mut responder, CLIENT, &foreign, now), DatagramOutcome::Conflict);
        assert_eq!(responder.announced_name(), None);
        run(&mut responder, now + seconds(10));
        assert_eq!(responder.announced_name().as_deref(), Some("NAS"), "nobody answered");
    }

    #[test]
    fn probe_of_another_machine_is_answered_at_once() {
        let (mut responder, now) = steady();
        let mut writer = MessageWriter::query();
        writer.question(&name(&["nas", "local"]), kind::ANY, 1);
        writer.record(MessageSection::Authority, &foreign_address(), 120, false);
        let probe = writer.finish();
        assert_eq!(ask(&mut responder, CLIENT, &probe, now), DatagramOutcome::Answered);
        let sent = run(&mut responder, now);
        assert_eq!(sent[0].1.answers[0].data, [10, 0, 0, 1]);
    }

    #[test]
    fn simultaneous_probe_with_greater_data_wins() {
        for (last, is_ours) in [(0, true), (9, false)] {
            let (mut responder, start) = started();
            run(&mut responder, start + Duration::from_millis(260));
            let now = start + Duration::from_millis(260);
            let mut writer = MessageWriter::query();
            writer.question(&name(&["nas", "local"]), kind::ANY, 1);
            let theirs = ResourceRecord { data: vec![10, 0, 0, last], ..foreign_address() };
            writer.record(MessageSection::Authority, &theirs, 120, false);
            let outcome = ask(&mut responder, CLIENT, &writer.finish(), now);
            assert_eq!(outcome == DatagramOutcome::Ignored, is_ours);
            let due = responder.poll_timeout().unwrap();
            assert_eq!(due == now + TIE_DELAY, !is_ours);
        }
    }

    #[test]
    fn other_responder_of_this_machine_is_no_conflict() {
        let (mut responder, now) = steady();
        let second = response(&foreign_address());
        let outcome = responder.handle_datagram(CLIENT.parse().unwrap(), true, &second, now);
        assert_eq!(outcome, DatagramOutcome::Ignored);
        // Its service of the same name at another port is one.
        let instance = name(&["NAS", "_smb", "_tcp", "local"]);
        let data = [&[0, 0, 0, 0, 0, 99], name(&["NAS", "local"]).as_wire()].concat();
        let service = ResourceRecord { name: instance, kind: kind::SRV, data, ..foreign_address() };
        let outcome =
            responder.handle_datagram(CLIENT.parse().unwrap(), true, &response(&service), now);
        assert_eq!(outcome, DatagramOutcome::Conflict);
    }

    #[test]
    fn own_message_that_loops_back_is_ignored() {
        let (mut responder, start) = started();
        let mut sent = Vec::new();
        while let Some(due) = responder.poll_timeout().filter(|due| *due < start + seconds(10)) {
            responder.handle_timeout(due);
            sent.extend(std::iter::from_fn(|| responder.poll_transmit()));
        }
        let mut changed = announcement();
        changed.addresses = vec!["10.0.0.7".parse().unwrap()];
        responder.update(changed, start + seconds(10));
        for old in sent {
            let now = start + seconds(10);
            let own = "10.0.0.7:5353".parse().unwrap();
            assert_eq!(
                responder.handle_datagram(own, true, &old.payload, now),
                DatagramOutcome::Ignored
            );
        }
    }

    #[test]
    fn goodbye_of_the_same_record_is_answered_by_an_announcement() {
        let (mut responder, now) = steady();
        let own = responder.records.iter().find(|record| record.kind == kind::A).unwrap().clone();
        let goodbye = response(&ResourceRecord { ttl_seconds: 0, ..own });
        ask(&mut responder, CLIENT, &goodbye, now);
        let sent = run(&mut responder, now);
        assert_eq!(sent[0].1.answers[0].ttl_seconds, HOST_TTL_SECONDS);
    }

    #[test]
    fn removed_share_is_withdrawn_and_the_rest_announced() {
        let (mut responder, now) = steady();
        let without = Announcement { backup_shares: Vec::new(), ..announcement() };
        responder.update(without, now);
        let sent = run(&mut responder, now + seconds(1));
        let gone = &sent[0].1.answers;
        assert!(gone.iter().all(|record| record.ttl_seconds == 0) && gone.len() == 3, "{gone:?}");
        let adisk = name(&["_adisk", "_tcp", "local"]);
        assert!(gone.iter().any(|record| record.name == adisk));
        assert!(sent[1].1.answers.iter().any(|record| record.name == smb()));
        let query = question(&adisk, kind::PTR, true);
        assert_eq!(ask(&mut responder, CLIENT, &query, now), DatagramOutcome::Ignored);
    }

    #[test]
    fn close_withdraws_services_and_leaves_addresses() {
        let (mut responder, _) = steady();
        let sent = responder.close();
        let message = DnsMessage::decode(&sent[0].payload).unwrap();
        assert!(message.answers.iter().all(|record| record.ttl_seconds == 0));
        assert!(message.answers.iter().any(|record| record.name == smb()));
        assert!(
            message.answers.iter().all(|r| r.kind != kind::A && !r.data.starts_with(b"\x04_smb"))
        );
        let (mut early, _) = started();
        assert_eq!(early.close(), [], "nothing was announced");
    }

    #[test]
    fn endless_conflicts_slow_down_and_end_without_a_name() {
        let (mut responder, start) = started();
        let mut now = start;
        let mut conflicts = 0;
        while !responder.is_nameless() {
            let host = name(&[&responder.name(), "local"]);
            let foreign = response(&ResourceRecord { name: host, ..foreign_address() });
            ask(&mut responder, CLIENT, &foreign, now);
            assert_eq!(responder.conflicts, conflicts, "no probe was sent yet");
            now = responder.poll_timeout().unwrap_or(now);
            responder.handle_timeout(now);
            ask(&mut responder, CLIENT, &foreign, now);
            conflicts += 1;
            assert!(conflicts <= RENAMES_MAX + 1);
        }
        let slow = RENAMES_MAX - CONFLICTS_QUICK;
        assert!(now - start >= CONFLICT_DELAY * (slow - 1));
        assert_eq!(
            ask(&mut responder, CLIENT, &question(&smb(), kind::PTR, false), now),
            DatagramOutcome::Ignored
        );
        // The attack is over: the computer name is announced again.
        run(&mut responder, now + NAMELESS_FOR - seconds(1));
        assert!(responder.is_nameless());
        run(&mut responder, now + NAMELESS_FOR + seconds(10));
        assert_eq!(responder.announced_name().as_deref(), Some("NAS"));
    }

    #[test]
    fn flood_of_conflicts_costs_one_name_a_probe() {
        let (mut responder, start) = started();
        let mut writer = MessageWriter::response(0);
        for number in 1..=RENAMES_MAX {
            let host = if number == 1 { "NAS".into() } else { format!("NAS-{number}") };
            let record = ResourceRecord { name: name(&[&host, "local"]), ..foreign_address() };
            writer.record(MessageSection::Answer, &record, 120, true);
        }
        let attack = writer.finish();
        run(&mut responder, start + PROBE_INTERVAL);
        for _ in 0..1000 {
            ask(&mut responder, CLIENT, &attack, start + PROBE_INTERVAL);
        }
        assert_eq!(responder.conflicts, 1);
        run(&mut responder, start + seconds(10));
        assert_eq!(responder.announced_name().as_deref(), Some("NAS-2"));
    }

    #[test]
    fn response_from_another_port_and_garbage_are_dropped() {
        let (mut responder, now) = steady();
        let foreign = response(&foreign_address());
        let outcome = ask(&mut responder, "10.0.0.2:9", &foreign, now);
        assert_eq!(outcome, DatagramOutcome::Ignored);
        assert_eq!(ask(&mut responder, CLIENT, b"garbage", now), DatagramOutcome::Malformed);
    }

    #[test]
    fn query_storm_sends_a_bounded_number_of_multicasts() {
        let (mut responder, now) = steady();
        let query = question(&smb(), kind::PTR, false);
        let mut sent = 0;
        for millisecond in 0..3000 {
            let at = now + Duration::from_millis(millisecond);
            ask(&mut responder, CLIENT, &query, at);
            sent += run(&mut responder, at).len();
        }
        assert!((1..=3).contains(&sent), "{sent}");
    }
}
