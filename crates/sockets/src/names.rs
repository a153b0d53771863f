//! Host names by the system's name services (nsswitch.conf(5)): `/etc/hosts`, DNS, sssd.
//!
//! The calls wait for network servers, for half a minute at worst (resolv.conf(5)). They must not
//! run on a serving thread.

use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr::{null, null_mut};
use sync::Mutex;

/// Longest host name in bytes. RFC 1035 2.3.4.
pub const HOST_NAME_BYTES_MAX: usize = 255;
/// Most addresses of one name that are used: a name with more belongs to a service, not to a host.
pub const HOST_ADDRESSES_MAX: usize = 64;

/// Buffer size for a name: NI_MAXHOST of getnameinfo(3).
const NAME_BYTES: usize = 1025;

/// Looks up the name of an address (getnameinfo(3)); none without one. The owner of the address
/// chooses the name, so only a forward look-up proves it.
///
/// The look-up failed, or a server was not reachable.
pub fn look_up_name(address: IpAddr) -> io::Result<Option<String>> {
    let storage = SocketAddress::of(address);
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
    // The signedness of `c_char` depends on the machine.
    let bytes: Vec<u8> = name.iter().flat_map(|byte| byte.to_ne_bytes()).collect();
    let name = CStr::from_bytes_until_nul(&bytes).ok().and_then(|name| name.to_str().ok());
    Ok(name.and_then(host_name))
}

/// Looks up the addresses of a name (getaddrinfo(3)), at most [`HOST_ADDRESSES_MAX`]; empty for an
/// unknown name. A name with dots is absolute: the search list of resolv.conf(5) applies to single
/// labels only.
///
/// The look-up failed, or a server was not reachable.
pub fn look_up_addresses(name: &str) -> io::Result<Vec<IpAddr>> {
    addresses_by(resolve, name)
}

/// See [`look_up_addresses`].
fn addresses_by(
    resolve: impl Fn(&str) -> io::Result<(Vec<IpAddr>, Option<String>)>,
    name: &str,
) -> io::Result<Vec<IpAddr>> {
    let (addresses, canonical) = resolve(name)?;
    let canonical = canonical.unwrap_or_default();
    let is_plain = !name.contains('.') || name.ends_with('.') || name.parse::<IpAddr>().is_ok();
    if is_plain || addresses.is_empty() || canonical.eq_ignore_ascii_case(name) {
        return Ok(addresses);
    }
    // A different canonical name is an alias of /etc/hosts or DNS, or the resolver appended a
    // domain of the search list.
    match resolve(&format!("{name}.")) {
        Ok((absolute, _)) if !absolute.is_empty() => Ok(absolute),
        none if is_of_search_list(name, &canonical) => none.map(|_| Vec::new()),
        // Files such as /etc/hosts list names without the final dot.
        _ => Ok(addresses),
    }
}

/// True if the resolver appended a domain of the search list.
fn is_of_search_list(name: &str, canonical: &str) -> bool {
    let (name, canonical) = (name.to_ascii_lowercase(), canonical.to_ascii_lowercase());
    let behind = canonical.strip_prefix(&name).and_then(|rest| rest.strip_prefix('.'));
    behind.is_some_and(|domain| !domain.is_empty())
}

/// The addresses of a name, and its canonical name.
fn resolve(name: &str) -> io::Result<(Vec<IpAddr>, Option<String>)> {
    let Ok(name) = CString::new(name) else { return Ok((Vec::new(), None)) };
    let hints = libc::addrinfo {
        ai_flags: libc::AI_CANONNAME,
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
        libc::EAI_NONAME | libc::EAI_NODATA => return Ok((Vec::new(), None)),
        code => return Err(failure(code)),
    }
    let (mut addresses, mut canonical, mut next) = (Vec::new(), None, list.cast_const());
    // SAFETY: the list belongs to the call, and is valid until `freeaddrinfo`.
    while let Some(entry) = unsafe { next.as_ref() } {
        if addresses.len() < HOST_ADDRESSES_MAX {
            addresses.extend(address_of(entry));
        }
        if canonical.is_none() && !entry.ai_canonname.is_null() {
            // SAFETY: a NUL-terminated string of the call, valid as long as the list.
            let text = unsafe { CStr::from_ptr(entry.ai_canonname) };
            canonical = Some(text.to_string_lossy().into_owned());
        }
        next = entry.ai_next;
    }
    // SAFETY: the list is freed once, and nothing refers to it any more.
    unsafe { libc::freeaddrinfo(list) };
    Ok((addresses, canonical))
}

/// True if a host is a member of a netgroup (innetgr(3)), by its name or by its numeric address.
///
/// # Errors
/// The netgroup is unknown: its service has none or does not answer, or the C library has no
/// netgroups. The library does not distinguish these cases.
pub fn is_in_netgroup(group: &str, host: &str) -> io::Result<bool> {
    /// The C library has one netgroup cursor for all threads.
    static NETGROUP_LOCK: Mutex<()> = Mutex::new(());
    let (Ok(group), Ok(host)) = (CString::new(group), CString::new(host)) else { return Ok(false) };
    let _turn = NETGROUP_LOCK.lock();
    // SAFETY: both strings live until the call returns; null means any user and domain. No other
    // thread is in a netgroup call.
    if unsafe { innetgr(group.as_ptr(), host.as_ptr(), null(), null()) } == 1 {
        return Ok(true);
    }
    // SAFETY: as above; the cursor is closed before another thread may use it.
    let is_found = unsafe { setnetgrent(group.as_ptr()) } == 1;
    // SAFETY: as above.
    unsafe { endnetgrent() };
    let missing = || io::Error::new(io::ErrorKind::NotFound, "no name service has this netgroup");
    is_found.then_some(false).ok_or_else(missing)
}

#[cfg(target_env = "gnu")]
unsafe extern "C" {
    fn endnetgrent();
    fn innetgr(
        group: *const c_char,
        host: *const c_char,
        user: *const c_char,
        domain: *const c_char,
    ) -> c_int;
    fn setnetgrent(group: *const c_char) -> c_int;
}

/// Other C libraries have no netgroups.
#[cfg(not(target_env = "gnu"))]
unsafe fn innetgr(_: *const c_char, _: *const c_char, _: *const c_char, _: *const c_char) -> c_int {
    0
}

#[cfg(not(target_env = "gnu"))]
unsafe fn setnetgrent(_: *const c_char) -> c_int {
    0
}

#[cfg(not(target_env = "gnu"))]
unsafe fn endnetgrent() {}

/// Normalises a host name: lower case, without the final dot; none for an invalid name. A reverse
/// zone may contain any bytes.
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
    // SAFETY: the call accepts any number, and its texts are constants.
    let text = unsafe { CStr::from_ptr(libc::gai_strerror(code)) };
    io::Error::other(text.to_string_lossy().into_owned())
}

/// A socket address in the C library's form.
enum SocketAddress {
    V4(libc::sockaddr_in),
    V6(libc::sockaddr_in6),
}

impl SocketAddress {
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
            // SAFETY: the C library's own entry, with this family and length.
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
    fn loopback_resolves_by_name_and_address() -> io::Result<()> {
        assert!(look_up_addresses("localhost")?.iter().all(IpAddr::is_loopback));
        assert!(!look_up_addresses("localhost")?.is_empty());
        let v4 = IpAddr::from([127, 0, 0, 1]);
        assert_eq!(look_up_addresses("127.0.0.1")?, [v4]);
        assert!(look_up_name(v4)?.is_some_and(|name| name.starts_with("localhost")));
        Ok(())
    }

    /// A reverse zone's claim must not come true through a domain of the local search list.
    #[test]
    fn dotted_name_skips_the_search_list() {
        assert!(is_of_search_list("a.lab", "A.lab.corp.example"));
        for canonical in ["a.lab", "a.lab.", "host", "alias.example", "a.laboratory"] {
            assert!(!is_of_search_list("a.lab", canonical), "{canonical}");
        }
        let address = IpAddr::from([192, 0, 2, 1]);
        let by = |zone: &[(&str, &str)], name: &str| {
            let resolve = |asked: &str| {
                let found = zone.iter().find(|(name, _)| *name == asked);
                Ok(found.map_or((Vec::new(), None), |(_, to)| (vec![address], Some((*to).into()))))
            };
            addresses_by(resolve, name).is_ok_and(|found| found == [address])
        };
        assert!(!by(&[("a.lab", "a.lab.corp.example")], "a.lab"), "the search list");
        assert!(by(&[("a", "a.corp.example")], "a"), "a single label has it");
        assert!(by(&[("a.lab", "a.lab")], "a.lab"));
        assert!(by(&[("a.lab", "b.lab"), ("a.lab.", "b.lab")], "a.lab"), "an alias of DNS");
        assert!(by(&[("a.lab", "a")], "a.lab"), "an alias of /etc/hosts");
    }

    #[test]
    fn unknown_netgroup_is_an_error() {
        assert!(
            is_in_netgroup("anabranch-no-such-group", "localhost").is_err(),
            "not a certain no"
        );
        assert!(matches!(is_in_netgroup("nul\0nul", "localhost"), Ok(false)));
    }

    #[test]
    fn invalid_host_name_resolves_to_none() {
        assert_eq!(host_name("Build.Lab.Example."), Some("build.lab.example".into()));
        for text in ["", ".", "a b", "a*", "a\u{e9}", "@a", &"a".repeat(HOST_NAME_BYTES_MAX + 1)] {
            assert_eq!(host_name(text), None, "{text}");
        }
    }
}
