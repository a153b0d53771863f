//! Reader for the SOAP messages of clients. SOAP 1.2, WS-Addressing of August 2004.
//!
//! A pull parser reads one bounded text. There is no document type, and references resolve to the
//! five predefined entities and to characters only, so nothing expands.

use super::namespace;
use crate::limits::{
    ENVELOPE_BYTES_MAX, MESSAGE_ID_BYTES_MAX, XML_DEPTH_MAX, XML_ELEMENTS_MAX, XML_NAMESPACES_MAX,
    XML_TEXT_BYTES_MAX,
};
use quick_xml::events::{BytesRef, Event};
use quick_xml::name::{Namespace, QName, ResolveResult};
use quick_xml::{NsReader, escape};

/// The message is no SOAP envelope of WS-Discovery, or exceeds a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedEnvelope;

/// The purpose of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiscoveryAction {
    /// A search. `is_match`: by the types and scopes, this server is among the results.
    Probe {
        /// See above.
        is_match: bool,
    },
    /// The transport address of the endpoint with this address is wanted.
    Resolve(String),
    /// The metadata of the device is wanted.
    Get,
    /// An action that is of no concern, as the messages of other devices.
    Other,
}

/// A message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Its purpose.
    pub action: DiscoveryAction,
    /// Its id, to which an answer relates.
    pub message_id: String,
    /// Its destination; empty if it names none.
    pub to: String,
}

/// An element that is read, by its place in the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Envelope,
    Header,
    Body,
    Action,
    MessageId,
    To,
    Probe,
    Types,
    Scopes,
    Resolve,
    Endpoint,
    EndpointAddress,
    Unknown,
}

/// The place of a child element. Only the path decides, so an `Action` within another header block
/// is not taken for the message's.
fn place(parent: Option<Place>, namespace: &str, name: &str) -> Place {
    use namespace::{ADDRESSING, DISCOVERY, SOAP};
    match (parent, namespace, name) {
        (None, SOAP, "Envelope") => Place::Envelope,
        (Some(Place::Envelope), SOAP, "Header") => Place::Header,
        (Some(Place::Envelope), SOAP, "Body") => Place::Body,
        (Some(Place::Header), ADDRESSING, "Action") => Place::Action,
        (Some(Place::Header), ADDRESSING, "MessageID") => Place::MessageId,
        (Some(Place::Header), ADDRESSING, "To") => Place::To,
        (Some(Place::Body), DISCOVERY, "Probe") => Place::Probe,
        (Some(Place::Probe), DISCOVERY, "Types") => Place::Types,
        (Some(Place::Probe), DISCOVERY, "Scopes") => Place::Scopes,
        (Some(Place::Body), DISCOVERY, "Resolve") => Place::Resolve,
        (Some(Place::Resolve), ADDRESSING, "EndpointReference") => Place::Endpoint,
        (Some(Place::Endpoint), ADDRESSING, "Address") => Place::EndpointAddress,
        _ => Place::Unknown,
    }
}

/// The texts of a message, as far as it was read.
#[derive(Debug, Default)]
struct EnvelopeTexts {
    action: String,
    message_id: String,
    to: String,
    endpoint: String,
    has_foreign_type: bool,
    has_scopes: bool,
    has_probe: bool,
}

impl Envelope {
    /// Reads a message.
    ///
    /// # Errors
    /// [`MalformedEnvelope`].
    pub fn read(message: &[u8]) -> Result<Self, MalformedEnvelope> {
        if message.len() > ENVELOPE_BYTES_MAX {
            return Err(MalformedEnvelope);
        }
        let text = std::str::from_utf8(message).map_err(|_| MalformedEnvelope)?;
        let texts = EnvelopeReader::new(text).read()?;
        let id = texts.message_id.trim();
        // An id is a URI. The answer repeats it, and must not carry control characters, which no XML
        // may contain.
        let is_printable = id.bytes().all(|byte| byte.is_ascii_graphic());
        if id.is_empty() || id.len() > MESSAGE_ID_BYTES_MAX || !is_printable {
            return Err(MalformedEnvelope);
        }
        Ok(Self {
            action: action_of(&texts),
            message_id: id.to_owned(),
            to: texts.to.trim().to_owned(),
        })
    }
}

fn action_of(texts: &EnvelopeTexts) -> DiscoveryAction {
    let (base, name) = texts.action.trim().rsplit_once('/').unwrap_or_default();
    match (base, name) {
        (namespace::DISCOVERY, "Probe") if texts.has_probe => {
            DiscoveryAction::Probe { is_match: !texts.has_foreign_type && !texts.has_scopes }
        }
        (namespace::DISCOVERY, "Resolve") => {
            DiscoveryAction::Resolve(texts.endpoint.trim().to_owned())
        }
        (namespace::TRANSFER, "Get") => DiscoveryAction::Get,
        _ => DiscoveryAction::Other,
    }
}

struct EnvelopeReader<'a> {
    reader: NsReader<&'a [u8]>,
    open: Vec<Place>,
    elements: usize,
    /// Text of the innermost element.
    text: String,
    texts: EnvelopeTexts,
}

impl<'a> EnvelopeReader<'a> {
    fn new(text: &'a str) -> Self {
        let mut reader = NsReader::from_str(text);
        reader.config_mut().expand_empty_elements = true;
        reader.resolver_mut().set_max_namespace_bindings(XML_NAMESPACES_MAX);
        let (open, text, texts) = (Vec::new(), String::new(), EnvelopeTexts::default());
        Self { reader, open, elements: 0, text, texts }
    }

    fn read(mut self) -> Result<EnvelopeTexts, MalformedEnvelope> {
        loop {
            let event = self.reader.read_event().map_err(|_| MalformedEnvelope)?;
            match event {
                Event::Start(start) => self.enter(start.name())?,
                Event::End(_) => self.leave()?,
                Event::Text(text) => self.append(&text)?,
                Event::CData(text) => self.append(&text)?,
                Event::GeneralRef(reference) => {
                    let resolved = resolved(&reference)?;
                    self.append(&resolved)?;
                }
                Event::Decl(_) | Event::Comment(_) => {}
                // SOAP 1.2 part 1, 5: neither is part of a SOAP message.
                Event::DocType(_) | Event::PI(_) => return Err(MalformedEnvelope),
                Event::Eof if self.open.is_empty() && self.elements > 0 => return Ok(self.texts),
                Event::Eof | Event::Empty(_) => return Err(MalformedEnvelope),
            }
        }
    }

    fn enter(&mut self, name: QName<'_>) -> Result<(), MalformedEnvelope> {
        self.elements += 1;
        let has_root = self.open.is_empty() && self.elements > 1;
        if self.elements > XML_ELEMENTS_MAX || self.open.len() >= XML_DEPTH_MAX || has_root {
            return Err(MalformedEnvelope);
        }
        let (namespace, local) = self.reader.resolver().resolve_element(name);
        let entered = match namespace {
            ResolveResult::Bound(Namespace(uri)) => {
                place(self.open.last().copied(), uri, local.as_ref())
            }
            ResolveResult::Unbound => Place::Unknown,
            ResolveResult::Unknown(_) => return Err(MalformedEnvelope),
        };
        if self.open.is_empty() && entered != Place::Envelope {
            return Err(MalformedEnvelope);
        }
        self.texts.has_probe |= entered == Place::Probe;
        self.open.push(entered);
        self.text.clear();
        Ok(())
    }

    fn append(&mut self, text: &str) -> Result<(), MalformedEnvelope> {
        // Outside of the root there is white space only, and texts of unknown elements are not read.
        let is_read = self.open.last().is_some_and(|place| *place != Place::Unknown);
        if is_read {
            self.text.push_str(text);
        }
        if self.text.len() > XML_TEXT_BYTES_MAX { Err(MalformedEnvelope) } else { Ok(()) }
    }

    fn leave(&mut self) -> Result<(), MalformedEnvelope> {
        let place = self.open.pop().ok_or(MalformedEnvelope)?;
        let text = std::mem::take(&mut self.text);
        match place {
            Place::Action => self.texts.action = text,
            Place::MessageId => self.texts.message_id = text,
            Place::To => self.texts.to = text,
            Place::EndpointAddress => self.texts.endpoint = text,
            Place::Scopes => self.texts.has_scopes |= !text.trim().is_empty(),
            Place::Types => {
                let mut types = text.split_ascii_whitespace();
                let has_foreign = types.any(|name| !self.is_own_type(name));
                self.texts.has_foreign_type |= has_foreign;
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether the server is of this type. A Probe finds targets that have all of its types.
    fn is_own_type(&self, name: &str) -> bool {
        let (namespace, local) = self.reader.resolver().resolve_element(QName(name));
        let own = [(namespace::DEVICE, "Device"), (namespace::PUBLICATION, "Computer")];
        let ResolveResult::Bound(Namespace(uri)) = namespace else { return false };
        own.contains(&(uri, local.as_ref()))
    }
}

/// The text of `&lt;` or `&#65;`.
fn resolved(reference: &BytesRef<'_>) -> Result<String, MalformedEnvelope> {
    match reference.resolve_char_ref() {
        Ok(Some(character)) => Ok(character.to_string()),
        Ok(None) => {
            escape::resolve_xml_entity(reference).map(str::to_owned).ok_or(MalformedEnvelope)
        }
        Err(_) => Err(MalformedEnvelope),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The Probe of Windows 10 when the network folder is opened.
    const PROBE: &str = include_str!("probe-windows.xml");

    fn probe() -> Result<Envelope, MalformedEnvelope> {
        Envelope::read(PROBE.as_bytes())
    }

    fn read(text: &str) -> Result<Envelope, MalformedEnvelope> {
        Envelope::read(text.as_bytes())
    }

    #[test]
    fn probe_of_windows_matches() {
        let envelope = probe().unwrap();
        assert_eq!(envelope.action, DiscoveryAction::Probe { is_match: true });
        assert_eq!(envelope.message_id, "urn:uuid:5eb0eb22-d3bb-4b4d-9b1b-1a2b3c4d5e6f");
        assert_eq!(envelope.to, "urn:schemas-xmlsoap-org:ws:2005:04:discovery");
    }

    #[test]
    fn probe_for_other_types_or_scopes_does_not_match() {
        let probe = |from: &str, to: &str| {
            let changed = PROBE.replace(from, to);
            assert_ne!(changed, PROBE);
            match read(&changed).unwrap().action {
                DiscoveryAction::Probe { is_match } => is_match,
                other => panic!("{other:?}"),
            }
        };
        assert!(probe("wsdp:Device<", "wsdp:Device pub:Computer<"), "both types");
        assert!(probe("<wsd:Types>wsdp:Device</wsd:Types>", ""), "any type");
        assert!(!probe("wsdp:Device<", "wsdp:Device wsd:Printer<"));
        assert!(!probe("wsdp:Device<", "unknown:Device<"));
        assert!(!probe("wsdp:Device<", "Device<"));
        let scopes = "</wsd:Types><wsd:Scopes>ldap:///o=x</wsd:Scopes>";
        assert!(!probe("</wsd:Types>", scopes));
        assert!(probe("</wsd:Types>", "</wsd:Types><wsd:Scopes> </wsd:Scopes>"));
    }

    #[test]
    fn comments_references_and_cdata_are_part_of_a_text() {
        let id = "urn:uuid:5eb0eb22-d3bb-4b4d-9b1b-1a2b3c4d5e6f";
        let changed = PROBE.replace(id, "a&amp;<!-- b -->&#99;<![CDATA[<d>]]>");
        assert_eq!(read(&changed).unwrap().message_id, "a&c<d>");
    }

    #[test]
    fn every_truncated_message_is_malformed() {
        let whole = PROBE.trim_end();
        for length in 0..whole.len() {
            assert_eq!(read(&whole[..length]), Err(MalformedEnvelope), "{length}");
        }
    }

    #[test]
    fn document_type_and_unknown_entities_are_refused() {
        let entities = "<!DOCTYPE e [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;\">]>";
        let body = PROBE.split_once("?>").unwrap().1;
        assert_eq!(read(&format!("{entities}{body}")), Err(MalformedEnvelope));
        let id = "urn:uuid:5eb0eb22-d3bb-4b4d-9b1b-1a2b3c4d5e6f";
        for bad in ["&b;", "&#0;", "&#x110000;", "<?php ?>"] {
            assert_eq!(read(&PROBE.replace(id, bad)), Err(MalformedEnvelope), "{bad}");
        }
    }

    #[test]
    fn limits_of_size_depth_elements_and_text_hold() {
        let with = |inserted: &str| PROBE.replace("<soap:Body>", &format!("<soap:Body>{inserted}"));
        let nested = |depth| format!("{}{}", "<a>".repeat(depth), "</a>".repeat(depth));
        assert!(read(&with(&nested(XML_DEPTH_MAX - 2))).is_ok());
        assert_eq!(read(&with(&nested(XML_DEPTH_MAX - 1))), Err(MalformedEnvelope));
        assert_eq!(read(&with(&"<a/>".repeat(XML_ELEMENTS_MAX))), Err(MalformedEnvelope));
        let spaces = " ".repeat(ENVELOPE_BYTES_MAX);
        assert_eq!(
            read(&PROBE.replace("<soap:Body>", &format!("<!--{spaces}--><soap:Body>"))),
            Err(MalformedEnvelope)
        );
        assert_eq!(read(&with(&"x".repeat(XML_TEXT_BYTES_MAX + 1))), Err(MalformedEnvelope));
        let declared: String =
            (0..=XML_NAMESPACES_MAX).map(|n| format!(" xmlns:n{n}=\"u\"")).collect();
        assert_eq!(read(&with(&format!("<a{declared}/>"))), Err(MalformedEnvelope));
        let id = "urn:uuid:5eb0eb22-d3bb-4b4d-9b1b-1a2b3c4d5e6f";
        let long = "i".repeat(MESSAGE_ID_BYTES_MAX + 1);
        assert_eq!(read(&PROBE.replace(id, &long)), Err(MalformedEnvelope));
        for bad in ["", "a&#1;b", "a&#x2028;b", "a b"] {
            assert_eq!(read(&PROBE.replace(id, bad)), Err(MalformedEnvelope), "{bad:?}");
        }
    }

    #[test]
    fn element_of_another_place_or_namespace_is_not_read() {
        let id = "urn:uuid:5eb0eb22-d3bb-4b4d-9b1b-1a2b3c4d5e6f";
        let element = format!("<wsa:MessageID>{id}</wsa:MessageID>");
        let nested = format!("<wsa:ReplyTo>{element}</wsa:ReplyTo>");
        assert_eq!(read(&PROBE.replace(&element, &nested)), Err(MalformedEnvelope));
        let foreign = PROBE.replace("ws/2004/08/addressing", "ws/2005/08/addressing");
        assert_eq!(read(&foreign), Err(MalformedEnvelope));
        let unbound = PROBE.replace(&element, "<none:MessageID/>");
        assert_eq!(read(&unbound), Err(MalformedEnvelope));
        assert_eq!(Envelope::read(b"\xFF\xFE<\0"), Err(MalformedEnvelope), "UTF-16");
    }

    #[test]
    fn messages_of_other_devices_are_of_no_concern() {
        let hello = PROBE.replace("discovery/Probe", "discovery/Hello");
        assert_eq!(read(&hello).unwrap().action, DiscoveryAction::Other);
    }
}
