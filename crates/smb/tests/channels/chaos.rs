//! Random schedules of logons, bindings, disconnects, logoffs and re-authentications, compared with
//! a model after every step. A seed repeats a run.

use crate::harness::{ALICE, ConnectedClient, Net};
use smb::limits::CHANNELS_PER_SESSION;
use std::collections::BTreeMap;
use wire::ntstatus::NtStatus;
use wire::smb::{Command, FileId, SessionId};

/// Seeds of the test, and steps of each.
const SEEDS: u64 = 300;
const STEPS: usize = 120;
/// Connections at once.
const CONNECTIONS_MAX: usize = 10;

/// Pseudo-random numbers (splitmix64).
struct ChaosRandom(u64);

impl ChaosRandom {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}

/// The role of a connection for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionRole {
    /// A channel of a session, which may have ended.
    Channel,
    /// A binding in progress, with the keys of that connection.
    Binding(usize),
}

struct ChaosConnection {
    client: ConnectedClient,
    part: ConnectionRole,
}

/// The expected state of a session.
#[derive(Default)]
struct ExpectedSession {
    channels: usize,
    files: Vec<FileId>,
}

struct SessionModel {
    net: Net,
    random: ChaosRandom,
    /// Lost connections stay, because the client still knows their keys.
    connections: Vec<Option<ChaosConnection>>,
    keys: Vec<ConnectedClient>,
    sessions: BTreeMap<u64, ExpectedSession>,
}

impl SessionModel {
    fn new(seed: u64) -> Self {
        Self {
            net: Net::new(),
            random: ChaosRandom(seed),
            connections: (0..CONNECTIONS_MAX).map(|_| None).collect(),
            keys: Vec::new(),
            sessions: BTreeMap::new(),
        }
    }

    fn step(&mut self) {
        let at = self.random.below(CONNECTIONS_MAX);
        let Some(mut connection) = self.connections[at].take() else {
            self.connections[at] = self.connect();
            return;
        };
        let id = connection.client.session;
        let kept = match connection.part {
            ConnectionRole::Binding(first) => self.go_on_binding(&mut connection, first),
            ConnectionRole::Channel => match self.random.below(12) {
                0 | 1 => self.cut(&mut connection, true),
                2 => self.log_off(&mut connection),
                3 => self.renew(&mut connection),
                4 | 5 => self.create(&mut connection),
                6 => self.close(&mut connection),
                _ => {
                    let alive = self.sessions.contains_key(&id.0);
                    let wanted =
                        if alive { NtStatus::SUCCESS } else { NtStatus::USER_SESSION_DELETED };
                    assert_eq!(connection.client.plain(Command::ECHO), wanted);
                    true
                }
            },
        };
        if kept {
            self.connections[at] = Some(connection);
        }
    }

    /// A new session, or the first step of a binding to a present or former one.
    fn connect(&mut self) -> Option<ChaosConnection> {
        if self.keys.is_empty() || self.random.below(3) == 0 {
            let client = self.net.ready();
            let expected = ExpectedSession { channels: 1, ..ExpectedSession::default() };
            self.sessions.insert(client.session.0, expected);
            self.keys.push(client.twin());
            return Some(ChaosConnection { client, part: ConnectionRole::Channel });
        }
        // One of the latest sessions.
        let first = self.keys.len() - 1 - self.random.below(self.keys.len().min(4));
        let mut client = self.net.connect();
        let status = client.begin_binding(&self.keys[first]);
        let wanted = match self.sessions.get(&self.keys[first].session.0) {
            None => NtStatus::USER_SESSION_DELETED,
            Some(s) if s.channels >= CHANNELS_PER_SESSION => NtStatus::INSUFFICIENT_RESOURCES,
            Some(_) => NtStatus::MORE_PROCESSING_REQUIRED,
        };
        assert_eq!(status, wanted);
        if status == NtStatus::MORE_PROCESSING_REQUIRED {
            return Some(ChaosConnection { client, part: ConnectionRole::Binding(first) });
        }
        client.cut();
        None
    }

    fn go_on_binding(&mut self, connection: &mut ChaosConnection, first: usize) -> bool {
        if self.random.below(4) == 0 {
            return self.cut(connection, false);
        }
        let id = self.keys[first].session;
        let status = connection.client.end_binding(&self.keys[first], ALICE);
        let wanted = match self.sessions.get_mut(&id.0) {
            None => NtStatus::USER_SESSION_DELETED,
            Some(s) if s.channels >= CHANNELS_PER_SESSION => NtStatus::INSUFFICIENT_RESOURCES,
            Some(s) => {
                s.channels += 1;
                NtStatus::SUCCESS
            }
        };
        assert_eq!(status, wanted);
        connection.part = ConnectionRole::Channel;
        if status == NtStatus::SUCCESS { true } else { self.cut(connection, false) }
    }

    fn cut(&mut self, connection: &mut ChaosConnection, counts: bool) -> bool {
        connection.client.lose();
        let id = connection.client.session.0;
        if let Some(session) = self.sessions.get_mut(&id).filter(|_| counts) {
            session.channels -= 1;
            if session.channels == 0 {
                self.sessions.remove(&id);
            }
        }
        false
    }

    fn log_off(&mut self, connection: &mut ChaosConnection) -> bool {
        let was = self.sessions.remove(&connection.client.session.0).is_some();
        let wanted = if was { NtStatus::SUCCESS } else { NtStatus::USER_SESSION_DELETED };
        assert_eq!(connection.client.plain(Command::LOGOFF), wanted);
        true
    }

    fn renew(&mut self, connection: &mut ChaosConnection) -> bool {
        let id = connection.client.session.0;
        let right = self.random.below(4) > 0;
        let password = if right { "a right password" } else { "a wrong password" };
        let wanted = match (self.sessions.contains_key(&id), right) {
            (false, _) => NtStatus::USER_SESSION_DELETED,
            (true, true) => NtStatus::SUCCESS,
            (true, false) => NtStatus::LOGON_FAILURE,
        };
        assert_eq!(connection.client.renew(ALICE, password), wanted);
        if !right {
            self.sessions.remove(&id);
        }
        connection.client.session = SessionId(id);
        true
    }

    fn create(&mut self, connection: &mut ChaosConnection) -> bool {
        if let Some(session) = self.sessions.get_mut(&connection.client.session.0) {
            let name = format!("f{}", self.random.below(3));
            session.files.push(connection.client.create(&name, 0));
        }
        true
    }

    /// Closes a file on any channel, which any channel may have opened.
    fn close(&mut self, connection: &mut ChaosConnection) -> bool {
        if let Some(session) = self.sessions.get_mut(&connection.client.session.0)
            && let Some(file) = session.files.pop()
        {
            assert_eq!(connection.client.close(file), NtStatus::SUCCESS);
        }
        true
    }

    /// Compares the server's state with the model.
    fn check(&self) {
        let sessions = self.net.server.snapshot().sessions;
        let found: BTreeMap<u64, (usize, usize)> =
            sessions.iter().map(|s| (s.id, (s.channels.len(), s.opens.len()))).collect();
        let expected: BTreeMap<u64, (usize, usize)> =
            self.sessions.iter().map(|(id, s)| (*id, (s.channels, s.files.len()))).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn random_schedules_match_the_session_model() {
    for seed in 0..SEEDS {
        let run = std::panic::catch_unwind(|| {
            let mut world = SessionModel::new(seed);
            for _ in 0..STEPS {
                world.step();
                world.check();
            }
            world.connections.clear();
            world.net.assert_empty();
        });
        assert!(run.is_ok(), "seed {seed}");
    }
}
