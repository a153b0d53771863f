//! Imports Samba users with their NT hashes from `pdbedit -L -w`, a smbpasswd file, or passdb.tdb.

use wire::ntlm::NtHash;

/// Maximum size of a password file.
pub const FILE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Maximum number of users.
const USERS_MAX: usize = 100_000;

/// Magic of a TDB file.
const TDB_MAGIC: &[u8] = b"TDB file\n\0";
/// Version of all TDB files; its byte order is that of the file.
const TDB_VERSION: u32 = 0x2601_196D;
const RECORD_MAGIC: u32 = 0x2601_1999;
/// Length of the header before the table of hash chains; the first chain holds free space.
const TABLE_AT: usize = 168;

/// Account type bits. MS-SAMR 2.2.1.12.
const ACCOUNT_DISABLED: u32 = 0x1;
const ACCOUNT_NORMAL: u32 = 0x10;

/// One account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedAccount {
    /// Name.
    pub name: String,
    /// The hash, or the reason for which it cannot be imported.
    pub hash: Result<NtHash, &'static str>,
}

/// Reads either format.
///
/// # Errors
/// A sentence if the format is unknown.
pub fn read(bytes: &[u8]) -> Result<Vec<ImportedAccount>, String> {
    if bytes.starts_with(TDB_MAGIC) {
        return read_database(bytes).ok_or_else(|| "the database is damaged".into());
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|_| "neither a passdb.tdb nor the output of `pdbedit -L -w`".to_owned())?;
    let found: Vec<ImportedAccount> = text.lines().take(USERS_MAX).filter_map(read_line).collect();
    if found.is_empty() {
        return Err("no user found; give passdb.tdb, or the output of `pdbedit -L -w`".into());
    }
    Ok(found)
}

/// Parses `name:uid:LM hash:NT hash:[flags]:LCT-time:`.
fn read_line(line: &str) -> Option<ImportedAccount> {
    if line.starts_with('#') {
        return None;
    }
    let mut fields = line.trim().split(':');
    let name = fields.next().filter(|name| !name.is_empty())?.to_owned();
    let hash = fields.nth(2)?;
    let flags = fields.next().unwrap_or_default();
    let hash = if flags.contains(['W', 'S', 'I']) || name.ends_with('$') {
        Err("machine account")
    } else if flags.contains('D') {
        Err("disabled account")
    } else {
        NtHash::from_hex(hash).ok_or("no password")
    };
    Some(ImportedAccount { name, hash })
}

/// All user records of a TDB file; `None` if it is malformed.
fn read_database(bytes: &[u8]) -> Option<Vec<ImportedAccount>> {
    let numbers = TdbNumbers::of(bytes)?;
    let chains = numbers.at(36)? as usize;
    let mut found = Vec::new();
    // Bounds the walk of a cyclic chain by the size of the file.
    let mut steps_left = bytes.len() / 24;
    for chain in 0..chains {
        let mut at = numbers.at(TABLE_AT.checked_add(4 * (chain + 1))?)? as usize;
        while at != 0 {
            steps_left = steps_left.checked_sub(1)?;
            let (next, key_bytes, data_bytes) =
                (numbers.at(at)?, numbers.at(at + 8)? as usize, numbers.at(at + 12)? as usize);
            let start = at + 24;
            let key = bytes.get(start..start.checked_add(key_bytes)?)?;
            let data_at = start + key_bytes;
            let data = bytes.get(data_at..data_at.checked_add(data_bytes)?)?;
            if numbers.at(at + 20)? == RECORD_MAGIC && key.starts_with(b"USER_") {
                if found.len() == USERS_MAX {
                    return Some(found);
                }
                found.push(read_account(data)?);
            }
            at = next as usize;
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Some(found)
}

/// Numbers in the byte order of the file.
struct TdbNumbers<'a> {
    bytes: &'a [u8],
    is_swapped: bool,
}

impl<'a> TdbNumbers<'a> {
    fn of(bytes: &'a [u8]) -> Option<Self> {
        let plain = Self { bytes, is_swapped: false };
        match plain.at(32)? {
            TDB_VERSION => Some(plain),
            other if other.swap_bytes() == TDB_VERSION => Some(Self { bytes, is_swapped: true }),
            _ => None,
        }
    }

    fn at(&self, offset: usize) -> Option<u32> {
        let bytes = self.bytes.get(offset..offset.checked_add(4)?)?;
        let number = u32::from_le_bytes(bytes.try_into().ok()?);
        Some(if self.is_swapped { number.swap_bytes() } else { number })
    }
}

/// Parses a record: 7 times, 12 strings, two numbers, the LM hash, the NT hash, the hash history,
/// the account type. It is little-endian on all machines.
fn read_account(mut data: &[u8]) -> Option<ImportedAccount> {
    fn number(data: &mut &[u8]) -> Option<u32> {
        let (first, rest) = data.split_first_chunk::<4>()?;
        *data = rest;
        Some(u32::from_le_bytes(*first))
    }
    fn part<'a>(data: &mut &'a [u8]) -> Option<&'a [u8]> {
        let length = number(data)? as usize;
        let part = data.get(..length)?;
        *data = &data[length..];
        Some(part)
    }
    for _ in 0..7 {
        number(&mut data)?;
    }
    let name = part(&mut data)?;
    for _ in 0..11 {
        part(&mut data)?;
    }
    for _ in 0..2 {
        number(&mut data)?;
    }
    part(&mut data)?;
    let hash = part(&mut data)?;
    part(&mut data)?;
    let kind = number(&mut data)?;
    let name = name.split(|&b| b == 0).next().unwrap_or_default();
    let hash = if kind & ACCOUNT_NORMAL == 0 {
        Err("machine account")
    } else if kind & ACCOUNT_DISABLED != 0 {
        Err("disabled account")
    } else {
        hash.try_into().map(NtHash).map_err(|_| "no password")
    };
    Some(ImportedAccount { name: String::from_utf8_lossy(name).into_owned(), hash })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SMBPASSWD: &str = "\
# a comment
alice:1000:XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX:A4F49C406510BDCAB6824EE7C30FD852:[U          ]:LCT-5F000000:
bob:1001:XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX:A4F49C406510BDCAB6824EE7C30FD852:[DU         ]:LCT-5F000000:
carol:1002:XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX:XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX:[U          ]:LCT-00000000:
pc$:1003:XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX:A4F49C406510BDCAB6824EE7C30FD852:[W          ]:LCT-5F000000:
";

    fn shown(found: &[ImportedAccount]) -> Vec<(&str, Result<String, &str>)> {
        found
            .iter()
            .map(|f| (f.name.as_str(), f.hash.as_ref().map(NtHash::to_hex).map_err(|e| *e)))
            .collect()
    }

    #[test]
    fn smbpasswd_file_yields_users_with_hashes() {
        assert_eq!(
            shown(&read(SMBPASSWD.as_bytes()).unwrap()),
            [
                ("alice", Ok("a4f49c406510bdcab6824ee7c30fd852".into())),
                ("bob", Err("disabled account")),
                ("carol", Err("no password")),
                ("pc$", Err("machine account")),
            ]
        );
        assert!(read(b"").is_err() && read(&[0xFF; 100]).is_err());
    }

    fn account(name: &str, hash: &[u8], kind: u32) -> Vec<u8> {
        let mut data = vec![0; 28];
        let mut part = |part: &[u8]| {
            data.extend_from_slice(&(part.len() as u32).to_le_bytes());
            data.extend_from_slice(part);
        };
        part(format!("{name}\0").as_bytes());
        (0..11).for_each(|_| part(b""));
        data.extend_from_slice(&[0; 8]);
        for bytes in [&[][..], hash, &[]] {
            data.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            data.extend_from_slice(bytes);
        }
        data.extend_from_slice(&kind.to_le_bytes());
        data.extend_from_slice(&[0; 30]);
        data
    }

    /// A database with two chains; the second has two records.
    fn database(swapped: bool) -> Vec<u8> {
        let number = |n: u32| if swapped { n.to_be_bytes() } else { n.to_le_bytes() };
        let mut file = TDB_MAGIC.to_vec();
        file.resize(TABLE_AT + 12, 0);
        file[32..36].copy_from_slice(&number(TDB_VERSION));
        file[36..40].copy_from_slice(&number(2));
        let mut next = 0;
        for (key, value) in [
            (&b"INFO/version\0"[..], vec![4, 0, 0, 0]),
            (b"USER_bob\0", account("bob", &[], 0x10)),
            (b"USER_alice\0", account("alice", &[7; 16], 0x10)),
        ] {
            let at = file.len() as u32;
            let (key_bytes, value_bytes) = (key.len() as u32, value.len() as u32);
            for n in [next, key_bytes + value_bytes, key_bytes, value_bytes, 0, RECORD_MAGIC] {
                file.extend_from_slice(&number(n));
            }
            file.extend_from_slice(key);
            file.extend_from_slice(&value);
            next = at;
        }
        file[TABLE_AT + 8..TABLE_AT + 12].copy_from_slice(&number(next));
        file
    }

    #[test]
    fn passdb_yields_users_in_either_byte_order() {
        for swapped in [false, true] {
            let found = read(&database(swapped)).unwrap();
            assert_eq!(
                shown(&found),
                [("alice", Ok("07".repeat(16))), ("bob", Err("no password"))]
            );
        }
    }

    #[test]
    fn damaged_database_is_refused_and_a_cyclic_one_terminates() {
        let whole = database(false);
        for length in 0..whole.len() {
            let _ = read(&whole[..length]);
        }
        let mut circle = whole.clone();
        let first = TABLE_AT + 12;
        circle[first..first + 4].copy_from_slice(&(first as u32).to_le_bytes());
        assert!(read(&circle).is_err());
    }

    proptest! {
        #[test]
        fn mutated_database_is_read_without_a_panic(
            changes in proptest::collection::vec((0usize..700, any::<u8>()), 1..8),
        ) {
            let mut file = database(false);
            for (at, value) in changes {
                let length = file.len();
                file[at % length] = value;
            }
            let _ = read(&file);
        }

        #[test]
        fn password_file_of_any_text_is_read_without_a_panic(text in "\\PC*") {
            let _ = read(text.as_bytes());
        }
    }
}
