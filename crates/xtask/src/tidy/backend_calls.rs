//! Checks that each call of a backend has a caller: each method has it in its signature, or is listed
//! here with the reason why it needs none. The places where a backend acts for the server on its own
//! are listed, too.

use anyhow::Result;
use std::path::Path;

/// Parameter types that name the caller: a request's actor, or a reason of the server.
const CALLERS: [&str; 2] = ["Actor<'_>", "ServerWork"];

/// The traits of backends, by file.
const TRAITS: [(&str, &str); 16] = [
    ("changes.rs", "ChangeFeed"),
    ("changes.rs", "ChangeFeeds"),
    ("exclusive_creation.rs", "ExclusiveCreation"),
    ("extended_attributes.rs", "ExtendedAttributes"),
    ("external.rs", "ExternalWatches"),
    ("file_extents.rs", "FileExtents"),
    ("handle.rs", "PersistentHandles"),
    ("user_quotas.rs", "UserQuotas"),
    ("changes.rs", "ListingFeed"),
    ("local_file.rs", "LocalFile"),
    ("name_cache.rs", "NameCache"),
    ("named_streams.rs", "NamedStreams"),
    ("lib.rs", "Node"),
    ("reparse_data.rs", "ReparseData"),
    ("snapshots.rs", "Snapshots"),
    ("lib.rs", "Vfs"),
];

const MEMORY: &str = "answers from the memory of the process";
const OPEN: &str = "looks at an open descriptor: the kernel asks for no permission";
const FILE_SYSTEM: &str = "is about a file system: its features are the same for every caller";
const QUEUE: &str = "is about a queue of the kernel's, and no file";
const SNAPSHOTS: &str = "is done for the server always: ServerWork::Snapshots";

/// Methods without a caller. The test `calls_without_actor_need_no_permission` of vfs-local calls
/// those that read open nodes.
const WITHOUT_CALLER: [(&str, &str, &str); 45] = [
    ("ChangeFeed", "check", QUEUE),
    ("ChangeFeed", "drain", QUEUE),
    ("ChangeFeed", "unfollow", QUEUE),
    ("ListingFeed", "drain", QUEUE),
    ("ListingFeed", "unfollow", QUEUE),
    ("Node", "as_any", MEMORY),
    ("Node", "attributes", OPEN),
    ("Node", "exclusive_creation", MEMORY),
    ("Node", "extended_attributes", MEMORY),
    ("Node", "file_extents", MEMORY),
    ("Node", "is_empty", OPEN),
    ("LocalFile", "is_noatime", OPEN),
    ("LocalFile", "is_resident", OPEN),
    ("Node", "key", MEMORY),
    ("Node", "kind", MEMORY),
    ("Node", "readdir", OPEN),
    ("Node", "local_file", MEMORY),
    ("Node", "named_streams", MEMORY),
    ("FileExtents", "seek_data", OPEN),
    ("Node", "posix_acl", OPEN),
    ("Node", "read", OPEN),
    ("Node", "reparse_store", MEMORY),
    ("Node", "security_descriptor", OPEN),
    ("LocalFile", "sendfile_source", MEMORY),
    ("LocalFile", "syncs_without_waiting", OPEN),
    ("Snapshots", "list", SNAPSHOTS),
    ("Snapshots", "open", SNAPSHOTS),
    ("ChangeFeeds", "change_feed", QUEUE),
    ("Vfs", "creates_without_waiting", MEMORY),
    ("Vfs", "external_watches", MEMORY),
    ("Vfs", "features", MEMORY),
    ("Vfs", "features_of", FILE_SYSTEM),
    ("Vfs", "feeds", MEMORY),
    ("Vfs", "handles", MEMORY),
    ("NameCache", "find_cached", MEMORY),
    ("Vfs", "is_read_only", OPEN),
    ("Vfs", "is_read_only_at", OPEN),
    ("Vfs", "quotas", MEMORY),
    ("NameCache", "cached_change_attribute", MEMORY),
    ("NameCache", "cached_handles", MEMORY),
    ("NameCache", "caches_handles", MEMORY),
    ("PersistentHandles", "persistent_id", OPEN),
    ("ChangeFeeds", "listing_feed", QUEUE),
    ("UserQuotas", "quota_state", OPEN),
    ("UserQuotas", "quota_state_of", OPEN),
];

/// Places where vfs-local acts for the server: the file, its number of reasons, and why the caller
/// cannot act.
const OWN_WORK: [(&str, usize, &str); 14] = [
    ("children.rs", 1, "whether a directory is the one that was just created"),
    ("creation.rs", 1, "the creator gets the file open, whatever permissions it was created with"),
    ("features.rs", 1, "what a mounted file system can do, which is the same for every caller"),
    ("handles.rs", 1, "whether the process may open handles at all"),
    ("identity.rs", 1, "what a thread goes back to"),
    (
        "location.rs",
        1,
        "the path of a directory, which the kernel says without permission if it is short",
    ),
    ("outside/mod.rs", 1, "the thread that reads events"),
    ("security.rs", 1, "only the superuser writes descriptors, which are part of SET security"),
    ("security/undo.rs", 2, "a change that failed is put back, whatever the caller may by then"),
    ("snapshots.rs", 3, "snapshots are listed and opened for all"),
    ("stream_store/mod.rs", 4, "files of long streams, which are the server's own to reach"),
    ("stream_store/reserved.rs", 1, "the record that marks the server's own files"),
    ("stream_store/sweep.rs", 1, "the thread that removes what is left of removed files"),
    ("streams.rs", 2, "what is left of a stream of which a part is changed"),
];

/// Checks the traits and vfs-local.
pub fn check(root: &Path, breaches: &mut Vec<String>) -> Result<()> {
    let read = |path: &str| std::fs::read_to_string(root.join("crates").join(path));
    for (file, name) in TRAITS {
        check_trait(name, &read(&format!("vfs/src/{file}"))?, breaches);
    }
    let folder = root.join("crates/vfs-local/src");
    for file in super::rust_files(&folder)? {
        let name = file.strip_prefix(&folder)?.display().to_string();
        check_own_work(&name, &std::fs::read_to_string(&file)?, breaches);
    }
    Ok(())
}

/// Methods by indentation, as rustfmt leaves them.
fn check_trait(name: &str, text: &str, breaches: &mut Vec<String>) {
    let body = text.split_once(&format!("\npub trait {name}:")).map_or("", |(_, rest)| rest);
    let body = body.split_once("\n}\n").map_or(body, |(body, _)| body);
    let listed = |method: &str| {
        WITHOUT_CALLER.iter().any(|(of, listed, _)| (*of, *listed) == (name, method))
    };
    let mut found = Vec::new();
    for rest in body.split("\n    fn ").skip(1) {
        let method = rest.split(['(', '<']).next().unwrap_or_default();
        let signature = rest.split([';', '{']).next().unwrap_or_default();
        let says = CALLERS.iter().any(|caller| signature.contains(caller));
        if says == listed(method) {
            let what = if says { "is listed, and says" } else { "does not say" };
            breaches.push(format!("vfs: {name}::{method} {what} who makes the call"));
        }
        found.push(method);
    }
    for (_, method, _) in WITHOUT_CALLER.iter().filter(|(of, ..)| *of == name) {
        if !found.contains(method) {
            breaches.push(format!("vfs: {name}::{method} is listed, and is not there"));
        }
    }
}

fn check_own_work(file: &str, text: &str, breaches: &mut Vec<String>) {
    let is_test = file.ends_with("tests.rs");
    let code = text.lines().take_while(|line| !is_test && !line.contains("mod tests {"));
    let code = code.filter(|line| !line.trim_start().starts_with("//"));
    let count: usize = code.map(|line| line.matches("ServerWork::").count()).sum();
    let listed = OWN_WORK.iter().find(|(listed, ..)| *listed == file).map_or(0, |(_, n, _)| *n);
    if count != listed {
        breaches.push(format!(
            "vfs-local/src/{file}: acts for the server by itself in {count} places, of which \
             {listed} are listed: take the actor from the caller"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_trait(methods: &str) -> Vec<String> {
        let mut breaches = Vec::new();
        let drain = "    fn drain(&self);\n    fn unfollow(&self, id: FollowId);\n";
        let text = format!("//! A file.\n\npub trait ListingFeed: Send {{\n{drain}{methods}}}\n");
        check_trait("ListingFeed", &text, &mut breaches);
        breaches
    }

    #[test]
    fn backend_method_without_caller_is_found() {
        assert_eq!(of_trait("    fn follow(&self, work: ServerWork);\n"), [""; 0]);
        assert_eq!(
            of_trait("    fn look(\n        &self,\n        who: Actor<'_>,\n    );\n"),
            [""; 0]
        );
        assert_eq!(of_trait("    fn look(&self, who: NameActor<'_>) {\n    }\n"), [""; 0]);
        for method in ["fn look(&self);", "fn look(&self) {\n        Actor<'_>\n    }"] {
            let found = of_trait(&format!("    {method}\n"));
            assert_eq!(found, ["vfs: ListingFeed::look does not say who makes the call"]);
        }
    }

    #[test]
    fn stale_exception_of_backend_method_is_found() {
        let mut breaches = Vec::new();
        let text = "\npub trait ListingFeed: Send {\n    fn drain(&self, who: Actor<'_>);\n}\n";
        check_trait("ListingFeed", text, &mut breaches);
        assert_eq!(breaches.len(), 2, "{breaches:?}");
    }

    #[test]
    fn hidden_server_work_of_backend_is_found() {
        let found = |file, text| {
            let mut breaches = Vec::new();
            check_own_work(file, text, &mut breaches);
            breaches.len()
        };
        let code = "fn f() {\n    as_server(ServerWork::Metadata, g)\n}\n";
        assert_eq!(found("node.rs", code), 1);
        assert_eq!(found("children.rs", code), 0);
        assert_eq!(found("children.rs", "fn f() {}\n"), 1, "it is listed, and does not");
        assert_eq!(found("node.rs", "// ServerWork::Metadata\nmod tests {\nServerWork::Sync\n"), 0);
    }
}
