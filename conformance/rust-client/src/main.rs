//! Tests the server with the crate `smb`, an independent implementation in Rust.
//!
//!     rust-client HOST PORT SHARE USER PASSWORD DIALECT signed|sealed SIGNING CIPHER
//!     rust-client HOST PORT SHARE USER PASSWORD DIALECT channels
//!
//! With several channels it writes over all of them in turn until its input ends, continues without
//! failed channels, and then reads the written data over the remaining ones.
//!
//! The server chooses the algorithms, and the lane's relay checks them.

use smb::connection::{EncryptionMode, MultiChannelConfig};
use smb::{
    Client, ClientConfig, ConnectionConfig, CreateDisposition, CreateOptions, Dialect, Directory,
    File, FileAccessMask, FileAllInformation, FileAttributes, FileBasicInformation, FileCreateArgs,
    FileDispositionInformation, FileFsSizeInformation, FileIdBothDirectoryInformation,
    FileRenameInformation, FileStandardInformation, ReadAt, ReadAtChannel, UncPath, WriteAt,
    WriteAtChannel,
};
use std::collections::BTreeMap;
use std::error::Error;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const NAMES: usize = 40;
const BLOCK: usize = 60_000;
const BLOCKS_MAX: usize = 10_000;

type Outcome<T> = Result<T, Box<dyn Error>>;

struct Share {
    client: Client,
    path: UncPath,
}

impl Share {
    fn create(&self, name: &str, create: FileCreateArgs) -> smb::Result<smb::Resource> {
        self.client.create_file(&self.path.clone().with_path(name), &create)
    }

    fn new_file(&self, name: &str) -> smb::Result<File> {
        let create = FileCreateArgs::make_create_new(FileAttributes::new(), CreateOptions::new());
        Ok(self.create(name, create)?.unwrap_file())
    }

    fn open(&self, name: &str) -> smb::Result<File> {
        let access = FileAccessMask::new()
            .with_generic_read(true)
            .with_generic_write(true)
            .with_delete(true);
        Ok(self.create(name, FileCreateArgs::make_open_existing(access))?.unwrap_file())
    }

    fn new_directory(&self, name: &str) -> smb::Result<()> {
        let create = FileCreateArgs::make_create_new(
            FileAttributes::new().with_directory(true),
            CreateOptions::new().with_directory_file(true),
        );
        self.create(name, create)?.unwrap_dir().close()
    }

    fn list(&self, name: &str, pattern: &str) -> smb::Result<BTreeMap<String, u64>> {
        let access = FileAccessMask::new().with_generic_read(true);
        let directory = self.create(name, FileCreateArgs::make_open_existing(access))?.unwrap_dir();
        let mut entries = BTreeMap::new();
        for entry in Directory::query::<FileIdBothDirectoryInformation>(&directory, pattern)? {
            let entry = entry?;
            let name = entry.file_name.to_string();
            if name != "." && name != ".." {
                entries.insert(name, entry.end_of_file);
            }
        }
        directory.close()?;
        Ok(entries)
    }

    fn delete(&self, name: &str, options: CreateOptions) -> smb::Result<()> {
        let delete = FileCreateArgs {
            disposition: CreateDisposition::Open,
            options,
            desired_access: FileAccessMask::new().with_delete(true),
            ..Default::default()
        };
        match self.create(name, delete)? {
            smb::Resource::File(file) => {
                let marked = file.set_info(FileDispositionInformation::default());
                file.close().and(marked)
            }
            smb::Resource::Directory(directory) => {
                let marked = directory.set_info(FileDispositionInformation::default());
                directory.close().and(marked)
            }
            smb::Resource::Pipe(_) => unreachable!("a file was opened"),
        }
    }
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [host, port, share, user, password, dialect, protection, ..] = arguments.as_slice() else {
        return Err("HOST PORT SHARE USER PASSWORD DIALECT signed|sealed SIGNING CIPHER".into());
    };
    let dialect = match dialect.as_str() {
        "2.0.2" => Dialect::Smb0202,
        "2.1" => Dialect::Smb021,
        "3.0" => Dialect::Smb030,
        "3.0.2" => Dialect::Smb0302,
        "3.1.1" => Dialect::Smb0311,
        other => return Err(format!("no dialect {other}").into()),
    };
    let client = Client::new(ClientConfig {
        dfs: false,
        connection: ConnectionConfig {
            port: Some(port.parse()?),
            min_dialect: Some(dialect),
            max_dialect: Some(dialect),
            smb2_only_negotiate: true,
            encryption_mode: match protection.as_str() {
                "sealed" => EncryptionMode::Required,
                // "Disabled" would offer a list of no ciphers, which is malformed
                // (MS-SMB2 2.2.3.1.2) and refused.
                _ => EncryptionMode::Allowed,
            },
            multichannel: match protection.as_str() {
                "channels" => MultiChannelConfig::Always,
                _ => MultiChannelConfig::Disabled,
            },
            ..Default::default()
        },
        ..Default::default()
    });
    let path = UncPath::new(host)?.with_share(share)?;
    client.share_connect(&path, user, password.clone())?;
    let share = Share { client, path };
    if protection == "channels" {
        return write_over_channels(&share);
    }
    share.new_directory("rs")?;
    write_and_read(&share)?;
    ask_about(&share)?;
    rename(&share)?;
    list_and_delete(&share)?;
    share.client.close()?;
    Ok(())
}

fn content() -> Vec<u8> {
    (0..1_300_000_u32).map(|n| (n ^ (n >> 8)) as u8).collect()
}

fn write_and_read(share: &Share) -> Outcome<()> {
    let content = content();
    let file = share.new_file(r"rs\anabranch-needle")?;
    for (index, part) in content.chunks(60_000).enumerate() {
        let at = index as u64 * 60_000;
        assert_eq!(file.write_at(part, at)?, part.len());
    }
    file.flush()?;
    file.close()?;

    let file = share.open(r"rs\anabranch-needle")?;
    let mut back = vec![0; content.len()];
    let mut at = 0;
    while at < back.len() {
        let end = back.len().min(at + 60_000);
        let count = file.read_at(&mut back[at..end], at as u64)?;
        assert!(count > 0, "the file ends at {at}");
        at += count;
    }
    assert!(back == content, "read is not what was written");
    assert_eq!(file.read_at(&mut [0; 10], content.len() as u64)?, 0, "nothing is behind the end");
    file.close()?;
    assert!(share.new_file(r"rs\anabranch-needle").is_err(), "a file was made twice");
    Ok(())
}

fn ask_about(share: &Share) -> Outcome<()> {
    let length = content().len() as u64;
    let file = share.open(r"rs\anabranch-needle")?;
    let standard = file.query_info::<FileStandardInformation>()?;
    assert_eq!(standard.end_of_file, length);
    assert!(standard.allocation_size >= length && standard.number_of_links == 1);
    let basic = file.query_info::<FileBasicInformation>()?;
    assert!(basic.file_attributes.archive() && !basic.file_attributes.directory());
    let all = file.query_info::<FileAllInformation>()?;
    assert_eq!(all.standard.end_of_file, length);
    assert!(all.name.to_string().ends_with(r"rs\anabranch-needle"), "{:?}", all.name);
    assert!(file.query_fs_info::<FileFsSizeInformation>()?.total_allocation_units > 0);
    file.close()?;
    Ok(())
}

fn rename(share: &Share) -> Outcome<()> {
    let to = |name: &str, replace: bool| FileRenameInformation {
        replace_if_exists: replace.into(),
        root_directory: 0,
        file_name: name.into(),
    };
    share.new_file(r"rs\in the way")?.close()?;
    let file = share.open(r"rs\anabranch-needle")?;
    assert!(file.set_info(to(r"rs\in the way", false)).is_err(), "a rename replaced a file");
    file.set_info(to(r"rs\in the way", true))?;
    file.close()?;
    let length = content().len() as u64;
    assert_eq!(share.list("rs", "*")?, BTreeMap::from([("in the way".to_owned(), length)]));
    assert!(share.open(r"rs\anabranch-needle").is_err(), "the old name is still there");
    Ok(())
}

fn list_and_delete(share: &Share) -> Outcome<()> {
    let mut expected = BTreeMap::from([("in the way".to_owned(), content().len() as u64)]);
    for number in 0..NAMES {
        let name = format!("number {number:02} ü🦀");
        let file = share.new_file(&format!(r"rs\{name}"))?;
        file.write_at(name.as_bytes(), 0)?;
        file.close()?;
        expected.insert(name.clone(), name.len() as u64);
    }
    assert_eq!(share.list("rs", "*")?, expected);
    assert_eq!(share.list("rs", "number 3*")?.len(), 10);

    let not_empty = share.delete("rs", CreateOptions::new().with_directory_file(true));
    assert!(not_empty.is_err(), "a directory with entries was removed");
    for name in expected.keys() {
        share.delete(&format!(r"rs\{name}"), CreateOptions::new())?;
    }
    assert_eq!(share.list("rs", "*")?, BTreeMap::new());
    share.delete("rs", CreateOptions::new().with_directory_file(true))?;
    assert!(!share.list("", "*")?.contains_key("rs"), "the directory is still there");
    Ok(())
}

/// Runs `operation` on the first channel that works, and drops failed channels.
fn by_any<T>(
    channels: &mut Vec<u32>,
    turn: usize,
    mut operation: impl FnMut(Option<u32>) -> smb::Result<T>,
) -> Outcome<T> {
    while !channels.is_empty() {
        let at = turn % channels.len();
        match operation(Some(channels[at])) {
            Ok(answer) => return Ok(answer),
            Err(error) => {
                println!("lost {}: {error}", channels[at]);
                channels.remove(at);
            }
        }
    }
    Err("no channel is left".into())
}

fn block(number: usize) -> Vec<u8> {
    (0..BLOCK).map(|at| (at ^ (at >> 8) ^ number.wrapping_mul(131)) as u8).collect()
}

fn write_over_channels(share: &Share) -> Outcome<()> {
    let mut channels: Vec<u32> = share.client.get_channels(&share.path)?.into_keys().collect();
    println!("channels {}", channels.len());
    let ended = Arc::new(AtomicBool::new(false));
    let told = ended.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        told.store(true, Ordering::Release);
    });
    let file = share.new_file("over-channels")?;
    let mut count = 0;
    // The reads after the end of the input use each channel.
    let mut rest = 3 * channels.len();
    while count < BLOCKS_MAX && rest > 0 {
        let (content, at) = (block(count), (count * BLOCK) as u64);
        let write = |channel| file.write_at_channel(&content, at, channel);
        assert_eq!(by_any(&mut channels, count, write)?, BLOCK);
        count += 1;
        rest -= usize::from(ended.load(Ordering::Acquire));
    }
    file.close()?;
    // The client caches the length at the open.
    let file = share.open("over-channels")?;
    for number in 0..count {
        let (mut back, at) = (vec![0; BLOCK], (number * BLOCK) as u64);
        let read = |channel| file.read_at_channel(&mut back, at, channel);
        assert_eq!(by_any(&mut channels, number, read)?, BLOCK);
        assert!(back == block(number), "block {number} is another");
    }
    file.close()?;
    println!("left {} after {count} blocks", channels.len());
    Ok(())
}
