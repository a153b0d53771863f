//! System calls without a safe wrapper: a socket option, logged seccomp filters, host names.
//!
//! `unsafe` is allowed here, because the crate calls the C library; each block states why it is
//! sound.
#![allow(unsafe_code)]

mod filter;
mod names;

pub use filter::install_logged_filter;
pub use names::{
    HOST_ADDRESSES_MAX, HOST_NAME_BYTES_MAX, is_in_netgroup, look_up_addresses, look_up_name,
};

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Makes a socket readable only once so many bytes are available (SO_RCVLOWAT, socket(7)), or no
/// more can arrive: the peer closed it, or its window is full. Bytes that are available already are
/// reported at once, also in edge-triggered mode (EPOLLET).
///
/// Linux enlarges the socket's buffer accordingly. It reduces `bytes` to half of the limit in
/// `tcp_rmem`.
///
/// # Errors
/// The errors of setsockopt(2), such as a descriptor that is no socket.
pub fn set_receive_low_water(socket: &impl AsFd, bytes: u32) -> io::Result<()> {
    let value = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    let (level, option) = (libc::SOL_SOCKET, libc::SO_RCVLOWAT);
    // SAFETY: the call reads one `c_int` from the pointer, which lives until it returns; the
    // descriptor is open as long as `socket` is borrowed.
    let result = unsafe { libc::setsockopt(fd, level, option, (&raw const value).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::io::Write;
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    fn is_readable(socket: &TcpStream) -> bool {
        let mut ready = [PollFd::new(socket, PollFlags::IN)];
        poll(&mut ready, Some(&Timespec::default())).is_ok_and(|count| count > 0)
    }

    fn becomes_readable(socket: &TcpStream) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(10) {
            if is_readable(socket) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        false
    }

    #[test]
    fn socket_is_readable_at_the_low_water_mark_or_its_end() -> io::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut theirs = TcpStream::connect(listener.local_addr()?)?;
        let (ours, _) = listener.accept()?;
        set_receive_low_water(&ours, 1000)?;
        theirs.write_all(&[0; 999])?;
        std::thread::sleep(Duration::from_millis(50));
        assert!(!is_readable(&ours));
        theirs.write_all(&[0])?;
        assert!(becomes_readable(&ours));
        set_receive_low_water(&ours, 2000)?;
        assert!(!is_readable(&ours));
        set_receive_low_water(&ours, 1)?;
        assert!(is_readable(&ours));
        set_receive_low_water(&ours, 2000)?;
        theirs.shutdown(Shutdown::Write)?;
        assert!(becomes_readable(&ours), "no more can come");
        Ok(())
    }

    #[test]
    fn non_socket_descriptor_is_refused() -> io::Result<()> {
        let file = std::fs::File::open("/dev/null")?;
        assert!(set_receive_low_water(&file, 1).is_err());
        Ok(())
    }
}
