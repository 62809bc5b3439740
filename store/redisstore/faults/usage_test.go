//go:build integration && unix

package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/faulttest"
	"github.com/parley-mcp/parley/store/redisstore"
)

// usage is what a replica uses. It is a result of the tool usage.
type usage struct {
	Goroutines int `json:"goroutines"`
	Files      int `json:"files"` // 0 if the system does not tell
	Heap       int `json:"heap"`  // bytes, after a garbage collection
}

// measure returns what this process uses.
func measure(context.Context, arguments) (usage, error) {
	files, _ := os.ReadDir("/proc/self/fd")
	runtime.GC()
	runtime.GC() // frees what sync.Pool keeps
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return usage{runtime.NumGoroutine(), len(files), int(memory.HeapAlloc)}, nil
}

// What a comparison allows. A leak of each call or user exceeds it soon.
const (
	goroutineSlack = 8                       // background goroutines, such as one of the Redis client that dials again
	fileSlack      = redisstore.DefaultConns // connections to Redis that are opened later
	heapSlack      = 1 << 20                 // tables that have grown do not shrink, and connections have buffers
)

// bound returns the most that a replica may use which has used u before. The heap may be 5 % larger.
func (u usage) bound() usage {
	u.Goroutines += goroutineSlack
	u.Files += fileSlack
	u.Heap += u.Heap/20 + heapSlack
	return u
}

// within reports whether u does not exceed bound.
func (u usage) within(bound usage) bool {
	return u.Goroutines <= bound.Goroutines && u.Files <= bound.Files && u.Heap <= bound.Heap
}

// usage asks a replica what it uses. The connection of the test counts, too.
func (f *fleet) usage(replica int) (usage, error) { return ask[usage](f, replica, "usage") }

// goroutines returns the stacks of a replica.
func (f *fleet) goroutines(replica int) (string, error) { return ask[string](f, replica, "goroutines") }

// ask calls a tool of a replica without the proxy.
func ask[Result any](f *fleet, replica int, tool string) (result Result, err error) {
	u := f.newUser(wires[len(wires)-1])
	c, err := u.tryConnect("http://" + f.replicas[replica].addr)
	if err != nil {
		return result, err
	}
	defer c.Close()
	return client.CallTool[Result](f.t.Context(), c, tool, arguments{})
}

// usageBound lets users call tools without a fault. It returns the most that a replica may use when they have gone.
func (f *fleet) usageBound(t *testing.T, users int) (most usage) {
	t.Helper()
	l := startLoad(t, f, users)
	l.Proceed(int64(2 * users))
	l.end()
	for i := range f.replicas {
		u := f.finalUsage(t, i)
		most = usage{max(most.Goroutines, u.Goroutines), max(most.Files, u.Files), max(most.Heap, u.Heap)}
	}
	return most.bound()
}

// finalUsage returns what a replica uses when that no longer changes.
func (f *fleet) finalUsage(t *testing.T, replica int) (u usage) {
	t.Helper()
	const inARow = 10
	same := 0
	faulttest.Wait(t, "what a replica uses does not change", func() error {
		now, err := f.usage(replica)
		if err != nil {
			return err
		}
		if same++; now.Goroutines != u.Goroutines || now.Files != u.Files {
			same = 0
		}
		if u = now; same < inARow {
			return fmt.Errorf("it uses %+v", now)
		}
		return nil
	})
	return u
}

// What a replica uses for each parked call that its client has abandoned.
const (
	goroutinesOfParked = 2
	heapOfParked       = 32 << 10
)

// checkUsage ends a load, and records a violation if a replica goes on to use more than bound.
func (l *load) checkUsage(t *testing.T, bound usage) {
	t.Helper()
	l.end()
	f, abandoned := l.fleet, int(l.abandoned.Load())
	bound.Goroutines += goroutinesOfParked * abandoned
	bound.Heap += heapOfParked * abandoned
	for i, r := range f.replicas {
		var u usage
		err := faulttest.Within(faulttest.Patience, func() (err error) {
			if u, err = f.usage(i); err == nil && !u.within(bound) {
				err = errors.New("it uses too much")
			}
			return err
		})
		t.Logf("%s uses %+v, the limit is %+v: %v", r.name, u, bound, err)
		if u.Goroutines > bound.Goroutines {
			t.Log(f.goroutines(i))
		}
		f.ledger.Bound("goroutines of "+r.name, int64(u.Goroutines), int64(bound.Goroutines))
		f.ledger.Bound("open files of "+r.name, int64(u.Files), int64(bound.Files))
		f.ledger.Bound("bytes in the heap of "+r.name, int64(u.Heap), int64(bound.Heap))
	}
}
