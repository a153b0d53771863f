//! Test suite of the promises of [`Vfs`] and [`crate::Node`], for every backend.
//! [`backend_suite!`](crate::backend_suite) expands to one test for each.

#![allow(clippy::unwrap_used, missing_docs)]

mod data;
mod handles;
mod names;
mod nodes;

use crate::{
    Actor, AttributeRequest, Case, CreateHow, CreationMode, FileKind, Identity, Name, Node,
    OpenHow, OpenedNode, RelPath, Result, Vfs, Wait, XattrName,
};
use std::sync::Arc;

pub use data::*;
pub use handles::*;
pub use names::*;
pub use nodes::*;

/// Expands to the suite's tests for the backend that `$fresh` creates. `$fresh` receives a test and
/// runs it on a new, empty tree.
#[macro_export]
macro_rules! backend_suite {
    ($fresh:path) => {
        $crate::backend_suite!($fresh:
            access_beyond_the_open_mode_is_refused
            allocate_and_grow_extends_and_never_truncates
            allocate_changes_neither_length_nor_content
            attributes_read_back_as_set
            child_calls_spare_unexpected_nodes
            child_calls_stay_in_open_directory_after_swap
            clone_shares_whole_blocks_or_nothing
            copy_range_copies_between_files
            create_of_existing_name_is_refused
            data_reads_back_at_its_offset
            descriptor_is_void_after_a_change_of_permissions
            descriptor_reads_back_unchanged
            dos_attributes_are_merged
            elevated_calls_resolve_no_path
            escaping_or_looping_symlink_is_refused
            every_change_has_a_new_change_attribute
            handle_finds_its_node_after_renames
            handle_of_deleted_node_is_stale
            hard_link_is_the_same_file
            holes_read_as_zeros_and_are_not_data
            insensitive_lookup_finds_other_case_on_request
            listed_attributes_equal_those_of_stat
            listed_entry_has_the_handle_of_its_node
            listing_in_pieces_has_each_name_once
            listing_stats_entries_as_its_caller
            malformed_handle_is_refused
            missing_name_and_missing_directory_differ
            node_has_one_key_by_all_its_names
            nonempty_directory_is_not_removed
            open_file_survives_removal_of_its_name
            open_node_needs_no_path
            path_longer_than_path_max_is_resolved
            posix_rename_replaces_an_empty_directory
            remove_of_unexpected_node_is_refused
            rename_changes_case_of_a_name
            rename_moves_directory_with_its_content
            rename_of_directory_into_itself_is_refused
            rename_replaces_file_on_request_and_no_directory
            root_is_neither_removed_nor_renamed
            set_change_time_holds_until_the_next_change
            special_nodes_report_their_kind
            symlink_is_followed_unless_no_follow
            truncate_and_growth_leave_zeros
            user_access_follows_the_mode
            verifier_of_creator_reads_back
            xattr_takes_any_name_that_linux_takes
            xattrs_are_stored_listed_and_removed
        );
    };
    ($fresh:path: $($case:ident)*) => {
        $(#[test]
        fn $case() {
            $fresh(&$crate::suite::$case);
        })*
    };
}

/// Expands to the suite's tests for the cache that `$fresh` creates, as [`backend_suite!`] does.
///
/// [`backend_suite!`]: crate::backend_suite
#[macro_export]
macro_rules! name_cache_suite {
    ($fresh:path) => {
        $crate::backend_suite!($fresh:
            cached_attributes_equal_those_of_stat
            cached_listing_stats_entries_as_its_caller
            elevated_calls_resolve_no_cached_path
        );
    };
}

fn path(text: &str) -> RelPath {
    let parts = text.split('/').filter(|part| !part.is_empty());
    parts.map(name).collect()
}

fn xattr_name(text: &str) -> XattrName {
    XattrName::new(text.as_bytes()).unwrap()
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("the suite's names are good")
}

fn root() -> Actor<'static> {
    Actor::SUPERUSER
}

const HOW: OpenHow = OpenHow {
    read: true,
    write: true,
    case: Case::Sensitive,
    wanted: AttributeRequest { dos: Some(crate::ServerWork::Metadata) },
    no_follow: false,
    wait: Wait::Allowed,
};

fn open(vfs: &dyn Vfs, at: &str) -> Result<OpenedNode> {
    vfs.open(root(), &path(at), HOW)
}

fn make(vfs: &dyn Vfs, at: &str, kind: FileKind) -> Result<OpenedNode> {
    let mode = if kind == FileKind::Directory { 0o755 } else { 0o644 };
    let how = CreateHow {
        kind,
        mode: CreationMode::exactly(mode),
        dos: None,
        wanted: AttributeRequest { dos: Some(crate::ServerWork::Metadata) },
        initialiser: None,
    };
    vfs.create(root(), &path(at), Case::Sensitive, how)
}

fn file(vfs: &dyn Vfs, at: &str, content: &[u8]) -> Arc<dyn Node> {
    let node = make(vfs, at, FileKind::File).expect("it can be made").node;
    node.write(root(), 0, content).expect("it can be written");
    node
}

fn directory(vfs: &dyn Vfs, at: &str) -> Arc<dyn Node> {
    make(vfs, at, FileKind::Directory).expect("it can be made").node
}

fn content(node: &dyn Node) -> Vec<u8> {
    let mut bytes = Vec::new();
    node.read(0, 1 << 20, &mut bytes, Wait::Allowed).expect("it can be read");
    bytes
}

fn content_at(vfs: &dyn Vfs, at: &str) -> Result<Vec<u8>> {
    open(vfs, at).map(|opened| content(&*opened.node))
}
