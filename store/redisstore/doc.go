// Package redisstore implements [store.KV], [store.Log] and [store.Bus] on Redis and Valkey,
// so that the replicas of a server share their state.
//
//	s, err := redisstore.Open(ctx, redisstore.Options{Addrs: []string{"127.0.0.1:6379"}})
//	…
//	defer s.Close()
//	server := &server.Server{KV: s, Log: s}
//
// It needs version 7 of Redis or Valkey, alone, with Sentinel or as a cluster. Each operation
// is one round trip. Put, Touch, Add, Append, ReadAfter and List are atomic: where one
// command is not enough, a script runs on the Redis server.
//
// # Configuration of Redis
//
//   - maxmemory-policy must be noeviction, because other policies delete sessions and tasks
//     without notice. Open checks it. When maxmemory is reached, writes return
//     [store.ErrFull], except for those that need no more memory.
//   - Without persistence, a restart of Redis deletes everything. With appendonly yes it
//     keeps everything but the writes of the last second; with appendfsync always it keeps
//     these too.
//   - Replication is asynchronous. After a fail-over, writes of the last moments before it can
//     be missing although they were acknowledged, and an item can have an older value. To
//     bound the loss, set min-replicas-to-write and min-replicas-max-lag. Versions are random
//     and do not depend on what Redis remembers: a version that was lost is never assigned
//     again, so a compare-and-swap never succeeds because of a fail-over. Two replicas that
//     both believe to hold a lease find out at their next write.
//   - The numbers of a stream may go back by the entries that were lost. Its writer then gets
//     [store.ErrConflict].
//
// # Errors
//
// Errors of the network, and of a Redis server that is starting, failing over or moving
// data, wrap [ErrUnavailable]. A write that was sent is never sent again, because the first
// one may have been executed.
package redisstore
