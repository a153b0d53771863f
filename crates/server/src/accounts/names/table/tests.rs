//! Tests of the table with simulated time.

use super::*;

fn address(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

fn wanted(hosts: &[&str], netgroups: &[&str]) -> WantedNames {
    let hosts = hosts.iter().map(|name| (*name).to_owned()).collect();
    WantedNames { hosts, netgroups: netgroups.iter().map(|name| (*name).to_owned()).collect() }
}

fn table(hosts: &[&str], netgroups: &[&str]) -> (NameTable, Instant) {
    let now = Instant::now();
    let mut table = NameTable::new(now);
    configure(&mut table, &wanted(hosts, netgroups), now);
    (table, now)
}

fn configure(table: &mut NameTable, wanted: &WantedNames, now: Instant) {
    table.prepare(wanted, now);
    table.settle(wanted);
}

fn host(name: &str, addresses: Option<&[IpAddr]>) -> LookupAnswer {
    LookupAnswer::Host { name: name.into(), addresses: addresses.map(<[IpAddr]>::to_vec) }
}

/// Starts the look-up of a client and answers it.
fn answer_client(table: &mut NameTable, names: &[&str], has_failed: bool, now: Instant) {
    let Some(QueuedLookup::Client(client, is_short)) = table.next(now) else {
        panic!("no look-up")
    };
    let found = client_names(names);
    table.handle_answer(LookupAnswer::Client { client, is_short, found, has_failed }, now);
}

fn client_names(names: &[&str]) -> ClientNames {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    ClientNames { names, is_incomplete: false }
}

/// Starts a time slice in which all netgroups fail.
fn fail_members(table: &mut NameTable, now: Instant) {
    let lookup = table.next_members().expect("a turn");
    let (asked, failed) = (lookup.wanted, lookup.wanted);
    let answer = MemberAnswer { lookup, asked, found: GroupSet::default(), failed };
    table.handle_members(answer, now);
}

/// Starts a time slice and answers for the first `most` netgroups; returns the client and these
/// netgroups.
fn answer_members(
    table: &mut NameTable,
    most: usize,
    member: &[&str],
    now: Instant,
) -> Option<(IpAddr, Vec<String>)> {
    let lookup = table.next_members()?;
    assert_eq!(table.next_members(), None, "the C library asks for one at a time");
    let (mut asked, mut found, mut names) = (GroupSet::default(), GroupSet::default(), Vec::new());
    for at in lookup.wanted.places().take(most) {
        asked.set(at, true);
        found.set(at, member.contains(&&*lookup.netgroups[at]));
        names.push(lookup.netgroups[at].clone());
    }
    let client = lookup.client;
    table.handle_members(MemberAnswer { lookup, asked, found, failed: GroupSet::default() }, now);
    Some((client, names))
}

/// A table that has names for clients with these last octets.
fn table_of(clients: &[u8], netgroups: &[&str]) -> (NameTable, Instant) {
    let (mut table, now) = table(&[], netgroups);
    for last in clients {
        table.ask(address(*last), now);
        answer_client(&mut table, &["a.lab"], false, now);
    }
    (table, now)
}

fn names_of(table: &NameTable, client: IpAddr, now: Instant) -> Option<Vec<String>> {
    table.find(client, now).0.map(|found| found.names.clone())
}

#[test]
fn host_is_unknown_until_resolved_and_then_refreshed() {
    let (mut table, now) = table(&["build"], &[]);
    assert_eq!(table.find_host("build", address(1), now), RuleVerdict::Pending);
    assert_eq!(table.next(now), Some(QueuedLookup::Host("build".into())));
    assert_eq!(table.next(now), None, "it is asked already");
    table.handle_answer(host("build", Some(&[address(1)])), now);
    assert_eq!(table.find_host("build", address(1), now), RuleVerdict::Match);
    assert_eq!(table.find_host("build", address(2), now), RuleVerdict::NoMatch);
    let later = now + HOST_REFRESH;
    assert_eq!(table.next(later - Duration::from_millis(1)), None);
    assert_eq!(table.idle_for(now), Some(HOST_REFRESH));
    assert_eq!(table.next(later), Some(QueuedLookup::Host("build".into())));
    assert_eq!(table.find_host("build", address(1), later), RuleVerdict::Match, "meanwhile");
    table.handle_answer(host("build", Some(&[address(2)])), later);
    assert_eq!(table.find_host("build", address(1), later), RuleVerdict::NoMatch);
    assert_eq!(table.find_host("build", address(2), later), RuleVerdict::Match);
}

#[test]
fn last_address_is_valid_for_an_hour_of_failed_lookups() {
    let (mut table, start) = table(&["build"], &[]);
    table.next(start);
    table.handle_answer(host("build", Some(&[address(1)])), start);
    let mut now = start + HOST_REFRESH;
    while now < start + HOST_ANSWER_MAX_AGE {
        assert_eq!(table.find_host("build", address(1), now), RuleVerdict::Match);
        assert!(table.next(now).is_some());
        table.handle_answer(host("build", None), now);
        assert_eq!(table.idle_for(now), Some(HOST_RETRY));
        now += HOST_RETRY;
    }
    assert_eq!(table.find_host("build", address(1), now), RuleVerdict::Unanswered);
    table.next(now);
    table.handle_answer(host("build", Some(&[address(1)])), now);
    assert_eq!(table.find_host("build", address(1), now), RuleVerdict::Match);
}

#[test]
fn failed_host_lookup_is_unanswered_and_empty_one_no_match() {
    for (answer, verdict) in [
        (host("build", None), RuleVerdict::Unanswered),
        (host("build", Some(&[])), RuleVerdict::NoMatch),
    ] {
        let (mut table, now) = table(&["build"], &[]);
        table.next(now);
        table.handle_answer(answer, now);
        assert_eq!(table.find_host("build", address(1), now), verdict);
        assert_eq!(table.idle_for(now), Some(HOST_RETRY));
    }
}

/// A name service that starts anew denies every name for a moment.
#[test]
fn lost_host_is_valid_until_a_second_lookup_confirms() {
    let (mut table, now) = table(&["build"], &[]);
    table.next(now);
    table.handle_answer(host("build", Some(&[address(1)])), now);
    let mut later = now + HOST_REFRESH;
    let (empty, same): (&[IpAddr], &[IpAddr]) = (&[], &[address(1)]);
    for (addresses, is_match) in [
        (Some(empty), true),
        (Some(same), true),
        (Some(empty), true),
        (None, true),
        (Some(empty), false),
    ] {
        assert!(table.next(later).is_some(), "{addresses:?}");
        table.handle_answer(host("build", addresses), later);
        let expected = RuleVerdict::from(is_match);
        assert_eq!(table.find_host("build", address(1), later), expected, "{addresses:?}");
        later += table.idle_for(later).unwrap();
    }
}

#[test]
fn host_with_too_many_addresses_may_have_others() {
    let (mut table, now) = table(&["build"], &[]);
    table.next(now);
    let all: Vec<_> = (0..HOST_ADDRESSES_MAX as u8).map(address).collect();
    table.handle_answer(host("build", Some(&all)), now);
    assert_eq!(table.find_host("build", address(1), now), RuleVerdict::Match);
    assert_eq!(table.find_host("build", address(255), now), RuleVerdict::Unanswered);
}

#[test]
fn client_names_stay_valid_while_they_are_refreshed() {
    let (mut table, now) = table(&[], &["builders"]);
    assert_eq!(table.find(address(1), now), (None, true));
    assert!(table.ask(address(1), now));
    assert!(!table.ask(address(1), now), "it waits already");
    assert_eq!(table.find(address(1), now), (None, false));
    answer_client(&mut table, &["a.lab"], false, now);
    assert_eq!(names_of(&table, address(1), now), Some(vec!["a.lab".into()]));
    assert!(!table.ask(address(1), now + HOST_REFRESH / 2));
    let later = now + HOST_REFRESH;
    assert!(table.ask(address(1), later));
    assert_eq!(names_of(&table, address(1), later), Some(vec!["a.lab".into()]));
    answer_client(&mut table, &[], true, later);
    assert_eq!(names_of(&table, address(1), later), Some(vec!["a.lab".into()]), "a failure");
    let later = later + HOST_RETRY;
    assert!(table.ask(address(1), later));
    answer_client(&mut table, &["a.lab", "b.lab"], false, later);
    let both = vec!["a.lab".into(), "b.lab".into()];
    assert_eq!(names_of(&table, address(1), later), Some(both), "more counts at once");
}

/// A restarting netgroup service has no members and gives no error.
#[test]
fn lost_name_is_valid_until_a_second_lookup_confirms() {
    let (mut table, now) = table(&[], &[]);
    table.ask(address(1), now);
    answer_client(&mut table, &["a.lab"], false, now);
    let mut later = now + HOST_REFRESH;
    for (names, has_failed) in [(&["b.lab"], false), (&["c.lab"], false), (&["c.lab"], true)] {
        assert!(table.ask(address(1), later));
        answer_client(&mut table, names, has_failed, later);
        assert_eq!(names_of(&table, address(1), later), Some(vec!["a.lab".into()]));
        assert!(!table.ask(address(1), later), "not at once");
        later += HOST_RETRY;
    }
    assert!(table.ask(address(1), later));
    answer_client(&mut table, &["c.lab"], false, later);
    assert_eq!(names_of(&table, address(1), later), Some(vec!["c.lab".into()]));
}

#[test]
fn lookup_timeout_is_unanswered() {
    let (mut table, now) = table(&["build"], &["builders"]);
    table.ask(address(1), now);
    while table.next(now).is_some() {}
    let late = now + FIRST_ANSWER_WITHIN;
    let early = late - Duration::from_millis(1);
    assert_eq!(table.find_host("build", address(1), early), RuleVerdict::Pending);
    assert_eq!(table.find_host("build", address(1), late), RuleVerdict::Unanswered);
    assert_eq!(names_of(&table, address(1), early), None);
    let none = ClientNames { names: Vec::new(), is_incomplete: true };
    assert_eq!(table.find(address(1), late).0.as_deref(), Some(&none));
    let found = client_names(&["a.lab"]);
    let answer =
        LookupAnswer::Client { client: address(1), is_short: true, found, has_failed: false };
    table.handle_answer(answer, late);
    assert_eq!(names_of(&table, address(1), late), Some(vec!["a.lab".into()]), "whenever it comes");
}

#[test]
fn old_names_stay_valid_until_the_new_configuration_applies() {
    let (mut table, now) = table(&["build"], &["one"]);
    table.next(now);
    table.handle_answer(host("build", Some(&[address(1)])), now);
    table.ask(address(1), now);
    answer_client(&mut table, &["a.lab"], false, now);
    table.prepare(&wanted(&[], &[]), now);
    assert_eq!(
        table.find_host("build", address(1), now),
        RuleVerdict::Match,
        "a reload that is refused"
    );
    assert!(names_of(&table, address(1), now).is_some());
    table.settle(&wanted(&[], &[]));
    assert_eq!(
        table.find_host("build", address(1), now),
        RuleVerdict::NoMatch,
        "not wanted, not unknown"
    );
    assert!(names_of(&table, address(1), now).is_some(), "of fewer netgroups all is known");
}

#[test]
fn one_network_does_not_fill_the_queue_or_delay_known_clients() {
    let (mut table, now) = table(&["a", "b"], &[]);
    while table.next(now).is_some() {}
    table.ask(address(1), now);
    answer_client(&mut table, &["a.lab"], false, now);
    table.note_match(address(1));
    let later = now + HOST_REFRESH;
    let of_48 = |n: u16| IpAddr::from([0x2001, 0xdb8, 0, n, 0, 0, 0, 1]);
    let waiting = (0..4096).filter(|n| table.ask(of_48(*n), later)).count();
    assert_eq!(waiting, LOOKUPS_WAITING_PER_SITE);
    while table.next(later).is_some() {}
    for last in 10..20 {
        assert!(table.ask(address(last), later), "strangers have their places");
    }
    while table.next(later).is_some() {}
    assert!(table.ask(address(1), later));
    assert!(
        matches!(table.next(later), Some(QueuedLookup::Client(client, _)) if client == address(1))
    );
}

#[test]
fn slow_strangers_leave_a_thread_for_configured_names() {
    let (mut table, now) = table(&[], &[]);
    (1..9).for_each(|last| assert!(table.ask(address(last), now)));
    let begun = std::iter::from_fn(|| table.next(now)).count();
    assert_eq!(begun, LOOKUP_THREADS - 1);
    table.prepare(&wanted(&["build"], &[]), now);
    assert_eq!(table.next(now), Some(QueuedLookup::Host("build".into())));
}

#[test]
fn client_with_a_failed_lookup_has_no_name() {
    let (mut table, now) = table(&[], &[]);
    table.ask(address(1), now);
    answer_client(&mut table, &[], true, now);
    assert_eq!(names_of(&table, address(1), now), Some(vec![]), "known: no entry is for it");
    assert!(table.ask(address(1), now + HOST_RETRY));
}

#[test]
fn expired_lookup_is_unknown_again() {
    let (mut table, now) = table(&[], &[]);
    table.ask(address(1), now);
    answer_client(&mut table, &["a.lab"], false, now);
    let later = now + HOST_ANSWER_MAX_AGE;
    assert_eq!(table.find(address(1), later), (None, true));
}

#[test]
fn netgroup_is_queried_once_a_rule_needs_it() {
    let (mut table, now) = table_of(&[1], &["one", "two"]);
    assert_eq!(table.next_members(), None);
    assert_eq!(table.find_member(address(1), "two", now), (RuleVerdict::Pending, true));
    assert!(table.ask_member(address(1), "two", now));
    assert!(!table.ask_member(address(1), "two", now), "it waits already");
    assert_eq!(table.find_member(address(1), "two", now), (RuleVerdict::Pending, false));
    let answered = answer_members(&mut table, 9, &["one", "two"], now);
    assert_eq!(answered, Some((address(1), vec!["two".into()])));
    assert_eq!(table.find_member(address(1), "two", now), (RuleVerdict::Match, false));
    assert_eq!(table.find_member(address(1), "one", now), (RuleVerdict::Pending, true));
    assert_eq!(
        table.find_member(address(1), "three", now),
        (RuleVerdict::NoMatch, false),
        "not wanted"
    );
    // A request also looks up all netgroups that are due.
    let later = now + HOST_REFRESH;
    assert_eq!(table.find_member(address(1), "two", later), (RuleVerdict::Match, true));
    assert!(table.ask_member(address(1), "one", later));
    let answered = answer_members(&mut table, 9, &["two"], later);
    assert_eq!(answered, Some((address(1), vec!["one".into(), "two".into()])));
    assert_eq!(table.find_member(address(1), "one", later), (RuleVerdict::NoMatch, false));
}

#[test]
fn long_netgroup_query_continues_behind_other_clients() {
    let (mut table, now) = table_of(&[1, 2], &["one", "two"]);
    assert!(table.ask_member(address(1), "one", now));
    assert!(!table.ask_member(address(1), "two", now), "it waits already");
    assert!(table.ask_member(address(2), "two", now));
    let of = |last, name: &str| Some((address(last), vec![name.to_owned()]));
    assert_eq!(answer_members(&mut table, 1, &[], now), of(1, "one"));
    assert_eq!(table.find_member(address(1), "one", now), (RuleVerdict::NoMatch, false));
    assert_eq!(table.find_member(address(1), "two", now), (RuleVerdict::Pending, false));
    assert_eq!(answer_members(&mut table, 1, &["two"], now), of(2, "two"));
    assert_eq!(answer_members(&mut table, 1, &["two"], now), of(1, "two"));
    assert_eq!(table.find_member(address(1), "two", now), (RuleVerdict::Match, false));
    assert_eq!(answer_members(&mut table, 1, &[], now), None);
}

#[test]
fn netgroup_members_and_strangers_alternate() {
    let (mut table, now) = table_of(&[1, 2, 3, 4], &["one"]);
    for last in [1, 2] {
        table.ask_member(address(last), "one", now);
        answer_members(&mut table, 1, &["one"], now);
    }
    let later = now + HOST_REFRESH;
    for last in [3, 4, 1, 2] {
        assert!(table.ask_member(address(last), "one", later));
    }
    let turns = std::iter::from_fn(|| answer_members(&mut table, 1, &[], later));
    let turns: Vec<_> = turns.map(|(client, _)| client).collect();
    assert_eq!(turns, [1, 3, 2, 4].map(address), "the last turn was a stranger's");
}

/// A restarting netgroup service has no members and gives no error.
#[test]
fn lost_netgroup_is_valid_until_a_second_lookup_confirms() {
    let (mut table, now) = table_of(&[1], &["one"]);
    table.ask_member(address(1), "one", now);
    answer_members(&mut table, 1, &["one"], now);
    let later = now + HOST_REFRESH;
    assert!(table.ask_member(address(1), "one", later));
    answer_members(&mut table, 1, &[], later);
    assert_eq!(table.find_member(address(1), "one", later), (RuleVerdict::Match, false));
    let again = later + HOST_RETRY;
    assert!(table.ask_member(address(1), "one", again));
    answer_members(&mut table, 1, &[], again);
    assert_eq!(table.find_member(address(1), "one", again), (RuleVerdict::NoMatch, false));
}

#[test]
fn netgroup_query_timeout_stays_unknown() {
    let (mut table, now) = table_of(&[1], &["one"]);
    table.ask_member(address(1), "one", now);
    let late = now + FIRST_ANSWER_WITHIN;
    let early = late - Duration::from_millis(1);
    assert_eq!(table.find_member(address(1), "one", early).0, RuleVerdict::Pending);
    assert_eq!(table.find_member(address(1), "one", late).0, RuleVerdict::Unanswered);
    answer_members(&mut table, 1, &["one"], late);
    assert_eq!(
        table.find_member(address(1), "one", late).0,
        RuleVerdict::Match,
        "whenever it comes"
    );
    let lapsed = late + HOST_ANSWER_MAX_AGE;
    assert_eq!(table.find_member(address(1), "one", lapsed), (RuleVerdict::Pending, true));
}

/// A client that its netgroup excludes must not pass while the service is down.
#[test]
fn failed_netgroup_query_is_unknown_and_retried() {
    let (mut table, now) = table_of(&[1], &["one"]);
    table.ask_member(address(1), "one", now);
    fail_members(&mut table, now);
    let unanswered = RuleVerdict::Unanswered;
    assert_eq!(table.find_member(address(1), "one", now), (unanswered, false), "not at once");
    let later = now + HOST_RETRY;
    assert_eq!(table.find_member(address(1), "one", later), (unanswered, true));
    assert!(table.ask_member(address(1), "one", later));
    assert_eq!(table.find_member(address(1), "one", later), (unanswered, false), "meanwhile");
    answer_members(&mut table, 1, &[], later);
    assert_eq!(table.find_member(address(1), "one", later), (RuleVerdict::NoMatch, false));
    // A former answer counts for an hour while look-ups fail.
    let mut at = later + HOST_REFRESH;
    while at < later + HOST_ANSWER_MAX_AGE {
        assert_eq!(table.find_member(address(1), "one", at), (RuleVerdict::NoMatch, true));
        assert!(table.ask_member(address(1), "one", at));
        fail_members(&mut table, at);
        at += HOST_RETRY;
    }
    assert!(table.ask_member(address(1), "one", at));
    fail_members(&mut table, at);
    assert_eq!(table.find_member(address(1), "one", at), (unanswered, false));
}

#[test]
fn reply_for_one_netgroup_does_not_refresh_another() {
    let (mut table, now) = table_of(&[1], &["one", "two"]);
    table.ask_member(address(1), "one", now);
    answer_members(&mut table, 9, &["one"], now);
    let soon = now + HOST_REFRESH / 2;
    table.ask_member(address(1), "two", soon);
    answer_members(&mut table, 9, &[], soon);
    let later = now + HOST_REFRESH;
    assert_eq!(table.find_member(address(1), "one", later), (RuleVerdict::Match, true));
    assert_eq!(table.find_member(address(1), "two", later), (RuleVerdict::NoMatch, false));
    let lapsed = now + HOST_ANSWER_MAX_AGE;
    assert_eq!(table.find_member(address(1), "one", lapsed), (RuleVerdict::Pending, true));
    assert_eq!(table.find_member(address(1), "two", lapsed).0, RuleVerdict::NoMatch);
}

#[test]
fn replies_of_an_unfinished_round_expire() {
    let (mut table, now) = table_of(&[1], &["one", "two"]);
    table.ask_member(address(1), "one", now);
    table.ask_member(address(1), "two", now);
    answer_members(&mut table, 1, &["one"], now);
    let lapsed = now + HOST_ANSWER_MAX_AGE;
    let early = lapsed - Duration::from_millis(1);
    assert_eq!(table.find_member(address(1), "one", early).0, RuleVerdict::Match);
    assert_eq!(table.find_member(address(1), "one", lapsed).0, RuleVerdict::Pending);
}

#[test]
fn membership_ends_with_the_name_it_was_found_by() {
    let (mut table, now) = table_of(&[1], &["one", "two"]);
    table.ask_member(address(1), "one", now);
    answer_members(&mut table, 9, &["one"], now);
    let renamed = |table: &mut NameTable, now: Instant| {
        assert!(table.ask(address(1), now));
        answer_client(table, &["b.lab"], false, now);
    };
    let later = now + HOST_REFRESH;
    renamed(&mut table, later);
    let verdict = table.find_member(address(1), "one", later).0;
    assert_eq!(verdict, RuleVerdict::Match, "another look-up may disagree");
    // A time slice for the old name runs when the loss is confirmed.
    let again = later + HOST_RETRY;
    table.ask_member(address(1), "one", again);
    let lookup = table.next_members().expect("a turn");
    renamed(&mut table, again);
    assert_eq!(table.find_member(address(1), "one", again).0, RuleVerdict::Pending);
    let (asked, found, failed) = (lookup.wanted, lookup.wanted, GroupSet::default());
    table.handle_members(MemberAnswer { lookup, asked, found, failed }, again);
    assert_eq!(table.find_member(address(1), "one", again).0, RuleVerdict::Pending);
    answer_members(&mut table, 9, &[], again);
    assert_eq!(table.find_member(address(1), "one", again), (RuleVerdict::NoMatch, false));
}

#[test]
fn changed_name_queries_netgroups_again() {
    let (mut table, now) = table_of(&[1], &["one"]);
    table.ask_member(address(1), "one", now);
    answer_members(&mut table, 1, &[], now);
    let later = now + HOST_REFRESH / 2;
    assert!(!table.find_member(address(1), "one", later).1);
    table.prepare(&wanted(&[], &["one"]), later);
    table.ask(address(1), later);
    answer_client(&mut table, &["a.lab", "b.lab"], false, later);
    assert!(table.ask_member(address(1), "one", later));
    let verdict = table.find_member(address(1), "one", later).0;
    assert_eq!(verdict, RuleVerdict::NoMatch, "what is known of the name that stays counts");
    let hosts = table.next_members().map(|lookup| lookup.hosts);
    assert_eq!(hosts, Some(["a.lab", "b.lab", "192.0.2.1"].map(String::from).to_vec()));
}

#[test]
fn reload_queries_added_netgroups() {
    let (mut table, now) = table_of(&[1], &["one", "two"]);
    for group in ["one", "two"] {
        table.ask_member(address(1), group, now);
        answer_members(&mut table, 1, &["two"], now);
    }
    configure(&mut table, &wanted(&[], &["two", "three"]), now);
    assert!(names_of(&table, address(1), now).is_some());
    assert!(table.find(address(1), now).1, "a reload has all looked up anew");
    assert_eq!(table.find_member(address(1), "two", now), (RuleVerdict::Match, true));
    assert_eq!(table.find_member(address(1), "three", now), (RuleVerdict::Pending, true));
    assert_eq!(table.find_member(address(1), "one", now), (RuleVerdict::NoMatch, false));
    // An answer from before the reload is not valid for the new netgroups.
    table.ask_member(address(1), "three", now);
    let lookup = table.next_members().unwrap();
    configure(&mut table, &wanted(&[], &["three"]), now);
    let (asked, found) = (lookup.wanted, lookup.wanted);
    table.handle_members(MemberAnswer { lookup, asked, found, failed: GroupSet::default() }, now);
    assert_eq!(table.find_member(address(1), "three", now), (RuleVerdict::Pending, false));
    let answered = answer_members(&mut table, 9, &["three"], now);
    assert_eq!(answered, Some((address(1), vec!["three".into()])));
}

#[test]
fn short_names_are_resolved_once_netgroups_need_them() {
    let (mut table, now) = table(&[], &[]);
    table.ask(address(1), now);
    let Some(QueuedLookup::Client(client, false)) = table.next(now) else { panic!("no look-up") };
    configure(&mut table, &wanted(&[], &["one"]), now);
    let found = client_names(&["a.lab"]);
    table.handle_answer(
        LookupAnswer::Client { client, is_short: false, found, has_failed: false },
        now,
    );
    assert_eq!(table.find(address(1), now), (None, true));
    table.ask(address(1), now);
    assert_eq!(table.next(now), Some(QueuedLookup::Client(address(1), true)));
}

#[test]
fn slow_lookups_of_one_site_leave_threads_for_others() {
    let (mut table, now) = table(&["a", "b", "c", "d", "e"], &[]);
    let begun: Vec<_> = std::iter::from_fn(|| table.next(now)).collect();
    assert_eq!(begun.len(), HOST_LOOKUPS_MAX, "{begun:?}");
    let site = |last: u16| IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, last]);
    (1..9).for_each(|last| assert!(table.ask(site(last), now)));
    let begun: Vec<_> = std::iter::from_fn(|| table.next(now)).collect();
    assert_eq!(begun.len(), LOOKUPS_PER_SITE, "{begun:?}");
    assert!(table.ask(address(1), now));
    assert!(
        matches!(table.next(now), Some(QueuedLookup::Client(client, _)) if client == address(1))
    );
}

#[test]
fn full_site_evicts_its_own_addresses_only() {
    let (mut table, now) = table(&[], &[]);
    table.ask(address(1), now);
    answer_client(&mut table, &["a.lab"], false, now);
    for last in 0..2 * CLIENT_NAMES_PER_SITE_MAX as u16 {
        let later = now + Duration::from_millis(u64::from(last) + 1);
        assert!(table.ask(IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, last]), later));
        answer_client(&mut table, &["b.lab"], false, later);
    }
    assert_eq!(table.clients.len(), CLIENT_NAMES_PER_SITE_MAX + 1);
    assert!(names_of(&table, address(1), now).is_some());
}

#[test]
fn queued_lookups_are_bounded_and_refused_ones_may_retry() {
    let (mut table, now) = table(&[], &[]);
    let client = |n: usize| IpAddr::from([10, 0, (n >> 8) as u8, n as u8]);
    (0..LOOKUPS_WAITING_MAX).for_each(|n| assert!(table.ask(client(n), now)));
    let late = client(LOOKUPS_WAITING_MAX);
    assert!(!table.ask(late, now));
    assert_eq!(table.find(late, now), (None, true));
    answer_client(&mut table, &[], false, now);
    assert!(table.ask(late, now));
}
