//! The OpenAPI 3.1.1 document, generated from the table of operations.

use super::operation::{AdminOperation, RequiredAccess};
use crate::limits::ADMIN_ITEMS_MAX;
use serde_json::{Map, Value, json};

/// JSON Schemas of requests and responses, by name.
const SCHEMAS: &str = include_str!("schemas.json");

/// Path parameters: name, description, pattern.
const PARTS: [(&str, &str, &str); 6] = [
    ("client", "Id of an NFS client.", "^[0-9a-f]{16}$"),
    ("connection", "Number of a connection.", "^[0-9]{1,19}$"),
    ("feature", "Name of a feature, or Azure's name for it.", "^[A-Za-z0-9-]{1,64}$"),
    ("session", "Id of an SMB session.", "^[0-9a-f]{16}$"),
    ("share", "Name of a share.", "^[^/\\u0000-\\u001f]{1,80}$"),
    ("since", "Time in milliseconds since 1970.", "^[0-9]{1,15}$"),
];

/// Error responses that every operation may return.
const REFUSALS: [(&str, &str); 9] = [
    ("400", "The request is invalid."),
    ("401", "The token is missing or wrong."),
    ("403", "The request comes from a foreign web page, or the token does not permit it."),
    ("404", "The object does not exist."),
    ("408", "The request did not arrive in time."),
    ("409", "The request conflicts with the present state."),
    ("413", "The request body is too long."),
    ("421", "The Host header must be an address or localhost."),
    ("431", "The request head is too long."),
];

/// The whole document.
#[must_use]
pub fn document(operations: &[AdminOperation]) -> Value {
    let mut paths = Map::new();
    for operation in operations.iter().filter(|operation| !is_page(operation)) {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method.name()] = describe(operation);
    }
    // A test proves that the text is valid JSON.
    let schemas: Value = serde_json::from_str(SCHEMAS).unwrap_or_default();
    json!({
        "openapi": "3.1.1",
        "info": {
            "title": "Anabranch's admin API",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "State and control of a running server.",
            "license": { "name": "Apache-2.0 OR MIT", "identifier": "Apache-2.0 OR MIT" },
        },
        "servers": [{ "url": "/" }],
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The content of the file admin-token in the server's state \
                                    directory.",
                },
            },
        },
    })
}

/// Whether the operation serves a part of the dashboard, which the document leaves out.
fn is_page(operation: &AdminOperation) -> bool {
    operation.access == RequiredAccess::Everyone && operation.path != "/health"
}

fn describe(operation: &AdminOperation) -> Value {
    let kind = if operation.gives.contains('/') { operation.gives } else { "application/json" };
    let schema = match kind {
        "application/json" => reference(operation.gives),
        _ => json!({ "type": "string" }),
    };
    let mut responses = json!({
        "200": { "description": "Done.", "content": { kind: { "schema": schema } } },
    });
    for (status, description) in REFUSALS {
        let content = json!({ "application/problem+json": { "schema": reference("Problem") } });
        responses[status] = json!({ "description": description, "content": content });
    }
    let mut described = json!({
        "operationId": operation.id,
        "summary": operation.summary,
        "parameters": parameters(operation),
        "responses": responses,
    });
    if operation.access == RequiredAccess::Everyone {
        described["security"] = json!([]);
    }
    if let Some(schema) = operation.takes {
        let content = json!({ "application/json": { "schema": reference(schema) } });
        described["requestBody"] = json!({ "required": true, "content": content });
    }
    described
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

fn parameters(operation: &AdminOperation) -> Value {
    let is_in = |name: &str| operation.path.contains(&format!("{{{name}}}"));
    let parts = PARTS.iter().filter(|(name, _, _)| is_in(name)).map(|(name, says, pattern)| {
        json!({
            "name": name,
            "in": "path",
            "required": true,
            "description": says,
            "schema": { "type": "string", "pattern": pattern },
        })
    });
    let mut parameters: Vec<Value> = parts.collect();
    if operation.is_list {
        let number = |name: &str, says: &str, minimum: usize, maximum: usize, default: usize| {
            let schema = json!({
                "type": "integer", "minimum": minimum, "maximum": maximum, "default": default,
            });
            json!({ "name": name, "in": "query", "description": says, "schema": schema })
        };
        let (all, most) = (i32::MAX as usize, ADMIN_ITEMS_MAX);
        parameters.push(number("offset", "Index of the first item.", 0, all, 0));
        parameters.push(number("limit", "Maximum number of items.", 1, most, most));
    }
    parameters.into()
}

#[cfg(test)]
mod tests {
    use super::super::table::OPERATIONS;
    use super::*;

    #[test]
    fn operation_references_exist_in_the_openapi_document() {
        let document = document(OPERATIONS);
        let schemas = &document["components"]["schemas"];
        for operation in OPERATIONS {
            for schema in operation.takes.into_iter().chain([operation.gives]) {
                assert!(schema.contains('/') || schemas[schema].is_object(), "{schema}");
            }
            let described = &document["paths"][operation.path][operation.method.name()];
            assert_ne!(described.is_object(), is_page(operation), "{}", operation.path);
            if is_page(operation) {
                continue;
            }
            let named = operation.path.matches('{').count();
            let parameters = described["parameters"].as_array().unwrap();
            let parts = parameters.iter().filter(|parameter| parameter["in"] == "path").count();
            assert_eq!(named, parts, "{}", operation.path);
        }
    }

    #[test]
    fn schema_references_resolve_and_every_schema_is_used() {
        let document = document(OPERATIONS);
        let text = document.to_string();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        for part in text.split("\"#/components/schemas/").skip(1) {
            let name = part.split('"').next().unwrap();
            assert!(schemas.contains_key(name), "{name}");
        }
        for name in schemas.keys() {
            assert!(text.contains(&format!("\"#/components/schemas/{name}\"")), "{name}");
        }
    }

    #[test]
    fn manual_lists_exactly_the_operations() {
        let manual = include_str!("../../../../docs/admin-api.md");
        let named = |operation: &&AdminOperation| {
            let AdminOperation { method, path, .. } = operation;
            manual.contains(&format!("| `{} {path}` |", method.name().to_uppercase()))
        };
        let documented = OPERATIONS.iter().filter(|operation| !is_page(operation));
        let unnamed: Vec<_> = documented.clone().filter(|operation| !named(operation)).collect();
        assert!(unnamed.is_empty(), "{unnamed:?}");
        let rows = manual.lines().filter(|line| {
            ["GET", "PUT", "POST", "PATCH", "DELETE"]
                .iter()
                .any(|m| line.starts_with(&format!("| `{m} ")))
        });
        assert_eq!(rows.count(), documented.count());
    }
}
