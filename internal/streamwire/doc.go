// Package streamwire carries messages over a byte stream: standard input and output, a
// socket, memory. One stream carries messages of both eras.
//
// [Server.Serve] serves one connection. [Client] is the client side of one.
package streamwire
