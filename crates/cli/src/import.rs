//! `anabranch import`.

use anyhow::{Context, Result, anyhow, bail};
use server::config::default_users_file;
use server::import::passwords::{self, ImportedAccount};
use server::import::{self, ImportMachine, ImportResult};
use server::system_users;
use server::users::Users;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Shown below the options.
const EXAMPLES: &str = "\
Moving a server, as root:
  anabranch import /etc/samba/smb.conf --passwords /var/lib/samba/private/passdb.tdb \\
      --output /etc/anabranch/anabranch.toml
  anabranch check /etc/anabranch/anabranch.toml
  systemctl stop smbd && systemctl start anabranch

The import changes nothing of Samba's. DOS attributes, streams and access lists stay in
the attributes that Samba uses, so Samba can be started again.
Without passdb.tdb: pdbedit -L -w > FILE, and --passwords FILE. With a configuration
in Samba's registry: net conf list > FILE, and import that.

From the kernel's NFS server: anabranch import /etc/exports
From NFS-Ganesha: anabranch import /etc/ganesha/ganesha.conf

It prints, by file and line, each setting that was not imported and its remedy; the same
list is at the end of the new file. --all also shows settings that need no counterpart.";

/// Arguments of `import`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Samba's configuration, /etc/exports, or NFS-Ganesha's configuration
    #[arg(value_name = "SMB.CONF")]
    from: PathBuf,
    /// Samba's users: passdb.tdb, or the output of `pdbedit -L -w`
    #[arg(long, value_name = "FILE")]
    passwords: Option<PathBuf>,
    /// File to write the configuration to
    #[arg(long, value_name = "FILE", default_value = "anabranch.toml")]
    output: PathBuf,
    /// File to add the users to; for root by default /var/lib/anabranch/users.toml
    #[arg(long, value_name = "FILE", default_value_os_t = default_users_file(), hide_default_value = true)]
    users: PathBuf,
    /// Replace an existing configuration and existing users
    #[arg(long)]
    force: bool,
    /// Also show parameters that need no counterpart
    #[arg(long)]
    all: bool,
}

/// Converts another server's files, and reports the settings that were not imported.
pub fn run(args: &Args) -> Result<ExitCode> {
    if args.output.exists() && !args.force {
        bail!(
            "{} exists; choose another with --output, or replace it with --force",
            args.output.display()
        );
    }
    let found = args.passwords.as_deref().map(read_passwords).transpose()?.unwrap_or_default();
    let imported = import::import(
        &args.from,
        &ImportMachine {
            read: &import::read_file,
            home_of: &system_users::home_of,
            host: server::config::host_name(),
            users: found.iter().filter(|f| f.hash.is_ok()).map(|f| f.name.clone()).collect(),
            users_file: std::path::absolute(&args.users)?,
        },
    )
    .map_err(|error| anyhow!(error))?;
    let added = if found.is_empty() { 0 } else { add_users(&found, args)? };
    write(&args.output, &imported.config, args.force)
        .with_context(|| format!("cannot write {}", args.output.display()))?;
    tell(args, &imported, &found, added);
    Ok(ExitCode::SUCCESS)
}

fn read_passwords(path: &Path) -> Result<Vec<ImportedAccount>> {
    let context = || format!("cannot read {}", path.display());
    let mut bytes = Vec::new();
    let limit = passwords::FILE_BYTES_MAX as u64;
    std::fs::File::open(path)
        .with_context(context)?
        .take(limit)
        .read_to_end(&mut bytes)
        .with_context(context)?;
    passwords::read(&bytes).map_err(|error| anyhow!("{}: {error}", path.display()))
}

/// Adds all users with a password, or none.
fn add_users(found: &[ImportedAccount], args: &Args) -> Result<usize> {
    let with_hash =
        || found.iter().filter_map(|f| f.hash.as_ref().ok().map(|hash| (&f.name, hash)));
    let add = |users: &mut Users| {
        if let Some((name, _)) = with_hash().find(|(name, _)| users.contains(name) && !args.force) {
            return Err(format!(
                "{} has a user {name} already; choose another file with --users, or replace them with --force",
                args.users.display()
            ));
        }
        with_hash().try_for_each(|(name, hash)| users.set_hash(name, hash))
    };
    Users::update(&args.users, add).map_err(anyhow::Error::msg)?;
    Ok(with_hash().count())
}

fn write(path: &Path, text: &str, replace: bool) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).create_new(!replace).truncate(replace).mode(0o644);
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    std::fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn tell(args: &Args, imported: &ImportResult, found: &[ImportedAccount], added: usize) {
    let output = args.output.display();
    outln!("{output}: {} shares: {}", imported.shares.len(), imported.shares.join(", "));
    if args.passwords.is_some() {
        outln!("{}: {added} users", args.users.display());
    } else {
        outln!("No users were imported; use --passwords FILE, or: anabranch user add NAME");
    }
    for ImportedAccount { name, hash } in found {
        match hash {
            Err(why) => outln!("  {name} was not imported: {why}"),
            Ok(_) if system_users::identity_of(name).is_none() => {
                outln!(
                    "  {name} needs a system user: useradd {name}, or anabranch user passwd {name} --system-user OTHER"
                );
            }
            Ok(_) => {}
        }
    }
    if !imported.lost.is_empty() {
        outln!("\nNot imported:");
        imported.lost.iter().for_each(|note| outln!("  {note}"));
    }
    if args.all && !imported.needless.is_empty() {
        outln!("\nNot needed:");
        imported.needless.iter().for_each(|note| outln!("  {note}"));
    } else if !imported.needless.is_empty() {
        outln!(
            "\n{} parameters need no counterpart here (--all shows them).",
            imported.needless.len()
        );
    }
    outln!("\nReview the file, then run: anabranch check {output}");
}
