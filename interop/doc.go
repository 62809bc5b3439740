// Package interop tries this library against implementations of the protocol that we did not write: clients and
// servers made with both generations of the TypeScript SDK (npm/), and two published servers. Its tests need Node and
// the packages that scripts/tools installs, so they carry the build tag "integration"; make interop runs them.
//
// What a server peer offers is in npm/offer, what a client peer does in npm/use. Of each subject the Go file has what
// our server offers, what our client does at theirs, and what their clients have to have seen at ours. The same is
// asked of the peers among themselves (peers_test.go), so that a failure says whose it is. Where a peer deviates from
// the specification the test says so, with the section.
//
// What is tried, with our client at their server (c) and their client at our server (s). Legacy is 2025-11-25 unless
// it says otherwise, modern is 2026-07-28:
//
//	                                            v1    v2 legacy    v2 modern    server-everything
//	over stdio, Streamable HTTP                 c s   c s          c s          c
//	over HTTP+SSE                               c s   -            -            c
//	revisions 2024-11-05, 2025-03-26            -     s            -            -
//	tools, structured output, errors            c s   c s          c s          c
//	resources: text, blob, templates, pages     c s   c s          c s          c
//	prompts, completion with context            c s   c s          c s          c
//	progress, cancellation of calls             c s   c s          c s          c (progress)
//	cancellation of questions                   c s   c s          -            -
//	ping of the server                          c s   c s          -            -
//	ping of the client                          c     c            -            -
//	logging by level (modern: by request)       c s   c s          c s          c
//	lists and resources that change             c s   c s          c s (listen) c
//	forms with defaults and enumerations        c s   c s          c s          c
//	URLs to visit, the end of the visit, -32042 c s   c s          c s (URLs)   c
//	sampling, with tools                        c s   c s          c s          c (without)
//	roots; that they have changed               c s   c s          c s (roots)  c
//	several questions in a round, and rounds    c s   c s          c s          -
//	resumption, streams closed by the server    c s   c s          -            -
//	caching hints, mirrored headers             -     -            c s          -
//	methods of extensions                       c s   c s          c s          -
//	login, step-up, renewal of tokens           c s   s            c s          -
//
// Our server has no occasion to ping its clients. The second generation guards sessions with the same middleware as
// what is modern, and is tried with that.
package interop
