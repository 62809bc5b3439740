// Package httpcodec reads and writes event streams, header values and bodies, for the HTTP bindings of server and
// client.
package httpcodec
