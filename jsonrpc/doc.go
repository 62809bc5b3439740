// Package jsonrpc turns bytes into JSON-RPC 2.0 messages and back, strictly.
//
// [Parse] makes a single pass over the input. It accepts exactly the JSON that every parser reads alike: no duplicate
// keys at any depth, no invalid UTF-8, no lone surrogates, no data after the value, and nothing that exceeds [Limits].
// It rejects input that two parsers could read differently, because a gateway or a proxy in front of this program may
// read it the other way.
//
// A [Message] allocates nothing for its envelope. Its method, id, params and
// result are views of the input, so the caller must not change the input while
// the message or anything taken from it is in use.
//
// An [ID] keeps its bytes: 9007199254740993 is echoed as 9007199254740993, and
// "1" never equals 1.
//
// The Append functions append to a buffer that the caller owns. They copy raw JSON unchanged, so it must be valid. It
// may contain line breaks; a transport that sends lines must remove them.
//
// The package does no I/O. Of the Model Context Protocol it only applies the restrictions that all revisions share:
// params and results are objects, and the id of a request is a string or an integer, never null.
package jsonrpc
