//! Outcomes of requests in the terms of Azure Files' dimension `ResponseType`, so that dashboards
//! for it carry over.

use limits::ThrottleReason;
use serde::{Deserialize, Serialize};

macro_rules! response_types {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Outcome of a request. The variant names are displayed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum ResponseType {
            $($(#[$doc])* $name,)*
        }

        impl ResponseType {
            /// All outcomes in order.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The displayed name.
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
    /// Success.
    Success,
    /// Success after throttling.
    SuccessWithThrottling,
    /// Success after throttling by the limit of sent bytes.
    SuccessWithShareEgressThrottling,
    /// Success after throttling by the limit of received bytes.
    SuccessWithShareIngressThrottling,
    /// Success after throttling by the limit of requests.
    SuccessWithShareIopsThrottling,
    /// Success, close to the limit of metadata requests.
    SuccessWithMetadataWarning,
    /// Success after throttling by the limit of metadata requests.
    SuccessWithMetadataThrottling,
    /// Refused by the limit of sent bytes.
    ClientShareEgressThrottlingError,
    /// Refused by the limit of received bytes.
    ClientShareIngressThrottlingError,
    /// Refused by the limit of requests.
    ClientShareIopsThrottlingError,
    /// Refused by the limit of bytes of all shares.
    ClientAccountBandwidthThrottlingError,
    /// Refused by the limit of requests of all shares.
    ClientAccountRequestThrottlingError,
    /// Refused by another limit.
    ClientThrottlingError,
    /// A timeout that the client caused.
    ClientTimeoutError,
    /// The request cannot be served: not found, exists, in use, no space.
    ClientOtherError,
    /// The server is overloaded.
    ServerBusyError,
    /// A timeout below the server.
    ServerTimeoutError,
    /// The server or its storage failed.
    ServerOtherError,
    /// Missing, failed or expired authentication.
    AuthenticationError,
    /// The caller lacks the right.
    AuthorizationError,
    /// The connection ended before the reply.
    NetworkError,
}

impl ResponseType {
    /// Whether the outcome is a success.
    #[must_use]
    pub fn is_success(self) -> bool {
        self <= Self::SuccessWithMetadataThrottling
    }

    /// Whether a limit throttled or refused the request.
    #[must_use]
    pub fn is_throttled(self) -> bool {
        self > Self::Success && self <= Self::ClientThrottlingError
    }

    /// Whether the server is to blame, which lowers availability.
    #[must_use]
    pub fn is_unexpected(self) -> bool {
        matches!(self, Self::ServerBusyError | Self::ServerTimeoutError | Self::ServerOtherError)
    }

    /// Whether the request counts for availability. Unfinished requests and requests without
    /// authorisation do not.
    #[must_use]
    pub fn is_applicable(self) -> bool {
        !matches!(self, Self::NetworkError | Self::AuthenticationError | Self::AuthorizationError)
    }

    /// The outcome of a throttled request, or of one that a limit refused. Other errors stay.
    #[must_use]
    pub fn throttled(self, throttled: ThrottleReason) -> Self {
        if self == Self::ServerBusyError && throttled == ThrottleReason::Handles {
            return Self::ClientThrottlingError;
        }
        if self != Self::Success {
            return self;
        }
        match throttled {
            ThrottleReason::None | ThrottleReason::Handles => self,
            ThrottleReason::Iops => Self::SuccessWithShareIopsThrottling,
            ThrottleReason::Ingress => Self::SuccessWithShareIngressThrottling,
            ThrottleReason::Egress => Self::SuccessWithShareEgressThrottling,
            ThrottleReason::Metadata => Self::SuccessWithMetadataThrottling,
            ThrottleReason::File => Self::SuccessWithThrottling,
        }
    }
}

/// Authentication of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Authentication {
    /// None yet, or a guest.
    Anonymous,
    /// By password.
    NTLMv2,
    /// By Kerberos ticket.
    Kerberos,
    /// By assertion of the client's machine.
    AuthSys,
}

impl Authentication {
    /// All variants in order.
    pub const ALL: [Self; 4] = [Self::Anonymous, Self::NTLMv2, Self::Kerberos, Self::AuthSys];

    /// The displayed name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Anonymous => "Anonymous",
            Self::NTLMv2 => "NTLMv2",
            Self::Kerberos => "Kerberos",
            Self::AuthSys => "AuthSys",
        }
    }

    /// The displayed name of an outcome for this authentication: throttled requests of Kerberos
    /// users have a name of their own.
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
    fn response_type_names_match_the_service() {
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
    fn throttled_request_that_fails_counts_as_its_error() {
        let of = |response: ResponseType, throttle| response.throttled(throttle);
        let iops = ResponseType::SuccessWithShareIopsThrottling;
        assert_eq!(of(ResponseType::Success, ThrottleReason::Iops), iops);
        assert_eq!(of(ResponseType::Success, ThrottleReason::None), ResponseType::Success);
        let refused = ResponseType::AuthorizationError;
        assert_eq!(of(refused, ThrottleReason::Egress), refused);
        let (busy, limited) = (ResponseType::ServerBusyError, ResponseType::ClientThrottlingError);
        assert_eq!(of(busy, ThrottleReason::Handles), limited, "not the server's fault");
        assert_eq!(of(busy, ThrottleReason::File), busy);
    }
}
