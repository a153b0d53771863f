//! Random schedules of channel events against the built server: bind, refused bind, loss with a
//! request in flight, replay, reauthentication, LOGOFF. Acknowledged writes are present,
//! others are present whole or not at all, and other sessions are unaffected.
//!
//! `ANABRANCH_SCHEDULES` gives how many (20), `ANABRANCH_SEED` the first one's seed.

use crate::support::channel::{
    LOGOFF, SUCCESS, SignedRequest, SigningChannel, USER_SESSION_DELETED, status_of,
};
use crate::support::client::{
    CLOSE, CREATE, FILE_NOT_AVAILABLE, FLUSH, READ, RawFileId, RawSmbClient, TREE_CONNECT, WRITE,
};
use crate::support::{MeasuringTurn, ServerProcess, Setup, wait_for};
use std::net::Shutdown;

/// Concurrent sessions.
const SESSIONS: u64 = 3;
const STEPS: usize = 60;
const BLOCKS: u64 = 16;
const BLOCK: usize = 16 * 1024;
/// The server's maximum of channels for one session.
const CHANNELS: usize = 4;

/// Seeded generator of the schedule: SplitMix64 with its published constants.
struct ScheduleRandom(u64);

impl ScheduleRandom {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).expect("it is small")
    }
}

/// A session, its channels, and the file that it alone writes to.
struct ChaosSession<'a> {
    server: &'a ServerProcess,
    random: ScheduleRandom,
    name: String,
    channels: Vec<SigningChannel>,
    tree: u32,
    file: RawFileId,
    sequence: u16,
    /// The last acknowledged value of each block.
    blocks: [u8; BLOCKS as usize],
}

impl<'a> ChaosSession<'a> {
    fn new(server: &'a ServerProcess, seed: u64, number: u64) -> Self {
        let mut session = Self {
            server,
            random: ScheduleRandom(seed ^ (number << 32)),
            name: format!("chaos-{seed}-{number}"),
            channels: vec![SigningChannel::ready(server.smb)],
            tree: 0,
            file: RawFileId::default(),
            sequence: 0,
            blocks: [0; BLOCKS as usize],
        };
        session.open();
        session
    }

    fn open(&mut self) {
        let path: Vec<u8> = r"\\TEST\data".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let mut body = vec![9, 0, 0, 0, 72, 0];
        body.extend_from_slice(&u16::try_from(path.len()).expect("it is short").to_le_bytes());
        body.extend_from_slice(&path);
        let reply = self.channels[0].ask(SignedRequest {
            command: TREE_CONNECT,
            body: &body,
            ..SignedRequest::default()
        });
        let reply = reply.expect("an answer");
        assert_eq!(status_of(&reply), SUCCESS);
        self.tree = u32::from_le_bytes(reply[36..40].try_into().expect("4 bytes"));
        let reply = self.ask(0, CREATE, &RawSmbClient::create_body(&self.name.clone()));
        assert_eq!(status_of(&reply), SUCCESS);
        self.file = reply[128..144].try_into().expect("16 bytes");
    }

    fn asked<'b>(&self, command: u16, body: &'b [u8]) -> SignedRequest<'b> {
        SignedRequest { command, tree: self.tree, sequence: self.sequence, replays: false, body }
    }

    fn ask(&mut self, at: usize, command: u16, body: &[u8]) -> Vec<u8> {
        let asked = self.asked(command, body);
        self.channels[at].ask(asked).expect("a channel that nobody cut")
    }

    fn step(&mut self) {
        let at = self.random.below(self.channels.len());
        match self.random.below(12) {
            0 | 1 if self.channels.len() < CHANNELS => self.bind(),
            2 => self.fail_to_bind(),
            3 => assert_eq!(self.channels[at].reauthenticate(), SUCCESS),
            4 | 5 if self.channels.len() > 1 => self.cut(at),
            6 => {
                assert_eq!(
                    status_of(&self.ask(at, FLUSH, &RawSmbClient::flush_body(self.file))),
                    SUCCESS
                )
            }
            7 | 8 => self.look(at),
            _ => self.write(at),
        }
    }

    /// The server may learn of a dead channel a little later than its client.
    fn bind(&mut self) {
        let next = wait_for("room for a channel", || {
            let mut next = SigningChannel::connect(self.server.smb);
            (next.bind(&self.channels[0]) == SUCCESS).then_some(next)
        });
        self.channels.push(next);
    }

    fn fail_to_bind(&mut self) {
        let mut stranger = SigningChannel::connect(self.server.smb);
        stranger.session = self.channels[0].session;
        let refused = stranger.set_up(1, Some(&SigningChannel::forged_key()), b"NTLMSSP\0");
        assert_ne!(status_of(&refused.expect("an answer")), SUCCESS);
    }

    fn pick_block(&mut self) -> (u64, u8) {
        let block = self.random.below(self.blocks.len());
        (block as u64, self.blocks[block].wrapping_add(1))
    }

    fn write_body(&self, block: u64, value: u8) -> Vec<u8> {
        RawSmbClient::write_body(self.file, block * BLOCK as u64, &[value; BLOCK])
    }

    fn write(&mut self, at: usize) {
        let (block, value) = self.pick_block();
        let body = self.write_body(block, value);
        assert_eq!(status_of(&self.ask(at, WRITE, &body)), SUCCESS);
        self.blocks[block as usize] = value;
    }

    /// Loses a channel while a write is in flight; the client resends the write on another channel.
    fn cut(&mut self, at: usize) {
        let (block, value) = self.pick_block();
        let body = self.write_body(block, value);
        let mut dying = self.channels.swap_remove(at);
        let asked = self.asked(WRITE, &body);
        dying.begin(asked).expect("it was alive");
        match self.random.below(3) {
            0 => drop(dying.stream.shutdown(Shutdown::Both)),
            // The rest of the frame is never sent.
            1 => drop(std::io::Write::write_all(&mut dying.stream, &[0, 0, 9, 9, 0xFE])),
            // Nobody reads the reply.
            _ => {}
        }
        drop(dying);
        self.sequence = self.sequence.wrapping_add(1);
        let other = self.random.below(self.channels.len());
        wait_for("the first sending's end", || {
            let again = SignedRequest { replays: true, ..self.asked(WRITE, &body) };
            let reply = self.channels[other].ask(again).expect("a channel that nobody cut");
            match status_of(&reply) {
                SUCCESS => Some(()),
                FILE_NOT_AVAILABLE => None,
                other => panic!("a replayed write: {other:#x}"),
            }
        });
        self.blocks[block as usize] = value;
    }

    /// Checks that a block has its acknowledged value.
    fn look(&mut self, at: usize) {
        let block = self.random.below(self.blocks.len());
        self.check(at, block);
    }

    fn check(&mut self, at: usize, block: usize) {
        let length = u32::try_from(BLOCK).expect("it is small");
        let body = RawSmbClient::read_body(self.file, (block * BLOCK) as u64, length);
        let reply = self.ask(at, READ, &body);
        let wanted = self.blocks[block];
        let data = reply.get(80..).unwrap_or_default();
        let holds = match status_of(&reply) {
            SUCCESS => data.iter().all(|byte| *byte == wanted),
            // The block lies beyond the end of the file.
            _ => wanted == 0,
        };
        assert!(holds, "{}: block {block} is not {wanted}: {:?}", self.name, data.first());
    }

    /// Logs off on one channel while the others work; all of them lose the session. The next
    /// session reads the written blocks.
    fn end(mut self) {
        let ender = self.random.below(self.channels.len());
        let mut ender = self.channels.swap_remove(ender);
        std::thread::scope(|scope| {
            for mut channel in self.channels.drain(..) {
                scope.spawn(move || {
                    let ended = loop {
                        match channel.plain(crate::support::channel::ECHO).expect("an answer") {
                            SUCCESS => {}
                            ended => break ended,
                        }
                    };
                    assert_eq!(ended, USER_SESSION_DELETED);
                });
            }
            assert_eq!(ender.plain(LOGOFF).expect("an answer"), SUCCESS);
        });
        self.channels.push(SigningChannel::ready(self.server.smb));
        self.sequence = 0;
        self.open();
        (0..self.blocks.len()).for_each(|block| self.check(0, block));
        assert_eq!(status_of(&self.ask(0, CLOSE, &RawSmbClient::close_body(self.file))), SUCCESS);
    }
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[test]
fn acknowledged_writes_survive_random_channel_faults() {
    let _turn = MeasuringTurn::wait();
    let server = Setup::new().start();
    let first = number("ANABRANCH_SEED", 1);
    for seed in first..first + number("ANABRANCH_SCHEDULES", 20) {
        println!("seed {seed}");
        std::thread::scope(|scope| {
            for session in 0..SESSIONS {
                let server = &server;
                scope.spawn(move || {
                    let mut session = ChaosSession::new(server, seed, session);
                    (0..STEPS).for_each(|_| session.step());
                    session.end();
                });
            }
        });
    }
    let mut last = SigningChannel::ready(server.smb);
    assert_eq!(last.plain(crate::support::channel::ECHO).expect("an answer"), SUCCESS);
}
