//! One operation of the admin API, without the handlers of the others.

use super::AdminState;
use super::answer::{AdminAnswer, AdminRefusal, OperationInput};
use axum::routing::MethodFilter;

/// Authorisation that an operation requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequiredAccess {
    /// No token.
    Everyone,
    /// The metrics token or the admin token.
    Metrics,
    /// The admin token.
    Administrator,
}

/// HTTP method of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Removes or switches off.
    Delete,
    /// Reads.
    Get,
    /// Changes a part.
    Patch,
    /// Starts.
    Post,
    /// Switches on.
    Put,
}

impl Method {
    /// The method for axum.
    pub fn filter(self) -> MethodFilter {
        match self {
            Self::Delete => MethodFilter::DELETE,
            Self::Get => MethodFilter::GET,
            Self::Patch => MethodFilter::PATCH,
            Self::Post => MethodFilter::POST,
            Self::Put => MethodFilter::PUT,
        }
    }

    /// The method for OpenAPI.
    pub fn name(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Get => "get",
            Self::Patch => "patch",
            Self::Post => "post",
            Self::Put => "put",
        }
    }
}

/// Implementation of an operation; may block on a disk.
type OperationFunction = fn(&AdminState, &OperationInput) -> Result<AdminAnswer, AdminRefusal>;

/// One operation.
#[derive(Debug)]
pub struct AdminOperation {
    /// The method.
    pub method: Method,
    /// The path; `openapi::PARTS` describes the parameters in braces.
    pub path: &'static str,
    /// Its `operationId` in the document.
    pub id: &'static str,
    /// Its summary, a sentence.
    pub summary: &'static str,
    /// The required authorisation.
    pub access: RequiredAccess,
    /// It returns a list, in pages.
    pub is_list: bool,
    /// Schema of the request body.
    pub takes: Option<&'static str>,
    /// Schema or media type of the response.
    pub gives: &'static str,
    /// The implementation.
    pub run: OperationFunction,
}

/// A GET operation for the administrator, to which the methods of [`AdminOperation`] add.
pub const fn get(
    path: &'static str,
    id: &'static str,
    gives: &'static str,
    run: OperationFunction,
) -> AdminOperation {
    AdminOperation {
        method: Method::Get,
        path,
        id,
        summary: "",
        access: RequiredAccess::Administrator,
        is_list: false,
        takes: None,
        gives,
        run,
    }
}

impl AdminOperation {
    pub const fn by(mut self, method: Method) -> Self {
        self.method = method;
        self
    }

    pub const fn says(mut self, summary: &'static str) -> Self {
        self.summary = summary;
        self
    }

    pub const fn list(mut self) -> Self {
        self.is_list = true;
        self
    }

    pub const fn takes(mut self, schema: &'static str) -> Self {
        self.takes = Some(schema);
        self
    }

    pub const fn access(mut self, access: RequiredAccess) -> Self {
        self.access = access;
        self
    }
}
