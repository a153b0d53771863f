//! Audit of file operations, by clients of both protocols.

use crate::support::library::{export, share};
use crate::support::{ServerProcess, Setup, user, wait_for};
use bytes::Bytes;
use client::SmbOpenHow;
use client::nfs::Disposition;
use serde_json::Value;
use std::net::SocketAddr;
use std::path::Path;

/// FILE_CREATE. MS-SMB2 2.2.13.
const FILE_CREATE: u32 = 2;

/// The records of file operations so far.
fn records(audit: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(audit).unwrap_or_default();
    // The last line may be written in part.
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["category"] == "FileOperation").collect()
}

async fn use_smb(server: &ServerProcess) {
    let tree = share(server, "audited").await;
    let how = SmbOpenHow { disposition: FILE_CREATE, ..SmbOpenHow::read_write() };
    let file = tree.open("by smb", &how).await.unwrap();
    for offset in [0, 4] {
        file.write(offset, &Bytes::from_static(b"data")).await.unwrap();
        assert_eq!(&*file.read(offset, 4).await.unwrap(), b"data");
    }
    file.close().await.unwrap();
    tree.rename("by smb", "renamed", false).await.unwrap();
    tree.remove("renamed").await.unwrap();
}

async fn use_nfs(address: SocketAddr) {
    let export = export(address, "audited").await;
    let file = export.open_file("by nfs", Disposition::Create).await.unwrap();
    for offset in [0, 4] {
        export.write(&file, offset, b"data").await.unwrap();
        assert_eq!(&*export.read(&file, offset, 4).await.unwrap(), b"data");
    }
    export.close(file).await.unwrap();
    export.rename("by nfs", "renamed").await.unwrap();
    export.remove("renamed").await.unwrap();
}

#[test]
fn same_change_over_smb_and_nfs_leaves_the_same_record() {
    let mut setup = Setup::new();
    let address = setup.serve_nfs(98, 24464);
    let folder = setup.folder.path().to_path_buf();
    let (served, audit) = (folder.join("audited"), folder.join("audit.jsonl"));
    std::fs::create_dir(&served).unwrap();
    setup.shares += &format!(
        "[[share]]\nname = \"audited\"\npath = \"{}\"\nnfs_squash = \"none\"\n\
         audit = [\"create\", \"delete\", \"read\", \"rename\", \"write\"]\n\
         [log]\naudit = \"{}\"\n",
        served.display(),
        audit.display()
    );
    let server = setup.start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for (protocol, name) in [("SMB", "by smb"), ("NFS", "by nfs")] {
        let before = records(&audit).len();
        runtime.block_on(async {
            match protocol {
                "SMB" => use_smb(&server).await,
                _ => use_nfs(address).await,
            }
        });
        let found = wait_for("the records", || {
            let found = records(&audit).split_off(before);
            found.iter().any(|record| record["operationName"] == "Delete").then_some(found)
        });
        let operations: Vec<_> = found
            .iter()
            .map(|record| {
                let text = |key: &str| record[key].as_str().unwrap_or("-").to_owned();
                (text("operationName"), text("path"), text("newPath"))
            })
            .collect();
        let record = |operation: &str, path: &str, new: &str| {
            (operation.to_owned(), path.to_owned(), new.to_owned())
        };
        assert_eq!(
            operations,
            [
                record("Create", name, "-"),
                record("Write", name, "-"),
                record("Read", name, "-"),
                record("Rename", name, "renamed"),
                record("Delete", "renamed", "-"),
            ],
            "{protocol}"
        );
        for record in &found {
            assert_eq!(
                (&record["protocol"], &record["share"]),
                (&protocol.into(), &"audited".into())
            );
            assert_eq!(
                (&record["statusCode"], &record["identity"]["requester"]),
                (&0.into(), &user().into())
            );
            assert!(record["callerIpAddress"].as_str().unwrap().starts_with("127.0."), "{record}");
            assert!(record["clientName"].is_string(), "{record}");
        }
    }
    assert_eq!(server.metric("anabranch_audit_file_operations_lost_total"), 0);
}
