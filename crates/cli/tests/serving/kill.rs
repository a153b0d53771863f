//! A killed server has all acknowledged data after its restart.

use crate::support::client::{
    CREATE, PENDING, READ, RawFileId, RawSmbClient, SUCCESS, WRITE, frame,
};
use crate::support::{ServerProcess, Setup, wait_for};
use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::Range;
use std::thread::JoinHandle;
use std::time::Duration;

const WRITERS: u64 = 4;
/// Writes in flight of each writer.
const WINDOW: usize = 8;
const PAGE: usize = 4096;
const PAGES: u64 = 256;
/// Pages of the longest write, which one credit covers.
const WRITE_PAGES_MAX: u64 = 16;
/// Number of writes after which a writer creates a file.
const WRITES_PER_FILE: u64 = 20;
/// Time from the first write to the kill, in milliseconds.
const KILLS_AFTER: [u64; 4] = [50, 150, 300, 600];

/// The bytes that write number `sequence` puts into a page; the number is first.
fn content(file: u64, sequence: u64, page: u64) -> Vec<u8> {
    let mut state = file << 48 ^ sequence << 16 ^ page;
    let mut bytes = sequence.to_le_bytes().to_vec();
    while bytes.len() < PAGE {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.extend_from_slice(&(state >> 16).to_le_bytes());
    }
    bytes
}

enum PendingRequest {
    Write { pages: Range<u64>, sequence: u64 },
    Make(String),
}

/// A client that overwrites one file at random, and records the acknowledged writes.
struct OverwritingClient {
    number: u64,
    client: RawSmbClient,
    file: RawFileId,
    under_way: HashMap<u64, PendingRequest>,
    /// Number of the last acknowledged write of each page, or 0.
    acknowledged: Vec<u64>,
    made: Vec<String>,
    sequence: u64,
}

fn name(writer: u64) -> String {
    format!("writer {writer}")
}

impl OverwritingClient {
    fn new(server: &ServerProcess, number: u64) -> Self {
        let mut client = RawSmbClient::ready(server);
        let file = client.create(&name(number));
        let acknowledged = vec![0; PAGES as usize];
        let (under_way, made) = (HashMap::new(), Vec::new());
        Self { number, client, file, under_way, acknowledged, made, sequence: 0 }
    }

    /// Works until the connection ends.
    fn start(mut self) -> JoinHandle<Self> {
        std::thread::spawn(move || {
            while self.step().is_ok() {}
            self
        })
    }

    fn step(&mut self) -> io::Result<()> {
        while self.under_way.len() < WINDOW {
            self.write()?;
        }
        let reply = self.client.receive()?;
        if reply.status == PENDING {
            return Ok(());
        }
        assert_eq!(reply.status, SUCCESS);
        match self.under_way.remove(&reply.message_id).expect("it was asked") {
            PendingRequest::Write { pages, sequence } => {
                pages.for_each(|page| self.acknowledged[page as usize] = sequence);
            }
            PendingRequest::Make(name) => self.made.push(name),
        }
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        self.sequence += 1;
        let sequence = self.sequence;
        if sequence.is_multiple_of(WRITES_PER_FILE) {
            let name = format!("made by {} at {sequence}", self.number);
            let body = RawSmbClient::create_body(&name);
            self.send(CREATE, &body, PendingRequest::Make(name))?;
        }
        let mut random = (self.number << 32 ^ sequence).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
        let pages = loop {
            let start = random % PAGES;
            let end = (start + 1 + random / PAGES % WRITE_PAGES_MAX).min(PAGES);
            // Two writes of one page may be carried out in any order.
            if self.under_way.values().all(|sent| is_apart(sent, start..end)) {
                break start..end;
            }
            random = random.wrapping_mul(31).wrapping_add(17);
        };
        let data: Vec<u8> =
            pages.clone().flat_map(|page| content(self.number, sequence, page)).collect();
        let body = RawSmbClient::write_body(self.file, pages.start * PAGE as u64, &data);
        self.send(WRITE, &body, PendingRequest::Write { pages, sequence })
    }

    fn send(&mut self, command: u16, body: &[u8], sent: PendingRequest) -> io::Result<()> {
        let id = self.client.next_id;
        let message = self.client.message(command, body);
        self.under_way.insert(id, sent);
        self.client.stream.write_all(&frame(&message))
    }

    /// True if a page holds its last acknowledged write or one that was in flight, complete in
    /// either case.
    fn check(&self, page: u64, found: &[u8]) {
        let last = self.acknowledged[page as usize];
        let found = if found.is_empty() { &[0; PAGE][..] } else { found };
        let sequence = u64::from_le_bytes(found[..8].try_into().unwrap());
        let whole =
            if sequence == 0 { vec![0; PAGE] } else { content(self.number, sequence, page) };
        assert!(found == whole, "writer {} page {page}: torn", self.number);
        let may_be = sequence == last || self.under_way.values().any(|sent| {
            matches!(sent, PendingRequest::Write { pages, sequence: s } if *s == sequence && pages.contains(&page))
        });
        assert!(may_be, "writer {} page {page}: {sequence} instead of {last}", self.number);
    }
}

fn is_apart(sent: &PendingRequest, other: Range<u64>) -> bool {
    match sent {
        PendingRequest::Write { pages, .. } => pages.end <= other.start || other.end <= pages.start,
        PendingRequest::Make(_) => true,
    }
}

/// All pages of a file, through the server.
fn read_back(client: &mut RawSmbClient, name: &str) -> Vec<u8> {
    let file = client.create(name);
    let mut bytes = Vec::new();
    while bytes.len() < PAGES as usize * PAGE {
        let body = RawSmbClient::read_body(
            file,
            bytes.len() as u64,
            (WRITE_PAGES_MAX as usize * PAGE) as u32,
        );
        let reply = client.call(READ, &body);
        if reply.status != SUCCESS {
            break;
        }
        bytes.extend_from_slice(reply.data());
    }
    bytes
}

#[test]
fn acknowledged_writes_of_several_writers_survive_kill() {
    let mut server = Setup::new().start();
    for (round, after) in KILLS_AFTER.into_iter().enumerate() {
        let first = round as u64 * WRITERS;
        let writers: Vec<_> =
            (first..first + WRITERS).map(|n| OverwritingClient::new(&server, n).start()).collect();
        let begun = |n| std::fs::metadata(server.data().join(name(n))).is_ok_and(|m| m.len() > 0);
        wait_for("the writers", || (first..first + WRITERS).all(begun).then_some(()));
        std::thread::sleep(Duration::from_millis(after));
        server = server.kill().start();
        let writers: Vec<OverwritingClient> =
            writers.into_iter().map(|w| w.join().unwrap()).collect();

        let mut client = RawSmbClient::ready(&server);
        for writer in &writers {
            let found = read_back(&mut client, &name(writer.number));
            let pages = found.chunks(PAGE).chain(std::iter::repeat(&[][..]));
            (0..PAGES).zip(pages).for_each(|(page, bytes)| writer.check(page, bytes));
            for name in &writer.made {
                assert!(server.data().join(name).exists(), "{name} was acknowledged");
            }
        }
        let writes: u64 = writers.iter().map(|w| w.sequence).sum();
        let made: usize = writers.iter().map(|w| w.made.len()).sum();
        assert!(writers.iter().all(|w| w.acknowledged.iter().any(|sequence| *sequence > 0)));
        println!("killed after {after} ms: {writes} writes and {made} files, all there");
    }
}
