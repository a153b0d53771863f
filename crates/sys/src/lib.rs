//! System calls on sockets that no safe library offers. With the backends the
//! only home of `unsafe`; each block says why it is sound.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// A reader of `socket` is woken once it has `bytes` to read; at once if it has
/// them already. 1 is the usual. The end of the stream and errors always wake.
///
/// # Errors
/// Those of the system: `socket` is none.
pub fn set_wake_bytes(socket: &impl AsFd, bytes: u16) -> io::Result<()> {
    let value = c_int::from(bytes.max(1));
    let length = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the pointer is to `length` bytes that live until the call
    // returns, and the system only reads them.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw const value).cast(),
            length,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    #[test]
    fn a_reader_is_woken_by_as_many_bytes_as_it_asked_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        set_wake_bytes(&server, 8).unwrap();
        server.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        client.write_all(b"1234").unwrap();
        let mut buffer = [0; 16];
        // A blocking read returns what is there when its time is over, not before.
        let begin = std::time::Instant::now();
        assert_eq!(io::Read::read(&mut &server, &mut buffer).unwrap(), 4);
        assert!(begin.elapsed() >= Duration::from_millis(50));
        client.write_all(b"12345678").unwrap();
        assert_eq!(io::Read::read(&mut &server, &mut buffer).unwrap(), 8);
    }
}
