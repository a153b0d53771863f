//! TCP keep-alive settings that detect vanished clients.

use crate::limits::{DOUBT_PROBES_EVERY, DOUBT_UNCONFIRMED, KEEPALIVE_PROBES};
use rustix::io::Result;
use rustix::net::sockopt;
use std::time::Duration;
use tokio::net::TcpStream;

/// Enables keep-alive probes. A client that lost its network or power confirms neither data nor
/// probes.
///
/// # Errors
/// Any error of setsockopt.
pub fn watch(stream: &TcpStream, within: Duration) -> Result<()> {
    let half = within / 2;
    // Later than the task's own timeouts, which know what the client owes.
    probe(stream, half, half / KEEPALIVE_PROBES, within + half)
}

/// Probes a doubted client at once; the connection ends if it does not respond. The setting lasts
/// until [`watch`] is called again.
///
/// # Errors
/// As [`watch`].
pub fn doubt(stream: &TcpStream) -> Result<()> {
    probe(stream, DOUBT_PROBES_EVERY, DOUBT_PROBES_EVERY, DOUBT_UNCONFIRMED)
}

/// Sets the silence before the first probe, the interval of the probes, and the time without
/// confirmation after which the connection ends.
fn probe(
    stream: &TcpStream,
    silence: Duration,
    every: Duration,
    unconfirmed: Duration,
) -> Result<()> {
    let second = Duration::from_secs(1);
    let unconfirmed = u32::try_from(unconfirmed.as_millis()).unwrap_or(u32::MAX);
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_user_timeout(stream, unconfirmed)?;
    sockopt::set_tcp_keepintvl(stream, every.max(second))?;
    sockopt::set_tcp_keepcnt(stream, KEEPALIVE_PROBES)?;
    // This option is set last: with it the kernel evaluates the present silence.
    sockopt::set_tcp_keepidle(stream, silence.max(second))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn doubted_connection_is_probed_often_and_then_as_before() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let often = || {
            let silence = sockopt::tcp_keepidle(&stream).unwrap();
            let every = sockopt::tcp_keepintvl(&stream).unwrap();
            (silence.as_secs(), every.as_secs(), sockopt::tcp_user_timeout(&stream).unwrap())
        };
        watch(&stream, Duration::from_secs(120)).unwrap();
        assert_eq!(often(), (60, 15, 180_000));
        doubt(&stream).unwrap();
        assert_eq!(often(), (1, 1, 2000));
        watch(&stream, Duration::from_secs(1)).unwrap();
        assert_eq!(often(), (1, 1, 1500));
        assert!(sockopt::socket_keepalive(&stream).unwrap());
    }
}
