//! The table of targets.

mod client_side;
mod connection;
mod discovery;
mod files;
mod handles;
mod messages;
mod nfs;
mod nfs_conversation;
mod security;

use crate::FuzzFunction;
pub use handles::remove_files;

/// Memory limit of a decoder: a small multiple of its input, plus a constant.
fn decoder(input_bytes: usize) -> usize {
    64 * 1024 + 32 * input_bytes
}

const fn of_decoder(name: &'static str, run: fn(&[u8])) -> FuzzFunction {
    FuzzFunction { name, set_up: || (), run, memory_bytes_max: decoder, rounds: 400_000 }
}

/// All targets.
pub const TARGETS: &[FuzzFunction] = &[
    of_decoder("frame", messages::frame),
    of_decoder("compound", messages::compound),
    of_decoder("request", messages::request),
    // Encrypts and decrypts every input with two ciphers.
    FuzzFunction { rounds: 20_000, ..of_decoder("transform", messages::transform) },
    of_decoder("smb1_negotiate", messages::smb1_negotiate),
    of_decoder("create_contexts", messages::create_contexts),
    of_decoder("control_codes", messages::control_codes),
    of_decoder("persistent_record", messages::persistent_record),
    of_decoder("security_tokens", security::security_tokens),
    of_decoder("ticket_pac", security::ticket_pac),
    // Each input is preceded by a logon.
    FuzzFunction { rounds: 60_000, ..of_decoder("set_up_replies", client_side::set_up_replies) },
    FuzzFunction { rounds: 40_000, ..of_decoder("server_replies", client_side::server_replies) },
    of_decoder("nfs_records", nfs::records),
    of_decoder("nfs_callbacks", nfs::callbacks),
    of_decoder("nfs_attributes", nfs::attributes),
    FuzzFunction {
        name: "nfs_conversation",
        set_up: || (),
        run: nfs_conversation::conversation,
        memory_bytes_max: nfs_conversation::bytes_max,
        rounds: 20_000,
    },
    // Calls the file system.
    FuzzFunction {
        set_up: handles::set_up,
        rounds: 60_000,
        ..of_decoder("handles", handles::handles)
    },
    // Each input meets responders that have announced themselves.
    FuzzFunction { rounds: 100_000, ..of_decoder("mdns", discovery::mdns) },
    FuzzFunction { rounds: 40_000, ..of_decoder("wsd", discovery::wsd) },
    of_decoder("security_descriptor", security::security_descriptor),
    of_decoder("information", files::information),
    of_decoder("extended_attributes", files::extended_attributes),
    of_decoder("reparse_points", files::reparse_points),
    of_decoder("names", files::names),
    of_decoder("wildcards", files::wildcards),
    FuzzFunction {
        name: "remote_calls",
        set_up: || (),
        run: files::remote_calls,
        memory_bytes_max: files::remote_calls_bytes_max,
        rounds: 400_000,
    },
    FuzzFunction {
        name: "before_logon",
        set_up: || (),
        run: connection::before_logon,
        memory_bytes_max: connection::bytes_max_before_logon,
        rounds: 100_000,
    },
    FuzzFunction {
        name: "after_logon",
        set_up: || (),
        run: connection::after_logon,
        memory_bytes_max: connection::bytes_max_after_logon,
        rounds: 80_000,
    },
];
