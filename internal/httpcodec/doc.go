// Package httpcodec has what the two sides of HTTP read and write: event streams, the values of headers, and bodies.
// The bindings of the server and the client use it.
package httpcodec
