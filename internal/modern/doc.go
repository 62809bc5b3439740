// Package modern is the stateless era of the protocol, 2026-07-28: every request
// says in its _meta which revision it is in and what its client can do, and
// nothing is remembered between one request and the next.
//
// [Server] is the serving half: it turns a message into a call. [Client] is the
// calling half. What a kind of wire adds is a small binding here: which headers
// must mirror what, which status goes with which error ([HTTPStatus]).
package modern
