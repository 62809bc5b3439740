// Package mcp is the vocabulary of the Model Context Protocol: the methods, the parameters and
// results they carry, content blocks, capabilities, error codes and reserved keys, as plain Go
// types. It does no I/O and makes no decision.
//
// # One set of types for every revision
//
// Each type is the superset of what the five revisions of the protocol ([Revisions]) and the tasks
// extension say about it. A field that not all revisions have says so in its comment, as in
// "since 2025-06-18" or "2025-11-25 only". Nothing here removes a field that a peer would not
// understand; that is the work of whoever speaks to the peer.
//
// The few things that changed shape rather than grew have two types: tasks were part of the
// protocol in 2025-11-25 ([LegacyTask]) and are an extension since ([Task]).
//
// # Finding your way
//
//   - revision.go and method.go name the revisions and the methods;
//   - lifecycle.go, capability.go and meta.go hold what peers tell each other about themselves;
//   - tool.go, resource.go, prompt.go and completion.go hold what servers offer;
//   - elicitation.go, sampling.go and roots.go hold what servers ask for, and input.go how they ask
//     in 2026-07-28, where a server sends no requests;
//   - subscription.go, progress.go, logging.go and task.go hold what happens in between;
//   - content.go holds what tools, prompts and models exchange.
//
// Params types are what a request or notification carries, Result types what answers it. Their names
// are the schema's, without "Request" and "Notification": tools/call takes [CallToolParams].
//
// # JSON
//
// All types have the same JSON form under [encoding/json] and under its second version. Where a type
// has methods of its own, decoding is strict (case-sensitive names, no duplicate names, valid UTF-8).
// Arrays that the protocol requires are encoded as [] when nil. Raw JSON ([json.RawMessage]) is
// kept byte for byte, so numbers in it stay exact. Decoded values own their memory.
//
// Optional fields whose absence means something else than their zero value are pointers; make them
// with new(expr).
//
// Values are not safe for concurrent modification; sharing them for reading is fine.
package mcp
