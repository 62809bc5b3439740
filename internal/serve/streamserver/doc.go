// Package streamserver is the server of a byte stream: standard input and output, a socket, memory. One stream carries
// messages of both eras. [Server.Serve] serves one connection.
package streamserver
