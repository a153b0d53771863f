//! Mount commands for clients, ready to copy.

use std::net::SocketAddr;

/// Recommended read-ahead of Linux clients: 15 MiB; the kernel's default is 128 KiB.
const READ_AHEAD_KIB: u32 = 15 * 1024;

/// The commands for one share on one address.
pub fn commands(address: SocketAddr, share: &str, user: &str) -> String {
    let host = match address {
        SocketAddr::V4(v4) => v4.ip().to_string(),
        // Windows and the Linux tools take literals of IPv6 in this form.
        SocketAddr::V6(v6) => format!("[{}]", v6.ip()),
    };
    let port = address.port();
    let (windows_port, linux_port, mac_port) = if port == 445 {
        (String::new(), String::new(), String::new())
    } else {
        (format!(" /TCPPORT:{port}"), format!(",port={port}"), format!(":{port}"))
    };
    let note = if port == 445 {
        ""
    } else {
        "   (Windows 11 24H2 or Server 2025 for a port other than 445)"
    };
    format!(
        "  Windows  net use Z: \\\\{host}\\{share} /user:{user}{windows_port}{note}\n  \
         Linux    sudo mount -t cifs //{host}/{share} /mnt -o username={user}{linux_port},vers=3.1.1\n  \
         macOS    open smb://{user}@{host}{mac_port}/{share}\n"
    )
}

/// The command for one share over NFS, perhaps one that is reached under TLS only.
pub fn nfs_command(address: SocketAddr, share: &str, under_tls: bool) -> String {
    let host = match address {
        SocketAddr::V4(v4) => v4.ip().to_string(),
        SocketAddr::V6(v6) => format!("[{}]", v6.ip()),
    };
    let port = match address.port() {
        2049 => String::new(),
        port => format!(",port={port}"),
    };
    let tls = if under_tls { ",xprtsec=tls" } else { "" };
    let url = if port.is_empty() { host.clone() } else { address.to_string() };
    format!(
        "  Linux    sudo mount -t nfs -o vers=4.2,nconnect=4{port}{tls} {host}:/{share} /mnt\n           \
         echo {READ_AHEAD_KIB} | sudo tee /sys/class/bdi/$(mountpoint -d /mnt)/read_ahead_kb\n           \
         (read-ahead for large files; for more settings: anabranch advise nfs://{url}/{share})\n"
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

    #[test]
    fn nfs_mount_command_sets_read_ahead() {
        let rule = nfs_rule();
        assert!(rule.contains("  SUBSYSTEM==\"bdi\" \\\n  , ACTION==\"add\""), "{rule}");
        assert!(rule.contains("ATTR{read_ahead_kb}=\"15360\""), "{rule}");
        let usual = nfs_command("192.0.2.1:2049".parse().unwrap(), "data", false);
        assert!(usual.contains("nconnect=4 192.0.2.1:/data /mnt\n"), "{usual}");
        assert!(usual.contains("echo 15360 | sudo tee /sys/class/bdi/$(mountpoint -d /mnt)/"));
        assert!(usual.contains("anabranch advise nfs://192.0.2.1/data)"), "{usual}");
        let other = nfs_command("[2001:db8::1]:2050".parse().unwrap(), "data", true);
        assert!(other.contains(",port=2050,xprtsec=tls [2001:db8::1]:/data"), "{other}");
        assert!(other.contains("nfs://[2001:db8::1]:2050/data)"), "{other}");
    }

    #[test]
    fn mount_commands_show_only_non_default_ports() {
        let usual = commands("192.0.2.1:445".parse().unwrap(), "data", "alice");
        assert!(!usual.contains("445"), "{usual}");
        let other = commands("192.0.2.1:4450".parse().unwrap(), "data", "alice");
        assert!(
            other.contains("/TCPPORT:4450")
                && other.contains("port=4450")
                && other.contains("192.0.2.1:4450/data")
        );
    }
}
