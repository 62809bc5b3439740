package main

import (
	"math"
	"strings"
	"testing"
	"time"
)

// small returns a model of modern calls only, so that nothing but the processors of replicas is used.
func small() model {
	m := defaults()
	m.share, m.sessions, m.streams, m.calls, m.time = [kinds]float64{1, 0, 0}, 0, 0, 5_000, time.Second
	m.processors, m.cpu[modern] = 1, 100*time.Microsecond
	return m
}

func TestResultDependsOnTheFlagsOnly(t *testing.T) {
	var outputs [2]strings.Builder
	for i := range outputs {
		m := defaults()
		m.time = 200 * time.Millisecond
		if err := print(&outputs[i], &m, []int{8, 16}, []int{1, 4}); err != nil {
			t.Fatal(err)
		}
	}
	if outputs[0].String() != outputs[1].String() || !strings.Contains(outputs[0].String(), "Redis CPU") {
		t.Errorf("%s\n%s", &outputs[0], &outputs[1])
	}
}

// A queue with random arrivals and a constant service time (M/D/1) has the mean wait ρ/(2μ(1-ρ)). With a load of one half
// and 100 µs it is 50 µs.
func TestQueueWaitsAsLongAsTheory(t *testing.T) {
	m := small()
	m.time = 20 * time.Second
	s := &simulation{m: &m, random: newRandom(1), replicas: newStations(1, 1), shards: newStations(1, 1)}
	s.arrive(m.calls, s.call)
	s.run()
	var sum time.Duration
	for _, latency := range s.latencies {
		sum += latency - m.cpu[modern]
	}
	wait := float64(sum) / float64(len(s.latencies)) / float64(time.Microsecond)
	if math.Abs(wait-50) > 3 {
		t.Errorf("the mean wait is %.1f µs, want 50", wait)
	}
	if n := len(s.latencies); math.Abs(float64(n)-100_000) > 2_000 {
		t.Errorf("%d calls in 20 s, want 100,000", n)
	}
}

func TestLoadIsTheCPUTimeOfTheCalls(t *testing.T) {
	m := small()
	for replicas, want := range map[int]float64{1: 0.5, 2: 0.25, 5: 0.1} {
		if got := m.simulate(replicas, 1); math.Abs(got.replicaCPU-want) > 0.03 || got.redisCPU != 0 {
			t.Errorf("%d replicas: %+v, want a load of %.2f", replicas, got, want)
		}
	}
}

func TestOverloadedReplicasAreNotEnough(t *testing.T) {
	m := small()
	m.calls = 20_000
	if got := m.simulate(1, 1); got.replicaCPU < 1.9 || got.enough(&m) || got.limit() != "replica CPU" || got.p99 < time.Second/2 {
		t.Errorf("%+v", got)
	}
	if got := m.simulate(4, 1); !got.enough(&m) {
		t.Errorf("with 4 replicas: %+v", got)
	}
}

func TestSimulationNamesTheFirstLimit(t *testing.T) {
	for want, change := range map[string]func(m *model){
		"replica CPU":    func(m *model) {},
		"Redis CPU":      func(m *model) { m.share, m.touch = [kinds]float64{0, 1, 0}, 190*time.Microsecond },
		"Redis memory":   func(m *model) { m.sessions = 100_000_000 },
		"replica memory": func(m *model) { m.streams, m.sessionStreams = 1_000_000, 0 },
	} {
		m := small()
		change(&m)
		if got := m.simulate(1, 1); got.limit() != want {
			t.Errorf("%+v: %s, want %s", got, got.limit(), want)
		}
	}
}

// The Bus sends each message to all replicas, so the work for forwarded responses grows with their number.
func TestForwardedResponsesReachEveryReplica(t *testing.T) {
	m := small()
	m.streams, m.sessionStreams, m.calls, m.pingCPU = 150_000, 1, 1, 0
	few, many := m.simulate(2, 1), m.simulate(20, 1)
	if few.replicaCPU > 0.06 || many.replicaCPU < 0.09 || many.redisCPU < few.redisCPU*1.3 {
		t.Errorf("with 2 replicas %+v, with 20 %+v", few, many)
	}
}

func TestModelRejectsSharesThatAreNotOne(t *testing.T) {
	m := defaults()
	if err := m.check(); err != nil {
		t.Error(err)
	}
	m.share[modern] = 0.9
	if m.check() == nil {
		t.Error("the shares are accepted")
	}
}
