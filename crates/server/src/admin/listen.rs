//! HTTP listener of the admin API. Connections are few and requests are small; a connection without
//! progress times out.

use super::visitors::Visitors;
use crate::config::AdminAddress;
use crate::limits::{
    ADMIN_CONNECTIONS_MAX, ADMIN_HEAD_BYTES_MAX, ADMIN_HEADERS_MAX, ADMIN_METRICS_CONNECTIONS_MAX,
    ADMIN_WITHIN,
};
use axum::{Extension, Router};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::future::Future;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::time::Sleep;

/// Pause after an accept that failed for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A listening socket of the admin API.
#[derive(Debug)]
pub enum AdminSocket {
    /// A TCP socket.
    Tcp(TcpListener),
    /// A Unix socket, with the name that is removed with it.
    Unix(UnixListener, SocketName),
}

/// The path of a Unix socket; removed on drop.
#[derive(Debug)]
pub struct SocketName(PathBuf);

impl Drop for SocketName {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Trust in the client by the kind of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A TCP client, about which nothing is known.
    Network,
    /// A local process of root or of the server's own user.
    Trusted,
    /// A local process of another user.
    Stranger,
}

impl AdminSocket {
    /// Listens on a Unix socket that only its owner can connect to. A leftover of a dead server is
    /// removed.
    ///
    /// # Errors
    /// Any error of the system; `AddrInUse` if another server listens there.
    pub fn unix(path: &Path) -> Result<Self> {
        if let Some(folder) = path.parent() {
            std::fs::DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
        }
        let is_socket = std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
        if is_socket && std::os::unix::net::UnixStream::connect(path).is_err() {
            std::fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        let name = SocketName(path.to_owned());
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o600))?;
        Ok(Self::Unix(listener, name))
    }

    /// The address of the socket.
    #[must_use]
    pub fn address(&self) -> Option<AdminAddress> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok().map(AdminAddress::Tcp),
            Self::Unix(_, name) => Some(AdminAddress::Unix(name.0.clone())),
        }
    }

    /// Serves until the task is dropped.
    pub async fn serve(self, router: Router) {
        let visitors = Visitors::new(ADMIN_CONNECTIONS_MAX, ADMIN_METRICS_CONNECTIONS_MAX);
        loop {
            let accepted = match &self {
                Self::Tcp(listener) => listener
                    .accept()
                    .await
                    .map(|(stream, _)| (AcceptedStream::Tcp(stream), Peer::Network)),
                Self::Unix(listener, _) => listener.accept().await.map(|(stream, _)| {
                    let peer = peer_of(&stream);
                    (AcceptedStream::Unix(stream), peer)
                }),
            };
            let Ok((stream, peer)) = accepted else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            // If all present connections have shown a token, the next one waits here and further
            // ones in the backlog.
            let place = visitors.enter().await;
            let router = router.clone().layer(Extension(peer));
            let router = router.layer(Extension(place.visitor().clone()));
            tokio::spawn(async move {
                tokio::select! {
                    () = serve_one(stream, router) => {}
                    () = place.taken() => {}
                }
            });
        }
    }
}

/// SO_PEERCRED of unix(7): the credentials of the client.
fn peer_of(stream: &UnixStream) -> Peer {
    let own = rustix::process::geteuid().as_raw();
    match stream.peer_cred() {
        Ok(peer) if peer.uid() == 0 || peer.uid() == own => Peer::Trusted,
        _ => Peer::Stranger,
    }
}

async fn serve_one(stream: AcceptedStream, router: Router) {
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new());
    http.header_read_timeout(ADMIN_WITHIN);
    http.max_buf_size(ADMIN_HEAD_BYTES_MAX);
    http.max_headers(ADMIN_HEADERS_MAX);
    let stream = TokioIo::new(TimedStream::new(stream, ADMIN_WITHIN));
    // A defective connection concerns its client only.
    let _ = http.serve_connection(stream, TowerToHyperService::new(router)).await;
}

/// A connection of either kind.
#[derive(Debug)]
enum AcceptedStream {
    Tcp(tokio::net::TcpStream),
    Unix(UnixStream),
}

impl AcceptedStream {
    fn read(&mut self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        match self {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, into),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, into),
        }
    }

    fn write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        match self {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn shutdown(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        match self {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// Timer of a pending read or write.
type IoTimer = Option<Pin<Box<Sleep>>>;

/// A stream that fails if its peer makes no progress for `patience`.
struct TimedStream {
    stream: AcceptedStream,
    patience: Duration,
    reading: IoTimer,
    writing: IoTimer,
}

impl TimedStream {
    fn new(stream: AcceptedStream, patience: Duration) -> Self {
        Self { stream, patience, reading: None, writing: None }
    }
}

/// Passes a completed operation on; bounds the wait of a pending one.
fn within<T>(
    done: Poll<Result<T>>,
    (wait, patience): (&mut IoTimer, Duration),
    cx: &mut Context<'_>,
) -> Poll<Result<T>> {
    if done.is_ready() {
        *wait = None;
        return done;
    }
    let wait = wait.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
    ready!(wait.as_mut().poll(cx));
    Poll::Ready(Err(Error::from(ErrorKind::TimedOut)))
}

impl AsyncRead for TimedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let this = &mut *self;
        within(this.stream.read(cx, into), (&mut this.reading, this.patience), cx)
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        let this = &mut *self;
        within(this.stream.write(cx, bytes), (&mut this.writing, this.patience), cx)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        // The stream has no buffer of its own.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let this = &mut *self;
        within(this.stream.shutdown(cx), (&mut this.writing, this.patience), cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const ASK: &[u8] = b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n";

    fn router() -> Router {
        Router::new()
            .route("/", get(|Extension(peer): Extension<Peer>| async move { format!("{peer:?}") }))
    }

    #[tokio::test]
    async fn unix_socket_is_replaced_only_if_its_server_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run").join("admin.sock");
        let first = AdminSocket::unix(&path).unwrap();
        assert_eq!(AdminSocket::unix(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
        let AdminSocket::Unix(listener, name) = first else { unreachable!() };
        std::mem::forget(name);
        drop(listener);
        assert!(path.exists(), "its name stays");
        let again = AdminSocket::unix(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        drop(again);
        assert!(!path.exists(), "who ends takes its name away");
    }

    #[tokio::test]
    async fn unix_socket_peer_of_own_user_is_trusted_and_no_tcp_peer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.sock");
        let of_files = tokio::spawn(AdminSocket::unix(&path).unwrap().serve(router()));
        let mut answer = String::new();
        let mut stream = UnixStream::connect(&path).await.unwrap();
        stream.write_all(ASK).await.unwrap();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("Trusted"), "{answer}");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let of_network = tokio::spawn(AdminSocket::Tcp(listener).serve(router()));
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.write_all(ASK).await.unwrap();
        answer.clear();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("Network"), "{answer}");
        of_files.abort();
        of_network.abort();
    }

    #[tokio::test]
    async fn silent_peer_times_out_on_read_and_on_write() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let (begun, patience) = (std::time::Instant::now(), Duration::from_millis(50));
        let mut patient = TimedStream::new(AcceptedStream::Unix(ours), patience);
        let error = patient.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        let many = vec![0; 16 * 1024 * 1024];
        let error = patient.write_all(&many).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(begun.elapsed() >= 2 * patience);
    }

    #[tokio::test]
    async fn request_head_beyond_the_limit_is_refused() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        tokio::spawn(serve_one(
            AcceptedStream::Unix(ours),
            router().layer(Extension(Peer::Trusted)),
        ));
        let head = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(ADMIN_HEAD_BYTES_MAX));
        theirs.write_all(head.as_bytes()).await.unwrap();
        // One read suffices: a reset follows the response, because the rest of the head was not
        // read.
        let mut answer = [0; 12];
        theirs.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 431");
    }
}
