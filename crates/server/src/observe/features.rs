//! Features of the server and its shares: their state and since when it holds. Some can be switched
//! at run time; they use Azure's terms (registered or not).
//!
//! A run-time switch lasts until the server ends or the share's configuration changes.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};
use sync::Mutex;

/// The cache of names and attributes.
pub const METADATA_CACHE: &str = "metadata-cache";

/// All switchable features: own name, and Azure's namespace and name.
const KNOWN: [(&str, &str, &str); 1] =
    [(METADATA_CACHE, "Microsoft.Storage", "AzurePremiumFilesMetadataCacheFeature")];

/// State of a feature for its users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FeatureState {
    /// Available, with a stable interface.
    Stable,
    /// Available, but its interface may still change.
    Preview,
    /// Supported here, but not enabled.
    Off,
    /// Not supported here.
    Unsupported,
}

impl FeatureState {
    /// All states, the most capable first.
    pub const ALL: [Self; 4] = [Self::Stable, Self::Preview, Self::Off, Self::Unsupported];

    /// The displayed name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stable => "stable",
            Self::Preview => "preview",
            Self::Off => "off",
            Self::Unsupported => "unsupported",
        }
    }

    /// Azure's registration state.
    fn registration(self) -> &'static str {
        match self {
            Self::Stable | Self::Preview => "Registered",
            Self::Off => "NotRegistered",
            Self::Unsupported => "Unsupported",
        }
    }
}

/// A feature and its states on the shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureFact {
    /// Name of the feature.
    pub name: &'static str,
    /// State by share.
    pub shares: Vec<(String, FeatureState)>,
    /// State without shares; otherwise the server's state is the best of its shares.
    pub bare: FeatureState,
}

impl FeatureFact {
    /// State on the server.
    #[must_use]
    pub fn state(&self) -> FeatureState {
        self.shares.iter().map(|(_, state)| *state).min().unwrap_or(self.bare)
    }
}

/// Source of the states of configured features.
type FeatureSource = Box<dyn Fn() -> Vec<FeatureFact> + Send + Sync>;

/// A run-time switch.
pub trait Switch: Send + Sync {
    /// Whether it is on.
    fn is_on(&self) -> bool;

    /// Sets the switch; may block for a moment.
    fn set(&self, on: bool);
}

/// A share and its switch.
pub type ShareSwitch = (String, Box<dyn Switch>);

/// Source of the shares that have a feature.
type Provider = Box<dyn Fn() -> Vec<ShareSwitch> + Send + Sync>;

/// Registration state of a feature on a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RegistrationState {
    NotRegistered,
    Registering,
    Registered,
    Unregistering,
}

impl RegistrationState {
    fn of(on: bool) -> Self {
        if on { Self::Registered } else { Self::NotRegistered }
    }

    fn name(self) -> &'static str {
        match self {
            Self::NotRegistered => "NotRegistered",
            Self::Registering => "Registering",
            Self::Registered => "Registered",
            Self::Unregistering => "Unregistering",
        }
    }
}

/// A registration state and its start as Unix time in seconds.
#[derive(Clone, Copy, Debug)]
struct Registration {
    state: RegistrationState,
    since: u64,
}

/// Reason for which a feature is not switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureRefusal {
    /// The feature does not exist or is not supported here.
    NoFeature,
    /// The share does not exist or cannot have the feature.
    NoShare,
    /// The configuration controls the feature.
    Configured,
}

/// The last observed state and its start, by feature and share; the share is `None` for the server.
type FeatureStates = BTreeMap<(&'static str, Option<String>), (FeatureState, u64)>;

/// The features of a server.
#[derive(Default)]
pub struct FeatureRegistry {
    providers: BTreeMap<&'static str, Provider>,
    facts: Option<FeatureSource>,
    stood: Mutex<FeatureStates>,
    /// Last observed registration state by feature and share.
    registrations: Mutex<BTreeMap<(&'static str, String), Registration>>,
}

impl std::fmt::Debug for FeatureRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Features").finish_non_exhaustive()
    }
}

impl FeatureRegistry {
    /// Registers the shares on which the feature `name` can be switched.
    pub fn provide(
        &mut self,
        name: &'static str,
        shares: impl Fn() -> Vec<ShareSwitch> + Send + Sync + 'static,
    ) {
        self.providers.insert(name, Box::new(shares));
        self.look(name);
    }

    /// Registers the source of configured features.
    pub fn observe(&mut self, facts: impl Fn() -> Vec<FeatureFact> + Send + Sync + 'static) {
        self.facts = Some(Box::new(facts));
        // This first reading sets the start of the configured states.
        drop(self.list());
    }

    /// State of every feature on the server.
    pub fn states(&self) -> Vec<(&'static str, FeatureState)> {
        let switched = KNOWN.iter().map(|(name, _, _)| (*name, self.switched(name).state()));
        let configured = self.configured();
        switched.chain(configured.iter().map(|fact| (fact.name, fact.state()))).collect()
    }

    /// All features with their states, as JSON.
    #[must_use]
    pub fn list(&self) -> Value {
        let switched = KNOWN.iter().map(|known| self.describe(*known));
        switched.chain(self.configured().iter().map(|fact| self.describe_fact(fact))).collect()
    }

    fn configured(&self) -> Vec<FeatureFact> {
        self.facts.as_ref().map(|facts| facts()).unwrap_or_default()
    }

    /// A switchable feature in the form of the configured ones.
    fn switched(&self, name: &'static str) -> FeatureFact {
        let provider = self.providers.get(name);
        let state = |on| if on { FeatureState::Stable } else { FeatureState::Off };
        let shares = provider.map(|provider| provider()).unwrap_or_default();
        let bare = if provider.is_some() { FeatureState::Off } else { FeatureState::Unsupported };
        let shares = shares.into_iter().map(|(share, switch)| (share, state(switch.is_on())));
        FeatureFact { name, shares: shares.collect(), bare }
    }

    fn describe_fact(&self, fact: &FeatureFact) -> Value {
        let shares = fact.shares.iter().map(|(share, state)| {
            json!({
                "Share": share,
                "State": state.registration(),
                "FeatureState": state.name(),
                "Since": self.stands(fact.name, Some(share), *state),
            })
        });
        let state = fact.state();
        json!({
            "FeatureName": fact.name,
            "Alias": null,
            "RegistrationState": state.registration(),
            "FeatureState": state.name(),
            "Since": self.stands(fact.name, None, state),
            "Shares": shares.collect::<Vec<_>>(),
        })
    }

    /// Start of the present state, as far as it was observed.
    fn stands(&self, name: &'static str, share: Option<&str>, state: FeatureState) -> u64 {
        let mut stood = self.stood.lock();
        let key = (name, share.map(str::to_owned));
        let seen = stood
            .entry(key)
            .or_insert_with(|| (state, since_now(RegistrationState::Registered).since));
        if seen.0 != state {
            *seen = (state, since_now(RegistrationState::Registered).since);
        }
        seen.1
    }

    /// Registers or unregisters a feature by its own or Azure's name, on one share or on all.
    /// Returns the new state.
    ///
    /// # Errors
    /// [`FeatureRefusal`].
    pub fn set(&self, name: &str, share: Option<&str>, on: bool) -> Result<Value, FeatureRefusal> {
        if self.configured().iter().any(|fact| same_name(name, fact.name)) {
            return Err(FeatureRefusal::Configured);
        }
        let known = *KNOWN.iter().find(|k| is_named(k, name)).ok_or(FeatureRefusal::NoFeature)?;
        let provider = self.providers.get(known.0).ok_or(FeatureRefusal::NoFeature)?;
        let mut switches = provider();
        switches.retain(|(of, _)| share.is_none_or(|share| same_name(share, of)));
        if switches.is_empty() && share.is_some() {
            return Err(FeatureRefusal::NoShare);
        }
        for (share, switch) in switches.into_iter().filter(|(_, switch)| switch.is_on() != on) {
            let under_way =
                if on { RegistrationState::Registering } else { RegistrationState::Unregistering };
            self.note(known.0, &share, under_way);
            switch.set(on);
            self.note(known.0, &share, RegistrationState::of(switch.is_on()));
            tracing::info!(
                feature = known.0,
                share,
                enabled = on,
                "an administrator switched a feature"
            );
        }
        Ok(self.describe(known))
    }

    fn describe(&self, (name, namespace, alias): (&'static str, &str, &str)) -> Value {
        let supported = self.providers.contains_key(name);
        let standings = self.look(name);
        let states: Vec<RegistrationState> =
            standings.iter().map(|(_, standing)| standing.state).collect();
        // If shares differ, the server shows the most capable state.
        let order = [
            RegistrationState::Registered,
            RegistrationState::Registering,
            RegistrationState::Unregistering,
            RegistrationState::NotRegistered,
        ];
        let state = order.into_iter().find(|state| states.contains(state));
        let state = state.unwrap_or(RegistrationState::NotRegistered);
        let of_state = standings.iter().filter(|(_, standing)| standing.state == state);
        let since = of_state.map(|(_, standing)| standing.since).min();
        let shares = standings.iter().map(|(share, standing)| {
            let state = match standing.state {
                RegistrationState::Registered | RegistrationState::Unregistering => {
                    FeatureState::Stable
                }
                RegistrationState::NotRegistered | RegistrationState::Registering => {
                    FeatureState::Off
                }
            };
            json!({
                "Share": share,
                "State": standing.state.name(),
                "FeatureState": state.name(),
                "Since": standing.since,
            })
        });
        json!({
            "FeatureName": name,
            "ProviderNamespace": namespace,
            "Alias": alias,
            "RegistrationState": if supported { state.name() } else { "Unsupported" },
            "FeatureState": self.switched(name).state().name(),
            "Since": since,
            "Shares": shares.collect::<Vec<_>>(),
        })
    }

    /// Registration state of the feature on each share. A state that the configuration has changed
    /// starts when it is first observed.
    fn look(&self, name: &'static str) -> Vec<(String, Registration)> {
        let switches = self.providers.get(name).map(|provider| provider()).unwrap_or_default();
        let mut registrations = self.registrations.lock();
        registrations
            .retain(|(of, share), _| *of != name || switches.iter().any(|(s, _)| s == share));
        let standings = switches.into_iter().map(|(share, switch)| {
            let state = RegistrationState::of(switch.is_on());
            let standing =
                registrations.entry((name, share.clone())).or_insert_with(|| since_now(state));
            let settled = matches!(
                standing.state,
                RegistrationState::Registered | RegistrationState::NotRegistered
            );
            if settled && standing.state != state {
                *standing = since_now(state);
            }
            (share, *standing)
        });
        standings.collect()
    }

    fn note(&self, name: &'static str, share: &str, state: RegistrationState) {
        self.registrations.lock().insert((name, share.to_owned()), since_now(state));
    }
}

fn is_named(known: &(&str, &str, &str), name: &str) -> bool {
    same_name(name, known.0) || same_name(name, known.2)
}

fn same_name(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}

fn since_now(state: RegistrationState) -> Registration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Registration { state, since }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    struct FakeSwitch(Arc<AtomicBool>);

    impl Switch for FakeSwitch {
        fn is_on(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }

        fn set(&self, on: bool) {
            self.0.store(on, Ordering::Relaxed);
        }
    }

    fn lamps(names: [&'static str; 2]) -> (FeatureRegistry, [Arc<AtomicBool>; 2]) {
        let lamps = [true, false].map(|on| Arc::new(AtomicBool::new(on)));
        let (mut features, kept) = (FeatureRegistry::default(), lamps.clone());
        features.provide(METADATA_CACHE, move || {
            let switch = |(name, lamp): (&str, &Arc<AtomicBool>)| {
                (name.to_owned(), Box::new(FakeSwitch(lamp.clone())) as Box<dyn Switch>)
            };
            names.into_iter().zip(&kept).map(switch).collect()
        });
        (features, lamps)
    }

    fn states(feature: &Value) -> Vec<&str> {
        let shares = feature["Shares"].as_array().unwrap();
        shares.iter().map(|share| share["State"].as_str().unwrap()).collect()
    }

    #[test]
    fn feature_is_switched_by_either_name_for_one_or_all_shares() {
        let (features, lamps) = lamps(["data", "Home"]);
        let listed = features.list();
        assert_eq!(states(&listed[0]), ["Registered", "NotRegistered"]);
        assert_eq!(listed[0]["RegistrationState"], "Registered");
        let alias = "azurepremiumfilesmetadatacachefeature";
        let set = features.set(alias, Some("home"), true).unwrap();
        assert_eq!(states(&set), ["Registered", "Registered"]);
        assert!(lamps[1].load(Ordering::Relaxed));
        let set = features.set(METADATA_CACHE, None, false).unwrap();
        assert_eq!(
            (states(&set), &set["RegistrationState"]),
            (vec!["NotRegistered"; 2], &json!("NotRegistered"))
        );
        assert_eq!(features.set("metadata", None, true), Err(FeatureRefusal::NoFeature));
        assert_eq!(features.set(METADATA_CACHE, Some("no"), true), Err(FeatureRefusal::NoShare));
        assert!(!lamps[0].load(Ordering::Relaxed), "nothing was switched by that");
    }

    #[test]
    fn feature_state_has_the_time_of_its_last_change() {
        let (features, lamps) = lamps(["data", "home"]);
        let begun = json!(1);
        for standing in features.registrations.lock().values_mut() {
            standing.since = 1;
        }
        lamps[1].store(true, Ordering::Relaxed);
        let listed = features.list();
        assert_eq!(listed[0]["Shares"][0]["Since"], begun);
        assert!(listed[0]["Shares"][1]["Since"].as_u64() > Some(1), "by the configuration");
        features.set(METADATA_CACHE, Some("data"), true).unwrap();
        assert_eq!(features.list()[0]["Shares"][0]["Since"], begun, "it was so already");
    }

    #[test]
    fn configured_feature_is_listed_and_not_switchable() {
        let (mut features, _) = lamps(["data", "home"]);
        let tls = Arc::new(AtomicBool::new(false));
        let lamp = tls.clone();
        features.observe(move || {
            let on = lamp.load(Ordering::Relaxed);
            let state = if on { FeatureState::Preview } else { FeatureState::Off };
            let shares =
                vec![("data".to_owned(), state), ("home".to_owned(), FeatureState::Unsupported)];
            vec![FeatureFact { name: "nfs-tls", shares, bare: FeatureState::Off }]
        });
        features.stood.lock().values_mut().for_each(|seen| seen.1 = 1);
        let before = features.list()[1].clone();
        assert_eq!(
            (&before["FeatureName"], &before["FeatureState"]),
            (&json!("nfs-tls"), &json!("off"))
        );
        assert_eq!(
            (&before["RegistrationState"], before["Shares"][0]["Since"].as_u64()),
            (&json!("NotRegistered"), Some(1))
        );
        tls.store(true, Ordering::Relaxed);
        let after = features.list()[1].clone();
        assert_eq!(after["FeatureState"], "preview");
        assert!(after["Since"].as_u64() > Some(1), "since it was switched on");
        assert_eq!(after["Shares"][1]["FeatureState"], "unsupported");
        assert_eq!(after["Shares"][1]["Since"].as_u64(), Some(1), "nothing changed there");
        assert_eq!(features.set("NFS-TLS", None, true), Err(FeatureRefusal::Configured));
        let states = features.states();
        assert_eq!(
            states,
            [(METADATA_CACHE, FeatureState::Stable), ("nfs-tls", FeatureState::Preview)]
        );
    }

    #[test]
    fn unsupported_feature_is_listed_as_unsupported() {
        let features = FeatureRegistry::default();
        assert_eq!(features.list()[0]["RegistrationState"], "Unsupported");
        assert_eq!(features.set(METADATA_CACHE, None, true), Err(FeatureRefusal::NoFeature));
    }
}
