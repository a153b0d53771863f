//! The records of an announcement. RFC 6763 4 to 9.

use super::message::{ResourceRecord, kind};
use super::name::DnsName;
use crate::limits::{BACKUP_TEXT_BYTES_MAX, PACKET_BYTES};
use std::net::IpAddr;

/// TTL of records that contain a host name or address. RFC 6762 10.
pub(super) const HOST_TTL_SECONDS: u32 = 120;
/// TTL of the other records.
const OTHER_TTL_SECONDS: u32 = 4500;
/// Maximum length of one string of a TXT record.
const TEXT_BYTES_MAX: usize = 255;
/// Bytes of a message beside the data of its record: the header (RFC 1035 4.1.1), the name and the
/// fixed fields of the record, and a legacy query's question. An instance name has up to 83 bytes.
const MESSAGE_OVERHEAD_BYTES: usize = 12 + 83 + 10 + 83 + 4;
/// The discard port: a service type that needs a port and has none.
const PORT_DISCARD: u16 = 9;

/// The content of the announcement on one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// Computer name: the host name in `local`, and the name of each service.
    pub name: String,
    /// Addresses of the interface at which the services are.
    pub addresses: Vec<IpAddr>,
    /// Port of SMB.
    pub smb_port: u16,
    /// Model, which decides the symbol in macOS' Finder; empty for none.
    pub model: String,
    /// Shares for Time Machine.
    pub backup_shares: Vec<String>,
}

/// A service type with its port and text.
struct ServiceEntry {
    labels: [&'static str; 2],
    port: u16,
    text: Vec<String>,
}

impl Announcement {
    fn services(&self) -> Vec<ServiceEntry> {
        let service = |kind, port, text| ServiceEntry { labels: [kind, "_tcp"], port, text };
        let mut services = vec![service("_smb", self.smb_port, Vec::new())];
        if !self.model.is_empty() {
            let model = format!("model={}", self.model);
            services.push(service("_device-info", 0, vec![model]));
        }
        // Apple's Time Machine over SMB: waMa is the address of the adapter, which is not needed;
        // 0x82 of a volume says SMB and Time Machine.
        let (text, _) = self.backup_text();
        if text.len() > 1 {
            services.push(service("_adisk", PORT_DISCARD, text));
        }
        services
    }

    /// Time Machine shares whose names do not fit into the announcement.
    #[must_use]
    pub fn omitted_backup_shares(&self) -> Vec<&str> {
        self.backup_text().1
    }

    /// The strings of `_adisk`, which one datagram must hold, and the shares without one.
    fn backup_text(&self) -> (Vec<String>, Vec<&str>) {
        let mut text = vec!["sys=waMa=0,adVF=0x100".to_owned()];
        let mut bytes = text[0].len() + 1;
        let mut omitted = Vec::new();
        for share in &self.backup_shares {
            let volume = format!("dk{}=adVN={share},adVF=0x82", text.len() - 1);
            let with_volume = bytes + volume.len() + 1;
            if volume.len() > TEXT_BYTES_MAX || with_volume > BACKUP_TEXT_BYTES_MAX {
                omitted.push(share.as_str());
                continue;
            }
            bytes = with_volume;
            text.push(volume);
        }
        (text, omitted)
    }

    /// The records under `name`, which is the computer name or its replacement after a conflict.
    pub(super) fn records(&self, name: &str) -> Vec<ResourceRecord> {
        let host = DnsName::of(&[name, "local"]);
        let mut records: Vec<_> =
            self.addresses.iter().map(|address| address_record(&host, *address)).collect();
        let kinds = [kind::A, kind::AAAA];
        let present = kinds.into_iter().filter(|kind| records.iter().any(|r| r.kind == *kind));
        let denial = denial_record(&host, &present.collect::<Vec<_>>());
        records.push(denial);
        let types = DnsName::of(&["_services", "_dns-sd", "_udp", "local"]);
        for ServiceEntry { labels: [service, protocol], port, text } in self.services() {
            let service_type = DnsName::of(&[service, protocol, "local"]);
            let instance = DnsName::of(&[name, service, protocol, "local"]);
            records.push(shared(&types, &service_type));
            records.push(shared(&service_type, &instance));
            let mut target = vec![0; 4];
            target.extend_from_slice(&port.to_be_bytes());
            target.extend_from_slice(host.as_wire());
            records.push(unique(&instance, kind::SRV, HOST_TTL_SECONDS, target));
            records.push(unique(&instance, kind::TXT, OTHER_TTL_SECONDS, text_data(&text)));
            records.push(denial_record(&instance, &[kind::TXT, kind::SRV]));
        }
        debug_assert!(
            records.iter().all(|r| r.data.len() + MESSAGE_OVERHEAD_BYTES <= PACKET_BYTES)
        );
        records
    }
}

/// A PTR record: several machines may have one of the same name.
fn shared(name: &DnsName, target: &DnsName) -> ResourceRecord {
    ResourceRecord {
        name: name.clone(),
        kind: kind::PTR,
        is_unique: false,
        ttl_seconds: OTHER_TTL_SECONDS,
        data: target.as_wire().to_vec(),
    }
}

fn unique(name: &DnsName, kind: u16, ttl_seconds: u32, data: Vec<u8>) -> ResourceRecord {
    ResourceRecord { name: name.clone(), kind, is_unique: true, ttl_seconds, data }
}

fn address_record(host: &DnsName, address: IpAddr) -> ResourceRecord {
    match address {
        IpAddr::V4(v4) => unique(host, kind::A, HOST_TTL_SECONDS, v4.octets().to_vec()),
        IpAddr::V6(v6) => unique(host, kind::AAAA, HOST_TTL_SECONDS, v6.octets().to_vec()),
    }
}

/// NSEC: the name has records of `kinds` only. RFC 6762 6.1.
fn denial_record(name: &DnsName, kinds: &[u16]) -> ResourceRecord {
    // One block of the bitmap has room for all types below 256.
    let length = kinds.iter().max().map_or(1, |most| usize::from(*most) / 8 + 1);
    let mut bitmap = vec![0u8; length];
    for kind in kinds {
        bitmap[usize::from(*kind) / 8] |= 0x80 >> (kind % 8);
    }
    let head = [0, length as u8];
    let data = [name.as_wire(), &head, &bitmap].concat();
    unique(name, kind::NSEC, HOST_TTL_SECONDS, data)
}

/// The strings of a TXT record; without any, one empty string. RFC 6763 6.1.
fn text_data(strings: &[String]) -> Vec<u8> {
    let mut data = Vec::new();
    for text in strings {
        let text = &text[..text.floor_char_boundary(TEXT_BYTES_MAX)];
        data.push(text.len() as u8);
        data.extend_from_slice(text.as_bytes());
    }
    if data.is_empty() { vec![0] } else { data }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announcement() -> Announcement {
        Announcement {
            name: "NAS".into(),
            addresses: vec!["10.0.0.1".parse().unwrap(), "fe80::1".parse().unwrap()],
            smb_port: 445,
            model: "MacSamba".into(),
            backup_shares: vec!["Backups".into(), "x".repeat(250)],
        }
    }

    fn texts(records: &[ResourceRecord], service: &str) -> Vec<u8> {
        let name = DnsName::of(&["NAS", service, "_tcp", "local"]);
        let text = records.iter().find(|r| r.name == name && r.kind == kind::TXT);
        text.map(|record| record.data.clone()).unwrap_or_default()
    }

    #[test]
    fn time_machine_share_is_in_the_text_of_adisk() {
        let records = announcement().records("NAS");
        let expected = b"\x15sys=waMa=0,adVF=0x100\x1Adk0=adVN=Backups,adVF=0x82";
        assert_eq!(texts(&records, "_adisk"), expected);
        assert_eq!(texts(&records, "_device-info"), b"\x0Emodel=MacSamba");
        assert_eq!(texts(&records, "_smb"), b"\0");
    }

    #[test]
    fn long_share_names_are_cut_by_bytes_and_listed() {
        let shares: Vec<String> = (0..20).map(|at| format!("{at:02}{}", "x".repeat(78))).collect();
        let many = Announcement { backup_shares: shares.clone(), ..announcement() };
        let text = texts(&many.records("NAS"), "_adisk");
        assert!(!text.is_empty() && text.len() <= BACKUP_TEXT_BYTES_MAX, "{}", text.len());
        let omitted = many.omitted_backup_shares();
        let is_named = |share: &String| text.windows(share.len()).any(|w| w == share.as_bytes());
        for share in &shares {
            assert_ne!(is_named(share), omitted.contains(&share.as_str()), "{share}");
        }
        assert!((1..20).contains(&omitted.len()));
        assert_eq!(announcement().omitted_backup_shares(), ["x".repeat(250)]);
    }

    #[test]
    fn server_without_time_machine_or_model_announces_smb_alone() {
        let plain =
            Announcement { model: String::new(), backup_shares: Vec::new(), ..announcement() };
        let records = plain.records("NAS");
        assert_eq!(records.iter().filter(|r| r.kind == kind::SRV).count(), 1);
        assert_eq!(texts(&records, "_adisk"), b"");
    }

    #[test]
    fn denial_lists_the_types_of_the_name() {
        let host = DnsName::of(&["NAS", "local"]);
        let of_host = |records: &[ResourceRecord]| {
            let found = records.iter().find(|r| r.name == host && r.kind == kind::NSEC);
            found.unwrap().data[host.as_wire().len()..].to_vec()
        };
        assert_eq!(of_host(&announcement().records("NAS")), [0, 4, 0x40, 0, 0, 0x08]);
        let v4 = vec!["10.0.0.1".parse().unwrap()];
        let only_v4 = Announcement { addresses: v4, ..announcement() };
        assert_eq!(of_host(&only_v4.records("NAS")), [0, 1, 0x40]);
    }
}
