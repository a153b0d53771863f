//! Measures the cost of moving 1 MiB blocks between a socket and the page cache without any
//! protocol: the lower bound of a server's cost on this machine.
//!
//! `cargo run --release --package server --example floor [SECONDS]`, or `cargo xtask bench floor`
//! for a separate network. CPU time is that of the serving thread alone.

use rustix::fd::AsFd;
use rustix::io::{pread, pwrite};
use rustix::pipe::{SpliceFlags, fcntl_setpipe_size, pipe, splice};
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use wire::crypto::{Cipher, SealingKey, SigningAlgorithm, SigningKey};
use wire::smb::{SessionId, TransformHeader};

const BLOCK: usize = 1024 * 1024;
const BLOCKS: u64 = 64;
/// Size of a request or reply without its data.
const HEAD: usize = 116;
const DEPTH: usize = 8;
/// Replies that are signed together with CMAC.
const TOGETHER: usize = 8;

/// Transfer method of the serving thread.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Transfer {
    ReadSendfile,
    ReadCopied,
    ReadSigned(SigningAlgorithm),
    ReadSealed(Cipher),
    WriteCopied,
    WriteSpliced,
}

const TRANSFERS: [(&str, Transfer); 8] = [
    ("read: sendfile", Transfer::ReadSendfile),
    ("read: copied out and in", Transfer::ReadCopied),
    ("read: copied, GMAC", Transfer::ReadSigned(SigningAlgorithm::AesGmac)),
    ("read: copied, CMAC, 8 together", Transfer::ReadSigned(SigningAlgorithm::AesCmac)),
    ("read: copied, AES-128-GCM", Transfer::ReadSealed(Cipher::Aes128Gcm)),
    ("write: copied out and in", Transfer::WriteCopied),
    ("write: spliced", Transfer::WriteSpliced),
    ("read: sendfile, again", Transfer::ReadSendfile),
];

impl Transfer {
    fn writes(self) -> bool {
        matches!(self, Self::WriteCopied | Self::WriteSpliced)
    }
}

/// The client: keeps `DEPTH` requests in flight until `end`, then reads the outstanding replies.
fn ask(mut socket: TcpStream, writes: bool, end: Instant) -> io::Result<()> {
    let request = vec![7; HEAD + if writes { BLOCK } else { 0 }];
    let mut answer = vec![0; HEAD + if writes { 0 } else { BLOCK }];
    for _ in 0..DEPTH {
        socket.write_all(&request)?;
    }
    let mut count = 0;
    // A server that answers several requests at once needs a multiple of them.
    while Instant::now() < end || count % TOGETHER != 0 {
        socket.read_exact(&mut answer)?;
        socket.write_all(&request)?;
        count += 1;
    }
    for _ in 0..DEPTH {
        socket.read_exact(&mut answer)?;
    }
    Ok(())
}

struct FloorServer {
    socket: TcpStream,
    file: File,
    way: Transfer,
    next: u64,
    /// The head and a page-aligned block behind it.
    buffers: Vec<Vec<u8>>,
    signing: Option<SigningKey>,
    sealing: Option<SealingKey>,
    pipe: (rustix::fd::OwnedFd, rustix::fd::OwnedFd),
    count: u64,
}

impl FloorServer {
    fn offset(&mut self) -> u64 {
        self.next = (self.next + 1) % BLOCKS;
        self.next * BLOCK as u64
    }

    fn receive(&mut self) -> io::Result<bool> {
        let mut head = [0; HEAD];
        match self.socket.read_exact(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            other => other.map(|()| true),
        }
    }

    fn read_block(&mut self, at: usize) -> io::Result<()> {
        let offset = self.offset();
        let from = self.buffers[at].len() - BLOCK;
        pread(&self.file, &mut self.buffers[at][from..], offset)?;
        Ok(())
    }

    /// Answers one request, or several with CMAC; returns false at the end.
    fn serve(&mut self) -> io::Result<bool> {
        if !self.receive()? {
            return Ok(false);
        }
        match self.way {
            Transfer::ReadSendfile => self.send_file()?,
            Transfer::ReadSigned(SigningAlgorithm::AesCmac) => return self.send_together(),
            Transfer::ReadCopied | Transfer::ReadSigned(_) | Transfer::ReadSealed(_) => {
                self.send_copied()?
            }
            Transfer::WriteCopied => self.write_copied()?,
            Transfer::WriteSpliced => self.write_spliced()?,
        }
        self.count += 1;
        Ok(true)
    }

    fn send_file(&mut self) -> io::Result<()> {
        let flags = rustix::net::SendFlags::MORE;
        rustix::net::send(&self.socket, &[0; HEAD], flags)?;
        let (mut at, mut left) = (self.offset(), BLOCK);
        while left > 0 {
            left -= rustix::fs::sendfile(&self.socket, &self.file, Some(&mut at), left)?;
        }
        Ok(())
    }

    fn send_copied(&mut self) -> io::Result<()> {
        self.read_block(0)?;
        let from = self.buffers[0].len() - BLOCK - HEAD;
        if let Some(key) = &self.signing {
            key.sign(&mut self.buffers[0][from..]);
        }
        if let Some(key) = &self.sealing {
            let from = from + HEAD - 64 - TransformHeader::LENGTH;
            key.seal_in_place(&mut self.buffers[0][from..], SessionId(1));
        }
        self.socket.write_all(&self.buffers[0][from..])
    }

    fn send_together(&mut self) -> io::Result<bool> {
        self.read_block(0)?;
        for at in 1..TOGETHER {
            if !self.receive()? {
                return Ok(false);
            }
            self.read_block(at)?;
        }
        let answer = |buffer: &Vec<u8>| buffer.len() - BLOCK - HEAD..;
        let mut messages: Vec<&mut [u8]> = Vec::new();
        for buffer in &mut self.buffers {
            let range = answer(buffer);
            messages.push(&mut buffer[range]);
        }
        if let Some(key) = &self.signing {
            key.sign_all(&mut messages);
        }
        for buffer in &self.buffers {
            self.socket.write_all(&buffer[answer(buffer)])?;
        }
        self.count += TOGETHER as u64;
        Ok(true)
    }

    fn write_copied(&mut self) -> io::Result<()> {
        let offset = self.offset();
        let from = self.buffers[0].len() - BLOCK;
        self.socket.read_exact(&mut self.buffers[0][from..])?;
        pwrite(&self.file, &self.buffers[0][from..], offset)?;
        self.socket.write_all(&[0; HEAD])
    }

    fn write_spliced(&mut self) -> io::Result<()> {
        let (mut at, mut left) = (self.offset(), BLOCK);
        let (out, into) = (self.pipe.0.as_fd(), self.pipe.1.as_fd());
        while left > 0 {
            let flags = SpliceFlags::MOVE | SpliceFlags::MORE;
            let mut got = splice(&self.socket, None, into, None, left, flags)?;
            left -= got;
            while got > 0 {
                got -= splice(out, None, &self.file, Some(&mut at), got, SpliceFlags::MOVE)?;
            }
        }
        self.socket.write_all(&[0; HEAD])
    }
}

/// A buffer whose last `BLOCK` bytes are page-aligned.
fn page_aligned() -> Vec<u8> {
    const PAGE: usize = 4096;
    let mut buffer: Vec<u8> = Vec::with_capacity(2 * PAGE + BLOCK);
    let start = buffer.as_ptr().addr();
    let gap = (start + HEAD + 64).next_multiple_of(PAGE) - start;
    buffer.resize(gap + BLOCK, 7);
    buffer
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn measure(way: Transfer, path: &std::path::Path, seconds: u64) -> io::Result<(f64, f64)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    let end = Instant::now() + Duration::from_secs(seconds);
    let client = std::thread::spawn(move || ask(client, way.writes(), end));
    let pipe = pipe()?;
    // Some systems permit only a smaller pipe, which costs more.
    let _ = fcntl_setpipe_size(&pipe.1, BLOCK);
    let signing = match way {
        Transfer::ReadSigned(algorithm) => Some(SigningKey::new(algorithm, &[7; 16])),
        _ => None,
    };
    let sealing = match way {
        Transfer::ReadSealed(cipher) => Some(SealingKey::new(cipher, &[7; 32])),
        _ => None,
    };
    let mut server = FloorServer {
        socket: listener.accept()?.0,
        file: File::options().read(true).write(true).open(path)?,
        way,
        next: 0,
        buffers: (0..TOGETHER).map(|_| page_aligned()).collect(),
        signing,
        sealing,
        pipe,
        count: 0,
    };
    let (began, used) = (Instant::now(), thread_time());
    while server.serve()? {}
    let (took, used) = (began.elapsed(), thread_time() - used);
    drop(server.socket);
    client.join().map_err(|_| io::Error::other("the client ended"))??;
    let count = server.count as f64;
    Ok((used.as_secs_f64() * 1e6 / count, count / took.as_secs_f64()))
}

fn main() -> io::Result<()> {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(3);
    let path = std::env::temp_dir().join(format!("anabranch-floor-{}", std::process::id()));
    std::fs::write(&path, vec![7; BLOCK * BLOCKS as usize])?;
    println!("| 1 MiB, depth {DEPTH} | µs/block | s/GiB | blocks/s |\n|---|---|---|---|");
    for (name, way) in TRANSFERS {
        let measured = measure(way, &path, seconds);
        match measured {
            Ok((micros, rate)) => {
                println!("| {name} | {micros:.1} | {:.2} | {rate:.0} |", micros * 1024.0 / 1e6);
            }
            Err(error) => println!("| {name} | {error} | | |"),
        }
    }
    std::fs::remove_file(&path)
}
