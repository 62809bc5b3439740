// Package interop tests this library with other implementations of the protocol: clients and servers made with both
// generations of the TypeScript SDK (npm/), published servers, and servers made with other Go libraries (gopeers/). The
// tests need Node and the packages that scripts/tools installs, so they have the build tag "integration". make interop
// runs them.
//
// A server peer offers the features in npm/offer; a client peer uses them as in npm/use. For each subject, a Go file
// contains the features of our server, the calls of our client, and the results that the other clients must report. The
// peers are tested with each other too (peers_test.go), which shows whether a failure is ours. A comment names the
// section of the specification from which a peer deviates.
//
// The table shows the tests of our client with their server (c) and of their client with our server (s). Legacy is
// 2025-11-25, modern is 2026-07-28:
//
//	                                            v1    v2 legacy    v2 modern    server-everything
//	over stdio, Streamable HTTP                 c s   c s          c s          c
//	over HTTP+SSE                               c s   -            -            c
//	revisions 2024-11-05, 2025-03-26            -     s            -            -
//	tools, structured output, errors            c s   c s          c s          c
//	resources: text, blob, templates, pages     c s   c s          c s          c
//	prompts, completion with context            c s   c s          c s          c
//	progress, cancellation of calls             c s   c s          c s          c (progress)
//	cancellation of input requests              c s   c s          -            -
//	ping of the server                          c s   c s          -            -
//	ping of the client                          c     c            -            -
//	logging by level (modern: by request)       c s   c s          c s          c
//	changes of lists and resources              c s   c s          c s (listen) c
//	forms with defaults and enumerations        c s   c s          c s          c
//	URL elicitation, its completion, -32042     c s   c s          c s (URLs)   c
//	sampling, with tools                        c s   c s          c s          c (without)
//	roots, changes of roots                     c s   c s          c s (roots)  c
//	several input requests at once, and rounds  c s   c s          c s          -
//	resumption, streams closed by the server    c s   c s          -            -
//	caching hints, mirrored headers             -     -            c s          -
//	methods of extensions                       c s   c s          c s          -
//	tasks, with the client of the extension     -     -            s            -
//	login, step-up, refresh of tokens           c s   s            c s          -
//
// A gateway presents our servers, published servers and those of gopeers/ to clients of both eras (gateway_test.go).
// The client peers use the server peers through a gateway as they do without, except for what
// gateway_test.go names.
//
// The OpenID providers of issuers_test.go issue access tokens that parley up accepts, and ID tokens that it rejects:
// zitadel.go, whose dependencies are in zitadel.mod, and issuers/npm/provider.mjs.
//
// Our server does not ping its clients. The second generation of the SDK protects legacy sessions and modern requests
// with the same middleware; only modern requests are tested.
package interop
