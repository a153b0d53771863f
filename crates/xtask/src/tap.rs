//! Relays messages between a test suite and the server, and finds nonces that the server reuses.

use anyhow::{Context, Result};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use sync::Mutex;
use wire::frame::{PREFIX_BYTES, payload_length};
use wire::wiretap::{Wiretap, Witness};

/// Records of all taps.
#[derive(Debug, Default)]
pub struct TapRecords {
    witness: Arc<Mutex<Witness>>,
    breaches: Mutex<Vec<String>>,
}

impl TapRecords {
    /// Messages of the server: signed by AES-GMAC, and encrypted.
    pub fn counts(&self) -> (usize, usize) {
        self.witness.lock().counts()
    }

    /// Messages that share a nonce with another one.
    pub fn breaches(&self) -> Vec<String> {
        self.breaches.lock().clone()
    }
}

/// Accepts connections at `address` for as long as the process lives, each with one to `server`.
pub fn listen(address: (&str, u16), server: (String, u16), heard: &Arc<TapRecords>) -> Result<()> {
    let listener =
        TcpListener::bind(address).with_context(|| format!("listen on {}", address.0))?;
    let heard = heard.clone();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(upstream) = TcpStream::connect((server.0.as_str(), server.1)) else { continue };
            // The end of either connection ends both; the suite judges the result.
            let _ = connect(client, upstream, &heard);
        }
    });
    Ok(())
}

fn connect(client: TcpStream, server: TcpStream, heard: &Arc<TapRecords>) -> io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    std::thread::spawn(move || {
        let _ = io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Write);
    });
    let heard = heard.clone();
    std::thread::spawn(move || {
        let _ = pass_on(&server, &client, &heard);
        let _ = client.shutdown(Shutdown::Both);
        let _ = server.shutdown(Shutdown::Both);
    });
    Ok(())
}

fn pass_on(mut server: &TcpStream, mut client: &TcpStream, heard: &TapRecords) -> io::Result<()> {
    let mut tap = Wiretap::beside(&heard.witness);
    let (mut prefix, mut message) = ([0; PREFIX_BYTES], Vec::new());
    loop {
        server.read_exact(&mut prefix)?;
        message.resize(payload_length(prefix).map_err(io::Error::other)?, 0);
        server.read_exact(&mut message)?;
        if let Err(breach) = tap.observe(&message) {
            heard.breaches.lock().push(breach);
        }
        client.write_all(&prefix)?;
        client.write_all(&message)?;
    }
}
