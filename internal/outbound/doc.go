// Package outbound sends requests to the peer of one connection. [Requests] has those in flight, with their ids,
// time-outs, progress and cancellation. Clients use it, and servers of the handshake era for the questions to their
// clients. A [Chain] is the middleware of a client's requests, a [Wire] carries the messages.
//
// A request that a client sends on behalf of a caller has its rpc.Caller. [Origin] finds the request that a message of
// the peer belongs to, and turns decides which callers may be asked next on a connection that they share.
package outbound
