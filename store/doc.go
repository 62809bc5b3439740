// Package store defines the storage for state that outlives a connection, such as
// sessions, resumable event streams and the state of calls that wait for input.
//
// There are two interfaces. [KV] maps keys to values, with a time to live and
// compare-and-swap. [Log] holds streams of numbered entries that a reader can read
// again from any entry. A server takes them as separate fields, so that they can have
// different implementations. [Memory] implements both in the memory of one process.
// Package storetest contains the test suite for implementations.
//
// Three rules apply to every implementation:
//
//   - A key starts with the key of the principal that owns the data (see package
//     principal). One principal cannot name the data of another.
//   - Everything has a time to live and is deleted when it expires.
//   - Everything has a limit. A KV that is full returns [ErrFull] and keeps what it
//     has. A Log that is full purges its oldest entries; reading a purged entry
//     returns [ErrPurged].
package store
