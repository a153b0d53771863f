//! How requests end, in the words of Azure Files' dimension `ResponseType`, so that dashboards
//! made for that carry over.

use limits::Throttled;
use serde::{Deserialize, Serialize};

macro_rules! response_types {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// How a request ended. The names of the variants are what is shown.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum ResponseType {
            $($(#[$doc])* $name,)*
        }

        impl ResponseType {
            /// All of them, in their order.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The exact name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }
        }
    };
}

response_types! {
    /// It succeeded.
    Success,
    /// It succeeded after it had been held back.
    SuccessWithThrottling,
    /// Held back for the bytes that go out.
    SuccessWithShareEgressThrottling,
    /// Held back for the bytes that come in.
    SuccessWithShareIngressThrottling,
    /// Held back for the number of requests.
    SuccessWithShareIopsThrottling,
    /// Requests about names and attributes come near to their limit.
    SuccessWithMetadataWarning,
    /// Held back for the number of requests about names and attributes.
    SuccessWithMetadataThrottling,
    /// Refused for the bytes that go out.
    ClientShareEgressThrottlingError,
    /// Refused for the bytes that come in.
    ClientShareIngressThrottlingError,
    /// Refused for the number of requests.
    ClientShareIopsThrottlingError,
    /// Refused for the bytes of all shares.
    ClientAccountBandwidthThrottlingError,
    /// Refused for the requests of all shares.
    ClientAccountRequestThrottlingError,
    /// Refused for another limit.
    ClientThrottlingError,
    /// The client took too long.
    ClientTimeoutError,
    /// Refused for what the client asked: not there, there already, in use, no room.
    ClientOtherError,
    /// The server has too much to do or to hold.
    ServerBusyError,
    /// What the server waited for took too long.
    ServerTimeoutError,
    /// The server or what it stands on failed.
    ServerOtherError,
    /// Nobody showed who they are, or not any more.
    AuthenticationError,
    /// Who asks may not.
    AuthorizationError,
    /// The connection ended before the answer.
    NetworkError,
}

impl ResponseType {
    /// Whether it counts as a success.
    #[must_use]
    pub fn is_success(self) -> bool {
        self <= Self::SuccessWithMetadataThrottling
    }

    /// Whether it was held back or refused by a limit.
    #[must_use]
    pub fn is_throttled(self) -> bool {
        self > Self::Success && self <= Self::ClientThrottlingError
    }

    /// Whether the server is to blame: what lowers availability.
    #[must_use]
    pub fn is_unexpected(self) -> bool {
        matches!(self, Self::ServerBusyError | Self::ServerTimeoutError | Self::ServerOtherError)
    }

    /// Whether it counts for availability: not what never came to an end, and what nobody with a
    /// right to ask had asked for.
    #[must_use]
    pub fn is_applicable(self) -> bool {
        !matches!(self, Self::NetworkError | Self::AuthenticationError | Self::AuthorizationError)
    }

    /// The same end of a request that was held back, or refused for a limit. Another error
    /// stays what it is.
    #[must_use]
    pub fn throttled(self, throttled: Throttled) -> Self {
        if self == Self::ServerBusyError && throttled == Throttled::Handles {
            return Self::ClientThrottlingError;
        }
        if self != Self::Success {
            return self;
        }
        match throttled {
            Throttled::No | Throttled::Handles => self,
            Throttled::Iops => Self::SuccessWithShareIopsThrottling,
            Throttled::Ingress => Self::SuccessWithShareIngressThrottling,
            Throttled::Egress => Self::SuccessWithShareEgressThrottling,
            Throttled::Metadata => Self::SuccessWithMetadataThrottling,
            Throttled::File => Self::SuccessWithThrottling,
        }
    }
}

/// By what a client has shown who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Authentication {
    /// By nothing: not yet, or as a guest.
    Anonymous,
    /// By a password.
    NTLMv2,
    /// By a ticket.
    Kerberos,
    /// By its machine's word.
    AuthSys,
}

impl Authentication {
    /// All of them, in their order.
    pub const ALL: [Self; 4] = [Self::Anonymous, Self::NTLMv2, Self::Kerberos, Self::AuthSys];

    /// What is shown.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Anonymous => "Anonymous",
            Self::NTLMv2 => "NTLMv2",
            Self::Kerberos => "Kerberos",
            Self::AuthSys => "AuthSys",
        }
    }

    /// What is shown of a response to it: what was held back by a limit has a name of its own for
    /// those who came by a ticket.
    #[must_use]
    pub fn name_of(self, response: ResponseType) -> String {
        let name = response.name();
        let prefix =
            if self == Self::Kerberos && response.is_throttled() { "Kerberos" } else { "" };
        format!("{prefix}{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_exactly_those_of_the_service() {
        let names: Vec<&str> = ResponseType::ALL.iter().map(|r| r.name()).collect();
        let expected = "Success, SuccessWithThrottling, SuccessWithShareEgressThrottling, \
            SuccessWithShareIngressThrottling, SuccessWithShareIopsThrottling, \
            SuccessWithMetadataWarning, SuccessWithMetadataThrottling, \
            ClientShareEgressThrottlingError, ClientShareIngressThrottlingError, \
            ClientShareIopsThrottlingError, ClientAccountBandwidthThrottlingError, \
            ClientAccountRequestThrottlingError, ClientThrottlingError, ClientTimeoutError, \
            ClientOtherError, ServerBusyError, ServerTimeoutError, ServerOtherError, \
            AuthenticationError, AuthorizationError, NetworkError";
        assert_eq!(names.join(", "), expected);
        for response in ResponseType::ALL {
            let name = response.name();
            assert_eq!(response.is_success(), name.starts_with("Success"), "{name}");
            assert_eq!(response.is_unexpected(), name.starts_with("Server"), "{name}");
            let throttled = name.contains("Throttling") || name.contains("Warning");
            assert_eq!(response.is_throttled(), throttled, "{name}");
        }
    }

    #[test]
    fn an_error_is_told_as_itself_though_its_request_was_held_back() {
        let of = |response: ResponseType, throttle| response.throttled(throttle);
        let iops = ResponseType::SuccessWithShareIopsThrottling;
        assert_eq!(of(ResponseType::Success, Throttled::Iops), iops);
        assert_eq!(of(ResponseType::Success, Throttled::No), ResponseType::Success);
        let refused = ResponseType::AuthorizationError;
        assert_eq!(of(refused, Throttled::Egress), refused);
        let (busy, limited) = (ResponseType::ServerBusyError, ResponseType::ClientThrottlingError);
        assert_eq!(of(busy, Throttled::Handles), limited, "not the server's fault");
        assert_eq!(of(busy, Throttled::File), busy);
    }
}
