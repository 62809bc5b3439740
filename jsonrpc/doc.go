// Package jsonrpc turns bytes into JSON-RPC 2.0 messages and back, the strict way.
//
// [Parse] makes a single pass over the input. It accepts exactly the JSON that
// every parser reads alike: no duplicate member names at any depth, no invalid
// UTF-8, no lone surrogates, nothing after the value, nothing deeper or wider
// than [Limits] allows. What two parsers could read differently is refused,
// because a gateway or a proxy in front of us may hold the other reading.
//
// A [Message] allocates nothing for its envelope: its method, id, params and
// result are views of the input, which therefore must not be modified while the
// message or anything taken from it is in use.
//
// Ids are kept byte for byte ([ID]), so that 9007199254740993 comes back as
// 9007199254740993 and "1" is never taken for 1.
//
// The Append functions write to a buffer of the caller's, as append does. Raw JSON
// that they are given must be valid, is copied as it is, and may hold line breaks,
// which on a transport of lines are the caller's to remove.
//
// The package does no I/O and knows nothing of the Model Context Protocol but the
// narrowings of JSON-RPC that all its revisions share: params and results are
// objects, and the id of a request is a string or an integer, never null.
package jsonrpc
