//go:build linux

package main

import (
	"os"
	"slices"
	"sync"
	"time"
)

// result contains the measurements of one server in one mode of one round.
type result struct {
	Server, Mode, Reference                string
	Round                                  int
	Seconds                                float64
	Iterations, Requests                   int // Requests are counted as in the published benchmark
	Errors, Bad                            int
	Sample                                 string    `json:",omitempty"`
	Calls                                  quantiles // of the three tools together
	Kinds                                  map[string]quantiles
	ServerCPU, DriverCPU, RedisCPU, APICPU float64 // seconds
	Peak                                   int64   // bytes
	Others                                 float64 // share of the machine that other programs used
}

type quantiles struct {
	Count         int
	P50, P95, P99 time.Duration
}

func quantilesOf(times []time.Duration) quantiles {
	if len(times) == 0 {
		return quantiles{}
	}
	slices.Sort(times)
	at := func(percent int) time.Duration { return times[min(len(times)-1, len(times)*percent/100)] }
	return quantiles{len(times), at(50), at(95), at(99)}
}

func (r result) rate() float64 { return float64(r.Requests) / r.Seconds }

// perRequest returns the server's CPU time for a request in milliseconds.
func (r result) perRequest() float64 { return 1000 * r.ServerCPU / float64(r.Requests) }

// perIteration returns the server's CPU time for an iteration in milliseconds.
func (r result) perIteration() float64 { return 1000 * r.ServerCPU / float64(r.Iterations) }

func milliseconds(d time.Duration) float64 { return float64(d) / 1e6 }

// The modes in the order in which they are measured. Users pause after each iteration in the first.
var modes = []string{"think", "full"}

// load loads a server in each mode.
func (s *services) load(c contender, p *process, addr string, round int) []result {
	l, wait := launch(c, addr)
	pids := []int{p.pid(), os.Getpid(), s.redis.pid(), s.api.pid()}
	var results []result
	for phase, mode := range modes {
		if mode == "full" {
			l.think.Store(0)
			time.Sleep(*settle)
		}
		resetPeak(p.pid())
		var used [4]time.Duration
		for i, pid := range pids {
			used[i] = -cpuTime(pid)
		}
		before, cpus := busyTime()
		begun := time.Now()
		l.phase.Store(int32(phase))
		time.Sleep(*duration)
		l.phase.Store(discard)
		elapsed := time.Since(begun)
		others, _ := busyTime()
		others -= before
		for i, pid := range pids {
			used[i] += cpuTime(pid)
			others -= used[i]
		}
		results = append(results, result{
			Server: c.name, Mode: mode, Round: round, Reference: c.reference, Seconds: elapsed.Seconds(),
			ServerCPU: used[0].Seconds(), DriverCPU: used[1].Seconds(),
			RedisCPU: used[2].Seconds(), APICPU: used[3].Seconds(),
			Peak:   peakMemory(p.pid()),
			Others: max(0, others.Seconds()) / elapsed.Seconds() / float64(cpus),
		})
	}
	l.phase.Store(stop)
	wait()
	for phase := range results {
		results[phase].add(l.users, phase)
	}
	return results
}

// launch starts the users one after another during the ramp, and returns a function that waits for their end.
func launch(c contender, addr string) (l *load, wait func()) {
	l = &load{addr: addr, modern: c.modern}
	l.think.Store(int64(*think))
	l.phase.Store(discard)
	var running sync.WaitGroup
	for i := range *users {
		u := newUser(l, i+1)
		l.users = append(l.users, u)
		running.Go(u.run)
		time.Sleep(*ramp / time.Duration(*users))
	}
	return l, running.Wait
}

// add adds what the users have seen.
func (r *result) add(users []*user, phase int) {
	r.Kinds = map[string]quantiles{}
	var calls []time.Duration
	for k := range kinds {
		var times []time.Duration
		for _, u := range users {
			times = append(times, u.records[phase].times[k]...)
		}
		r.Kinds[kindNames[k]] = quantilesOf(times)
		switch k {
		case iteration:
			r.Iterations = len(times)
		case searchProducts, getUserCart, checkout:
			calls = append(calls, times...)
		}
		if k.counts() {
			r.Requests += len(times)
		}
	}
	r.Calls = quantilesOf(calls)
	for _, u := range users {
		rec := u.records[phase]
		r.Errors += rec.errors
		r.Bad += rec.bad
		if r.Sample == "" {
			r.Sample = rec.sample
		}
	}
}
