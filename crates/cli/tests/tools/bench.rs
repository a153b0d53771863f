//! `anabranch bench` against servers, ours and foreign ones.

use crate::support::ganesha::Ganesha;
use crate::support::samba::{SambaRelease, SambaServer, USER};
use crate::support::{PASSWORD, Setup, anabranch, text, user};
use serde_json::Value;
use std::net::SocketAddr;
use std::process::Output;

fn bench(address: SocketAddr, user: &str, arguments: &[&str]) -> Output {
    anabranch()
        .args(["bench", &format!("smb://{user}@{address}/data"), "--quiet"])
        .args(arguments)
        .env("ANABRANCH_PASSWORD", PASSWORD)
        .output()
        .unwrap()
}

/// Seconds of a load: a busy machine may complete nothing in the first of them.
const SECONDS: [&str; 3] = ["0.4", "4", "20"];
/// Samples of each operation that a load needs at least.
const ENOUGH: u64 = 11;

/// The report of a load, repeated with longer times until `kinds` kinds of operations have
/// enough samples.
fn long_enough(kinds: usize, load: impl Fn(&[&str]) -> Output) -> Value {
    let mut report = Value::Null;
    for seconds in SECONDS {
        let short = ["--duration", seconds, "--warm-up", "0.1", "--file-size", "4M", "--json", "-"];
        let output = load(&short);
        assert!(output.status.success(), "{}", text(&output.stderr));
        report = serde_json::from_slice(&output.stdout).unwrap();
        let operations = report["operations"].as_array().unwrap();
        let is_often = |one: &Value| one["count"].as_u64() >= Some(ENOUGH);
        if operations.iter().filter(|one| is_often(one)).count() >= kinds {
            break;
        }
    }
    report
}

fn measured(address: SocketAddr, user: &str, kinds: usize, arguments: &[&str]) -> Value {
    long_enough(kinds, |short| bench(address, user, &[arguments, short].concat()))
}

/// Runs loads of every kind, and compares the report with the requested settings.
fn every_kind(address: SocketAddr, user: &str, pid: u32) {
    let pid = pid.to_string();
    let mixed = ["--random", "--block", "4K", "--depth", "16", "--read-percent", "50"];
    let checked = ["--verify", "--channels", "1", "--server-pid", &pid, "--files", "3"];
    let report = measured(address, user, 2, &[&mixed[..], &checked].concat());
    let names: Vec<&str> = report["operations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["read", "write"]);
    for one in report["operations"].as_array().unwrap() {
        let (count, latency) = (one["count"].as_u64().unwrap(), &one["latency_us"]);
        let at = |key: &str| latency[key].as_f64().unwrap();
        assert!(count >= ENOUGH, "{report}");
        assert!(0.0 < at("p50") && at("p50") <= at("p99") && at("p99") <= at("max"), "{latency}");
        let bytes = one["bytes_per_second"].as_f64().unwrap();
        let product = one["per_second"].as_f64().unwrap() * 4096.0;
        assert!((bytes / product - 1.0).abs() < 1e-6, "rate times size is throughput");
    }
    assert!(report["server_cpu_seconds"].is_number());
    let environment = &report["environment"];
    assert_eq!((&environment["channels"], &environment["signing"]), (&1.into(), &"off".into()));

    let report = measured(
        address,
        user,
        2,
        &["--sign", "gmac", "--block", "64K", "--threads", "2", "--verify", "--read-percent", "70"],
    );
    let environment = &report["environment"];
    assert_eq!(environment["signing"], "AES-128-GMAC");
    assert_eq!(environment["dialect"], "3.1.1");
    assert_eq!(environment["channels"], 1, "{environment}");
    assert!(environment["channel_refusal"].as_str().unwrap().contains("AES-GMAC"), "{environment}");

    let report =
        measured(address, user, 1, &["--encrypt", "ccm", "--dialect", "3.0", "--block", "1M"]);
    assert_eq!(report["environment"]["cipher"], "AES-128-CCM");

    let report = measured(address, user, 4, &["--metadata"]);
    let kinds = report["operations"].as_array().unwrap().len();
    assert_eq!(kinds, 4, "create, stat, list, delete: {report}");
    let report = measured(address, user, 3, &["--unpack"]);
    let kinds = report["operations"].as_array().unwrap().len();
    assert_eq!(kinds, 3, "create, stat, list: {report}");

    let small = ["--small-files", "--files", "3", "--depth", "2"];
    let report = measured(address, user, 0, &small);
    let counts: Vec<u64> = report["operations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|o| o["count"].as_u64().unwrap())
        .collect();
    assert_eq!(counts, [3, 3], "each is read once and written once");

    let report =
        measured(address, user, 0, &["--bytes", "2M", "--read-percent", "0", "--depth", "2"]);
    assert!(report["operations"][0]["count"].as_u64().unwrap() >= 32, "{report}");
}

#[test]
fn bench_in_existing_folder_leaves_it_unchanged() {
    let server = Setup::new().start();
    let folder = server.folder.path().join("data/names");
    std::fs::create_dir_all(&folder).unwrap();
    (0..20).for_each(|n| std::fs::write(folder.join(format!("file{n}")), "").unwrap());
    let url = format!("smb://{}@{}/data/names", user(), server.smb);
    let measured = |kinds: usize, arguments: &[&str]| {
        long_enough(kinds, |short| {
            let mut bench = anabranch();
            bench.args(["bench", &url, "--quiet", "--depth", "3"]).args(arguments).args(short);
            bench.env("ANABRANCH_PASSWORD", PASSWORD).output().unwrap()
        })
    };
    let names = |report: &Value| -> Vec<String> {
        let operations = report["operations"].as_array().unwrap();
        operations.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    let report = measured(4, &["--in-folder", "--files", "20"]);
    assert_eq!(names(&report), ["create", "open", "close", "delete"]);
    assert_eq!(names(&measured(1, &["--listing", "--files", "20"])), ["list"]);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 20);
}

fn is_empty(folder: &std::path::Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn bench_loads_run_on_anabranch_and_remove_their_files() {
    let server = Setup::new().start();
    every_kind(server.smb, &user(), std::process::id());
    assert!(is_empty(&server.data()));
}

#[test]
#[ignore = "needs Samba: make servers"]
fn bench_loads_run_on_the_installed_samba() {
    let server = SambaServer::start(SambaRelease::Installed, 91, "");
    every_kind(server.smb, USER, std::process::id());
    assert!(is_empty(&server.folder.join("data")));
}

#[test]
#[ignore = "needs Samba: make servers"]
fn bench_loads_run_on_the_newest_samba() {
    let server = SambaServer::start(SambaRelease::Newest, 92, "");
    every_kind(server.smb, USER, std::process::id());
    assert!(is_empty(&server.folder.join("data")));
}

fn measured_over_nfs(address: SocketAddr, path: &str, kinds: usize, arguments: &[&str]) -> Value {
    let url = format!("nfs://{address}/{path}");
    long_enough(kinds, |short| {
        let mut bench = anabranch();
        bench.args(["bench", &url, "--quiet"]).args(arguments).args(short).output().unwrap()
    })
}

/// Loads over NFS, with one connection and several, in both versions.
fn every_kind_over_nfs(address: SocketAddr, path: &str, pid: u32) {
    let pid = pid.to_string();
    let mixed = ["--random", "--block", "4K", "--depth", "64", "--read-percent", "50"];
    let more = ["--verify", "--nconnect", "4", "--files", "3", "--server-pid", &pid];
    let report = measured_over_nfs(address, path, 2, &[&mixed[..], &more].concat());
    let environment = &report["environment"];
    assert_eq!((&environment["protocol"], &environment["dialect"]), (&"NFS".into(), &"4.1".into()));
    let bytes = environment["channel_bytes"].as_array().unwrap();
    assert!(bytes.len() == 4 && bytes.iter().all(|bytes| bytes.as_u64() > Some(4096)));
    for one in report["operations"].as_array().unwrap() {
        assert!(one["count"].as_u64().unwrap() >= ENOUGH, "{report}");
    }
    assert!(report["server_cpu_seconds"].is_number());
    // Some of these connections begin with a large WRITE.
    let large = ["--block", "512K", "--verify", "--read-percent", "50", "--nconnect", "16"];
    let report =
        measured_over_nfs(address, path, 2, &[&large[..], &["--nfs-version", "4.2"]].concat());
    assert_eq!(report["environment"]["dialect"], "4.2");
    let report = measured_over_nfs(address, path, 4, &["--metadata", "--nconnect", "2"]);
    let kinds = report["operations"].as_array().unwrap().len();
    assert_eq!(kinds, 4, "create, stat, list, delete: {report}");
    let report = measured_over_nfs(address, path, 3, &["--unpack", "--nconnect", "2"]);
    let kinds = report["operations"].as_array().unwrap().len();
    assert_eq!(kinds, 3, "create, stat, list: {report}");
    let small = ["--small-files", "--files", "3", "--depth", "2"];
    let report = measured_over_nfs(address, path, 0, &small);
    let counts = report["operations"].as_array().unwrap().iter().map(|one| one["count"].as_u64());
    assert!(counts.eq([Some(3), Some(3)]), "written once and read once: {report}");
}

#[test]
fn loads_over_nfs_run_on_our_server_and_leave_nothing_behind() {
    let mut setup = Setup::new();
    let (address, folder) = setup.export(94, 24456);
    let _server = setup.start();
    every_kind_over_nfs(address, "exported", std::process::id());
    assert!(is_empty(&folder));
}

#[test]
#[ignore = "needs NFS-Ganesha: make servers"]
fn loads_over_nfs_run_on_ganesha_and_leave_nothing_behind() {
    let server = Ganesha::start(93);
    every_kind_over_nfs(server.nfs, "export", server.pid);
    assert!(is_empty(&server.folder));
    let missing = anabranch()
        .args(["bench", &format!("nfs://{}/nowhere", server.nfs), "--quiet"])
        .output()
        .unwrap();
    assert!(text(&missing.stderr).contains("NOENT"), "{}", text(&missing.stderr));
}

#[test]
fn bench_table_describes_the_load_and_reports_errors() {
    let server = Setup::new().start();
    let arguments = ["--duration", "0.2", "--warm-up", "0", "--file-size", "1M", "--channels", "1"];
    let output = bench(server.smb, &user(), &arguments);
    let table = text(&output.stdout);
    for part in [
        "SMB 3.1.1, signing off, encryption off, 1 channel",
        "sequential read, 64 KiB blocks, 1 file of 1 MiB; 1 thread of depth 8, 0.2 s",
        "p99.9",
        "client CPU: ",
    ] {
        assert!(table.contains(part), "{part} is not in\n{table}{}", text(&output.stderr));
    }
    let wrong = anabranch()
        .args(["bench", &format!("smb://{}@{}/data", user(), server.smb)])
        .env("ANABRANCH_PASSWORD", "a wrong password")
        .output()
        .unwrap();
    assert!(!wrong.status.success());
    assert!(text(&wrong.stderr).contains("LOGON_FAILURE"), "{}", text(&wrong.stderr));
    let large = bench(server.smb, &user(), &["--block", "64M", "--file-size", "128M"]);
    assert!(text(&large.stderr).contains("blocks of this size"), "{}", text(&large.stderr));
}

#[test]
fn bench_ends_with_a_reason_when_the_server_dies() {
    let mut server = Setup::new().start();
    let child = anabranch()
        .args(["bench", &format!("smb://{}@{}/data", user(), server.smb), "--quiet"])
        .args(["--duration", "60", "--warm-up", "0", "--file-size", "1M"])
        .env("ANABRANCH_PASSWORD", PASSWORD)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    crate::support::wait_for("files of the load", || (!is_empty(&server.data())).then_some(()));
    std::thread::sleep(std::time::Duration::from_millis(300));
    server.kill();
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("the connection was lost"), "{}", text(&output.stderr));
}

/// Runs a comparison, and returns its JSON.
fn compared(url: &str, arguments: &[&str]) -> Value {
    let output = anabranch()
        .args(["bench", url, "--quiet", "--json", "-"])
        .args(arguments)
        .env("ANABRANCH_PASSWORD", PASSWORD)
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

const BRIEF: [&str; 6] = ["--duration", "0.2", "--warm-up", "0.1", "--file-size", "4M"];

#[test]
fn bench_mix_sweep_has_eleven_points() {
    let server = Setup::new().start();
    let url = format!("smb://{}@{}/data", user(), server.smb);
    let sweep = ["--random", "--block", "4K", "--mix-sweep", "10", "--rounds", "1"];
    let found = compared(&url, &[&sweep[..], &BRIEF].concat());
    let summary = found["summary"].as_array().unwrap();
    let shares: Vec<u64> =
        summary.iter().map(|one| one["read_percent"].as_u64().unwrap()).collect();
    assert_eq!(shares, [100, 90, 80, 70, 60, 50, 40, 30, 20, 10, 0]);
    assert!(is_empty(&server.data()));
}

#[test]
fn bench_compares_connections_and_reports_in_every_format() {
    let server = Setup::new().start();
    let url = format!("smb://{}@{}/data", user(), server.smb);
    let (csv, html) = (server.path("mix.csv"), server.path("report.html"));
    let charts = server.folder.path().join("charts");
    std::fs::create_dir(&charts).unwrap();
    let files = ["--csv", csv.to_str().unwrap(), "--html", html.to_str().unwrap()];
    let pictures = ["--charts", charts.to_str().unwrap()];
    let kinds = ["--channels", "1,4", "--sign", "off,cmac", "--encrypt", "off,gcm"];
    let found = compared(&url, &[&kinds[..], &files, &pictures, &BRIEF].concat());
    let runs = found["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2 * 2 * 2 * 2, "two rounds of eight kinds");
    let arms: Vec<&str> = runs.iter().map(|run| run["connection"].as_str().unwrap()).collect();
    assert_eq!(arms[..8], arms[8..], "each round has all kinds, in the same order");
    let used = |at: usize, key: &str| runs[at]["report"]["environment"][key].clone();
    assert_eq!((used(0, "channels"), used(0, "signing")), (1.into(), "off".into()));
    assert_eq!(
        (used(1, "cipher"), used(2, "signing")),
        ("AES-128-GCM".into(), "AES-128-CMAC".into())
    );
    assert_eq!(used(7, "channels"), 4);
    let summary = found["summary"].as_array().unwrap();
    let csv = std::fs::read_to_string(csv).unwrap();
    assert_eq!(csv.lines().count(), summary.len() + 1);
    let page = std::fs::read_to_string(html).unwrap();
    let embedded = page.split("id=\"data\">").nth(1).unwrap().split("</script>").next().unwrap();
    let embedded: Value = serde_json::from_str(embedded).unwrap();
    assert_eq!(embedded, found, "the page has the numbers that the JSON has");
    for (at, one) in summary.iter().enumerate() {
        let rate = one["per_second"].as_f64().unwrap();
        let product = rate * one["block_bytes"].as_f64().unwrap();
        assert!((one["bytes_per_second"].as_f64().unwrap() / product - 1.0).abs() < 0.01, "{one}");
        let drawn = page.split("data-chart=\"rate\"").nth(1).unwrap();
        let drawn = drawn.split(&format!("data-row=\"{at}\" data-value=\"")).nth(1).unwrap();
        let drawn: f64 = drawn.split('"').next().unwrap().parse().unwrap();
        assert!((drawn / rate - 1.0).abs() < 1e-9, "the bar of {one} is another's: {drawn}");
    }
    assert_eq!(std::fs::read_dir(charts).unwrap().count(), 5, "the server's process is not known");
    let namespaces = page.matches("http://www.w3.org/2000/svg").count();
    assert_eq!(page.matches("http://").count(), namespaces, "it asks for nothing elsewhere");
    assert!(is_empty(&server.data()));
}

#[test]
fn larger_requests_raise_throughput_and_latency() {
    let server = Setup::new().start();
    let url = format!("smb://{}@{}/data", user(), server.smb);
    let sizes = ["--random", "--block", "4K,64K,1M", "--depth", "8"];
    let report = compared(&url, &[&sizes[..], &BRIEF].concat());
    let of = |key: &str| -> Vec<f64> {
        let summary = report["summary"].as_array().unwrap();
        summary.iter().map(|one| one[key].as_f64().unwrap()).collect()
    };
    assert_eq!(of("block_bytes"), [4096.0, 65536.0, 1048576.0]);
    // Compares the smallest and the largest, and bytes by the CPU time that they take: in such short
    // runs, other load on the machine decides the rest.
    let ends = |key: &str| (of(key)[0], of(key)[2]);
    let ((small_bytes, large_bytes), (small_us, large_us)) =
        (ends("block_bytes"), ends("client_cpu_us"));
    assert!(small_us / small_bytes > large_us / large_bytes, "{report:#}");
    let (small, large) = ends("per_second");
    assert!(small > large, "{report:#}");
    let (small, large) = ends("p50_us");
    assert!(small < large, "{report:#}");
    let files = ["--files", "1,2,5,10", "--depth", "10"];
    let report = compared(&url, &[&files[..], &BRIEF].concat());
    let summary = report["summary"].as_array().unwrap();
    let files: Vec<u64> = summary.iter().map(|one| one["files"].as_u64().unwrap()).collect();
    assert_eq!(files, [1, 2, 5, 10]);
    assert!(is_empty(&server.data()));
}

#[test]
fn bench_compares_metadata_cache_and_restores_it() {
    let server = Setup::new().start();
    let state = || {
        let features: Value = serde_json::from_str(&server.page("/v1/features")).unwrap();
        let share = features[0]["Shares"][0].clone();
        (share["State"].clone(), share["Since"].as_u64())
    };
    let found = state();
    // The reported times are in whole seconds.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let url = format!("smb://{}@{}/data", user(), server.smb);
    let admin = server.admin.to_string();
    let arms = ["--metadata", "--metadata-cache", "on,off", "--server-admin", &admin];
    let report = compared(&url, &[&arms[..], &BRIEF].concat());
    let summary = report["summary"].as_array().unwrap();
    let arms: Vec<&str> = summary.iter().map(|one| one["connection"].as_str().unwrap()).collect();
    assert_eq!(arms, ["cache on", "cache off"]);
    assert_eq!(summary[0]["load"], "create, stat, list, delete");
    let left = state();
    assert_eq!(left.0, found.0, "as it was found");
    assert!(left.1 > found.1, "it was switched meanwhile: {found:?}, {left:?}");
    assert!(is_empty(&server.data()));
    let nowhere = ["--metadata", "--metadata-cache", "off", "--server-admin", "127.0.0.1:1"];
    let output = bench(server.smb, &user(), &[&nowhere[..], &BRIEF].concat());
    assert!(text(&output.stderr).contains("--metadata-cache"), "{}", text(&output.stderr));
}

#[test]
fn bench_runs_diskspd_and_fio_command_lines_and_profiles() {
    let server = Setup::new().start();
    let url = format!("smb://{}@{}/data", user(), server.smb);
    let line = "-W300 -C5 -r -w100 -b4k -t8 -o8 -Sh -d60 -L -c2G -Z1G z:\\write0.dat \
                z:\\write1.dat z:\\write2.dat z:\\write3.dat z:\\write4.dat z:\\write5.dat \
                z:\\write6.dat z:\\write7.dat z:\\write8.dat z:\\write9.dat";
    let scaled = ["--scale", "0.003", "diskspd", "--"];
    let words: Vec<&str> = scaled.into_iter().chain(line.split_whitespace()).collect();
    let report = compared(&url, &words);
    assert_eq!((&report["plan"]["files"], &report["plan"]["threads"]), (&10.into(), &80.into()));
    assert_eq!(report["operations"][0]["name"], "write");
    let line = "--ioengine=libaio --direct=1 --nrfiles=4 --numjobs=1 --runtime=1800 --time_based \
                --bs=8k --iodepth=64 --filesize=4G --rw=randread --group_reporting --ramp_time=300";
    let words: Vec<&str> =
        ["--scale", "0.0003", "fio", "--"].into_iter().chain(line.split_whitespace()).collect();
    let report = compared(&url, &words);
    assert_eq!(
        (&report["plan"]["depth"], &report["plan"]["block_bytes"]),
        (&64.into(), &8192.into())
    );
    let found = compared(&url, &["--profile", "quick", "--scale", "0.0005", "--rounds", "1"]);
    assert_eq!(found["summary"].as_array().unwrap().len(), 8, "four loads, one channel and four");
    for usage in ["devops", "desktops"] {
        let found = compared(&url, &["--profile", usage, "--scale", "0.005", "--rounds", "1"]);
        let runs = found["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 2, "{usage}: one channel and four");
        for run in runs {
            let operations = run["report"]["operations"].as_array().unwrap();
            let has = |name| operations.iter().any(|one| one["name"] == name);
            assert!(has("stat") && has("read"), "{usage}: {run}");
            assert_eq!(run["report"]["plan"]["work"], usage);
        }
    }
    let unknown = bench(server.smb, &user(), &["--profile", "slow"]);
    assert!(text(&unknown.stderr).contains("seed-nconnect"), "{}", text(&unknown.stderr));
    assert!(is_empty(&server.data()));
}

#[test]
fn several_clients_measure_together_and_are_added_up() {
    let server = Setup::new().start();
    let url = format!("smb://{}@{}/data", user(), server.smb);
    let found = compared(&url, &[&["--clients", "5", "--block", "4K"][..], &BRIEF].concat());
    assert_eq!(found["clients"], 5);
    let each = found["each"].as_array().unwrap();
    let rate = |one: &Value| one["report"]["per_second"].as_f64().unwrap();
    assert!(each.len() == 5 && each.iter().all(|one| rate(one) > 0.0), "{found:#}");
    let sum: f64 = each.iter().map(rate).sum();
    assert!((found["per_second"].as_f64().unwrap() / sum - 1.0).abs() < 1e-9, "{found:#}");
    assert!(is_empty(&server.data()));
}
