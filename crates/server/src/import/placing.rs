//! Shares of an smb.conf: which of them become shares here, and with which access.
//!
//! A share is omitted if it would be open to more clients or users than before.

use super::draft::{Draft, one_line};
use super::meaning::SmbConfConverter;
use super::text::squeezed;
use super::{ImportRemark, RemarkWeight, shadow_copies};
use crate::config::check_share_name;
use std::path::Path;

impl SmbConfConverter<'_> {
    /// Adds a share to the configuration, or remarks why not.
    pub(super) fn place(&mut self, mut draft: Draft) {
        let is = |name: &str| squeezed(&draft.name) == name;
        if is("homes") {
            return self.homes(&draft);
        }
        if is("ipc$") {
            return self.need_not_at(&draft.place, "[IPC$] always exists");
        }
        if is("printers") || is("print$") || draft.printable {
            let what = format!(
                "[{}] was omitted: printers are not supported; use CUPS with IPP",
                draft.name
            );
            return self.lose_at(&draft.place, &what);
        }
        if !draft.available {
            let what = format!("[{}] was omitted: it is not available", draft.name);
            return self.lose_at(&draft.place, &what);
        }
        let path = draft.path.take().filter(|path| !path.is_empty());
        let Some(path) = path else {
            let what = format!("[{}] was omitted: it has no path", draft.name);
            return self.lose_at(&draft.place, &what);
        };
        match self.substituted(&draft, &path) {
            Ok(path) => self.put(draft, &path),
            Err(variable) => {
                let what = format!(
                    "[{}] was omitted: {variable} in its path differs for each client; add a \
                     [[share]] for each",
                    draft.name
                );
                self.lose_at(&draft.place, &what);
            }
        }
    }

    /// Shares do not depend on the user, so [homes] becomes one share for each known home.
    fn homes(&mut self, homes: &Draft) {
        let users: Vec<&String> = self.facts.users.iter().collect();
        let what = match users.is_empty() {
            false => {
                "[homes] became one share for each imported user; add a [[share]] for each later \
                 user"
            }
            true => {
                "[homes] became no share, since no user was imported: give Samba's users with \
                 --passwords, or add a [[share]] for each home"
            }
        };
        self.lose_at(&homes.place, what);
        for user in users {
            let Some(home) = self.home(homes, user) else {
                let what =
                    format!("the home directory of {user} is unknown; add a [[share]] for it");
                self.lose_at(&homes.place, &what);
                continue;
            };
            let own = Draft {
                name: user.clone(),
                users: Some(vec![user.clone()]),
                browseable: false,
                access_based: true,
                ..homes.clone()
            };
            self.put(own, &home);
        }
    }

    fn home(&self, homes: &Draft, user: &str) -> Option<String> {
        let own = || (self.facts.home_of)(user).map(|path| path.display().to_string());
        let Some(path) = homes.path.as_deref().filter(|path| !path.is_empty()) else {
            return own();
        };
        let path = ["%S", "%U", "%u"].iter().fold(path.to_owned(), |p, v| p.replace(v, user));
        let path = if path.contains("%H") { path.replace("%H", &own()?) } else { path };
        self.substituted(homes, &path).ok()
    }

    fn put(&mut self, mut draft: Draft, path: &str) {
        if let Err(what) = check_share_name(&draft.name) {
            return self.lose_at(&draft.place, &format!("{}; it was omitted", one_line(&what)));
        }
        if self.shares.iter().any(|name| name.eq_ignore_ascii_case(&draft.name)) {
            return self.lose_at(
                &draft.place,
                &format!("there is a share {} already; this one was omitted", draft.name),
            );
        }
        if !path.starts_with('/') {
            let what =
                format!("[{}] was omitted: its path {path:?} does not begin with /", draft.name);
            return self.lose_at(&draft.place, &what);
        }
        let path = if path.len() > 1 { path.trim_end_matches('/') } else { path };
        let path = if path.is_empty() { "/" } else { path };
        if let Some(why) = self.refusal(&mut draft) {
            let what = format!("[{}] was omitted: {}", draft.name, one_line(&why));
            return self.lose_at(&draft.place, &what);
        }
        draft.insert_name();
        self.guests(&mut draft);
        self.settle_group(&mut draft);
        self.settle_modules(&mut draft, path);
        if draft.has_unknown_readers && !draft.read_only {
            draft.read_only = true;
            let what = format!(
                "[{}] became read-only, since its read list differs for each client; set \
                 read_users",
                draft.name
            );
            self.lose_at(&draft.place, &what);
        }
        self.tables.push_str(&draft.table(path));
        self.shares.push(draft.name);
    }

    /// The reason for which the share would be open to more clients or users than before. Sets the
    /// clients that may connect.
    fn refusal(&self, draft: &mut Draft) -> Option<String> {
        if draft.encryption_required && self.server.encryption == Some("off") {
            return Some(
                "it requires encryption, which is off in [global], so nobody could use it".into(),
            );
        }
        let global = &self.global;
        let undeniable = draft.undeniable.take().or_else(|| global.undeniable.clone());
        let reason = draft.refused.take().or_else(|| draft.forced_by.take()).or(undeniable);
        if reason.is_some() {
            return reason;
        }
        match draft.hosts.within(&global.hosts) {
            Some((allowed, denied)) => {
                (draft.hosts_allowed, draft.hosts_denied) = (allowed, denied)
            }
            None => {
                return Some(
                    "its host names and those of [global] hold together; use networks".into(),
                );
            }
        }
        None
    }

    fn guests(&mut self, draft: &mut Draft) {
        let sealed = draft.encryption_required || self.server.encryption == Some("required");
        let signed = self.server.signing == Some("required");
        if draft.guest_ok && (sealed || signed) {
            draft.guest_ok = false;
            let demand = if sealed { "encryption" } else { "signing" };
            let what =
                format!("guest access was omitted: {demand} is required, and guests have no key");
            self.lose_at(&draft.place, &what);
        }
        if draft.guest_ok && draft.guest_only && draft.force_user.is_none() {
            draft.force_user = Some(self.guest());
        }
        self.any_guests |= draft.guest_ok;
    }

    /// `force group = +NAME` applies to members only: a forced user is a member or not.
    fn settle_group(&mut self, draft: &mut Draft) {
        let Some(parameter) = draft.members_only.take() else { return };
        let Some(group) = draft.force_group.take() else { return };
        match &draft.force_user {
            Some(user) if (self.facts.groups_of)(user).contains(&group) => {
                draft.force_group = Some(group);
            }
            Some(_) => self.need_not(&parameter, "the forced user is not a member"),
            None => {
                let what = "for members only is not supported, and for all it would open files of \
                            this group; set the directories' group: chgrp GROUP and chmod g+s";
                self.lose_access(&parameter, what);
            }
        }
    }

    /// Converts options of VFS modules, which have no effect without their module.
    fn settle_modules(&mut self, draft: &mut Draft, path: &str) {
        let has = |name: &str| draft.modules.iter().any(|module| module == name);
        if !has("fruit") {
            draft.time_machine = false;
            draft.time_machine_max_bytes = None;
        }
        let path = Path::new(path);
        let found = if has("shadow_copy2") {
            shadow_copies::of_shadow_copy2(&draft.shadow, path, self.facts)
        } else if has("snapper") {
            shadow_copies::of_snapper(path, self.facts)
        } else {
            return;
        };
        match found {
            Ok(keys) => draft.snapshots = Some(keys),
            Err(why) => {
                let place = draft.modules_place.clone().unwrap_or_else(|| draft.place.clone());
                let what = format!("no snapshots are shown in [{}]: {why}", draft.name);
                let remark = ImportRemark::new(place, one_line(&what));
                self.lost.push(ImportRemark { weight: RemarkWeight::Data, ..remark });
            }
        }
    }
}
