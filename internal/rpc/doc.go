// Package rpc serves and sends requests, below the public package call.
//
// A [Call] is one request that this side serves. It embeds the public call.Call and adds what
// the implementation needs: the stream for notifications, input requests, subscriptions. The
// context of a handler carries it ([From]). An [Engine] serves calls: it runs the middleware,
// checks the scopes and finds the handler of the method.
//
// [Outbound] is the other direction: the requests that this side has in flight, with their ids,
// time-outs, progress and cancellation. Clients use it, and servers of the handshake era for
// their input requests. A [Chain] is the middleware of a client's requests.
//
// [Changes] delivers changes to subscribers.
package rpc
