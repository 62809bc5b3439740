// Package contain decodes what a server sends as content, so that a fault only costs the entry, block or field that
// contains it. Clients call it for the results that they receive, and the host and the server for results that they
// forward.
//
// Decoding stays strict where more depends on a value: the type of a result, revisions, cursors, and fields that
// identify an entry, such as the name of a tool. [Decode] tries to decode a value as it is; repair.go decides what is
// left out or repaired if that fails.
package contain
