package main

import (
	"errors"
	"flag"
	"time"
)

// model is the load, the costs and the machines.
type model struct {
	seed uint64
	time time.Duration // that is simulated

	sessions, streams int
	calls             float64 // per second
	share             [kinds]float64
	sessionStreams    float64 // share of the streams that belong to sessions
	keepAlive         time.Duration
	eventBytes        int // of an event in a log

	cpu                         [kinds]time.Duration // of a replica
	pingCPU, forwardCPU         time.Duration
	sessionBytes, streamBytes   int // in a replica
	storedBytes                 int // of a session in Redis
	touch, put, append, publish time.Duration
	publishEach                 time.Duration // for each replica
	roundTrip                   time.Duration

	processors                 int
	replicaMemory, shardMemory int64
	most                       float64 // load that counts as enough
	latency                    time.Duration
}

// Kinds of calls.
const (
	modern = iota
	sessionJSON
	sessionStream
	kinds
)

// maxCached is the number of idle sessions that a replica keeps in memory.
const maxCached = 10_000

// logTime is how long Redis keeps the events of a stream.
const logTime = 5 * time.Minute

const microsecond = time.Microsecond

// defaults returns the figures that were measured on a virtual machine with two processors (AMD EPYC), Redis 7.0.15 and
// Go 1.26. Measure them on your machines with the commands.
func defaults() model {
	return model{
		seed: 1, time: 2 * time.Second,
		sessions: 1_000_000, streams: 100_000, calls: 50_000, share: [kinds]float64{0.5, 0.4, 0.1},
		sessionStreams: 0.5, keepAlive: 15 * time.Second, eventBytes: 600,

		// go run ./bench/fleet: the column CPU/call of the replicas.
		cpu: [kinds]time.Duration{60 * microsecond, 120 * microsecond, 190 * microsecond},
		// The response to a ping is a request like a session's call, without a handler.
		pingCPU: 120 * microsecond,
		// A message of the Bus that a replica receives and drops. An estimate; it was not measured.
		forwardCPU: 10 * microsecond,
		// go test -run TenThousandIdleSessions -v -tags=integration ./store/redisstore
		sessionBytes: 1_400, storedBytes: 510,
		// go test -run '^$' -bench OpenStream -benchtime 1x ./bench: B/stream, which includes the client's side.
		streamBytes: 30_000,
		// go test -tags=integration -run '^$' -bench Store/redis ./store/redisstore: redis-µs/op.
		touch: 10500 * time.Nanosecond, put: 9 * microsecond, append: 33 * microsecond, publish: 9800 * time.Nanosecond,
		publishEach: 700 * time.Nanosecond,
		roundTrip:   300 * microsecond,

		processors: 4, replicaMemory: 8 << 30, shardMemory: 16 << 30,
		most: 0.7, latency: 50 * time.Millisecond,
	}
}

func (m *model) addFlags(f *flag.FlagSet) {
	f.Uint64Var(&m.seed, "seed", m.seed, "seed of the random numbers")
	f.DurationVar(&m.time, "time", m.time, "time to simulate")
	f.IntVar(&m.sessions, "sessions", m.sessions, "number of idle sessions")
	f.IntVar(&m.streams, "streams", m.streams, "number of open streams for notifications")
	f.Float64Var(&m.calls, "calls", m.calls, "calls per second")
	f.Float64Var(&m.share[modern], "modern", m.share[modern], "share of calls of 2026-07-28")
	f.Float64Var(&m.share[sessionJSON], "json", m.share[sessionJSON], "share of calls in sessions with a JSON response")
	f.Float64Var(&m.share[sessionStream], "event-stream", m.share[sessionStream], "share of calls in sessions with an event stream")
	f.Float64Var(&m.sessionStreams, "session-streams", m.sessionStreams, "share of the open streams that belong to sessions; the server pings their clients")
	f.DurationVar(&m.keepAlive, "keep-alive", m.keepAlive, "interval of the pings on a stream")
	f.IntVar(&m.eventBytes, "event-bytes", m.eventBytes, "bytes of an event in Redis")
	f.DurationVar(&m.cpu[modern], "cpu-modern", m.cpu[modern], "CPU time of a replica for a call of 2026-07-28")
	f.DurationVar(&m.cpu[sessionJSON], "cpu-json", m.cpu[sessionJSON], "the same for a call in a session with a JSON response")
	f.DurationVar(&m.cpu[sessionStream], "cpu-event-stream", m.cpu[sessionStream], "the same for a call in a session with an event stream")
	f.DurationVar(&m.pingCPU, "cpu-ping", m.pingCPU, "the same for a ping and its response")
	f.DurationVar(&m.forwardCPU, "cpu-bus", m.forwardCPU, "the same for a message of another replica")
	f.IntVar(&m.sessionBytes, "session-bytes", m.sessionBytes, "bytes of a replica for an idle session in memory")
	f.IntVar(&m.streamBytes, "stream-bytes", m.streamBytes, "bytes of a replica for an open stream")
	f.IntVar(&m.storedBytes, "stored-bytes", m.storedBytes, "bytes of Redis for an idle session")
	f.DurationVar(&m.touch, "redis-touch", m.touch, "CPU time of Redis for Touch")
	f.DurationVar(&m.put, "redis-put", m.put, "CPU time of Redis for Put")
	f.DurationVar(&m.append, "redis-append", m.append, "CPU time of Redis for Append")
	f.DurationVar(&m.publish, "redis-publish", m.publish, "CPU time of Redis for Publish")
	f.DurationVar(&m.publishEach, "redis-publish-each", m.publishEach, "CPU time of Redis to send a published message to one replica")
	f.DurationVar(&m.roundTrip, "round-trip", m.roundTrip, "time for a round trip to Redis without its CPU time")
	f.IntVar(&m.processors, "processors", m.processors, "processors of a replica")
	f.Int64Var(&m.replicaMemory, "replica-memory", m.replicaMemory, "bytes of memory of a replica")
	f.Int64Var(&m.shardMemory, "shard-memory", m.shardMemory, "bytes of memory of a Redis shard")
	f.Float64Var(&m.most, "most", m.most, "load of processors and memory that is enough")
	f.DurationVar(&m.latency, "latency", m.latency, "p99 of the latency that is enough")
}

func (m *model) check() error {
	sum := m.share[modern] + m.share[sessionJSON] + m.share[sessionStream]
	switch {
	case sum < 0.999 || sum > 1.001:
		return errors.New("the sum of -modern, -json and -event-stream must be 1")
	case m.calls <= 0 || m.time <= 0 || m.keepAlive <= 0 || m.processors < 1 || m.replicaMemory < 1 || m.shardMemory < 1:
		return errors.New("-calls, -time, -keep-alive, -processors, -replica-memory and -shard-memory must be positive")
	}
	return nil
}

// memory returns the use of memory of each replica and of each shard, as a share of what they have.
func (m *model) memory(replicas, shards int) (replica, shard float64) {
	sessions := min(float64(m.sessions), maxCached) // clients of any session may have used this replica last
	replica = (sessions*float64(m.sessionBytes) + float64(m.streams)/float64(replicas)*float64(m.streamBytes)) / float64(m.replicaMemory)
	logged := m.calls * m.share[sessionStream] * logTime.Seconds() * float64(m.eventBytes)
	shard = (float64(m.sessions)*float64(m.storedBytes) + logged) / float64(shards) / float64(m.shardMemory)
	return replica, shard
}
