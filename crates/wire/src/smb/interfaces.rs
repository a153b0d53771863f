//! The response of FSCTL_QUERY_NETWORK_INTERFACE_INFO. MS-SMB2 2.2.32.5.

use crate::codec::{DecodeError, Reader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Length of one NETWORK_INTERFACE_INFO.
const INTERFACE_BYTES: usize = 152;
/// Address families in SOCKADDR_STORAGE.
const FAMILY_V4: u16 = 2;
const FAMILY_V6: u16 = 23;

/// An address of the server, and its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkInterface {
    /// Index of the interface on the server.
    pub index: u32,
    /// See [`NetworkInterface::RSS`].
    pub capability: u32,
    /// Speed of the link, in bits per second.
    pub bits_per_second: u64,
    /// The address.
    pub address: IpAddr,
}

impl NetworkInterface {
    /// Receive side scaling: several connections increase the throughput.
    pub const RSS: u32 = 1;
    /// Remote direct memory access.
    pub const RDMA: u32 = 2;

    /// Decodes a list; skips addresses of other families.
    ///
    /// # Errors
    /// [`DecodeError`] if an entry is truncated, the list does not lead forward, or it holds
    /// more than `entries_max` entries.
    pub fn decode_list(mut bytes: &[u8], entries_max: usize) -> Result<Vec<Self>, DecodeError> {
        let mut found = Vec::new();
        if bytes.is_empty() {
            return Ok(found);
        }
        for _ in 0..entries_max {
            let mut r = Reader::new(bytes);
            let next = r.u32("interface")? as usize;
            let index = r.u32("interface")?;
            let capability = r.u32("interface")?;
            r.skip(4, "interface")?;
            let bits_per_second = r.u64("interface")?;
            let family = r.u16("interface")?;
            r.skip(2, "interface")?;
            let v4: [u8; 4] = r.array("interface")?;
            let v6: [u8; 16] = r.array("interface")?;
            let address = match family {
                FAMILY_V4 => Some(IpAddr::V4(Ipv4Addr::from(v4))),
                FAMILY_V6 => Some(IpAddr::V6(Ipv6Addr::from(v6))),
                _ => None,
            };
            found.extend(address.map(|address| Self {
                index,
                capability,
                bits_per_second,
                address,
            }));
            if next == 0 {
                return Ok(found);
            }
            if next < INTERFACE_BYTES {
                return Err(r.malformed("interface distance"));
            }
            bytes = bytes.get(next..).ok_or_else(|| r.malformed("interface distance"))?;
        }
        Err(DecodeError { what: "interface count", at: 0 })
    }

    /// Encodes a list.
    #[must_use]
    pub fn encode_list(list: &[Self]) -> Vec<u8> {
        let mut out = Vec::with_capacity(list.len() * INTERFACE_BYTES);
        for (at, one) in list.iter().enumerate() {
            let start = out.len();
            let next = if at + 1 < list.len() { INTERFACE_BYTES as u32 } else { 0 };
            for field in [next, one.index, one.capability, 0] {
                out.extend_from_slice(&field.to_le_bytes());
            }
            out.extend_from_slice(&one.bits_per_second.to_le_bytes());
            match one.address {
                IpAddr::V4(v4) => {
                    out.extend_from_slice(&FAMILY_V4.to_le_bytes());
                    out.extend_from_slice(&[0; 2]);
                    out.extend_from_slice(&v4.octets());
                }
                IpAddr::V6(v6) => {
                    out.extend_from_slice(&FAMILY_V6.to_le_bytes());
                    out.extend_from_slice(&[0; 6]);
                    out.extend_from_slice(&v6.octets());
                }
            }
            out.resize(start + INTERFACE_BYTES, 0);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interface_list_round_trips_and_is_bounded() {
        let one = |index, address: &str| NetworkInterface {
            index,
            capability: NetworkInterface::RSS,
            bits_per_second: 10_000_000_000,
            address: address.parse().unwrap(),
        };
        let list = [one(1, "10.0.0.1"), one(1, "fe80::1"), one(2, "10.0.0.2")];
        let bytes = NetworkInterface::encode_list(&list);
        assert_eq!(bytes.len(), 3 * 152);
        assert_eq!(bytes[24..32], [2, 0, 0, 0, 10, 0, 0, 1], "family, port, address");
        assert_eq!(NetworkInterface::decode_list(&bytes, 3).unwrap(), list);
        assert!(NetworkInterface::decode_list(&bytes, 2).is_err());
        assert_eq!(NetworkInterface::decode_list(&[], 2), Ok(vec![]));
        let mut backwards = bytes.clone();
        backwards[0] = 8;
        assert!(NetworkInterface::decode_list(&backwards, 3).is_err());
        assert!(NetworkInterface::decode_list(&bytes[..2 * 152 + 40], 3).is_err());
    }
}
