// Package store defines the storage for state that outlives a connection, such as
// sessions, resumable event streams and the state of calls that wait for input.
//
// A [Store] has four parts. [KV] maps keys to values, with a time to live and compare-and-swap. [Set] holds sets of
// strings. [Log] holds streams of numbered entries that a reader can read again from any entry. [Bus] sends messages to
// all replicas. [NewMemory] returns a Store in the memory of one process. Package redisstore, a separate module,
// implements one on Redis and Valkey, for several replicas. [Join] combines parts of different implementations. Package
// storetest contains the test suite for implementations.
//
// Four rules apply to every implementation:
//
//   - A key starts with the key of the principal that owns the data (see package
//     principal). One principal cannot name the data of another.
//   - A key has the form "owner/kind/id" or continues with a slash. The keys of one session or task share this
//     prefix, so a store that spans several servers keeps them on one server.
//   - Everything has a time to live and is deleted when it expires.
//   - Everything has a limit. A full KV returns [ErrFull] and keeps its items. A full Log purges its oldest entries;
//     reading a purged entry returns [ErrPurged]. A full subscription of a Bus drops messages and reports the loss.
package store
