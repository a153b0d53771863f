//! The text that `serve` prints to a terminal: where clients connect, ready to paste.

use crate::mounts;
use server::config::AdminAddress;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// A served directory.
#[derive(Clone, Debug)]
pub struct StartShare {
    /// Its path.
    pub folder: String,
    /// The share's name.
    pub name: String,
    /// Whether NFS exports it, and then whether under TLS only.
    pub nfs: Option<NfsAccess>,
}

/// How NFS clients reach a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NfsAccess {
    /// TLS is the client's choice.
    Any,
    /// Under TLS only.
    TlsOnly,
}

/// Content of the text.
#[derive(Clone, Debug)]
pub struct StartFacts<'a> {
    /// The computer's name.
    pub server: &'a str,
    /// The user in the commands.
    pub user: &'a str,
    /// The shares.
    pub shares: Vec<StartShare>,
    /// Addresses of SMB.
    pub smb: &'a [SocketAddr],
    /// The reason for a port other than 445.
    pub port_reason: Option<&'a str>,
    /// Addresses of NFS.
    pub nfs: &'a [SocketAddr],
    /// Whether SMB Multichannel is enabled.
    pub multichannel: bool,
    /// Address of the admin API.
    pub admin: Option<&'a AdminAddress>,
}

/// The text. `own` is an address of this machine in the family of its argument, in place of a
/// wildcard.
pub fn start_text(facts: &StartFacts<'_>, own: &dyn Fn(IpAddr) -> Option<IpAddr>) -> String {
    let mut out = String::new();
    if let Some(reason) = facts.port_reason {
        let _ = writeln!(out, "{reason}\n");
    }
    let smb = reachable(facts.smb, own);
    for share in &facts.shares {
        write_share(&mut out, facts, share, &smb);
    }
    let nfs = reachable(facts.nfs, own);
    for share in &facts.shares {
        let (Some(access), Some(address)) = (share.nfs, nfs.first()) else { continue };
        let _ = writeln!(out, "{} over NFS ({}):\n", share.folder, listed(&nfs));
        let command = mounts::nfs_command(*address, &share.name, access == NfsAccess::TlsOnly);
        let _ = writeln!(out, "{command}");
    }
    if !nfs.is_empty() {
        let _ = writeln!(out, "{}", mounts::nfs_rule());
    }
    if let Some(admin) = facts.admin {
        if let AdminAddress::Tcp(_) = admin {
            let _ = writeln!(out, "Dashboard: anabranch dashboard --admin {admin}");
        }
        let _ = writeln!(out, "Status: anabranch status --admin {admin}");
    }
    out
}

fn write_share(out: &mut String, facts: &StartFacts<'_>, share: &StartShare, smb: &[SocketAddr]) {
    let Some(address) = smb.first() else { return };
    let (path, name) = (&share.folder, &share.name);
    let _ = writeln!(out, "{path} is shared as \\\\{}\\{name} ({}):\n", facts.server, listed(smb));
    let commands = mounts::commands(*address, name, facts.user, facts.multichannel);
    let _ = writeln!(out, "{commands}");
}

fn listed(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The addresses for clients. IPv4 is first, as every client has a form for it. A wildcard of a
/// family that this machine has no address of is left out, unless nothing else is there.
fn reachable(listening: &[SocketAddr], own: &dyn Fn(IpAddr) -> Option<IpAddr>) -> Vec<SocketAddr> {
    let of = |address: &SocketAddr| match address.ip() {
        ip if ip.is_unspecified() => own(ip).map(|ip| SocketAddr::new(ip, address.port())),
        _ => Some(*address),
    };
    let mut found: Vec<SocketAddr> = listening.iter().filter_map(of).collect();
    if let ([], [first, ..]) = (&found[..], listening) {
        let loopback = match first.ip() {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        };
        found.push(SocketAddr::new(loopback, first.port()));
    }
    found.sort_by_key(SocketAddr::is_ipv6);
    found.dedup();
    found
}

/// The address of this machine that the default route of a family leaves from.
pub fn own_address(family: IpAddr) -> Option<IpAddr> {
    // Nothing is sent: connecting a datagram socket only chooses a route.
    let remote: SocketAddr = match family {
        IpAddr::V4(_) => (Ipv4Addr::new(192, 0, 2, 1), 9).into(),
        IpAddr::V6(_) => (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 9).into(),
    };
    let socket = UdpSocket::bind(SocketAddr::new(family, 0)).ok()?;
    socket.connect(remote).ok()?;
    socket.local_addr().ok().map(|own| own.ip()).filter(|ip| !ip.is_unspecified())
}

/// The name of the first user: that of the person behind `sudo`, else of the process's user.
pub fn first_user_name(
    sudo_user: Option<String>,
    own: Option<String>,
    is_root: bool,
    exists: &dyn Fn(&str) -> bool,
) -> String {
    let person = sudo_user.filter(|name| is_root && name != "root" && exists(name));
    person.or(own).unwrap_or_else(|| "anabranch".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts<'a>(smb: &'a [SocketAddr], nfs: &'a [SocketAddr]) -> StartFacts<'a> {
        let share = StartShare {
            folder: "/srv/my files".into(),
            name: "my files".into(),
            nfs: (!nfs.is_empty()).then_some(NfsAccess::Any),
        };
        StartFacts {
            server: "NAS",
            user: "alice",
            shares: vec![share],
            smb,
            port_reason: None,
            nfs,
            multichannel: true,
            admin: None,
        }
    }

    fn both(family: IpAddr) -> Option<IpAddr> {
        let own = if family.is_ipv4() { "192.0.2.7" } else { "2001:db8::7" };
        own.parse().ok()
    }

    fn v4_only(family: IpAddr) -> Option<IpAddr> {
        both(family).filter(IpAddr::is_ipv4)
    }

    #[test]
    fn start_text_names_both_families_and_quotes_names() {
        let smb = ["[::]:445", "0.0.0.0:445"].map(|text| text.parse().unwrap());
        let text = start_text(&facts(&smb, &[]), &both);
        for part in [
            "/srv/my files is shared as \\\\NAS\\my files (192.0.2.7:445, [2001:db8::7]:445):\n",
            "net use Z: \"\\\\192.0.2.7\\my files\" /user:alice\n",
            "sudo mount -t cifs '//192.0.2.7/my files' /mnt -o username=alice,uid=$(id -u),gid=$(id -g),hard,multichannel,vers=3.1.1\n",
            "open 'smb://alice@192.0.2.7/my%20files'\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert_eq!(text.matches("net use").count(), 1, "{text}");
        let text = start_text(&facts(&smb, &[]), &v4_only);
        assert!(text.contains("(192.0.2.7:445):\n"), "{text}");
        let text = start_text(&facts(&smb[..1], &[]), &v4_only);
        assert!(text.contains("([::1]:445):\n"), "{text}");
    }

    #[test]
    fn start_text_opens_with_the_reason_for_another_port() {
        let smb = ["0.0.0.0:4450".parse().unwrap()];
        let nfs = ["0.0.0.0:2049".parse().unwrap()];
        let admin = AdminAddress::Tcp("127.0.0.1:4480".parse().unwrap());
        let reason = "SMB listens on port 4450 instead of 445: smbd (process 12) uses it";
        let mut all = facts(&smb, &nfs);
        all.port_reason = Some(reason);
        all.admin = Some(&admin);
        let text = start_text(&all, &both);
        assert!(text.starts_with(&format!("{reason}\n\n")), "{text}");
        for part in [
            ",hard,port=4450,vers=3.1.1",
            "/TCPPORT:4450",
            "/srv/my files over NFS (192.0.2.7:2049):\n",
            "nconnect=4 '192.0.2.7:/my files' /mnt\n",
            "Status: anabranch status --admin 127.0.0.1:4480\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn first_user_is_the_person_behind_sudo() {
        let name = |sudo: Option<&str>, is_root| {
            let (sudo, own) = (sudo.map(str::to_owned), Some("root".to_owned()));
            first_user_name(sudo, own, is_root, &|name| name == "alice")
        };
        assert_eq!(name(Some("alice"), true), "alice");
        assert_eq!(name(Some("ghost"), true), "root", "the server acts as a system user");
        assert_eq!(name(None, true), "root");
        assert_eq!(name(Some("alice"), false), "root", "the server acts as its own user");
        assert_eq!(first_user_name(None, None, false, &|_| false), "anabranch");
    }
}
