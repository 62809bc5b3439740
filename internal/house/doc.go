// Package house tests the rules of the project: which package may import which, how long a file may be, how files are
// named, and which API the packages export. It contains only tests.
//
// The layers are these; the table in layers_test.go is the same. A package imports only packages in lower layers.
// Packages in one layer do not import each other, except for the imports in sameLayer in layers_test.go.
//
//	layer 9   cmd/parley
//	layer 8   gateway
//	layer 7   host, skills, apps
//	layer 6   server, client
//	layer 5   internal/serve/httpserver, internal/serve/streamserver, internal/dial/httpclient,
//	          internal/dial/streamclient
//	layer 4   internal/serve/modern, internal/serve/legacy, internal/dial/modern, internal/dial/legacy
//	layer 3   task, internal/tasks, auth/oauth
//	layer 2   internal/rpc, internal/outbound, internal/changes, internal/httpcodec, auth/oauth/tokenstore
//	layer 1   call, internal/contain, internal/forms, internal/lease, internal/revision, internal/seal,
//	          auth/jwt, auth/introspection, transport
//	layer 0   auth, docs/program, internal/atomicfile, internal/callkey, internal/challenge, internal/childenv,
//	          internal/digest, internal/glob, internal/httpguard, internal/httpurl, internal/jsonscan,
//	          internal/loglimit, internal/plaintext, internal/redirect, internal/resourceuri, internal/storecheck,
//	          internal/topics, mcp, jsonrpc, principal, store, schema
//
// Other packages are in no layer: the adapters (store/redisstore, otel, sampler, auth/devissuer), the test support
// (mcptest, store/storetest, auth/oauth/internal/oauthtest, internal/faulttest, internal/gatewaytest, internal/ledger,
// internal/logintest, internal/replicatest, internal/wiretest), the specification (internal/spec), the corpus of bad
// input (internal/corpus), free addresses (internal/freeaddr), a buffer (internal/syncbuffer) and checks of errors
// (internal/must) for tests, and the packages that no package imports (examples, docs/guide, conformance, interop,
// bench, gateway/faults, store/redisstore/examples and store/redisstore/faults). A change that adds a package also
// adds it to the table.
package house
