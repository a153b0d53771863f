//! A path to a server that can be cut or fall silent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A relay in front of a server. Must be made within a runtime.
pub struct Relay {
    pub address: SocketAddr,
    cut: watch::Sender<u64>,
    silent: Arc<AtomicBool>,
    pub connections: Arc<AtomicU64>,
}

impl Relay {
    pub async fn new(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("an address of loopback");
        let address = listener.local_addr().expect("a socket");
        let (cut, cuts) = watch::channel(0);
        let (silent, connections) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (is_silent, counter) = (silent.clone(), connections.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::Relaxed);
                let (mut cuts, is_silent) = (cuts.clone(), is_silent.clone());
                cuts.mark_unchanged();
                tokio::spawn(async move {
                    let Ok(upstream) = TcpStream::connect(server).await else { return };
                    tokio::select! {
                        () = carry(client, upstream, is_silent) => {}
                        _ = cuts.changed() => {}
                    }
                });
            }
        });
        Self { address, cut, silent, connections }
    }

    /// Ends all connections that go through it, wherever in a message they are.
    pub fn cut(&self) {
        self.cut.send_modify(|count| *count += 1);
    }

    /// From now on nothing passes, and nothing says so.
    pub fn fall_silent(&self) {
        self.silent.store(true, Ordering::Relaxed);
    }
}

async fn carry(client: TcpStream, upstream: TcpStream, silent: Arc<AtomicBool>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = upstream.into_split();
    let up = pass(&mut from_client, &mut to_server, &silent);
    let down = pass(&mut from_server, &mut to_client, &silent);
    tokio::select! {
        () = up => {}
        () = down => {}
    }
}

async fn pass(
    from: &mut (impl AsyncReadExt + Unpin),
    to: &mut (impl AsyncWriteExt + Unpin),
    silent: &AtomicBool,
) {
    let mut buffer = vec![0; 20_000];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if silent.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
