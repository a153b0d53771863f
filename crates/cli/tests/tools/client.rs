//! The client library against our server and foreign ones, which reveal mistakes that both of our
//! sides share. Tests with Samba run by `make servers`.

use crate::support::library::{FixedHost, target};
use crate::support::relay::Relay;
use crate::support::samba::{SambaRelease, SambaServer, USER};
use crate::support::{PASSWORD, Setup, user};
use bytes::Bytes;
use client::{
    ChannelOpening, ClientHost, Put, SigningPolicy, SmbClient, SmbOpenHow, SmbOptions, SmbTree,
};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::crypto::{Cipher, SigningAlgorithm};
use wire::fscc::{FILE_CREATE, FILE_OPEN_IF, FileTime};
use wire::ntstatus::NtStatus;
use wire::smb::Dialect;

fn options() -> SmbOptions {
    let mut client_guid = [0; 16];
    FixedHost.random(&mut client_guid);
    SmbOptions { client_guid, channels: 1, ..SmbOptions::default() }
}

async fn connect(address: SocketAddr, user: &str, options: SmbOptions) -> SmbClient {
    SmbClient::connect(target(address, user, PASSWORD), options, Arc::new(FixedHost)).await.unwrap()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(crate::support::PATIENCE, future).await.expect("it takes too long")
    })
}

fn pattern(length: usize, salt: u8) -> Bytes {
    (0..length).map(|at| (at / 7) as u8 ^ (at >> 11) as u8 ^ salt).collect::<Vec<u8>>().into()
}

async fn channels_within_a_while(client: &SmbClient, count: usize) -> bool {
    for _ in 0..1000 {
        if client.channels().len() == count {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    false
}

#[test]
fn further_channels_open_in_the_background_where_useful() {
    let server = Setup::new().start();
    let with = |opening, sealed| SmbOptions { channels: 4, opening, sealed, ..options() };
    block_on(async {
        let client = connect(server.smb, &user(), with(ChannelOpening::Before, false)).await;
        assert_eq!(client.channels().len(), 4);
        client.close().await;
        for (opening, sealed) in
            [(ChannelOpening::Meanwhile, false), (ChannelOpening::WhereTheyHelp, true)]
        {
            let client = connect(server.smb, &user(), with(opening, sealed)).await;
            let tree = client.tree("data").await.unwrap();
            tree.make_directory("dir").await.unwrap();
            assert!(channels_within_a_while(&client, 4).await, "{opening:?}");
            client.close().await;
            assert!(client.channels().is_empty());
        }
        // On a busy machine it may occasionally seem distant.
        for _ in 0..100 {
            let client =
                connect(server.smb, &user(), with(ChannelOpening::WhereTheyHelp, false)).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            let count = client.channels().len();
            client.close().await;
            if count == 1 {
                return;
            }
        }
        panic!("channels to a server of this machine");
    });
}

/// Servers fail one of several connections that come together: its path is tried once more before
/// another path bears two channels.
#[test]
fn paths_have_channels_despite_a_broken_and_a_silent_one() {
    let server = Setup::new().start();
    block_on(async {
        let mut paths = Vec::new();
        for _ in 0..3 {
            paths.push(Relay::new(server.smb).await);
        }
        paths[1].cut_one(0);
        paths[2].fall_silent();
        let remotes: Vec<_> = paths.iter().map(|path| path.address).collect();
        let options = SmbOptions { channels: 4, paths: remotes.clone(), ..options() };
        let user = user();
        let (client, ()) = tokio::join!(connect(server.smb, &user, options), async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            paths[2].speak_again();
        });
        let mut taken: Vec<_> = client.channels().iter().map(|one| one.remote).collect();
        taken.sort();
        let mut wanted = [&[server.smb], &remotes[..]].concat();
        wanted.sort();
        assert_eq!(taken, wanted);
        client.close().await;
    });
}

/// A client that closes while channels are being opened has none afterwards.
#[test]
fn channel_that_opens_after_client_close_is_closed() {
    let server = Setup::new().start();
    block_on(async {
        for pause in 0..20 {
            let options =
                SmbOptions { channels: 8, opening: ChannelOpening::Meanwhile, ..options() };
            let client = connect(server.smb, &user(), options).await;
            tokio::time::sleep(Duration::from_micros(pause * 200)).await;
            client.close().await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert!(client.channels().is_empty() && !client.is_alive());
        }
    });
}

/// Every operation once, with data that spans several credits.
async fn use_all(tree: &SmbTree) {
    tree.make_directory("dir").await.unwrap();
    let file = tree.open("dir/a file", &SmbOpenHow::read_write()).await.unwrap();
    let most = tree.client().negotiated().write_bytes_max.min(1 << 20) as usize;
    let data = pattern(most, 1);
    file.write(0, &data).await.unwrap();
    file.write(most as u64, &pattern(1000, 2)).await.unwrap();
    file.flush().await.unwrap();
    assert_eq!(file.size().await.unwrap(), most as u64 + 1000);
    assert_eq!(file.read(0, most as u32).await.unwrap()[..], data[..]);
    let mut tail = [0; 4096];
    assert_eq!(file.read_into(most as u64, &mut tail).await.unwrap(), 1000, "it is the end");
    assert_eq!(tail[..1000], pattern(1000, 2)[..]);
    assert!(file.read(1 << 30, 10).await.unwrap().is_empty(), "there is nothing behind the end");
    file.set_size(10).await.unwrap();
    assert_eq!(file.size().await.unwrap(), 10);
    file.close().await.unwrap();
    assert_eq!(tree.stat("dir/a file").await.unwrap().size_bytes, 10);
    for number in 0..30 {
        let how = SmbOpenHow::read_write();
        tree.touch(&format!("dir/file with a long name {number:03}"), &how).await.unwrap();
    }
    tree.rename("dir/a file", "dir/another", false).await.unwrap();
    let mut names: Vec<String> =
        tree.list("dir").await.unwrap().into_iter().map(|entry| entry.name).collect();
    names.sort();
    assert_eq!((names.len(), names[0].as_str()), (31, "another"));
    let missing = tree.stat("dir/a file").await.unwrap_err();
    assert_eq!(missing.status(), Some(NtStatus::OBJECT_NAME_NOT_FOUND));
    for name in names {
        tree.remove(&format!("dir/{name}")).await.unwrap();
    }
    tree.remove("dir").await.unwrap();
    assert!(tree.stat("dir").await.is_err());
}

/// Every dialect, with each way to sign and each cipher that it has.
fn matrix() -> Vec<(String, SmbOptions)> {
    let mut all = Vec::new();
    for dialect in [Dialect::Smb210, Dialect::Smb300, Dialect::Smb302, Dialect::Smb311] {
        let one = SmbOptions { dialect_min: dialect, dialect_max: dialect, ..options() };
        all.push((format!("{dialect} plain"), one.clone()));
        let algorithms = match dialect {
            Dialect::Smb311 => &[
                SigningAlgorithm::HmacSha256,
                SigningAlgorithm::AesCmac,
                SigningAlgorithm::AesGmac,
            ][..],
            Dialect::Smb210 => &[SigningAlgorithm::HmacSha256],
            _ => &[SigningAlgorithm::AesCmac],
        };
        for algorithm in algorithms {
            let signing_algorithms = vec![*algorithm];
            let one =
                SmbOptions { signing: SigningPolicy::Required, signing_algorithms, ..one.clone() };
            all.push((format!("{dialect} {}", algorithm.name()), one));
        }
        let ciphers = match dialect {
            Dialect::Smb311 => {
                &[Cipher::Aes128Gcm, Cipher::Aes128Ccm, Cipher::Aes256Gcm, Cipher::Aes256Ccm][..]
            }
            Dialect::Smb210 => &[],
            _ => &[Cipher::Aes128Ccm],
        };
        for cipher in ciphers {
            let one = SmbOptions { sealed: true, ciphers: vec![*cipher], ..one.clone() };
            all.push((format!("{dialect} {}", cipher.name()), one));
        }
    }
    all
}

fn every_cell(address: SocketAddr, user: &str, channels: usize) {
    for (name, options) in matrix() {
        println!("{name}");
        let expected = options.clone();
        let options = SmbOptions { channels, ..options };
        block_on(async {
            let client = connect(address, user, options).await;
            let negotiated = *client.negotiated();
            assert_eq!(negotiated.dialect, expected.dialect_max, "{name}");
            if expected.signing == SigningPolicy::Required {
                assert!(client.session().signs, "{name}");
                assert_eq!(negotiated.signing, expected.signing_algorithms[0], "{name}");
            }
            if expected.sealed {
                assert_eq!(negotiated.cipher, expected.ciphers.first().copied(), "{name}");
            }
            let opened = client.channels().len();
            // Binding a channel would use nonces of AES-GMAC again.
            let is_safe = negotiated.signing != SigningAlgorithm::AesGmac;
            let able = expected.dialect_max >= Dialect::Smb300 && is_safe;
            assert_eq!(opened, if able { channels } else { 1 }, "{name}");
            use_all(&client.tree("data").await.unwrap()).await;
            client.close().await;
        });
    }
}

#[test]
fn dialects_signatures_and_ciphers_work_with_anabranch() {
    let server = Setup::new().start();
    every_cell(server.smb, &user(), 1);
}

#[test]
fn multichannel_works_with_anabranch_in_every_smb3_dialect() {
    let server = Setup::new().start();
    every_cell(server.smb, &user(), 4);
}

#[test]
#[ignore = "needs Samba: make servers"]
fn dialects_signatures_and_ciphers_work_with_installed_samba() {
    let server = SambaServer::start(SambaRelease::Installed, 81, "");
    every_cell(server.smb, USER, 1);
}

#[test]
#[ignore = "needs Samba: make servers"]
fn several_channels_work_with_the_installed_samba() {
    let server = SambaServer::start(SambaRelease::Installed, 82, "");
    every_cell(server.smb, USER, 4);
}

#[test]
#[ignore = "needs Samba: make servers"]
fn dialects_signatures_and_ciphers_work_with_newest_samba() {
    let server = SambaServer::start(SambaRelease::Newest, 83, "");
    every_cell(server.smb, USER, 1);
}

#[test]
#[ignore = "needs Samba: make servers"]
fn several_channels_work_with_the_newest_samba() {
    let server = SambaServer::start(SambaRelease::Newest, 84, "");
    every_cell(server.smb, USER, 4);
}

/// Four relays to a server, and a client that uses them.
async fn four_paths(
    address: SocketAddr,
    user: &str,
    options: SmbOptions,
) -> (Vec<Relay>, SmbClient) {
    let mut relays = Vec::new();
    for _ in 0..4 {
        relays.push(Relay::new(address).await);
    }
    let paths = relays[1..].iter().map(|relay| relay.address).collect();
    let options = SmbOptions { channels: 4, paths, ..options };
    let client = connect(relays[0].address, user, options).await;
    assert_eq!(client.channels().len(), 4);
    (relays, client)
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(20), "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// One writer, which overwrites its part of a file; returns the number of writes.
async fn write_on(
    tree: SmbTree,
    folder: &str,
    number: u64,
    stop: Arc<std::sync::atomic::AtomicBool>,
) -> u64 {
    const BLOCK: usize = 40_000;
    let file = tree.open(&format!("{folder}/written"), &SmbOpenHow::read_write()).await.unwrap();
    let (at, mut round) = (number * BLOCK as u64, 0);
    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
        round += 1;
        let data = pattern(BLOCK, (round * 31 + number) as u8);
        file.write(at, &data).await.unwrap();
        let read = file.read(at, BLOCK as u32).await.unwrap();
        assert!(read[..] == data[..], "writer {number}, round {round}");
        let new = SmbOpenHow { disposition: FILE_CREATE, ..SmbOpenHow::read_write() };
        let made = tree.open(&format!("{folder}/new {number} {round}"), &new).await;
        made.unwrap_or_else(|e| panic!("{number} {round}: {e}")).close().await.unwrap();
    }
    file.close().await.unwrap();
    round
}

/// Channels are cut repeatedly under load, without an error or a lost byte. A second create of a
/// file would be refused, so a replay must find the result of the first request.
fn survives(address: SocketAddr, user: &str, folder: &'static str, options: SmbOptions) {
    block_on(async {
        let (relays, client) = four_paths(address, user, options).await;
        let tree = client.tree("data").await.unwrap();
        tree.make_directory(folder).await.unwrap();
        tree.touch(&format!("{folder}/written"), &SmbOpenHow::read_write()).await.unwrap();
        let stop = Arc::default();
        let writers: Vec<_> = (0..8)
            .map(|number| tokio::spawn(write_on(tree.clone(), folder, number, Arc::clone(&stop))))
            .collect();
        for round in 0..12 {
            tokio::time::sleep(Duration::from_millis(60)).await;
            relays[round % 4].cut();
            until("the lost channel is replaced", || {
                client.counters().reopened == round as u64 + 1
            })
            .await;
            assert_eq!(client.channels().len(), 4, "round {round}, {:?}", client.counters());
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let mut rounds = 0;
        for writer in writers {
            rounds += writer.await.unwrap();
        }
        let counters = client.counters();
        println!("{rounds} rounds, {counters:?}");
        assert_eq!(counters.lost, 12);
        assert!(counters.replayed > 0 && rounds > 24, "{rounds} {counters:?}");
        assert_eq!(tree.stat(&format!("{folder}/written")).await.unwrap().size_bytes, 8 * 40_000);
        client.close().await;
    });
}

fn sealed() -> SmbOptions {
    SmbOptions { sealed: true, ..options() }
}

fn signed() -> SmbOptions {
    SmbOptions { signing: SigningPolicy::Required, ..options() }
}

#[test]
fn channels_that_are_cut_under_load_cost_no_error_and_no_byte() {
    let server = Setup::new().start();
    survives(server.smb, &user(), "plain", options());
    survives(server.smb, &user(), "signed", signed());
    survives(server.smb, &user(), "sealed", sealed());
}

#[test]
#[ignore = "needs Samba: make servers"]
fn channels_cut_under_load_lose_nothing_with_installed_samba() {
    let server = SambaServer::start(SambaRelease::Installed, 85, "");
    survives(server.smb, USER, "plain", options());
    survives(server.smb, USER, "sealed", sealed());
}

#[test]
#[ignore = "needs Samba: make servers"]
fn channels_cut_under_load_lose_nothing_with_newest_samba() {
    let server = SambaServer::start(SambaRelease::Newest, 86, "");
    survives(server.smb, USER, "plain", options());
    survives(server.smb, USER, "signed", signed());
}

#[test]
fn silent_channel_is_dropped_and_its_requests_move() {
    let server = Setup::new().start();
    block_on(async {
        let patience = Duration::from_secs(1);
        let (relays, client) =
            four_paths(server.smb, &user(), SmbOptions { patience, ..options() }).await;
        let tree = client.tree("data").await.unwrap();
        let file = Arc::new(tree.open("silent", &SmbOpenHow::read_write()).await.unwrap());
        relays[2].fall_silent();
        let data = pattern(100_000, 3);
        let writes: Vec<_> = (0..16u64)
            .map(|at| {
                let (file, data) = (file.clone(), data.clone());
                tokio::spawn(async move { file.write(at * 100_000, &data).await })
            })
            .collect();
        for write in writes {
            write.await.unwrap().unwrap();
        }
        assert_eq!(client.counters().lost, 1);
        for at in 0..16 {
            assert!(file.read(at * 100_000, 100_000).await.unwrap()[..] == data[..]);
        }
    });
}

/// A slow link is not a silent one: the client waits for a large reply in big reads, and must not
/// time out between them.
#[test]
fn channel_on_a_slow_link_is_not_timed_out() {
    let server = Setup::new().start();
    block_on(async {
        let relay = Relay::new(server.smb).await;
        let patience = Duration::from_millis(700);
        let client = connect(relay.address, &user(), SmbOptions { patience, ..options() }).await;
        let tree = client.tree("data").await.unwrap();
        let file = tree.open("slow", &SmbOpenHow::read_write()).await.unwrap();
        let data = pattern(400_000, 5);
        file.write(0, &data).await.unwrap();
        relay.crawl(1500);
        assert!(file.read(0, 400_000).await.unwrap()[..] == data[..]);
        assert_eq!(client.counters().lost, 0);
    });
}

/// Puts a file while another client has it open, as a lost connection does until the server
/// notices the loss. Returns the number of refusals that a client without retries gets.
fn put_beside_one_who_has_it_open(address: SocketAddr, user: &str) -> usize {
    block_on(async {
        let (before, after) =
            (connect(address, user, options()).await, connect(address, user, options()).await);
        let (held, again) = (before.tree("data").await.unwrap(), after.tree("data").await.unwrap());
        let data = pattern(3000, 1);
        let put = Put {
            temporary: "file.part",
            path: "file",
            replaces: true,
            data: &data,
            times: [FileTime(0); 4],
            attributes: 0,
            is_again: false,
        };
        again.put(&put).await.unwrap();
        let mut refusals = 0;
        for path in ["file", "file.part"] {
            let how = SmbOpenHow { disposition: FILE_OPEN_IF, ..SmbOpenHow::read_write() };
            let open = held.open(path, &how).await.unwrap();
            if let Err(error) = again.put(&put).await {
                let busy = [NtStatus::ACCESS_DENIED, NtStatus::SHARING_VIOLATION];
                assert!(error.status().is_some_and(|it| busy.contains(&it)), "{path}: {error}");
                refusals += 1;
            }
            let closing = async {
                tokio::time::sleep(Duration::from_millis(200)).await;
                open.close().await.unwrap();
            };
            let once_more = Put { is_again: true, ..put };
            let (done, ()) = tokio::join!(again.put(&once_more), closing);
            assert_eq!(done, Ok(()), "{path}");
        }
        assert_eq!(again.list("").await.unwrap().len(), 1, "nothing is left beside it");
        before.close().await;
        after.close().await;
        refusals
    })
}

#[test]
fn retry_waits_until_server_closed_the_lost_connection() {
    let server = Setup::new().start();
    assert_eq!(put_beside_one_who_has_it_open(server.smb, &user()), 2);
}

#[test]
#[ignore = "needs Samba: make servers"]
fn retry_waits_until_installed_samba_closed_lost_connection() {
    let server = SambaServer::start(SambaRelease::Installed, 89, "");
    // Samba replaces open files.
    assert_eq!(put_beside_one_who_has_it_open(server.smb, USER), 1);
}

#[test]
fn load_is_spread_over_all_channels() {
    let server = Setup::new().start();
    block_on(async {
        let (_relays, client) = four_paths(server.smb, &user(), options()).await;
        let tree = client.tree("data").await.unwrap();
        let file = Arc::new(tree.open("spread", &SmbOpenHow::read_write()).await.unwrap());
        let data = pattern(60_000, 4);
        for _ in 0..20 {
            let writes: Vec<_> = (0..16u64)
                .map(|at| {
                    let (file, data) = (file.clone(), data.clone());
                    tokio::spawn(async move { file.write(at * 60_000, &data).await })
                })
                .collect();
            for write in writes {
                write.await.unwrap().unwrap();
            }
        }
        let shares: Vec<u64> = client.channels().iter().map(|channel| channel.bytes).collect();
        let total: u64 = shares.iter().sum();
        assert!(total >= 20 * 16 * 60_000);
        assert!(shares.iter().all(|share| *share * 8 > total), "{shares:?}");
    });
}

#[test]
fn wrong_password_and_missing_share_are_reported() {
    let server = Setup::new().start();
    block_on(async {
        let wrong = target(server.smb, &user(), "a wrong password");
        let refused = SmbClient::connect(wrong, options(), Arc::new(FixedHost)).await.unwrap_err();
        assert_eq!(refused.status(), Some(NtStatus::LOGON_FAILURE), "{refused}");
        let client = connect(server.smb, &user(), options()).await;
        let missing = client.tree("missing").await.unwrap_err();
        assert_eq!(missing.status(), Some(NtStatus::BAD_NETWORK_NAME), "{missing}");
    });
}

#[test]
#[ignore = "needs Samba: make servers"]
fn samba_share_that_requires_encryption_is_used_sealed() {
    let server = SambaServer::start(SambaRelease::Installed, 87, "");
    block_on(async {
        let client = connect(server.smb, USER, options()).await;
        assert!(!client.session().seals, "the session does without");
        use_all(&client.tree("sealed").await.unwrap()).await;
        client.close().await;
    });
}
