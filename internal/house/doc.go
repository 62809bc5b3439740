// Package house tests the rules of the project: which package may import which, how long a file may be, how files are
// named, and which API the packages export. It contains only tests.
//
// The floors are these; the table in floors_test.go is the same. A package imports only packages on lower floors.
// Packages on one floor do not import each other, except for the imports in sameFloor in floors_test.go.
//
//	floor 9   cmd/parley
//	floor 8   gateway
//	floor 7   host, skills, apps
//	floor 6   server, client
//	floor 5   internal/serve/httpserver, internal/serve/streamserver, internal/dial/httpclient,
//	          internal/dial/streamclient
//	floor 4   internal/serve/modern, internal/serve/legacy, internal/dial/modern, internal/dial/legacy
//	floor 3   task, internal/tasks, auth/oauth
//	floor 2   internal/rpc, internal/outbound, internal/changes, internal/httpcodec, auth/oauth/tokenstore
//	floor 1   call, internal/contain, internal/forms, internal/lease, internal/revision, internal/seal,
//	          auth/jwt, auth/introspection, transport
//	floor 0   auth, docs/program, internal/atomicfile, internal/callkey, internal/challenge, internal/childenv,
//	          internal/digest, internal/glob, internal/httpguard, internal/httpurl, internal/jsonscan,
//	          internal/loglimit, internal/plaintext, internal/redirect, internal/resourceuri, internal/storecheck,
//	          internal/topics, mcp, jsonrpc, principal, store, schema
//
// Other packages are on no floor: the adapters (store/redisstore, otel, sampler, auth/devissuer), the test support
// (mcptest, store/storetest, auth/oauth/internal/oauthtest, internal/faulttest, internal/gatewaytest, internal/ledger,
// internal/logintest, internal/replicatest, internal/wiretest), the specification (internal/spec), the corpus of bad
// input (internal/corpus), free addresses (internal/freeaddr), a buffer (internal/syncbuffer) and checks of errors
// (internal/must) for tests, and the packages that no package imports (examples, docs/guide, conformance, interop,
// bench, gateway/faults, store/redisstore/examples and store/redisstore/faults). A change that adds a package also
// adds it to the table.
package house
