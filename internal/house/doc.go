// Package house holds the rules that the project keeps about itself, as tests: which room may import
// which, how long a file may be, and what a package may not be called. It has no code of its own.
//
// The picture is this, and the table in rooms_test.go is the same picture for the computer. Imports run
// down; on one floor rooms do not import each other, except those that sameFloor in rooms_test.go lists.
//
//	floor 9   cmd/parley
//	floor 8   gateway
//	floor 7   host
//	floor 6   server, client
//	floor 5   internal/httpwire, internal/streamwire
//	floor 4   internal/modern, internal/legacy
//	floor 3   task, auth/oauth
//	floor 2   internal/rpc
//	floor 1   call, internal/revision, internal/seal, auth/jwt, auth/introspection, transport
//	floor 0   auth, internal/atomicfile, internal/callkey, internal/challenge, internal/digest, internal/httpurl, internal/redirect, mcp, jsonrpc, principal, store, schema
//
// Beside the floors stand the adapters (store/redisstore, otel, auth/devissuer), what helps to test (mcptest,
// store/storetest, internal/spec) and the rooms that nobody imports (examples, conformance, interop,
// bench). A new room is entered in the table by the change that opens it.
package house
