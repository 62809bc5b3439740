// Package store keeps what must outlive a connection: sessions, and whatever else a second replica or
// a reconnecting peer has to find again.
//
// A [Store] is small enough to implement in an afternoon: values by key ([KV]), and streams of entries
// that are read from where a reader left off ([Log]). [Memory] is the one that a single process uses;
// package storetest holds the suite that every implementation passes.
//
// Three rules hold for all of them. Each key starts with the key of the principal that it belongs to
// (see package principal), so that nobody can name another's state. Everything has a time to live:
// what is forgotten disappears. Everything has a cap: over it, writing a value fails with [ErrFull]
// and what is there stays readable, while a stream loses its oldest entries, and says so with
// [ErrPurged] to whoever asks for them.
package store
