//! Moves of hostile NFS clients, and of the victim in between.
//!
//! With AUTH_SYS a client's kernel vouches for its users. Hostile clients claim only their own
//! users, and the superuser, whom the share maps to nobody. They know the victim's owner string,
//! client id, state ids and file handles. A session id is a secret of its client: without state
//! protection it is the client's only proof (RFC 8881 2.10.8.3).

use super::link::{percent, pick};
use super::moves::Episode;
use super::nfs_link::{NfsIntroduction, NfsLink, NfsReply};
use super::nfs_requests::NfsAims;
use super::surroundings::EpisodeUser;
use super::victim::SECRET;
use crate::mutate::{Rng, mutate};
use wire::nfs::ops::{
    BindConnToSessionArgs, ChannelFromClient, DestroyClientIdArgs, DestroySessionArgs,
    ExchangeIdFlags, LockReply, Operation, OperationResult,
};
use wire::nfs::{ClientId, NfsSessionId, NfsStatus, StateId};

/// NFS connections of hostile clients.
const LINKS_MAX: usize = 4;
/// State ids and handles that a client continues to use.
const KNOWN_MAX: usize = 8;
/// Largest mutated record in bytes.
const RECORD_BYTES_MAX: usize = 4096;

fn push_latest<T>(list: &mut Vec<T>, new: Option<T>) {
    if list.len() == KNOWN_MAX {
        list.remove(0);
    }
    list.extend(new);
}

/// True if the bytes contain the victim's secret.
fn leaks(bytes: &[u8]) -> bool {
    bytes.windows(SECRET.len()).any(|window| window == SECRET)
}

impl Episode {
    /// Connects a hostile client with its own session.
    pub(super) fn nfs_connect(&mut self, rng: &mut Rng) {
        let user = pick(rng, &EpisodeUser::HOSTILE);
        let number = self.next_connection();
        if self.nfs_links.len() == LINKS_MAX {
            self.nfs_links.swap_remove(rng.below(LINKS_MAX));
        }
        let mut link = NfsLink::connect(&self.nfs, user, number);
        if link.begin(&self.around) {
            self.counts.add("NFS session");
        }
        self.nfs_links.push(link);
    }

    fn pick_nfs(&mut self, rng: &mut Rng) -> Option<usize> {
        if self.nfs_links.is_empty() {
            self.nfs_connect(rng);
        }
        let at = rng.below(self.nfs_links.len());
        let link = self.nfs_links.get_mut(at)?;
        link.uid = match rng.below(20) {
            0 | 1 => 0,
            2 => u32::MAX,
            _ => link.user.uid(),
        };
        Some(at)
    }

    /// EXCHANGE_ID with the victim's owner string. RFC 8881 18.35.4.
    pub(super) fn nfs_claim(&mut self, rng: &mut Rng) {
        let Some(at) = self.pick_nfs(rng) else { return };
        let (owner, victims) = (self.nfs_victim.link.owner.clone(), self.nfs_victim.link.client);
        let flags = pick(rng, &[0, 0, ExchangeIdFlags::UPD_CONFIRMED_REC_A.0]);
        let introduction = NfsIntroduction { owner: &owner, life: 1 + rng.below(2) as u8, flags };
        let link = &mut self.nfs_links[at];
        if let Some((client, sequence)) = link.exchange_id(&self.around, introduction) {
            assert_ne!(client, victims, "another principal introduced itself as the victim");
            link.create_session(&self.around, client, sequence);
        }
        self.counts.add("NFS claim of the victim's name");
    }

    /// Refers to the victim's client and sessions as another principal.
    pub(super) fn nfs_foreign_client(&mut self, rng: &mut Rng) {
        let Some(at) = self.pick_nfs(rng) else { return };
        let client_id = self.nfs_victim.link.client;
        let session_id = self.guess_session(rng);
        let link = &mut self.nfs_links[at];
        let own = link.session;
        let status = match rng.below(4) {
            0 | 1 => {
                let status = link.create_session(&self.around, client_id, 1 + rng.below(3) as u32);
                link.session = own;
                status
            }
            2 => {
                let operation = Operation::DestroyClientId(DestroyClientIdArgs { client_id });
                let reply = link.call_alone(&self.around, &operation);
                reply.and_then(|reply| reply.last()).map(|(_, status)| status)
            }
            _ => {
                let direction = ChannelFromClient::ForeOrBoth;
                let (use_rdma, ends) = (false, percent(rng, 50));
                let bind = BindConnToSessionArgs { session_id, direction, use_rdma };
                let operation = if ends {
                    Operation::DestroySession(DestroySessionArgs { session_id })
                } else {
                    Operation::BindConnToSession(bind)
                };
                let reply = link.call_alone(&self.around, &operation);
                reply.and_then(|reply| reply.last()).map(|(_, status)| status)
            }
        };
        let is_done = status.is_some_and(NfsStatus::is_ok);
        assert!(!is_done, "another principal acted for the victim's client");
        self.counts.add("NFS client of the victim refused");
    }

    /// A guess of the victim's session id: everything but its random half.
    fn guess_session(&self, rng: &mut Rng) -> NfsSessionId {
        let mut id = self.nfs_victim.link.session.map_or([0; 16], |id| id.0);
        id[..8].copy_from_slice(&rng.number().to_be_bytes());
        NfsSessionId(id)
    }

    pub(super) fn nfs_request(&mut self, rng: &mut Rng) {
        let Some(at) = self.pick_nfs(rng) else { return };
        let victims = self.nfs_victim.state_ids();
        let handles = &[&self.nfs_victim.handles[..], &self.nfs_links[at].handles].concat();
        let own = self.with_borrowed_tag(rng, at);
        let victims_client = self.nfs_victim.link.client;
        let aims = NfsAims { own: &own, victims: &victims, handles, victims_client };
        let request = aims.any(rng);
        let Some(reply) = self.nfs_links[at].call(&self.around, request.list) else { return };
        self.look_at_nfs_reply(at, request.has_victims_id, &reply);
    }

    /// The client's state ids; the last may carry a number of the victim's.
    fn with_borrowed_tag(&self, rng: &mut Rng, at: usize) -> Vec<StateId> {
        let mut own = self.nfs_links[at].own.clone();
        if let (Some(last), true) = (own.last_mut(), percent(rng, 20)) {
            last.other[4..].copy_from_slice(&(rng.below(6) as u64).to_be_bytes());
            last.seqid = 0;
        }
        own
    }

    fn look_at_nfs_reply(&mut self, at: usize, has_victims_id: bool, reply: &NfsReply) {
        assert!(!leaks(&reply.bytes), "a client received the victim's secret over NFS");
        if !reply.is_ok() {
            return self.counts.add("NFS operations refused");
        }
        assert!(!has_victims_id, "a state id of the victim's client: {:?}", reply.statuses);
        self.counts.add("NFS operations");
        let new = reply.result(|result| match result {
            OperationResult::Open(Ok(opened)) => Some(opened.state_id),
            OperationResult::Lock(LockReply::Granted(id)) => Some(id),
            _ => None,
        });
        let handle = reply.result(|result| match result {
            OperationResult::GetFh(Ok(handle)) => Some(handle),
            _ => None,
        });
        if new.is_some() {
            self.counts.add("NFS states");
        }
        let link = &mut self.nfs_links[at];
        push_latest(&mut link.own, new);
        push_latest(&mut link.handles, handle);
    }

    /// Sends a mutated record.
    pub(super) fn nfs_mutate(&mut self, rng: &mut Rng) {
        let Some(at) = self.pick_nfs(rng) else { return };
        let (victims, handles) = (self.nfs_victim.state_ids(), &self.nfs_victim.handles);
        let victims_client: ClientId = self.nfs_victim.link.client;
        let aims = NfsAims { own: &victims, victims: &victims, handles, victims_client };
        let request = aims.any(rng);
        let link = &mut self.nfs_links[at];
        let (known, sequence) = (link.last_record.clone(), link.sequence);
        let Some(record) = link.in_session(&request.list) else { return };
        // The credentials stay, because a client vouches for its own users only.
        let Some(head) = record.len().checked_sub(request.list.bytes.len()) else { return };
        let tail = known.get(head..).unwrap_or_default().to_vec();
        let changed = mutate(rng, &[request.list.bytes, tail], RECORD_BYTES_MAX);
        let record = [&record[..head], &changed].concat();
        match link.send(&self.around, record) {
            Some(reply) => self.look_at_nfs_reply(at, false, &reply),
            None => link.sequence = sequence,
        }
        self.counts.add("NFS mutated");
    }

    /// Replays a record of the victim without its session, or one of the client's own.
    pub(super) fn nfs_replay(&mut self, rng: &mut Rng) {
        let Some(at) = self.pick_nfs(rng) else { return };
        let record = self.nfs_links[at].last_record.clone();
        if let Some(reply) = self.nfs_links[at].send(&self.around, record) {
            self.look_at_nfs_reply(at, false, &reply);
        }
        self.counts.add("NFS replay");
    }

    pub(super) fn nfs_victim_acts(&mut self, rng: &mut Rng) {
        match rng.below(6) {
            0 => self.nfs_victim.exchange_id_again(&self.around),
            1 | 2 => self.nfs_victim.lock_again(&self.around),
            _ => self.nfs_victim.write(&self.around, &mut self.victim),
        }
    }

    /// Asserts that no delayed reply to a hostile NFS client contains the victim's secret.
    pub(super) fn check_late_replies(&mut self) {
        for link in &mut self.nfs_links {
            link.poll();
            for bytes in link.take_delayed() {
                assert!(!leaks(&bytes), "a client received the victim's secret over NFS");
            }
        }
    }
}
