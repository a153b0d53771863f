//! Paths of an smb.conf that depend on the user: variables, and `[homes]`.

use super::draft::Draft;
use super::meaning::SmbConfConverter;
use std::collections::BTreeMap;

/// The directory of homes where the users tell no other.
const HOMES: &str = "/home";

impl SmbConfConverter<'_> {
    /// `[homes]` becomes a share of this name: each user's own directory, which is also reached by
    /// the user's name. A user whose home is elsewhere has a share of that name, as before.
    pub(super) fn homes(&mut self, homes: Draft) {
        let mut homes = Draft { browseable: false, ..homes };
        self.settle_owner(&mut homes);
        let path = homes.path.take().filter(|path| !path.is_empty());
        let is_default = path.as_deref().is_none_or(|path| path == "%H");
        let path = path.unwrap_or_else(|| "%H".into());
        let base = self.base_of_homes();
        // The name of the share is the user's.
        let path = path.replace("%S", "%U").replace("%H", &format!("{base}/%U"));
        match self.templated(&homes, &path) {
            Ok(path) => {
                if is_default {
                    self.homes_elsewhere(&homes, &base);
                }
                self.put(Draft { name: "homes".into(), ..homes }, &path);
            }
            Err(variable) => self.omit_for(&homes, &variable),
        }
    }

    /// The directory that most users have their homes in.
    fn base_of_homes(&self) -> String {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for user in &self.facts.users {
            if let Some(base) = self.own_base(user) {
                *counts.entry(base).or_default() += 1;
            }
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        most.map_or_else(|| HOMES.into(), |(base, _)| base)
    }

    /// The directory of a user's home, if the home has the user's name.
    fn own_base(&self, user: &str) -> Option<String> {
        let home = (self.facts.home_of)(user)?;
        let base = home.to_str()?.strip_suffix(user)?.strip_suffix('/')?;
        // Of a home in the root directory, such as /root, the root would become that of all homes.
        (!base.is_empty()).then(|| base.to_owned())
    }

    fn homes_elsewhere(&mut self, homes: &Draft, base: &str) {
        for user in self.facts.users.clone() {
            let Some(home) = (self.facts.home_of)(&user) else {
                let what = format!("the home directory of {user} is unknown; create {base}/{user}");
                self.lose_at(&homes.place, &what);
                continue;
            };
            if self.own_base(&user).as_deref() == Some(base) {
                continue;
            }
            let own = Draft {
                name: user.clone(),
                users: Some(vec![user]),
                access_based: true,
                ..homes.clone()
            };
            self.put(own, &home.display().to_string().replace('%', "%%"));
        }
    }

    /// `%S` in lists of `[homes]` is the owner, who is the only one to connect here.
    fn settle_owner(&mut self, homes: &mut Draft) {
        fn take(list: &mut Vec<String>) -> bool {
            let before = list.len();
            list.retain(|entry| entry != "%S");
            list.len() != before
        }
        homes.read_only |= take(&mut homes.read_users);
        homes.read_only &= !take(&mut homes.write_users);
        if take(&mut homes.denied_users) {
            homes.refused = Some("invalid users = %S refuses every owner".into());
        }
        // The owner acts as the owner.
        homes.force_user.take_if(|user| *user == "%S");
        if homes.force_group.take_if(|group| *group == "%S").is_some() {
            let what = "force group = %S was omitted: it differs for each user; set the group of \
                        each home: chgrp GROUP and chmod g+s";
            self.lose_at(&homes.place, what);
        }
        if homes.users.is_none() {
            return;
        }
        let what = "[homes] is for the owner of each directory alone: other users of its `valid \
                    users` cannot reach it";
        self.lose_at(&homes.place, what);
    }

    /// Settings that a path with variables excludes here.
    pub(super) fn settle_template(&mut self, draft: &mut Draft, path: &str) {
        let has_variable = path.replace("%%", "").contains('%');
        if !has_variable {
            return;
        }
        if std::mem::take(&mut draft.guest_ok) {
            let what = format!("[{}]: guest access was omitted: guests have no name", draft.name);
            self.lose_at(&draft.place, &what);
        }
        if std::mem::take(&mut draft.size_limit_mib) > 0 {
            let what = format!(
                "[{}]: max disk size was omitted: each user has a directory; use quotas of the \
                 file system",
                draft.name
            );
            self.lose_at(&draft.place, &what);
        }
    }

    /// The path in this server's syntax: variables of the user and the client stay, others are
    /// expanded. Fails with the variable that is not supported.
    pub(super) fn templated(&self, draft: &Draft, path: &str) -> Result<String, String> {
        let mut out = String::new();
        let mut rest = path;
        while let Some(at) = rest.find('%') {
            out.push_str(&rest[..at]);
            let variable: String = rest[at..].chars().take(2).collect();
            rest = &rest[at + variable.len()..];
            match variable.as_str() {
                "%U" | "%u" => out.push_str("%U"),
                "%G" | "%g" => out.push_str("%G"),
                "%I" => out.push_str("%I"),
                "%" | "%%" => out.push_str("%%"),
                other => out.push_str(&self.substituted(draft, other)?.replace('%', "%%")),
            }
        }
        Ok(out + rest)
    }
}
