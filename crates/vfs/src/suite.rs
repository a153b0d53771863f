//! What every backend must do: the promises of [`Vfs`] and [`crate::Node`], as
//! tests. [`backend_suite!`](crate::backend_suite) makes one test of each.

#![allow(clippy::unwrap_used, missing_docs)]

mod data;
mod handles;
mod names;
mod nodes;

use crate::{
    Actor, Case, CreateHow, CreationMode, FileKind, Identity, Name, Node, OpenHow, Opened, RelPath,
    Result, Vfs, Wait, Wanted, XattrName,
};
use std::sync::Arc;

pub use data::*;
pub use handles::*;
pub use names::*;
pub use nodes::*;

/// Every test of the suite, for a backend that `$fresh` makes: a function that
/// takes the test and runs it on a new, empty tree.
#[macro_export]
macro_rules! backend_suite {
    ($fresh:path) => {
        $crate::backend_suite!($fresh:
            a_descriptor_counts_until_others_change_the_permissions
            a_directory_lists_each_name_once_whatever_pieces_it_is_read_in
            a_directory_takes_the_place_of_an_empty_one_where_posix_is_asked_for
            a_directory_with_entries_is_not_removed
            a_file_grows_to_the_end_of_what_is_reserved_and_is_never_cut
            a_file_that_is_open_lives_on_without_a_name
            a_handle_finds_its_node_wherever_it_is
            a_handle_of_what_is_gone_finds_nothing
            a_hard_link_is_the_same_file
            a_link_is_followed_unless_it_is_what_is_wanted
            a_link_that_leads_out_or_in_circles_is_refused
            a_missing_name_and_a_missing_directory_are_told_apart
            a_name_is_made_once
            a_name_is_removed_only_while_it_names_what_is_expected
            a_node_has_one_key_by_all_its_names
            a_node_is_opened_anew_by_no_path
            a_rename_moves_a_directory_with_what_is_in_it
            a_rename_never_puts_a_directory_into_itself
            a_rename_replaces_a_file_only_if_asked_and_never_a_directory
            a_spelling_can_be_changed
            a_user_may_do_what_the_mode_says
            attributes_that_are_set_are_read_back
            blocks_are_shared_whole_or_not_at_all
            bytes_are_read_where_they_were_written
            bytes_can_be_copied_between_files
            child_calls_spare_unexpected_nodes
            child_calls_stay_in_open_directory_after_swap
            cutting_and_growing_leave_zeros
            descriptors_are_kept_as_they_are
            dos_attributes_are_merged
            entries_are_listed_with_what_a_look_at_each_would_tell
            entries_are_looked_at_as_who_lists
            every_change_has_another_number
            extended_attributes_are_kept_listed_and_removed
            extended_attributes_have_any_name_that_linux_lets_them_have
            holes_read_as_zeros_and_are_not_data
            names_are_found_by_case_only_where_that_is_wanted
            other_bytes_are_no_handles
            powers_resolve_no_path
            paths_longer_than_a_system_call_takes_lead_to_their_nodes
            reserved_space_changes_neither_length_nor_content
            set_change_time_is_shown_until_the_next_change
            special_nodes_are_seen_as_what_they_are
            the_root_is_not_removed_nor_renamed
            what_is_listed_has_the_handle_that_it_has_itself
            what_is_not_open_for_it_is_neither_read_nor_written
            who_made_a_file_is_remembered
        );
    };
    ($fresh:path: $($case:ident)*) => {
        $(#[test]
        fn $case() {
            $fresh(&$crate::suite::$case);
        })*
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
    wanted: Wanted { dos: Some(crate::ServerWork::Metadata) },
    no_follow: false,
    wait: Wait::Allowed,
};

fn open(vfs: &dyn Vfs, at: &str) -> Result<Opened> {
    vfs.open(root(), &path(at), HOW)
}

fn make(vfs: &dyn Vfs, at: &str, kind: FileKind) -> Result<Opened> {
    let mode = if kind == FileKind::Directory { 0o755 } else { 0o644 };
    let how = CreateHow {
        kind,
        mode: CreationMode::exactly(mode),
        dos: None,
        wanted: Wanted { dos: Some(crate::ServerWork::Metadata) },
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
