// Package mcp defines the types of the Model Context Protocol: methods, parameters, results,
// content blocks, capabilities, error codes and reserved keys. It does no I/O.
//
// # One set of types for all revisions
//
// Each type has the fields of all five revisions of the protocol ([Revisions]) and of the tasks extension. The comment
// of a field names the revisions that define it: "Since 2025-06-18" means that revision and all later ones, "Until
// 2025-11-25" means that revision and all earlier ones, and "2025-11-25 only" means that revision. A field without such
// a comment belongs to all revisions. Encoding keeps fields that the peer's revision lacks; packages server and client
// remove them.
//
// Tasks have two sets of types, because 2025-11-25 and the tasks extension of 2026-07-28 differ:
// [LegacyTask] and [Task].
//
// # Files
//
//   - method.go: revisions and methods.
//   - lifecycle.go: negotiation, capabilities and subscriptions. meta.go: metadata and progress.
//   - tool.go, resource.go and prompt.go: the features of servers, completions and roots.
//   - elicitation.go and sampling.go: the features of clients, and how servers of 2026-07-28, which
//     send no requests, ask for input.
//   - logging.go and task.go: log messages and tasks.
//   - content.go: content blocks.
//   - wire.go: how types are decoded.
//
// The parameters of a request or notification are a Params type, its result a Result type. The names come from the
// official schema, without "Request" and "Notification": the parameters of tools/call are [CallToolParams].
//
// # JSON
//
// All types have the same JSON form in [encoding/json] and encoding/json/v2. The UnmarshalJSON methods and [Meta.Get]
// decode strictly: keys are case-sensitive, and duplicate keys and invalid UTF-8 are errors. For a type without such a
// method, the JSON package decides. Nil slices of required arrays are encoded as []. Raw JSON ([json.RawMessage]) is
// kept byte for byte, so numbers stay exact. Decoded values do not share memory with the input.
//
// An optional field is a pointer if its zero value means something other than its absence.
//
// A value may be read by several goroutines at once, if none modifies it.
package mcp
