//! The page that `anabranch bench --html` writes, in a browser.

use crate::support::{PASSWORD, ServerProcess, Setup, anabranch, text, user};
use std::path::Path;
use std::process::Command;

/// Runs a comparison, and checks its page in a browser; with `ANABRANCH_SCREENSHOTS` the
/// screenshots go into that folder.
fn shown_as_measured(server: &ServerProcess, name: &str, arguments: &[&str]) {
    let (page, json) = (server.path(&format!("{name}.html")), server.path(&format!("{name}.json")));
    let output = anabranch()
        .args(["bench", &format!("smb://{}@{}/data", user(), server.smb), "--quiet", "--html"])
        .arg(&page)
        .arg("--json")
        .arg(&json)
        .args(["--duration", "0.3", "--warm-up", "0.1", "--file-size", "8M"])
        .args(["--server-pid", &server.process_id().to_string()])
        .args(arguments)
        .env("ANABRANCH_PASSWORD", PASSWORD)
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/browser");
    let mut browser = Command::new("timeout");
    browser.arg("120").arg("node").arg(scripts.join("report.mjs")).arg(&page).arg(&json);
    if let Some(folder) = std::env::var_os("ANABRANCH_SCREENSHOTS") {
        browser.arg(Path::new(&folder).join(format!("bench-{name}")));
    }
    let looked = browser.output().unwrap();
    assert!(looked.status.success(), "{name}: {}{}", text(&looked.stdout), text(&looked.stderr));
}

#[test]
#[ignore = "needs Chromium: make browser"]
fn bench_report_charts_match_its_data_in_a_browser() {
    let server = Setup::new().start();
    let kinds = ["--channels", "1,4", "--sign", "off,cmac", "--block", "4K,1M", "--random"];
    shown_as_measured(&server, "kinds", &kinds);
    let sizes = ["--channels", "1,4", "--block", "4K,16K,64K,256K,1M", "--random"];
    shown_as_measured(&server, "sizes", &sizes);
    let files = ["--channels", "1,4", "--files", "1,2,5,10", "--block", "64K", "--depth", "16"];
    shown_as_measured(&server, "files", &files);
    shown_as_measured(&server, "mix", &["--block", "4K", "--mix-sweep", "10", "--random"]);
}
