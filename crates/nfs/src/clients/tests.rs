//! The cases of EXCHANGE_ID, and how clients end.

use super::*;

const LEASE: Duration = Duration::from_secs(90);
const COURTESY: Duration = Duration::from_secs(1000);
const ALICE: Principal = Principal { flavor: 1, uid: 1, gid: 1 };
const BOB: Principal = Principal { flavor: 1, uid: 2, gid: 2 };

fn who(life: u8, principal: Principal, updates: bool) -> Introduction {
    Introduction {
        owner: b"host".to_vec(),
        verifier: Verifier([life; 8]),
        principal,
        updates,
        facts: ClientFacts::default(),
    }
}

struct Bench {
    clients: Clients,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        Self { clients: Clients::new(7, LEASE), now: Instant::now() }
    }

    fn ask(&mut self, who: Introduction) -> Result<Arc<Client>, NfsStatus> {
        self.clients.introduce(who, self.now).map(|introduced| introduced.client)
    }

    fn confirmed(&mut self, who: Introduction) -> Arc<Client> {
        let client = self.ask(who).unwrap();
        self.clients.confirm(&client);
        client
    }
}

#[test]
fn a_new_client_is_unconfirmed_until_it_creates_a_session() {
    let mut bench = Bench::new();
    let client = bench.ask(who(1, ALICE, false)).unwrap();
    assert!(!client.is_confirmed());
    assert!(bench.clients.confirm(&client).is_none());
    assert!(client.is_confirmed());
    assert!(bench.clients.confirm(&client).is_none(), "once");
}

#[test]
fn an_unconfirmed_record_is_replaced_whoever_asks() {
    for (life, principal) in [(1, ALICE), (1, BOB), (2, ALICE), (2, BOB)] {
        let mut bench = Bench::new();
        let first = bench.ask(who(1, ALICE, false)).unwrap();
        let second = bench.ask(who(life, principal, false)).unwrap();
        assert_ne!(first.id, second.id);
        assert_eq!(bench.clients.find(first.id).unwrap_err(), NfsStatus::STALE_CLIENTID);
        assert_eq!(bench.clients.len(), 1);
    }
}

#[test]
fn a_confirmed_client_that_asks_again_is_the_same() {
    let mut bench = Bench::new();
    let first = bench.confirmed(who(1, ALICE, false));
    let again = bench.ask(who(1, ALICE, false)).unwrap();
    assert!(Arc::ptr_eq(&first, &again));
}

#[test]
fn what_a_client_had_before_its_restart_stays_until_it_is_confirmed_anew() {
    let mut bench = Bench::new();
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
fn another_principal_takes_a_name_that_is_not_in_use() {
    for life in [1, 2] {
        let mut bench = Bench::new();
        let first = bench.confirmed(who(1, ALICE, false));
        let introduced = bench.clients.introduce(who(life, BOB, false), bench.now).unwrap();
        assert_ne!(introduced.client.id, first.id);
        assert!(Arc::ptr_eq(&introduced.ended[0], &first));
        assert!(bench.clients.find(first.id).is_err());
    }
}

#[test]
fn another_principal_is_refused_a_name_in_use_until_its_lease_is_over() {
    let mut bench = Bench::new();
    let first = bench.confirmed(who(1, ALICE, false));
    first.count_state(1);
    assert_eq!(bench.ask(who(1, BOB, false)).unwrap_err(), NfsStatus::CLID_INUSE);
    bench.now += LEASE;
    assert_eq!(bench.ask(who(1, BOB, false)).unwrap_err(), NfsStatus::CLID_INUSE);
    bench.now += Duration::from_millis(1);
    assert!(bench.ask(who(1, BOB, false)).is_ok());
}

#[test]
fn only_the_same_life_of_the_same_principal_updates_a_confirmed_record() {
    let mut bench = Bench::new();
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
fn a_client_without_state_goes_with_its_lease_and_one_with_state_later() {
    let mut bench = Bench::new();
    let idle = bench.confirmed(who(1, ALICE, false));
    let busy = bench.confirmed(Introduction { owner: b"b".to_vec(), ..who(1, ALICE, false) });
    busy.count_state(1);
    let late = bench.now + LEASE;
    assert!(bench.clients.remove_expired(late, COURTESY).is_empty());
    let gone = bench.clients.remove_expired(late + Duration::from_secs(1), COURTESY);
    assert_eq!(gone.iter().map(|c| c.id).collect::<Vec<_>>(), [idle.id]);
    assert!(bench.clients.find(busy.id).is_ok(), "out of courtesy");
    let gone = bench.clients.remove_expired(bench.now + COURTESY * 2, COURTESY);
    assert_eq!(gone.len(), 1);
    assert!(bench.clients.is_empty());
    assert!(bench.clients.owners.is_empty());
}

#[test]
fn clients_that_introduce_themselves_for_ever_are_bounded() {
    let mut bench = Bench::new();
    for number in 0..UNCONFIRMED_CLIENTS_MAX as u64 * 2 {
        bench.now += Duration::from_millis(1);
        let owner = number.to_be_bytes().to_vec();
        bench.ask(Introduction { owner, ..who(1, ALICE, false) }).unwrap();
    }
    assert_eq!(bench.clients.len(), UNCONFIRMED_CLIENTS_MAX);
    assert_eq!(bench.clients.owners.len(), UNCONFIRMED_CLIENTS_MAX);
}
