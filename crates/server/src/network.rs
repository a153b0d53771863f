//! How the system finds out that a client is gone.

use crate::limits::{DOUBT_PROBES_EVERY, DOUBT_UNCONFIRMED, KEEPALIVE_PROBES};
use rustix::io::Result;
use rustix::net::sockopt;
use std::time::Duration;
use tokio::net::TcpStream;

/// Lets the system find out that a client is gone which cannot say so: one that
/// lost its network or its power confirms neither data nor probes.
///
/// # Errors
/// What the system says.
pub fn watch(stream: &TcpStream, within: Duration) -> Result<()> {
    let half = within / 2;
    // Later than the task, which knows better what the client owes.
    probe(stream, half, half / KEEPALIVE_PROBES, within + half)
}

/// Somebody has reason to believe that the client is not there any more: who is silent is asked at
/// once, and the connection ends when nobody answers. Until [`watch`] is called again.
///
/// # Errors
/// As [`watch`].
pub fn doubt(stream: &TcpStream) -> Result<()> {
    probe(stream, DOUBT_PROBES_EVERY, DOUBT_PROBES_EVERY, DOUBT_UNCONFIRMED)
}

/// Has the system ask after a silence, and so often then, until nothing was confirmed for so long.
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
    // The last: with it the system looks how long the silence is already.
    sockopt::set_tcp_keepidle(stream, silence.max(second))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn who_is_doubted_is_asked_often_and_then_as_before() {
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
