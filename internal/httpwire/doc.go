// Package httpwire is how messages arrive over HTTP. One [Server] is one endpoint
// that speaks the stateless era, the sessions of 2025-03-26 to 2025-11-25 and the
// pair of endpoints of 2024-11-05, behind one guard. [Client] is the other end.
package httpwire
