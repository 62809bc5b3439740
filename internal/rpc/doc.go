// Package rpc serves requests, below the public package call.
//
// A [Call] is one request that this side serves. It embeds the public call.Call and adds what
// the implementation needs: the stream for notifications, input requests, subscriptions. The
// context of a handler carries it ([From]). An [Engine] serves calls: it runs the middleware,
// checks the scopes and finds the handler of the method. [Inflight] has the calls of one peer.
//
// Package outbound is the other direction.
package rpc
