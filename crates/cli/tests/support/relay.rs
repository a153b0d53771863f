//! A relay to a server that can cut, silence or slow connections, and records the traffic.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Recorded bytes of each direction.
const HEARD_BYTES_MAX: usize = 1 << 20;

/// All bytes that passed in one direction.
type RelayedBytes = Arc<Mutex<Vec<u8>>>;

/// A relay in front of a server. Must be created within a runtime.
pub struct Relay {
    pub address: SocketAddr,
    /// Numbers of the connections to end.
    cut: watch::Sender<Range<u64>>,
    silent: Arc<AtomicBool>,
    /// Bytes forwarded each hundredth of a second; unlimited if none.
    pace: Arc<AtomicU64>,
    pub connections: Arc<AtomicU64>,
    heard: [RelayedBytes; 2],
}

impl Relay {
    pub async fn new(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("an address of loopback");
        let address = listener.local_addr().expect("a socket");
        let (cut, cuts) = watch::channel(0..0);
        let (silent, connections) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let pace = Arc::new(AtomicU64::new(0));
        let (is_silent, counter) = (silent.clone(), connections.clone());
        let at_pace = pace.clone();
        let heard = [RelayedBytes::default(), RelayedBytes::default()];
        let listening = heard.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let number = counter.fetch_add(1, Ordering::Relaxed);
                let (mut cuts, how) = (cuts.clone(), (is_silent.clone(), at_pace.clone()));
                let listening = listening.clone();
                tokio::spawn(async move {
                    let Ok(upstream) = TcpStream::connect(server).await else { return };
                    tokio::select! {
                        () = carry(client, upstream, how, listening) => {}
                        _ = cuts.wait_for(|cut| cut.contains(&number)) => {}
                    }
                });
            }
        });
        Self { address, cut, silent, pace, connections, heard }
    }

    /// The bytes that passed from clients, and to clients, so far.
    pub fn heard(&self) -> [Vec<u8>; 2] {
        self.heard.each_ref().map(|heard| heard.lock().unwrap().clone())
    }

    /// Ends all connections, possibly within a message.
    pub fn cut(&self) {
        self.cut.send_replace(0..self.connections.load(Ordering::Relaxed));
    }

    /// Ends the connection of this number; the first is 0.
    pub fn cut_one(&self, number: u64) {
        self.cut.send_replace(number..number + 1);
    }

    /// Drops all traffic from now on, without closing connections.
    pub fn fall_silent(&self) {
        self.silent.store(true, Ordering::Relaxed);
    }

    /// Limits the bytes each hundredth of a second and direction from now on.
    pub fn crawl(&self, bytes: u64) {
        self.pace.store(bytes, Ordering::Relaxed);
    }

    /// Forwards new connections again, and old ones without traffic meanwhile.
    pub fn speak_again(&self) {
        self.silent.store(false, Ordering::Relaxed);
    }
}

async fn carry(
    client: TcpStream,
    upstream: TcpStream,
    (silent, pace): (Arc<AtomicBool>, Arc<AtomicU64>),
    [heard_up, heard_down]: [RelayedBytes; 2],
) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = upstream.into_split();
    let up = pass(&mut from_client, &mut to_server, (&silent, &pace), &heard_up);
    let down = pass(&mut from_server, &mut to_client, (&silent, &pace), &heard_down);
    tokio::select! {
        () = up => {}
        () = down => {}
    }
}

async fn pass(
    from: &mut (impl AsyncReadExt + Unpin),
    to: &mut (impl AsyncWriteExt + Unpin),
    (silent, pace): (&AtomicBool, &AtomicU64),
    heard: &Mutex<Vec<u8>>,
) {
    let mut buffer = vec![0; 20_000];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if silent.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        {
            let mut heard = heard.lock().unwrap();
            let room = HEARD_BYTES_MAX - heard.len();
            heard.extend_from_slice(&buffer[..count.min(room)]);
        }
        let pace = pace.load(Ordering::Relaxed) as usize;
        for part in buffer[..count].chunks(if pace == 0 { count } else { pace }) {
            if to.write_all(part).await.is_err() {
                return;
            }
            if pace > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
}
