//! Paths of an smb.conf that depend on the user: variables, and `[homes]`.

use super::draft::Draft;
use super::meaning::SmbConfConverter;

impl SmbConfConverter<'_> {
    /// `[homes]` becomes a share of this name: each user's own directory, which is also reached by
    /// the user's name. Without a path it is the home directory of the system account, as in Samba.
    pub(super) fn homes(&mut self, homes: Draft) {
        let mut homes = Draft { browseable: false, ..homes };
        self.settle_owner(&mut homes);
        let path = homes.path.take().filter(|path| !path.is_empty());
        // The name of the share is the user's.
        let path = path.unwrap_or_else(|| "%H".into()).replace("%S", "%U");
        match self.templated(&homes, &path) {
            Ok(path) => self.put(Draft { name: "homes".into(), ..homes }, &path),
            Err(variable) => self.omit_for(&homes, &variable),
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
                "%H" if out.is_empty() => out.push_str("%H"),
                "%" | "%%" => out.push_str("%%"),
                other => out.push_str(&self.substituted(draft, other)?.replace('%', "%%")),
            }
        }
        Ok(out + rest)
    }
}
