//! Mount commands for clients, ready to paste.

use crate::quoting;
use std::net::{IpAddr, SocketAddr};

/// Recommended read-ahead of Linux clients: 15 MiB; the kernel's default is 128 KiB.
const READ_AHEAD_KIB: u32 = 15 * 1024;
/// Default port of SMB clients.
const SMB_PORT: u16 = 445;
/// Default port of NFS clients.
const NFS_PORT: u16 = 2049;

/// The commands for one share on one address. Linux clients use several channels with `multichannel`,
/// which the server has to offer.
pub fn commands(address: SocketAddr, share: &str, user: &str, multichannel: bool) -> String {
    format!(
        "  Windows  {}\n  Linux    {}\n  macOS    {}\n",
        windows(address, share, user),
        linux(address, share, user, multichannel),
        macos(address, share, user)
    )
}

fn windows(address: SocketAddr, share: &str, user: &str) -> String {
    // Windows has no literals with colons in UNC paths: MS-DTYP 2.2.57.
    let host = match address.ip() {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("{}.ipv6-literal.net", ip.to_string().replace(':', "-")),
    };
    let share = quoting::windows(&format!("\\\\{host}\\{share}"));
    let user = quoting::windows(user);
    match address.port() {
        SMB_PORT => format!("net use Z: {share} /user:{user}"),
        port => format!(
            "net use Z: {share} /user:{user} /TCPPORT:{port}   (Windows 11 24H2 or Server 2025 for a \
             port other than {SMB_PORT})"
        ),
    }
}

/// Without `uid` and `gid` all files belong to root on the client, and the desktop's user may not
/// write. Without `hard` a write fails while the server restarts.
fn linux(address: SocketAddr, share: &str, user: &str, multichannel: bool) -> String {
    // mount.cifs takes IPv6 addresses without brackets.
    let share = quoting::shell(&format!("//{}/{share}", address.ip()));
    let user = quoting::shell(user);
    let port = match address.port() {
        // The kernel opens further channels to port 445 whatever `port` is.
        SMB_PORT if multichannel => ",multichannel".to_owned(),
        SMB_PORT => String::new(),
        port => format!(",port={port}"),
    };
    format!(
        "sudo mount -t cifs {share} /mnt -o username={user},uid=$(id -u),gid=$(id -g),hard{port},vers=3.1.1"
    )
}

fn macos(address: SocketAddr, share: &str, user: &str) -> String {
    let host = match address.port() {
        SMB_PORT => host(address),
        _ => address.to_string(),
    };
    format!("open 'smb://{}@{host}/{}'", quoting::url(user), quoting::url(share))
}

/// The address without its port, as in URLs and NFS mounts.
fn host(address: SocketAddr) -> String {
    match address.ip() {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

/// The command for one share over NFS, perhaps one that is reached under TLS only.
pub fn nfs_command(address: SocketAddr, share: &str, under_tls: bool) -> String {
    let (port, place) = match address.port() {
        NFS_PORT => (String::new(), host(address)),
        port => (format!(",port={port}"), address.to_string()),
    };
    let tls = if under_tls { ",xprtsec=tls" } else { "" };
    let source = format!("{}:/{share}", host(address));
    // The shell takes brackets for a pattern.
    let source = match address.is_ipv6() {
        true => format!("'{}'", source.replace('\'', r"'\''")),
        false => quoting::shell(&source),
    };
    let url = quoting::shell(&format!("nfs://{place}/{}", quoting::url(share)));
    format!(
        "  Linux    sudo mount -t nfs -o vers=4.2,hard,nconnect=4{port}{tls} {source} /mnt\n           \
         echo {READ_AHEAD_KIB} | sudo tee /sys/class/bdi/$(mountpoint -d /mnt)/read_ahead_kb\n           \
         (read-ahead for large files; for more settings: anabranch advise {url})\n"
    )
}

/// The udev rule that sets the read-ahead of each NFS mount.
pub fn nfs_rule() -> String {
    let rule = advise::rules::nfs::read_ahead_rule().replace('\n', "\n  ");
    format!(
        "To have Linux clients read large files ahead on every mount, in /etc/udev/rules.d/99-nfs.rules:\n\n  {rule}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn nfs_mount_command_sets_read_ahead() {
        let rule = nfs_rule();
        assert!(rule.contains("  SUBSYSTEM==\"bdi\" \\\n  , ACTION==\"add\""), "{rule}");
        assert!(rule.contains("ATTR{read_ahead_kb}=\"15360\""), "{rule}");
        let usual = nfs_command(at("192.0.2.1:2049"), "data", false);
        assert!(usual.contains("hard,nconnect=4 192.0.2.1:/data /mnt\n"), "{usual}");
        assert!(usual.contains("echo 15360 | sudo tee /sys/class/bdi/$(mountpoint -d /mnt)/"));
        assert!(usual.contains("anabranch advise nfs://192.0.2.1/data)"), "{usual}");
        let other = nfs_command(at("[2001:db8::1]:2050"), "my data", true);
        assert!(other.contains(",port=2050,xprtsec=tls '[2001:db8::1]:/my data' /mnt"), "{other}");
        assert!(other.contains("advise 'nfs://[2001:db8::1]:2050/my%20data')"), "{other}");
    }

    #[test]
    fn mount_commands_show_only_non_default_ports() {
        let usual = commands(at("192.0.2.1:445"), "data", "alice", true);
        assert!(!usual.contains("445"), "{usual}");
        let other = commands(at("192.0.2.1:4450"), "data", "alice", true);
        assert!(
            other.contains("/TCPPORT:4450")
                && other.contains(",port=4450,")
                && other.contains("192.0.2.1:4450/data")
        );
    }

    #[test]
    fn linux_mount_lets_the_desktop_user_write() {
        let usual = commands(at("192.0.2.1:445"), "data", "alice", true);
        let line = "sudo mount -t cifs //192.0.2.1/data /mnt -o \
                    username=alice,uid=$(id -u),gid=$(id -g),hard,multichannel,vers=3.1.1\n";
        assert!(usual.contains(line), "{usual}");
        let single = commands(at("192.0.2.1:445"), "data", "alice", false);
        assert!(!single.contains("multichannel"), "{single}");
        let elsewhere = commands(at("192.0.2.1:4450"), "data", "alice", true);
        assert!(!elsewhere.contains("multichannel"), "{elsewhere}");
    }

    #[test]
    fn mount_commands_quote_names() {
        let text = commands(at("192.0.2.1:445"), "Bob's files", "bob smith", false);
        for part in [
            "net use Z: \"\\\\192.0.2.1\\Bob's files\" /user:\"bob smith\"\n",
            r"-t cifs '//192.0.2.1/Bob'\''s files' /mnt -o username='bob smith',uid=",
            "open 'smb://bob%20smith@192.0.2.1/Bob%27s%20files'\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn mount_commands_have_the_ipv6_form_of_each_client() {
        let text = commands(at("[2001:db8::1]:445"), "data", "alice", false);
        for part in [
            "net use Z: \\\\2001-db8--1.ipv6-literal.net\\data /user:alice\n",
            "-t cifs //2001:db8::1/data /mnt",
            "open 'smb://alice@[2001:db8::1]/data'\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        let other = commands(at("[2001:db8::1]:4450"), "data", "alice", false);
        assert!(other.contains("open 'smb://alice@[2001:db8::1]:4450/data'\n"), "{other}");
    }
}
