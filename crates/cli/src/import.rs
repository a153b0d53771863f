//! `anabranch import`.

use crate::output;
use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};
use server::config::default_users_file;
use server::import::passwords::{self, ImportedAccount};
use server::import::{self, ImportMachine, ImportRemark, ImportResult};
use server::system_users;
use server::users::Users;
use std::io::{Read, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Shown below the options.
const EXAMPLES: &str = "\
Moving a server, as root:
  anabranch import /etc/samba/smb.conf --passwords /var/lib/samba/private/passdb.tdb \\
      --output /etc/anabranch/anabranch.toml
  systemctl stop smbd && anabranch check /etc/anabranch/anabranch.toml
  systemctl start anabranch

The import changes nothing of Samba's. DOS attributes, streams and access lists stay in
the attributes that Samba uses, so Samba can be started again.
Without passdb.tdb: pdbedit -L -w > FILE, and --passwords FILE. With a configuration
in Samba's registry: net conf list > FILE, and import that.

From the kernel's NFS server: anabranch import /etc/exports
From NFS-Ganesha: anabranch import /etc/ganesha/ganesha.conf

It prints the settings that were not imported, by cause, the gravest first: missing shares
and access, then data, then features, each with file, line and remedy. The end of the new
file lists each setting. --verbose prints all of them, and settings that need no counterpart.";

/// Maximum number of causes that are shown without `--verbose`: a screen with the other lines.
const CAUSES_SHOWN_MAX: usize = 16;

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
    /// Show each setting that was not imported, and those that need no counterpart
    #[arg(long, alias = "all")]
    verbose: bool,
    /// Print the report as JSON, with each setting
    #[arg(long)]
    json: bool,
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
            groups_of: &system_users::groups_of,
            mount_point_of: &import::mount_point,
            has_directory: &Path::is_dir,
            interfaces: interfaces(),
            is_utc: is_utc(),
            host: server::config::host_name(),
            users: found.iter().filter(|f| f.hash.is_ok()).map(|f| f.name.clone()).collect(),
            users_file: std::path::absolute(&args.users)?,
        },
    )
    .map_err(|error| anyhow!(error))?;
    let added = if found.is_empty() { 0 } else { add_users(&found, args)? };
    write(&args.output, &imported.config, args.force)
        .with_context(|| format!("cannot write {}", args.output.display()))?;
    if args.json {
        output::print_json(&report(args, &imported, &found, added))?;
    } else {
        tell(args, &imported, &found, added);
    }
    Ok(ExitCode::SUCCESS)
}

fn interfaces() -> Vec<(String, Vec<IpAddr>)> {
    let found = server::machine_interfaces().into_iter();
    found.map(|(link, addresses)| (link.name, addresses)).collect()
}

/// Whether the machine's local time is UTC, by the last component of its zone.
fn is_utc() -> bool {
    const NAMES: [&str; 3] = ["UTC", "Etc/UTC", "UCT"];
    let zone = std::env::var("TZ").map(PathBuf::from);
    match zone.or_else(|_| std::fs::canonicalize("/etc/localtime")) {
        Ok(zone) => NAMES.iter().any(|name| zone.ends_with(name)),
        // Without a zone the C library uses UTC.
        Err(_) => true,
    }
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

/// The report for programs.
fn report(args: &Args, imported: &ImportResult, found: &[ImportedAccount], added: usize) -> Value {
    let refused = found.iter().filter_map(|account| {
        let why = account.hash.as_ref().err()?;
        Some(json!({ "name": account.name, "text": why.to_string() }))
    });
    let is_added = |account: &&ImportedAccount| account.hash.is_ok();
    let lacks_user =
        |account: &&ImportedAccount| system_users::identity_of(&account.name).is_none();
    let without = found.iter().filter(is_added).filter(lacks_user).map(|account| &account.name);
    let remark = |remark: &ImportRemark| {
        json!({
            "file": remark.place.file.display().to_string(), "line": remark.place.line,
            "setting": Some(&remark.setting).filter(|setting| !setting.is_empty()),
            "text": remark.text, "weight": remark.weight.name(),
        })
    };
    json!({
        "output": args.output.display().to_string(),
        "shares": imported.shares,
        "users_file": args.users.display().to_string(),
        "users": added,
        "users_refused": refused.collect::<Vec<_>>(),
        "users_without_system_user": without.collect::<Vec<_>>(),
        "not_imported": imported.lost.iter().map(remark).collect::<Vec<_>>(),
        "not_needed": imported.needless.iter().map(remark).collect::<Vec<_>>(),
    })
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
    tell_remarks(args, imported);
    outln!("\nReview the file, then run: anabranch check {output}");
}

/// Prints what was not imported: by default one line for each cause, at most a screen.
fn tell_remarks(args: &Args, imported: &ImportResult) {
    let lines = match args.verbose {
        true => imported.lost.iter().map(ToString::to_string).collect(),
        false => import::grouped(&imported.lost),
    };
    let shown = if args.verbose { lines.len() } else { CAUSES_SHOWN_MAX };
    if !lines.is_empty() {
        outln!("\nNot imported:");
        lines.iter().take(shown).for_each(|line| outln!("  {line}"));
    }
    if lines.len() > shown {
        outln!("  and {} lesser causes; --verbose shows all.", lines.len() - shown);
    }
    if args.verbose && !imported.needless.is_empty() {
        outln!("\nNot needed:");
        imported.needless.iter().for_each(|note| outln!("  {note}"));
    } else if !imported.needless.is_empty() {
        outln!(
            "\n{} parameters need no counterpart here (--verbose shows them).",
            imported.needless.len()
        );
    }
}
