// Package rpc is one request in motion.
//
// A [Call] is a request being served: what was asked, by whom, in which revision
// of the protocol, and where messages that belong to it go. It rides in the
// context of the handler ([From]) and is all that a feature may know of the peer.
// An [Engine] serves Calls: it finds the handler of a method and runs it inside
// the middleware.
//
// [Outbound] is the other direction: requests that this side has in flight, with
// their ids, time-outs, progress and cancellation. A client's calls and the
// questions that a server puts to a client of the handshake era share it. A client's
// [Chain] takes them through [Middleware] on their way out: the same type for both roles,
// such as [LogCalls] and [LimitRate], or those of package otel.
//
// [Changes] hands what has changed at a server to whoever has subscribed.
package rpc
