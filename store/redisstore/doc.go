// Package redisstore implements [store.Store] on Redis and Valkey, so that the replicas of a
// server share their state.
//
//	shared, err := redisstore.Open(ctx, redisstore.Options{Addrs: []string{"127.0.0.1:6379"}, Prefix: "weather:"})
//	…
//	defer shared.Close()
//	s := &server.Server{Store: shared, Keys: keys}
//
// The program in the directory examples/replica is complete, with keys that can be rotated.
//
// It needs version 7 of Redis or Valkey, alone, with Sentinel or as a cluster. Each operation
// is one round trip, which the operations of a busy server share except in a cluster. Put,
// Touch, Add, Append, ReadAfter and List are atomic: where one command is not enough, a script
// runs on the Redis server.
//
// # Configuration of Redis
//
//   - maxmemory-policy must be noeviction, because other policies delete sessions and tasks without notice.
//     Open checks it. When maxmemory is reached, writes return [store.ErrFull], except for writes that replace an
//     item with one that is not longer.
//   - A user with limited rights needs the commands EVALSHA, EVAL, GET, SET, UNLINK, PUBLISH, SUBSCRIBE,
//     UNSUBSCRIBE, PING and INFO, the commands of the scripts in the directory lua, and access to keys and
//     channels that start with the prefix.
//   - Without persistence, a restart of Redis deletes everything. With appendonly yes, Redis keeps everything
//     but the writes of the last second; with appendfsync always, it keeps these, too.
//   - Replication is asynchronous. After a fail-over, the last writes before it may be missing although they
//     were acknowledged. An item then has an earlier value and version again, and a compare-and-swap with that
//     version succeeds. A compare-and-swap with the version of a missing write returns [store.ErrConflict],
//     because versions are random and never assigned twice. A stream can end before missing entries; its writer
//     then receives [store.ErrConflict]. To bound the loss, set min-replicas-to-write and min-replicas-max-lag.
//     The same applies to a restart with appendfsync everysec. The end of a task can be missing, too: the process
//     that ran the task then ends it as failed, or runs it again if its tool allows that, when a request for the
//     task reaches that process.
//
// # Connections
//
// A Store uses a fixed number of connections to each Redis server, and one more for all subscriptions. When that
// one is interrupted, it is restored, and every subscription receives a report of loss. go-redis logs connections
// that fail to standard error; its function SetLogger changes this. In a cluster, each server receives every
// message of the Bus.
//
// # Errors
//
// Errors of the network wrap [ErrUnavailable], and so do errors of a Redis server that is starting, failing over
// or moving data for longer than a moment. A write without an answer is never sent again, because it may have
// been executed.
package redisstore
