//! Named limits of everything that a datagram could choose.

use std::time::Duration;

/// Maximum size of a received datagram in bytes. RFC 6762 17: 9000 bytes with all headers.
pub const DATAGRAM_BYTES_MAX: usize = 9000;
/// Maximum number of questions in a DNS message.
pub const QUESTIONS_MAX: usize = 64;
/// Maximum number of records of all sections of a DNS message.
pub const RECORDS_MAX: usize = 128;
/// Maximum length of a DNS name in bytes. RFC 1035 2.3.4.
pub const NAME_BYTES_MAX: usize = 255;
/// Maximum number of compression pointers in one name.
pub const POINTERS_MAX: usize = 16;
/// Bytes of a sent DNS message: an Ethernet frame less the headers of IPv6 and UDP.
pub const PACKET_BYTES: usize = 1440;
/// Other names that are tried after conflicts; then the interface has no name.
pub const RENAMES_MAX: u32 = 64;
/// Bytes of the TXT record that lists the Time Machine shares. With its name, the headers and the
/// question of a legacy query it fits into [`PACKET_BYTES`].
pub const BACKUP_TEXT_BYTES_MAX: usize = 1200;
/// Sent payloads that are recognised when multicast loops them back.
pub const ECHOES_MAX: usize = 32;

/// Maximum size of a SOAP message in bytes; those of Windows have less than 2 KiB.
pub const ENVELOPE_BYTES_MAX: usize = 8192;
/// Maximum depth of elements.
pub const XML_DEPTH_MAX: usize = 16;
/// Maximum number of elements.
pub const XML_ELEMENTS_MAX: usize = 128;
/// Maximum number of namespace declarations in scope.
pub const XML_NAMESPACES_MAX: usize = 32;
/// Maximum length of a text that is read, in bytes.
pub const XML_TEXT_BYTES_MAX: usize = 1024;
/// Maximum length of a message id in bytes.
pub const MESSAGE_ID_BYTES_MAX: usize = 128;
/// Message ids that are remembered to ignore duplicates.
pub const MESSAGE_IDS_MAX: usize = 128;
/// WS-Discovery messages that wait for their delay.
pub const DELAYED_MAX: usize = 64;
/// As [`DELAYED_MAX`], to one address: two senders cannot use up the room of all.
pub const DELAYED_OF_ADDRESS_MAX: usize = 8;

/// Datagrams that one address may send in a burst, and in each second after it.
pub const SENDER_BURST: u32 = 60;
/// See [`SENDER_BURST`].
pub const SENDER_PER_SECOND: u32 = 20;
/// As [`SENDER_BURST`], for all senders together.
pub const ALL_BURST: u32 = 1000;
/// As [`SENDER_PER_SECOND`], for all senders together.
pub const ALL_PER_SECOND: u32 = 500;
/// Token buckets for senders. Addresses with the same hash share one, so memory is constant.
pub const SENDER_BUCKETS: usize = 1024;

/// APP_MAX_DELAY of WS-Discovery and DPWS: upper bound of the delay of a Hello or an answer.
pub const APP_MAX_DELAY: Duration = Duration::from_millis(500);

const _: () = assert!(DELAYED_OF_ADDRESS_MAX < DELAYED_MAX);
const _: () = assert!(ENVELOPE_BYTES_MAX <= DATAGRAM_BYTES_MAX);
const _: () = assert!(SENDER_BURST < ALL_BURST && SENDER_PER_SECOND < ALL_PER_SECOND);
