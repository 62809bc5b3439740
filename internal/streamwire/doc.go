// Package streamwire is how messages arrive over a byte stream: standard input
// and output, a socket, memory. One stream carries both eras at once; each
// message is judged by what it says of itself.
//
// [Server.Serve] serves one connection; [Client] is the other end of one.
package streamwire
