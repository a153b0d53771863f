//! Names of hosts by the system's name services (nsswitch.conf(5)): `/etc/hosts`, DNS, sssd.
//!
//! The calls wait for servers on the network, for half a minute at worst (resolv.conf(5)):
//! never on a thread that serves.

use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr::{null, null_mut};
use std::sync::{Mutex, PoisonError};

/// The longest name of a host, in bytes. RFC 1035 2.3.4.
pub const HOST_NAME_BYTES_MAX: usize = 255;
/// The most addresses of one name that count: more are of a service, not of a host.
pub const HOST_ADDRESSES_MAX: usize = 64;

/// Room for a name: NI_MAXHOST of getnameinfo(3).
const NAME_BYTES: usize = 1025;

/// Looks up which name an address claims (getnameinfo(3)); none if it has none. The name is the
/// word of the address's owner: only a forward look-up of it shows that it is true.
///
/// # Errors
/// No answer: a server cannot be reached, or failed.
pub fn look_up_name(address: IpAddr) -> io::Result<Option<String>> {
    let storage = Storage::of(address);
    let mut name: [c_char; NAME_BYTES] = [0; NAME_BYTES];
    let (pointer, length) = storage.parts();
    // SAFETY: `pointer` leads to an address of `length` bytes that lives until the call returns,
    // and the call writes at most NAME_BYTES bytes to `name`.
    let result = unsafe {
        let room = NAME_BYTES as libc::socklen_t;
        let flags = libc::NI_NAMEREQD;
        libc::getnameinfo(pointer, length, name.as_mut_ptr(), room, null_mut(), 0, flags)
    };
    match result {
        0 => {}
        libc::EAI_NONAME => return Ok(None),
        code => return Err(failure(code)),
    }
    // C's characters are signed on some machines and not on others.
    let bytes: Vec<u8> = name.iter().flat_map(|byte| byte.to_ne_bytes()).collect();
    let name = CStr::from_bytes_until_nul(&bytes).ok().and_then(|name| name.to_str().ok());
    Ok(name.and_then(host_name))
}

/// Looks up the addresses of a name (getaddrinfo(3)), of which [`HOST_ADDRESSES_MAX`] count;
/// empty if there is no such name.
///
/// # Errors
/// No answer: a server cannot be reached, or failed.
pub fn look_up_addresses(name: &str) -> io::Result<Vec<IpAddr>> {
    let Ok(name) = CString::new(name) else { return Ok(Vec::new()) };
    let hints = libc::addrinfo {
        ai_flags: 0,
        ai_family: libc::AF_UNSPEC,
        ai_socktype: libc::SOCK_STREAM,
        ai_protocol: 0,
        ai_addrlen: 0,
        ai_addr: null_mut(),
        ai_canonname: null_mut(),
        ai_next: null_mut(),
    };
    let mut list = null_mut();
    // SAFETY: the name and the hints live until the call returns, which writes `list`.
    let result =
        unsafe { libc::getaddrinfo(name.as_ptr(), null(), &raw const hints, &raw mut list) };
    match result {
        0 => {}
        libc::EAI_NONAME | libc::EAI_NODATA => return Ok(Vec::new()),
        code => return Err(failure(code)),
    }
    let (mut addresses, mut next) = (Vec::new(), list.cast_const());
    // SAFETY: the list is the call's, and whole until `freeaddrinfo`.
    while let Some(entry) = unsafe { next.as_ref() } {
        if addresses.len() < HOST_ADDRESSES_MAX {
            addresses.extend(address_of(entry));
        }
        next = entry.ai_next;
    }
    // SAFETY: the list is freed once, and nothing refers to it any more.
    unsafe { libc::freeaddrinfo(list) };
    Ok(addresses)
}

/// Whether a host is a member of a netgroup (innetgr(3)): by its name, or by its address in
/// numbers. `false` where the C library has no netgroups.
#[must_use]
pub fn is_in_netgroup(group: &str, host: &str) -> bool {
    /// The C library reads groups at one place, for all threads.
    static TURN: Mutex<()> = Mutex::new(());
    let (Ok(group), Ok(host)) = (CString::new(group), CString::new(host)) else { return false };
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: both strings live until the call returns; null stands for any user and domain. No
    // other thread is in a call about netgroups.
    unsafe { innetgr(group.as_ptr(), host.as_ptr(), null(), null()) == 1 }
}

#[cfg(target_env = "gnu")]
unsafe extern "C" {
    fn innetgr(
        group: *const c_char,
        host: *const c_char,
        user: *const c_char,
        domain: *const c_char,
    ) -> c_int;
}

/// Other C libraries have no netgroups.
#[cfg(not(target_env = "gnu"))]
unsafe fn innetgr(_: *const c_char, _: *const c_char, _: *const c_char, _: *const c_char) -> c_int {
    0
}

/// A name that can be a host's: in lower case, without the dot at its end. A reverse zone can
/// have any bytes.
fn host_name(text: &str) -> Option<String> {
    let name = text.strip_suffix('.').unwrap_or(text);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_name =
        !name.is_empty() && name.len() <= HOST_NAME_BYTES_MAX && name.bytes().all(is_plain);
    is_name.then(|| name.to_ascii_lowercase())
}

fn failure(code: c_int) -> io::Error {
    if code == libc::EAI_SYSTEM {
        return io::Error::last_os_error();
    }
    // SAFETY: the call takes any number, and its texts are constants.
    let text = unsafe { CStr::from_ptr(libc::gai_strerror(code)) };
    io::Error::other(text.to_string_lossy().into_owned())
}

/// An address as the C library has it.
enum Storage {
    V4(libc::sockaddr_in),
    V6(libc::sockaddr_in6),
}

impl Storage {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => Self::V4(libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: 0,
                sin_addr: libc::in_addr { s_addr: v4.to_bits().to_be() },
                sin_zero: [0; 8],
            }),
            IpAddr::V6(v6) => Self::V6(libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: 0,
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: v6.octets() },
                sin6_scope_id: 0,
            }),
        }
    }

    fn parts(&self) -> (*const libc::sockaddr, libc::socklen_t) {
        match self {
            Self::V4(v4) => (std::ptr::from_ref(v4).cast(), size_of_val(v4) as libc::socklen_t),
            Self::V6(v6) => (std::ptr::from_ref(v6).cast(), size_of_val(v6) as libc::socklen_t),
        }
    }
}

fn address_of(entry: &libc::addrinfo) -> Option<IpAddr> {
    let length = entry.ai_addrlen as usize;
    match entry.ai_family {
        libc::AF_INET if length >= size_of::<libc::sockaddr_in>() => {
            // SAFETY: the C library's own entry: of this family and length.
            let v4 = unsafe { entry.ai_addr.cast::<libc::sockaddr_in>().as_ref() }?;
            Some(Ipv4Addr::from_bits(u32::from_be(v4.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 if length >= size_of::<libc::sockaddr_in6>() => {
            // SAFETY: as above.
            let v6 = unsafe { entry.ai_addr.cast::<libc::sockaddr_in6>().as_ref() }?;
            Some(IpAddr::from(Ipv6Addr::from(v6.sin6_addr.s6_addr)).to_canonical())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_known_by_name_and_address() -> io::Result<()> {
        assert!(look_up_addresses("localhost")?.iter().all(IpAddr::is_loopback));
        assert!(!look_up_addresses("localhost")?.is_empty());
        let v4 = IpAddr::from([127, 0, 0, 1]);
        assert_eq!(look_up_addresses("127.0.0.1")?, [v4]);
        assert!(look_up_name(v4)?.is_some_and(|name| name.starts_with("localhost")));
        Ok(())
    }

    #[test]
    fn group_that_does_not_exist_has_no_members() {
        assert!(!is_in_netgroup("anabranch-no-such-group", "localhost"));
        assert!(!is_in_netgroup("nul\0nul", "localhost"));
    }

    #[test]
    fn name_that_no_host_can_have_is_none() {
        assert_eq!(host_name("Build.Lab.Example."), Some("build.lab.example".into()));
        for text in ["", ".", "a b", "a*", "a\u{e9}", "@a", &"a".repeat(HOST_NAME_BYTES_MAX + 1)] {
            assert_eq!(host_name(text), None, "{text}");
        }
    }
}
