//! DNS messages, as multicast DNS uses them. RFC 1035 4.1, RFC 6762 18.

use super::name::DnsName;
use crate::limits::{DATAGRAM_BYTES_MAX, PACKET_BYTES, QUESTIONS_MAX, RECORDS_MAX};
use std::collections::HashMap;

/// Record types.
pub mod kind {
    /// An IPv4 address.
    pub const A: u16 = 1;
    /// A name of several.
    pub const PTR: u16 = 12;
    /// Text.
    pub const TXT: u16 = 16;
    /// An IPv6 address.
    pub const AAAA: u16 = 28;
    /// Host and port of a service. RFC 2782.
    pub const SRV: u16 = 33;
    /// The record types that a name has. RFC 6762 6.1.
    pub const NSEC: u16 = 47;
    /// Any type, in questions.
    pub const ANY: u16 = 255;
}

/// The Internet class.
const CLASS_IN: u16 = 1;
/// Any class, in questions.
const CLASS_ANY: u16 = 255;
/// The upper bit of the class: a unicast answer is wanted, or the record replaces cached ones.
/// RFC 6762 18.12, 18.13.
const CLASS_FLAG: u16 = 0x8000;
/// QR and AA: an authoritative response.
const FLAGS_RESPONSE: u16 = 0x8400;
const FLAG_RESPONSE: u16 = 0x8000;
const FLAG_TRUNCATED: u16 = 0x0200;
/// Opcode and response code; messages with other values than zero are ignored. RFC 6762 18.3, 18.11.
const FLAGS_CODES: u16 = 0x780F;
const HEADER_BYTES: usize = 12;
/// Largest position to which a compression pointer can refer.
const POINTER_MAX: usize = 0x3FFF;

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The name.
    pub name: DnsName,
    /// The record type.
    pub kind: u16,
    /// The sender prefers a unicast answer.
    pub wants_unicast: bool,
    /// Its class is that of the Internet, or any.
    pub is_internet: bool,
    /// The class as received; a legacy answer repeats it.
    pub class: u16,
}

/// A record, received or to be sent. Names in its data are uncompressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceRecord {
    /// The name.
    pub name: DnsName,
    /// The record type.
    pub kind: u16,
    /// It replaces cached records of the same name and type: only one machine has them.
    pub is_unique: bool,
    /// Seconds for which it is cached. Zero: it is gone.
    pub ttl_seconds: u32,
    /// The data.
    pub data: Vec<u8>,
}

/// A received message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsMessage {
    /// The id; a legacy answer repeats it.
    pub id: u16,
    /// Whether it is a response.
    pub is_response: bool,
    /// Another message with further known answers follows.
    pub is_truncated: bool,
    /// Questions.
    pub questions: Vec<Question>,
    /// Answers; in a query, those that the sender knows.
    pub answers: Vec<ResourceRecord>,
    /// Authorities; in a query, the records that the sender claims.
    pub authorities: Vec<ResourceRecord>,
    /// Additional records.
    pub additionals: Vec<ResourceRecord>,
}

impl DnsMessage {
    /// Decodes a datagram. `None`: it is malformed, exceeds a limit, or has codes that multicast DNS
    /// ignores.
    #[must_use]
    pub fn decode(datagram: &[u8]) -> Option<Self> {
        if datagram.len() > DATAGRAM_BYTES_MAX {
            return None;
        }
        let (id, flags) = (u16_at(datagram, 0)?, u16_at(datagram, 2)?);
        if flags & FLAGS_CODES != 0 {
            return None;
        }
        let count = |at| u16_at(datagram, at).map(usize::from);
        let (questions, counts) = (count(4)?, [count(6)?, count(8)?, count(10)?]);
        if questions > QUESTIONS_MAX || counts.iter().sum::<usize>() > RECORDS_MAX {
            return None;
        }
        let mut reader = MessageReader { bytes: datagram, at: HEADER_BYTES };
        let questions = (0..questions).map(|_| reader.question()).collect::<Option<_>>()?;
        let [answers, authorities, additionals] = counts.map(|count| reader.records(count));
        Some(Self {
            id,
            is_response: flags & FLAG_RESPONSE != 0,
            is_truncated: flags & FLAG_TRUNCATED != 0,
            questions,
            answers: answers?,
            authorities: authorities?,
            additionals: additionals?,
        })
    }
}

struct MessageReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl MessageReader<'_> {
    fn name(&mut self) -> Option<DnsName> {
        let (name, after) = DnsName::decode(self.bytes, self.at)?;
        self.at = after;
        Some(name)
    }

    fn u16(&mut self) -> Option<u16> {
        let value = u16_at(self.bytes, self.at)?;
        self.at += 2;
        Some(value)
    }

    fn question(&mut self) -> Option<Question> {
        let (name, kind, class) = (self.name()?, self.u16()?, self.u16()?);
        let is_internet = [CLASS_IN, CLASS_ANY].contains(&(class & !CLASS_FLAG));
        Some(Question { name, kind, wants_unicast: class & CLASS_FLAG != 0, is_internet, class })
    }

    /// Records of other classes are read and left out.
    fn records(&mut self, count: usize) -> Option<Vec<ResourceRecord>> {
        let mut records = Vec::new();
        for _ in 0..count {
            let (name, kind, class) = (self.name()?, self.u16()?, self.u16()?);
            let ttl = [self.u16()?, self.u16()?];
            let length = usize::from(self.u16()?);
            let data = self.data(kind, length)?;
            if class & !CLASS_FLAG == CLASS_IN {
                records.push(ResourceRecord {
                    name,
                    kind,
                    is_unique: class & CLASS_FLAG != 0,
                    ttl_seconds: u32::from(ttl[0]) << 16 | u32::from(ttl[1]),
                    data,
                });
            }
        }
        Some(records)
    }

    /// The data, with its name uncompressed. RFC 6762 18.14.
    fn data(&mut self, kind: u16, length: usize) -> Option<Vec<u8>> {
        let (start, end) = (self.at, self.at + length);
        let raw = self.bytes.get(start..end)?;
        self.at = end;
        let fixed_bytes = name_position(kind).unwrap_or(length);
        let mut data = raw.get(..fixed_bytes)?.to_vec();
        if name_position(kind).is_some() {
            let (name, after) = DnsName::decode(self.bytes, start + fixed_bytes)?;
            data.extend_from_slice(name.as_wire());
            if after != end {
                return None;
            }
        }
        Some(data)
    }
}

/// Where the name begins in the data of records that end with a name.
fn name_position(kind: u16) -> Option<usize> {
    match kind {
        kind::PTR => Some(0),
        // Priority, weight and port precede it.
        kind::SRV => Some(6),
        _ => None,
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|b| u16::from_be_bytes(*b))
}

/// Builds one message of at most [`PACKET_BYTES`].
#[derive(Debug)]
pub struct MessageWriter {
    bytes: Vec<u8>,
    /// Position of each suffix of a name, in lower case.
    suffixes: HashMap<Vec<u8>, u16>,
}

/// A section of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageSection {
    /// Answers.
    Answer,
    /// Authorities.
    Authority,
    /// Additional records.
    Additional,
}

impl MessageWriter {
    /// A query. Its id is zero. RFC 6762 18.1.
    #[must_use]
    pub fn query() -> Self {
        Self::begin(0, 0)
    }

    /// A response; with an `id` only to a legacy client.
    #[must_use]
    pub fn response(id: u16) -> Self {
        Self::begin(id, FLAGS_RESPONSE)
    }

    fn begin(id: u16, flags: u16) -> Self {
        let mut bytes = Vec::with_capacity(PACKET_BYTES);
        bytes.extend_from_slice(&id.to_be_bytes());
        bytes.extend_from_slice(&flags.to_be_bytes());
        bytes.resize(HEADER_BYTES, 0);
        Self { bytes, suffixes: HashMap::new() }
    }

    /// Adds a question. It must precede all records.
    pub fn question(&mut self, name: &DnsName, kind: u16, class: u16) {
        self.name(name);
        self.bytes.extend_from_slice(&kind.to_be_bytes());
        self.bytes.extend_from_slice(&class.to_be_bytes());
        self.count(4);
    }

    /// Adds a question of the Internet class.
    pub fn internet_question(&mut self, name: &DnsName, kind: u16) {
        self.question(name, kind, CLASS_IN);
    }

    /// Adds a record, unless the message would exceed its size: then it stays as it is, and the
    /// answer is false. Sections must follow in their order. With `is_flagged` a unique record tells
    /// receivers to drop others of its name and type.
    pub fn record(
        &mut self,
        section: MessageSection,
        record: &ResourceRecord,
        ttl_seconds: u32,
        is_flagged: bool,
    ) -> bool {
        let before = self.bytes.len();
        let class = if is_flagged && record.is_unique { CLASS_IN | CLASS_FLAG } else { CLASS_IN };
        self.name(&record.name);
        self.bytes.extend_from_slice(&record.kind.to_be_bytes());
        self.bytes.extend_from_slice(&class.to_be_bytes());
        self.bytes.extend_from_slice(&ttl_seconds.to_be_bytes());
        let length_at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 2]);
        self.data(record);
        let length = (self.bytes.len() - length_at - 2) as u16;
        self.bytes[length_at..length_at + 2].copy_from_slice(&length.to_be_bytes());
        if self.bytes.len() > PACKET_BYTES {
            self.bytes.truncate(before);
            self.suffixes.retain(|_, at| usize::from(*at) < before);
            return false;
        }
        self.count(match section {
            MessageSection::Answer => 6,
            MessageSection::Authority => 8,
            MessageSection::Additional => 10,
        });
        true
    }

    /// The message.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    /// Whether it has no record and no question.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.len() == HEADER_BYTES
    }

    fn count(&mut self, at: usize) {
        let count = u16_at(&self.bytes, at).unwrap_or_default().saturating_add(1);
        self.bytes[at..at + 2].copy_from_slice(&count.to_be_bytes());
    }

    fn data(&mut self, record: &ResourceRecord) {
        let fixed_bytes = name_position(record.kind).unwrap_or(record.data.len());
        self.bytes.extend_from_slice(&record.data[..fixed_bytes.min(record.data.len())]);
        if name_position(record.kind).is_some()
            && let Some((name, _)) = DnsName::decode(&record.data, fixed_bytes)
        {
            self.name(&name);
        }
    }

    /// Writes a name; a suffix that the message has already becomes a pointer.
    fn name(&mut self, name: &DnsName) {
        let wire = name.as_wire();
        for start in name.label_starts() {
            let suffix = wire[start..].to_ascii_lowercase();
            if let Some(at) = self.suffixes.get(&suffix) {
                self.bytes.extend_from_slice(&(0xC000 | at).to_be_bytes());
                return;
            }
            if self.bytes.len() <= POINTER_MAX {
                self.suffixes.insert(suffix, self.bytes.len() as u16);
            }
            let label_bytes = usize::from(wire[start]) + 1;
            self.bytes.extend_from_slice(&wire[start..start + label_bytes]);
        }
        self.bytes.push(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The query of `avahi-browse _smb._tcp` with one known answer.
    const QUERY: &[u8] = b"\0\0\0\0\0\x01\0\x01\0\0\0\0\
        \x04_smb\x04_tcp\x05local\0\0\x0C\0\x01\
        \xC0\x0C\0\x0C\0\x01\0\0\x11\x94\0\x06\x03NAS\xC0\x0C";

    #[test]
    fn query_with_known_answer_is_decoded() {
        let message = DnsMessage::decode(QUERY).unwrap();
        assert!(!message.is_response && !message.is_truncated);
        let service = DnsName::of(&["_smb", "_tcp", "local"]);
        assert_eq!(message.questions[0].name, service);
        assert_eq!(message.questions[0].kind, kind::PTR);
        let known = &message.answers[0];
        assert_eq!((known.ttl_seconds, known.is_unique), (4500, false));
        assert_eq!(known.data, DnsName::of(&["NAS", "_smb", "_tcp", "local"]).as_wire());
    }

    #[test]
    fn every_truncated_message_is_refused() {
        for length in 0..QUERY.len() {
            assert_eq!(DnsMessage::decode(&QUERY[..length]), None, "{length}");
        }
    }

    #[test]
    fn message_above_a_limit_or_with_an_opcode_is_refused() {
        let mut many = QUERY.to_vec();
        many[4] = 1;
        assert_eq!(DnsMessage::decode(&many), None, "257 questions");
        let mut records = QUERY.to_vec();
        records[11] = 200;
        assert_eq!(DnsMessage::decode(&records), None, "201 records");
        let mut status = QUERY.to_vec();
        status[2] = 0x10;
        assert_eq!(DnsMessage::decode(&status), None, "an opcode");
        let mut long = QUERY.to_vec();
        long.resize(DATAGRAM_BYTES_MAX + 1, 0);
        assert_eq!(DnsMessage::decode(&long), None, "too long");
        // The data of a PTR record must end where its length says.
        let mut short = QUERY.to_vec();
        short[44] = 5;
        assert_eq!(DnsMessage::decode(&short), None, "a name across its end");
    }

    #[test]
    fn written_records_are_compressed_and_read_back() {
        let service = DnsName::of(&["_smb", "_tcp", "local"]);
        let instance = DnsName::of(&["NAS", "_smb", "_tcp", "local"]);
        let record = |name: &DnsName, kind, data: Vec<u8>| ResourceRecord {
            name: name.clone(),
            kind,
            is_unique: kind != kind::PTR,
            ttl_seconds: 120,
            data,
        };
        let host = DnsName::of(&["NAS", "local"]);
        let data = [&[0, 0, 0, 0, 1, 0xBD], host.as_wire()].concat();
        let records = [
            record(&service, kind::PTR, instance.as_wire().to_vec()),
            record(&instance, kind::SRV, data),
            record(&host, kind::A, vec![10, 0, 0, 1]),
        ];
        let mut writer = MessageWriter::response(0);
        for one in &records {
            assert!(writer.record(MessageSection::Answer, one, one.ttl_seconds, true));
        }
        let bytes = writer.finish();
        let expected = b"\0\0\x84\0\0\0\0\x03\0\0\0\0\
            \x04_smb\x04_tcp\x05local\0\0\x0C\0\x01\0\0\0\x78\0\x06\x03NAS\xC0\x0C\
            \xC0\x27\0\x21\x80\x01\0\0\0\x78\0\x0C\0\0\0\0\x01\xBD\x03NAS\xC0\x16\
            \xC0\x3F\0\x01\x80\x01\0\0\0\x78\0\x04\x0A\0\0\x01";
        assert_eq!(bytes, expected);
        let message = DnsMessage::decode(&bytes).unwrap();
        assert!(message.is_response);
        assert_eq!(message.answers, records);
    }

    #[test]
    fn record_that_does_not_fit_leaves_the_message_unchanged() {
        let mut writer = MessageWriter::response(0);
        let long = ResourceRecord {
            name: DnsName::of(&["a", "local"]),
            kind: kind::TXT,
            is_unique: true,
            ttl_seconds: 1,
            data: vec![0; PACKET_BYTES],
        };
        assert!(!writer.record(MessageSection::Answer, &long, 1, true));
        assert!(writer.is_empty());
        let short = ResourceRecord { data: vec![0], ..long };
        assert!(writer.record(MessageSection::Answer, &short, 1, true));
        let message = DnsMessage::decode(&writer.finish()).unwrap();
        assert_eq!(message.answers, [short]);
    }
}
