//! Writer of the server's SOAP messages.

use super::envelope::{DiscoveryAction, Envelope};
use super::namespace::{
    ADDRESSING, DEVICE, DISCOVERY, EXCHANGE, PLUG_AND_PLAY, PUBLICATION, SOAP, TRANSFER,
};
use super::{METADATA_PORT, MalformedEnvelope};
use crate::jitter::Uuid;
use quick_xml::escape::escape;
use std::net::IpAddr;

/// Destination of messages to the group.
const TO_GROUP: &str = "urn:schemas-xmlsoap-org:ws:2005:04:discovery";
/// Destination of answers.
const TO_CLIENT: &str = "http://schemas.xmlsoap.org/ws/2004/08/addressing/role/anonymous";
/// Version of the metadata. The name is its only content, and a changed name is a new endpoint.
const METADATA_VERSION: u32 = 1;

/// The computer as Windows sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WsdComputer {
    /// Id of the endpoint; it survives restarts.
    pub endpoint: Uuid,
    /// Grows with each start of the server, as seconds since 1970 do.
    pub instance_id: u32,
    /// Computer name.
    pub name: String,
    /// Workgroup.
    pub workgroup: String,
}

/// The header of a message.
pub(super) struct MessageHeader<'a> {
    /// Its id.
    pub(super) id: Uuid,
    /// The id of the message that it answers.
    pub(super) relates_to: Option<&'a str>,
    /// Position in the sequence of this start; `None` over HTTP.
    pub(super) number: Option<u32>,
}

impl WsdComputer {
    /// Address of the endpoint.
    #[must_use]
    pub fn address(&self) -> String {
        format!("urn:uuid:{}", self.endpoint)
    }

    /// URL of the metadata at an own address.
    fn transport_address(&self, own: IpAddr) -> String {
        match own {
            IpAddr::V4(v4) => format!("http://{v4}:{METADATA_PORT}/{}", self.endpoint),
            IpAddr::V6(v6) => format!("http://[{v6}]:{METADATA_PORT}/{}", self.endpoint),
        }
    }

    /// Answers a Get over HTTP. `own` is the requested path without the slash.
    ///
    /// # Errors
    /// [`MalformedEnvelope`]: it is no Get for this endpoint.
    pub fn describe(
        &self,
        path: &str,
        request: &[u8],
        id: Uuid,
    ) -> Result<Vec<u8>, MalformedEnvelope> {
        let envelope = Envelope::read(request)?;
        let is_ours = path == self.endpoint.to_string()
            && (envelope.to.is_empty() || envelope.to == self.address());
        if envelope.action != DiscoveryAction::Get || !is_ours {
            return Err(MalformedEnvelope);
        }
        let relates_to = Some(envelope.message_id.as_str());
        let header = MessageHeader { id, relates_to, number: None };
        let action = format!("{TRANSFER}/GetResponse");
        Ok(self.envelope(&action, &header, &self.metadata()))
    }

    /// Hello: the computer is there.
    pub(super) fn hello(&self, header: &MessageHeader<'_>, own: IpAddr) -> Vec<u8> {
        let body = format!("<wsd:Hello>{}</wsd:Hello>", self.target(Some(own)));
        self.envelope(&format!("{DISCOVERY}/Hello"), header, &body)
    }

    /// Bye: it ends.
    pub(super) fn bye(&self, header: &MessageHeader<'_>) -> Vec<u8> {
        let body = format!("<wsd:Bye>{}</wsd:Bye>", self.reference());
        self.envelope(&format!("{DISCOVERY}/Bye"), header, &body)
    }

    /// The answer to a Probe. Clients ask for the transport address by Resolve.
    pub(super) fn probe_match(&self, header: &MessageHeader<'_>) -> Vec<u8> {
        let target = self.target(None);
        let body = format!(
            "<wsd:ProbeMatches><wsd:ProbeMatch>{target}</wsd:ProbeMatch></wsd:ProbeMatches>"
        );
        self.envelope(&format!("{DISCOVERY}/ProbeMatches"), header, &body)
    }

    /// The answer to a Resolve.
    pub(super) fn resolve_match(&self, header: &MessageHeader<'_>, own: IpAddr) -> Vec<u8> {
        let target = self.target(Some(own));
        let body = format!(
            "<wsd:ResolveMatches><wsd:ResolveMatch>{target}</wsd:ResolveMatch></wsd:ResolveMatches>"
        );
        self.envelope(&format!("{DISCOVERY}/ResolveMatches"), header, &body)
    }

    fn reference(&self) -> String {
        let address = self.address();
        format!(
            "<wsa:EndpointReference><wsa:Address>{address}</wsa:Address></wsa:EndpointReference>"
        )
    }

    /// Reference, types, transport address and version, in the order of the schema.
    fn target(&self, own: Option<IpAddr>) -> String {
        let urls = own.map(|own| self.transport_address(own));
        let urls = urls.map(|url| format!("<wsd:XAddrs>{url}</wsd:XAddrs>")).unwrap_or_default();
        format!(
            "{}<wsd:Types>wsdp:Device pub:Computer</wsd:Types>{urls}\
             <wsd:MetadataVersion>{METADATA_VERSION}</wsd:MetadataVersion>",
            self.reference()
        )
    }

    /// MS-PBSD 2.2: the host is of type Computer, and names itself and its workgroup.
    fn metadata(&self) -> String {
        let (name, workgroup) = (escape(&*self.name), escape(&*self.workgroup));
        let (reference, address) = (self.reference(), self.address());
        let section = |dialect: &str, content: &str| {
            format!(
                "<wsx:MetadataSection Dialect=\"{DEVICE}/{dialect}\">{content}</wsx:MetadataSection>"
            )
        };
        let device = format!(
            "<wsdp:ThisDevice><wsdp:FriendlyName>{name}</wsdp:FriendlyName>\
             <wsdp:FirmwareVersion>1.0</wsdp:FirmwareVersion>\
             <wsdp:SerialNumber>1</wsdp:SerialNumber></wsdp:ThisDevice>"
        );
        let model = "<wsdp:ThisModel><wsdp:Manufacturer>Anabranch</wsdp:Manufacturer>\
             <wsdp:ModelName>Anabranch</wsdp:ModelName>\
             <pnpx:DeviceCategory>Computers</pnpx:DeviceCategory></wsdp:ThisModel>";
        let host = format!(
            "<wsdp:Relationship Type=\"{DEVICE}/host\"><wsdp:Host>{reference}\
             <wsdp:Types>pub:Computer</wsdp:Types>\
             <wsdp:ServiceId>{address}</wsdp:ServiceId>\
             <pub:Computer>{name}/Workgroup:{workgroup}</pub:Computer>\
             </wsdp:Host></wsdp:Relationship>"
        );
        let sections = [
            section("ThisDevice", &device),
            section("ThisModel", model),
            section("Relationship", &host),
        ];
        format!("<wsx:Metadata>{}</wsx:Metadata>", sections.concat())
    }

    fn envelope(&self, action: &str, header: &MessageHeader<'_>, body: &str) -> Vec<u8> {
        let to = if header.relates_to.is_some() { TO_CLIENT } else { TO_GROUP };
        let relates_to =
            header.relates_to.map(|id| format!("<wsa:RelatesTo>{}</wsa:RelatesTo>", escape(id)));
        let sequence = header.number.map(|number| {
            format!(
                "<wsd:AppSequence InstanceId=\"{}\" SequenceId=\"{}\" MessageNumber=\"{number}\"/>",
                self.instance_id,
                self.address()
            )
        });
        let text = format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\
             <soap:Envelope xmlns:soap=\"{SOAP}\" xmlns:wsa=\"{ADDRESSING}\" xmlns:wsd=\"{DISCOVERY}\" \
             xmlns:wsdp=\"{DEVICE}\" xmlns:wsx=\"{EXCHANGE}\" xmlns:pnpx=\"{PLUG_AND_PLAY}\" \
             xmlns:pub=\"{PUBLICATION}\">\
             <soap:Header><wsa:To>{to}</wsa:To><wsa:Action>{action}</wsa:Action>\
             <wsa:MessageID>urn:uuid:{}</wsa:MessageID>{}{}</soap:Header>\
             <soap:Body>{body}</soap:Body></soap:Envelope>",
            header.id,
            relates_to.unwrap_or_default(),
            sequence.unwrap_or_default(),
        );
        text.into_bytes()
    }
}
