package main

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"time"
)

// result is what a simulation has found. Loads are shares of what there is.
type result struct {
	replicaCPU, redisCPU, replicaMemory, redisMemory float64 // of the replica or shard with the highest load
	p50, p99                                         time.Duration
}

// limit names the resource with the highest load.
func (r *result) limit() string {
	name, highest := "", -1.0
	for _, resource := range []struct {
		name string
		load float64
	}{{"replica CPU", r.replicaCPU}, {"Redis CPU", r.redisCPU}, {"replica memory", r.replicaMemory}, {"Redis memory", r.redisMemory}} {
		if resource.load > highest {
			name, highest = resource.name, resource.load
		}
	}
	return name
}

func (r *result) enough(m *model) bool {
	return max(r.replicaCPU, r.redisCPU, r.replicaMemory, r.redisMemory) <= m.most && r.p99 <= m.latency
}

// station is a replica or a shard: processors with one queue, which serves jobs in the order of their arrival.
type station struct {
	free []time.Duration // when each processor is free
	busy time.Duration   // CPU time of all jobs
}

// serve serves a job that arrives at a time, and returns when it is done.
func (s *station) serve(at, cpu time.Duration) (done time.Duration) {
	first := 0
	for i, free := range s.free {
		if free < s.free[first] {
			first = i
		}
	}
	done = max(at, s.free[first]) + cpu
	s.free[first] = done
	s.busy += cpu
	return done
}

// step is one stay of a request at a station.
type step struct {
	at    *station
	cpu   time.Duration
	delay time.Duration // before the request arrives there
}

// request is a request on its way. It arrives at its next step at the time at.
type request struct {
	begun, at time.Duration
	order     int // among requests with the same time
	steps     []step
	call      bool // its latency counts
}

type queue []*request

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	if q[i].at != q[j].at {
		return q[i].at < q[j].at
	}
	return q[i].order < q[j].order
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(r any)   { *q = append(*q, r.(*request)) }
func (q *queue) Pop() any {
	last := len(*q) - 1
	r := (*q)[last]
	*q = (*q)[:last]
	return r
}

// simulation is one run with a number of replicas and shards.
type simulation struct {
	m                *model
	random           *rand.Rand
	replicas, shards []station
	requests         queue
	n                int
	latencies        []time.Duration
}

func newStations(n, processors int) []station {
	all := make([]station, n)
	for i := range all {
		all[i].free = make([]time.Duration, processors)
	}
	return all
}

// simulate simulates calls and pings that arrive at random times (Poisson processes) in m.time, and serves them to
// their end.
func (m *model) simulate(replicas, shards int) result {
	s := &simulation{
		m: m, random: newRandom(m.seed),
		replicas: newStations(replicas, m.processors), shards: newStations(shards, 1),
	}
	s.arrive(m.calls, s.call)
	s.arrive(float64(m.streams)*m.sessionStreams/m.keepAlive.Seconds(), s.pong)
	s.run()

	r := result{replicaCPU: load(s.replicas, m.time), redisCPU: load(s.shards, m.time)}
	r.replicaMemory, r.redisMemory = m.memory(replicas, shards)
	slices.Sort(s.latencies)
	if n := len(s.latencies); n > 0 {
		r.p50, r.p99 = s.latencies[n/2], s.latencies[n*99/100]
	}
	return r
}

// load returns the highest load of a station.
func load(all []station, time time.Duration) (highest float64) {
	for _, s := range all {
		highest = max(highest, float64(s.busy)/float64(time)/float64(len(s.free)))
	}
	return highest
}

// arrive adds requests, which make returns, at an average rate per second.
func (s *simulation) arrive(rate float64, make func() *request) {
	if rate <= 0 {
		return
	}
	for at := 0.0; ; {
		at += s.random.ExpFloat64() / rate
		if at >= s.m.time.Seconds() {
			return
		}
		r := make()
		r.begun = time.Duration(at * float64(time.Second))
		s.add(r, r.begun)
	}
}

// add makes r arrive at its next step.
func (s *simulation) add(r *request, after time.Duration) {
	r.at = after + r.steps[0].delay
	r.order = s.n
	s.n++
	heap.Push(&s.requests, r)
}

func (s *simulation) run() {
	for s.requests.Len() > 0 {
		r := heap.Pop(&s.requests).(*request)
		done := r.steps[0].at.serve(r.at, r.steps[0].cpu)
		if r.steps = r.steps[1:]; len(r.steps) > 0 {
			s.add(r, done)
		} else if r.call {
			s.latencies = append(s.latencies, done-r.begun)
		}
	}
}

// pick returns a station at random: the load balancer and the hash of a session's id spread requests evenly.
func (s *simulation) pick(all []station) *station { return &all[s.random.IntN(len(all))] }

// call returns a call of a random kind. Half of the CPU time of the replica comes before the operations at Redis.
func (s *simulation) call() *request {
	kind, at := modern, s.random.Float64()
	for kind < kinds-1 && at >= s.m.share[kind] {
		at -= s.m.share[kind]
		kind++
	}
	replica, shard, cpu := s.pick(s.replicas), s.pick(s.shards), s.m.cpu[kind]
	steps := []step{{at: replica, cpu: cpu}}
	if kind != modern {
		steps = []step{{at: replica, cpu: cpu / 2}, s.operation(shard, s.m.touch), {at: replica, cpu: cpu / 2}}
	}
	if kind == sessionStream {
		steps = append(steps[:2:2], s.operation(shard, s.m.append), steps[2])
	}
	return &request{steps: steps, call: true}
}

func (s *simulation) operation(shard *station, cpu time.Duration) step {
	return step{at: shard, cpu: cpu, delay: s.m.roundTrip}
}

// pong returns the response of a client to a ping on the stream of its session. It reaches the replica of the stream or,
// more often, another one. This one publishes it to all replicas.
func (s *simulation) pong() *request {
	shard, first := s.pick(s.shards), s.random.IntN(len(s.replicas))
	steps := []step{{at: &s.replicas[first], cpu: s.m.pingCPU}, s.operation(shard, s.m.touch)}
	if s.random.IntN(len(s.replicas)) != first {
		topic := &s.shards[0] // one shard publishes all messages of a topic
		steps = append(steps, s.operation(shard, s.m.put), s.operation(topic, s.m.publish+time.Duration(len(s.replicas))*s.m.publishEach))
		for i := range s.replicas {
			steps = append(steps, step{at: &s.replicas[i], cpu: s.m.forwardCPU})
		}
	}
	return &request{steps: steps}
}

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }
