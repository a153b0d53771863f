//! Table of clients: owner strings, incarnations, and confirmation. RFC 8881 18.35, 18.36.4, 18.50.
//!
//! Pure except for the lock around it: no clock, no messages. Removed clients are returned, so that
//! the caller ends their sessions and closes their files outside the lock.

use crate::clients::client::{ClientEnvironment, ClientIncarnation, ExchangeIdRequest};
use crate::limits::UNCONFIRMED_CLIENTS_MAX;
use crate::state::client_record::ClientRecord;
use crate::state::holdings::NfsHoldings;
use limits::{LedgerHolder, ResourceCharge, ResourceExhausted};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use vfs::KeyedBuildHasher;
use wire::nfs::{ClientId, NfsStatus};

/// Outcome of EXCHANGE_ID.
#[derive(Debug)]
pub struct ExchangeIdOutcome {
    /// The selected or new client.
    pub client: Arc<ClientIncarnation>,
    /// Clients that it has removed.
    pub ended: Vec<Arc<ClientIncarnation>>,
}

/// Up to two records of one owner string: the confirmed one, and one that would replace it.
#[derive(Debug, Default)]
struct OwnerRecords {
    confirmed: Option<Arc<ClientIncarnation>>,
    unconfirmed: Option<Arc<ClientIncarnation>>,
}

/// All clients of the server.
#[derive(Debug)]
pub struct ClientTable {
    lease: Duration,
    next: u32,
    /// By owner string.
    owners: HashMap<Vec<u8>, OwnerRecords, KeyedBuildHasher>,
    /// By the lower half of the client id.
    ids: HashMap<u32, ClientEntry, KeyedBuildHasher>,
    /// Numbers of unconfirmed clients by address, oldest first.
    unconfirmed: HashMap<LedgerHolder, BTreeSet<u32>>,
    unconfirmed_count: usize,
    common: ClientEnvironment,
}

/// A client in the table.
#[derive(Debug)]
struct ClientEntry {
    client: Arc<ClientIncarnation>,
    /// Charge to its address.
    _share: ResourceCharge,
}

impl ClientTable {
    /// An empty table. `secret` must be random.
    #[must_use]
    pub fn new(lease: Duration, secret: [u8; 8], holdings: Arc<NfsHoldings>) -> Self {
        let (owners, ids) = (HashMap::default(), HashMap::default());
        let (unconfirmed, unconfirmed_count) = (HashMap::new(), 0);
        let common = ClientEnvironment { secret, holdings };
        Self { lease, next: 1, owners, ids, unconfirmed, unconfirmed_count, common }
    }

    /// Evicts the courtesy client that expired first, among those that hold (`has`) the exhausted
    /// resource.
    pub fn evict_courtesy_client(
        &mut self,
        now: Instant,
        has: impl Fn(&ClientIncarnation) -> bool,
    ) -> Option<Arc<ClientIncarnation>> {
        let is_expired =
            |client: &&Arc<ClientIncarnation>| client.is_expired(now, self.lease) && has(client);
        let eldest = self.iter().filter(is_expired).min_by_key(|client| client.renewed()).cloned();
        eldest.inspect(|client| self.remove(client))
    }

    /// All clients.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<ClientIncarnation>> {
        self.ids.values().map(|record| &record.client)
    }

    /// Whether a confirmed client matches the record.
    #[must_use]
    pub fn has_confirmed(&self, record: &ClientRecord) -> bool {
        let confirmed = self.owners.get(&record.owner).and_then(|owner| owner.confirmed.as_ref());
        confirmed.is_some_and(|client| record.is_of(&client.owner, client.principal))
    }

    /// The client with this lower half of the id.
    #[must_use]
    pub fn numbered(&self, number: u32) -> Option<Arc<ClientIncarnation>> {
        self.ids.get(&number).map(|record| record.client.clone())
    }

    /// The client with this id.
    ///
    /// # Errors
    /// STALE_CLIENTID if there is none.
    pub fn find(&self, id: ClientId) -> Result<Arc<ClientIncarnation>, NfsStatus> {
        let client = self.numbered(number_of(id)).filter(|client| client.id == id);
        client.ok_or(NfsStatus::STALE_CLIENTID)
    }

    /// Executes EXCHANGE_ID: the nine cases of RFC 8881 18.35.4.
    ///
    /// # Errors
    /// For an update NOENT without a confirmed record, NOT_SAME for another incarnation, PERM for
    /// another principal. CLID_INUSE if another principal's client uses the owner string. DELAY if
    /// there are too many clients.
    pub fn exchange_id(
        &mut self,
        who: ExchangeIdRequest,
        now: Instant,
    ) -> Result<ExchangeIdOutcome, NfsStatus> {
        let confirmed = self.owners.get(&who.owner).and_then(|owner| owner.confirmed.clone());
        if who.updates {
            return update(confirmed, &who);
        }
        let Some(present) = confirmed else {
            // Cases 1 and 4: a new client, or replacement of an unconfirmed one.
            return self.add(who, now);
        };
        let is_same = present.verifier == who.verifier;
        match (present.principal == who.principal, is_same) {
            // Case 2: a retransmission or a further connection.
            (true, true) => {
                present.renew(now);
                Ok(ExchangeIdOutcome { client: present, ended: Vec::new() })
            }
            // Case 5: a restarted client. The old state stays until the new record is confirmed.
            (true, false) => self.add(who, now),
            // Case 3: another client with the same owner string.
            (false, _) => {
                if present.is_in_use() && !present.is_expired(now, self.lease) {
                    return Err(NfsStatus::CLID_INUSE);
                }
                self.remove(&present);
                let mut outcome = self.add(who, now)?;
                outcome.ended.push(present);
                Ok(outcome)
            }
        }
    }

    fn add(
        &mut self,
        who: ExchangeIdRequest,
        now: Instant,
    ) -> Result<ExchangeIdOutcome, NfsStatus> {
        let mut ended = Vec::new();
        let former = self.owners.get(&who.owner).and_then(|owner| owner.unconfirmed.clone());
        let is_crowded = self.unconfirmed_count >= UNCONFIRMED_CLIENTS_MAX;
        ended.extend(former.or_else(|| is_crowded.then(|| self.oldest_unconfirmed()).flatten()));
        ended.iter().for_each(|client| self.remove(client));
        let account = self.common.holdings.clients.account(&who.holder);
        let share = loop {
            match account.take(1) {
                Ok(share) => break share,
                // Unconfirmed and courtesy clients make room for a new client.
                Err(ResourceExhausted) => ended.push(self.make_room(&who.holder, now)?),
            }
        };
        let number = self.free_number();
        let id = ClientId(u64::from(who.id_high) << 32 | u64::from(number));
        let client = Arc::new(ClientIncarnation::new(id, who, now, self.common.clone()));
        self.owners.entry(client.owner.clone()).or_default().unconfirmed = Some(client.clone());
        self.unconfirmed.entry(client.holder.clone()).or_default().insert(number);
        self.unconfirmed_count += 1;
        self.ids.insert(number, ClientEntry { client: client.clone(), _share: share });
        Ok(ExchangeIdOutcome { client, ended })
    }

    /// Evicts a client in favour of `holder`: an unconfirmed one of the same address, else the
    /// courtesy client that expired first.
    fn make_room(
        &mut self,
        holder: &LedgerHolder,
        now: Instant,
    ) -> Result<Arc<ClientIncarnation>, NfsStatus> {
        let own = self.unconfirmed.get(holder).and_then(|numbers| numbers.first().copied());
        if let Some(client) = own.and_then(|number| self.numbered(number)) {
            self.remove(&client);
            return Ok(client);
        }
        self.evict_courtesy_client(now, |_| true).ok_or(NfsStatus::DELAY)
    }

    /// An unused number, also after the counter has wrapped.
    fn free_number(&mut self) -> u32 {
        while self.ids.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        number
    }

    /// The oldest unconfirmed client of the address with most of them.
    fn oldest_unconfirmed(&self) -> Option<Arc<ClientIncarnation>> {
        let most = self.unconfirmed.values().max_by_key(|numbers| numbers.len())?;
        self.numbered(*most.first()?)
    }

    fn remove_unconfirmed(&mut self, client: &ClientIncarnation) {
        let Some(numbers) = self.unconfirmed.get_mut(&client.holder) else { return };
        if numbers.remove(&number_of(client.id)) {
            self.unconfirmed_count -= 1;
        }
        if numbers.is_empty() {
            self.unconfirmed.remove(&client.holder);
        }
    }

    /// Confirms a client that has created a session. Returns the record of its earlier incarnation,
    /// if there was one. RFC 8881 18.36.4, third phase.
    pub fn confirm(&mut self, client: &Arc<ClientIncarnation>) -> Option<Arc<ClientIncarnation>> {
        let owner = self.owners.get_mut(&client.owner)?;
        owner.unconfirmed.take_if(|unconfirmed| Arc::ptr_eq(unconfirmed, client))?;
        let former = owner.confirmed.replace(client.clone());
        client.confirm();
        self.remove_unconfirmed(client);
        if let Some(former) = &former {
            self.ids.remove(&number_of(former.id));
        }
        former
    }

    /// Removes a client.
    pub fn remove(&mut self, client: &Arc<ClientIncarnation>) {
        self.ids.remove(&number_of(client.id));
        self.remove_unconfirmed(client);
        let Some(owner) = self.owners.get_mut(&client.owner) else { return };
        for record in [&mut owner.confirmed, &mut owner.unconfirmed] {
            record.take_if(|record| Arc::ptr_eq(record, client));
        }
        if owner.confirmed.is_none() && owner.unconfirmed.is_none() {
            self.owners.remove(&client.owner);
        }
    }

    /// Removes clients with an expired lease that hold no state, or have been expired for
    /// `courtesy`. The caller polls this about once a second.
    pub fn remove_expired(
        &mut self,
        now: Instant,
        courtesy: Duration,
    ) -> Vec<Arc<ClientIncarnation>> {
        let is_over = |client: &Arc<ClientIncarnation>| {
            client.is_expired(now, self.lease)
                && (!client.holds_state() || client.is_expired(now, courtesy))
        };
        let expired: Vec<Arc<ClientIncarnation>> =
            self.iter().filter(|c| is_over(c)).cloned().collect();
        expired.iter().for_each(|client| self.remove(client));
        expired
    }
}

/// The lower half of a client id.
fn number_of(id: ClientId) -> u32 {
    id.0 as u32
}

/// Cases 6 to 9 of RFC 8881 18.35.4.
fn update(
    present: Option<Arc<ClientIncarnation>>,
    who: &ExchangeIdRequest,
) -> Result<ExchangeIdOutcome, NfsStatus> {
    let client = present.ok_or(NfsStatus::NOENT)?;
    if client.verifier != who.verifier {
        return Err(NfsStatus::NOT_SAME);
    }
    if client.principal != who.principal {
        return Err(NfsStatus::PERM);
    }
    client.set_facts(who.facts.clone());
    Ok(ExchangeIdOutcome { client, ended: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::client::ClientFacts;
    use crate::limits::{CLIENTS_FLOOR, CLIENTS_MAX, STATES_MAX};
    use crate::state::principal::Principal;
    use std::net::IpAddr;
    use wire::nfs::Verifier;

    const LEASE: Duration = Duration::from_secs(90);
    const COURTESY: Duration = Duration::from_secs(1000);
    const ALICE: Principal = Principal { flavor: 1, uid: 1, gid: 1, has_reserved_port: true };
    const BOB: Principal = Principal { flavor: 1, uid: 2, gid: 2, has_reserved_port: true };

    fn site(number: u32) -> LedgerHolder {
        LedgerHolder::site(IpAddr::from(number.to_be_bytes()))
    }

    fn who(life: u8, principal: Principal, updates: bool) -> ExchangeIdRequest {
        ExchangeIdRequest {
            owner: b"host".to_vec(),
            verifier: Verifier([life; 8]),
            principal,
            holder: site(1),
            id_high: 7,
            updates,
            facts: ClientFacts::default(),
        }
    }

    struct Fixture {
        clients: ClientTable,
        now: Instant,
    }

    impl Fixture {
        fn new() -> Self {
            Self {
                clients: ClientTable::new(LEASE, [0; 8], Arc::new(NfsHoldings::new(STATES_MAX))),
                now: Instant::now(),
            }
        }

        fn ask(&mut self, who: ExchangeIdRequest) -> Result<Arc<ClientIncarnation>, NfsStatus> {
            self.clients.exchange_id(who, self.now).map(|outcome| outcome.client)
        }

        fn confirmed(&mut self, who: ExchangeIdRequest) -> Arc<ClientIncarnation> {
            let client = self.ask(who).unwrap();
            self.clients.confirm(&client);
            client
        }
    }

    #[test]
    fn new_client_is_unconfirmed_until_create_session() {
        let mut bench = Fixture::new();
        let client = bench.ask(who(1, ALICE, false)).unwrap();
        assert!(!client.is_confirmed());
        assert!(bench.clients.confirm(&client).is_none());
        assert!(client.is_confirmed());
        assert!(bench.clients.confirm(&client).is_none(), "once");
    }

    #[test]
    fn unconfirmed_record_is_replaced_by_any_principal() {
        for (life, principal) in [(1, ALICE), (1, BOB), (2, ALICE), (2, BOB)] {
            let mut bench = Fixture::new();
            let first = bench.ask(who(1, ALICE, false)).unwrap();
            let second = bench.ask(who(life, principal, false)).unwrap();
            assert_ne!(first.id, second.id);
            assert_eq!(bench.clients.find(first.id).unwrap_err(), NfsStatus::STALE_CLIENTID);
            assert_eq!(bench.clients.ids.len(), 1);
        }
    }

    #[test]
    fn repeated_exchange_id_returns_the_confirmed_client() {
        let mut bench = Fixture::new();
        let first = bench.confirmed(who(1, ALICE, false));
        let again = bench.ask(who(1, ALICE, false)).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
    }

    #[test]
    fn old_incarnation_stays_until_the_new_one_is_confirmed() {
        let mut bench = Fixture::new();
        let first = bench.confirmed(who(1, ALICE, false));
        let second = bench.ask(who(2, ALICE, false)).unwrap();
        assert_ne!(first.id, second.id);
        assert!(bench.clients.find(first.id).is_ok());
        let ended = bench.clients.confirm(&second).unwrap();
        assert!(Arc::ptr_eq(&ended, &first));
        assert!(bench.clients.find(first.id).is_err());
        assert!(bench.clients.find(second.id).is_ok());
    }

    #[test]
    fn other_principal_takes_over_an_unused_owner_string() {
        for life in [1, 2] {
            let mut bench = Fixture::new();
            let first = bench.confirmed(who(1, ALICE, false));
            let outcome = bench.clients.exchange_id(who(life, BOB, false), bench.now).unwrap();
            assert_ne!(outcome.client.id, first.id);
            assert!(Arc::ptr_eq(&outcome.ended[0], &first));
            assert!(bench.clients.find(first.id).is_err());
        }
    }

    #[test]
    fn other_principal_gets_clid_inuse_until_lease_expiry() {
        let mut bench = Fixture::new();
        let first = bench.confirmed(who(1, ALICE, false));
        first.count_state(1);
        assert_eq!(bench.ask(who(1, BOB, false)).unwrap_err(), NfsStatus::CLID_INUSE);
        bench.now += LEASE;
        assert_eq!(bench.ask(who(1, BOB, false)).unwrap_err(), NfsStatus::CLID_INUSE);
        bench.now += Duration::from_millis(1);
        assert!(bench.ask(who(1, BOB, false)).is_ok());
    }

    #[test]
    fn other_principal_gets_clid_inuse_while_session_exists() {
        let mut bench = Fixture::new();
        let first = bench.confirmed(who(1, ALICE, false));
        let session = Arc::new(crate::clients::session::session_of(&first));
        first.add_session(session.clone()).unwrap();
        for principal in [BOB, Principal { has_reserved_port: false, ..ALICE }] {
            for life in [1, 2] {
                let refused = bench.ask(who(life, principal, false)).unwrap_err();
                assert_eq!(refused, NfsStatus::CLID_INUSE, "{principal:?}");
            }
        }
        assert!(!session.has_ended() && bench.clients.find(first.id).is_ok());
        bench.now += LEASE + Duration::from_millis(1);
        assert!(bench.ask(who(1, BOB, false)).is_ok());
    }

    #[test]
    fn client_is_found_by_its_whole_id_only() {
        let mut bench = Fixture::new();
        let client = bench.confirmed(who(1, ALICE, false));
        assert_eq!(client.id, ClientId(7 << 32 | 1));
        for guess in [1, 6 << 32 | 1, 8 << 32 | 1] {
            assert_eq!(bench.clients.find(ClientId(guess)).unwrap_err(), NfsStatus::STALE_CLIENTID);
        }
    }

    #[test]
    fn update_needs_same_verifier_and_principal() {
        let mut bench = Fixture::new();
        assert_eq!(bench.ask(who(1, ALICE, true)).unwrap_err(), NfsStatus::NOENT);
        let first = bench.ask(who(1, ALICE, false)).unwrap();
        assert_eq!(bench.ask(who(1, ALICE, true)).unwrap_err(), NfsStatus::NOENT, "unconfirmed");
        bench.clients.confirm(&first);
        assert!(Arc::ptr_eq(&bench.ask(who(1, ALICE, true)).unwrap(), &first));
        assert_eq!(bench.ask(who(2, ALICE, true)).unwrap_err(), NfsStatus::NOT_SAME);
        assert_eq!(bench.ask(who(2, BOB, true)).unwrap_err(), NfsStatus::NOT_SAME);
        assert_eq!(bench.ask(who(1, BOB, true)).unwrap_err(), NfsStatus::PERM);
    }

    #[test]
    fn expired_client_stays_only_while_it_holds_state() {
        let mut bench = Fixture::new();
        let idle = bench.confirmed(who(1, ALICE, false));
        let busy =
            bench.confirmed(ExchangeIdRequest { owner: b"b".to_vec(), ..who(1, ALICE, false) });
        busy.count_state(1);
        let late = bench.now + LEASE;
        assert!(bench.clients.remove_expired(late, COURTESY).is_empty());
        let gone = bench.clients.remove_expired(late + Duration::from_secs(1), COURTESY);
        assert_eq!(gone.iter().map(|c| c.id).collect::<Vec<_>>(), [idle.id]);
        assert!(bench.clients.find(busy.id).is_ok(), "out of courtesy");
        let gone = bench.clients.remove_expired(bench.now + COURTESY * 2, COURTESY);
        assert_eq!(gone.len(), 1);
        assert!(bench.clients.ids.is_empty());
        assert!(bench.clients.owners.is_empty());
    }

    #[test]
    fn unconfirmed_clients_are_bounded() {
        let mut bench = Fixture::new();
        for number in 0..UNCONFIRMED_CLIENTS_MAX as u64 * 2 {
            bench.now += Duration::from_millis(1);
            let owner = number.to_be_bytes().to_vec();
            bench.ask(ExchangeIdRequest { owner, ..who(1, ALICE, false) }).unwrap();
        }
        assert_eq!(bench.clients.ids.len(), UNCONFIRMED_CLIENTS_MAX);
        assert_eq!(bench.clients.owners.len(), UNCONFIRMED_CLIENTS_MAX);
    }

    #[test]
    fn only_courtesy_clients_make_room_for_new_ones() {
        let mut bench = Fixture::new();
        for number in 0..CLIENTS_MAX as u64 {
            bench.now += Duration::from_micros(1);
            let owner = number.to_be_bytes().to_vec();
            // Each client has its own address.
            let holder = site(number as u32);
            let client =
                bench.confirmed(ExchangeIdRequest { owner, holder, ..who(1, ALICE, false) });
            client.count_state(1);
        }
        let holder = site(u32::MAX);
        let new = || ExchangeIdRequest {
            owner: b"new".to_vec(),
            holder: holder.clone(),
            ..who(1, ALICE, false)
        };
        assert_eq!(bench.ask(new()).unwrap_err(), NfsStatus::DELAY, "all of them are here");
        let eldest = bench.clients.numbered(1).unwrap();
        bench.now += LEASE;
        let outcome = bench.clients.exchange_id(new(), bench.now).unwrap();
        assert_eq!(outcome.ended.iter().map(|c| c.id).collect::<Vec<_>>(), [eldest.id]);
        assert_eq!(bench.clients.ids.len(), CLIENTS_MAX);
    }

    #[test]
    fn clients_of_one_address_leave_room_for_another() {
        let mut bench = Fixture::new();
        let early = bench.confirmed(who(1, ALICE, false));
        let mut made = 0;
        let refusal = loop {
            let owner = format!("flood {made}").into_bytes();
            let holder = site(2);
            match bench.ask(ExchangeIdRequest { owner, holder, ..who(1, ALICE, false) }) {
                Ok(client) => drop(bench.clients.confirm(&client)),
                Err(status) => break status,
            }
            made += 1;
        };
        assert_eq!((refusal, made), (NfsStatus::DELAY, (CLIENTS_MAX - 1) / 2));
        assert!(bench.clients.find(early.id).is_ok());
        for number in 0..CLIENTS_FLOOR {
            let owner = format!("new {number}").into_bytes();
            bench.confirmed(ExchangeIdRequest { owner, holder: site(3), ..who(1, ALICE, false) });
        }
    }

    #[test]
    fn busiest_address_loses_unconfirmed_clients_first() {
        let mut bench = Fixture::new();
        let slow = bench.ask(who(1, ALICE, false)).unwrap();
        for number in 0..UNCONFIRMED_CLIENTS_MAX as u64 * 2 {
            let owner = number.to_be_bytes().to_vec();
            bench
                .ask(ExchangeIdRequest { owner, holder: site(2), ..who(1, ALICE, false) })
                .unwrap();
        }
        assert_eq!(bench.clients.ids.len(), UNCONFIRMED_CLIENTS_MAX);
        assert!(bench.clients.find(slow.id).is_ok(), "of another address");
        bench.clients.confirm(&slow);
        assert_eq!(bench.clients.unconfirmed_count, UNCONFIRMED_CLIENTS_MAX - 1);
    }
}
