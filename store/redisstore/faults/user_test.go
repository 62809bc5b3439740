//go:build integration && unix

package faults

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/faulttest"
	"github.com/parley-mcp/parley/internal/ledger"
	"github.com/parley-mcp/parley/mcp"
)

// wire is a revision of the protocol over HTTP.
type wire struct {
	name     string
	revision mcp.Revision
	pair     bool // the HTTP+SSE pair of 2024-11-05
}

// wires lists all wires that clients use.
var wires = []wire{
	{"2024-11-05", mcp.V20241105, true},
	{"2025-03-26", mcp.V20250326, false},
	{"2025-06-18", mcp.V20250618, false},
	{"2025-11-25", mcp.V20251125, false},
	{"2026-07-28", mcp.V20260728, false},
}

// user is a client with its own principal.
type user struct {
	*client.Client
	fleet *fleet
	wire  wire
	name  string
	logs  chan string // messages of the server's log
}

// callTime limits the time for one call. It is longer than a lease, so that only a call that hangs reaches
// it.
const callTime = 45 * time.Second

// dial connects a new user through the proxy.
func (f *fleet) dial(t testing.TB, w wire, change ...func(*client.Dialer)) *user {
	t.Helper()
	u := f.newUser(w)
	u.connect(t, f.proxy.url, change...)
	return u
}

func (f *fleet) newUser(w wire) *user {
	return &user{fleet: f, wire: w, name: fmt.Sprintf("user-%d", f.users.Add(1)), logs: make(chan string, 16)}
}

// connect connects the user to a URL. The connection ends with the test.
func (u *user) connect(t testing.TB, url string, change ...func(*client.Dialer)) {
	t.Helper()
	c, err := u.tryConnect(url, change...)
	if err != nil {
		t.Fatal(err)
	}
	u.Client = c
	t.Cleanup(func() { _ = c.Close() })
}

func (u *user) tryConnect(url string, change ...func(*client.Dialer)) (*client.Client, error) {
	target := &client.HTTPTarget{URL: url, Header: http.Header{"Authorization": {"Bearer " + u.name}}}
	d := &client.Dialer{
		Name: u.name, Revision: u.wire.revision, Logger: slog.New(slog.DiscardHandler),
		Elicit: func(_ context.Context, question *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			u.fleet.ledger.Received(u.name, question.Message)
			return mcp.AcceptElicit(form{u.name})
		},
		Sample: func(_ context.Context, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
			if text, ok := params.Messages[0].Content[0].(*mcp.TextContent); ok {
				u.fleet.ledger.Received(u.name, text.Text)
			}
			return &mcp.CreateMessageResult{Role: "assistant", Model: "test", Content: []mcp.Content{mcp.Text(u.name)}},
				nil
		},
		Roots: func(context.Context) ([]mcp.Root, error) { return []mcp.Root{{URI: "file:///" + u.name}}, nil },
		OnLog: func(_ context.Context, m mcp.LoggingMessageParams) {
			select {
			case u.logs <- string(m.Data):
			default:
			}
		},
	}
	if u.wire.pair {
		d.Discovery = &client.Discovery{Target: target.String(), Revision: u.wire.revision, HTTPWithSSE: true,
			ReceivedAt: time.Now()}
	}
	for _, f := range change {
		f(d)
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	return d.Dial(ctx, target)
}

// call calls a tool and records the outcome. It returns the error if the call fails.
func (u *user) call(ctx context.Context, tool string, in arguments, options ...client.CallOption) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	return u.callUntil(ctx, tool, in, options...)
}

// progress calls f, if it is set, with each progress notification, and records it.
func (u *user) progress(f func(done float64)) client.CallOption {
	return client.WithProgress(func(done, _ float64, nonce string) {
		if nonce != "" || u.wire.revision >= mcp.V20250326 { // progress has no message in 2024-11-05
			u.fleet.ledger.Received(u.name, nonce)
		}
		if f != nil {
			f(done)
		}
	})
}

// callUntil does what call does, with the deadline of ctx.
func (u *user) callUntil(ctx context.Context, tool string, in arguments, options ...client.CallOption) error {
	c := u.issue(ctx)
	in.Nonce = c.Nonce()
	if tool == "job-replayed" || u.fleet.forgets && recordsOnce(tool) {
		c.MayRepeat()
	}
	text, err := client.CallTool[string](ctx, u.Client, tool, in, options...)
	if err != nil {
		c.Failed(err)
		return fmt.Errorf("%s: %w", tool, err)
	}
	u.returned(c, text)
	return nil
}

// issue records a call that must end by the deadline of ctx.
func (u *user) issue(ctx context.Context) ledger.Call {
	deadline, _ := ctx.Deadline()
	return u.fleet.ledger.Issue(u.name, deadline)
}

// returned records the result of a call. The tools that ask return the nonce and the name of the user who answered.
func (u *user) returned(c ledger.Call, text string) {
	nonce, name, asked := strings.Cut(text, " ")
	c.Returned(nonce)
	if asked {
		u.fleet.ledger.Received(name, c.Nonce())
	}
}

// load is a number of users who call tools.
type load struct {
	*faulttest.Load
	fleet *fleet
	users []*user
	late  atomic.Int64 // calls that failed because callTime was over

	abandoned  atomic.Int64 // parked calls of 2026-07-28 that failed; their handlers may wait for an hour
	unanswered atomic.Int64 // calls over HTTP+SSE that asked and failed; see ask

	mu      sync.Mutex
	longest time.Duration // longest time of a call
	outcome error         // outcome of that call
}

// took records how long a call took, with its outcome.
func (l *load) took(d time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d > l.longest {
		l.longest, l.outcome = d, err
	}
}

// think is the longest pause between two calls of a user.
const think = time.Second

// startLoad connects users in turn in every revision, and lets them call tools.
func startLoad(t *testing.T, f *fleet, users int) *load {
	t.Helper()
	l := &load{fleet: f}
	f.open("open")
	acts := make([]func() error, users)
	for i := range acts {
		u := f.dial(t, wires[i%len(wires)])
		l.users = append(l.users, u)
		acts[i] = func() error {
			begin := time.Now()
			err := l.act(u)
			l.took(time.Since(begin), err)
			if errors.Is(err, context.DeadlineExceeded) {
				l.late.Add(1)
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", u.wire.name, err)
			}
			return err
		}
	}
	l.Load = faulttest.StartLoad(t, think, acts)
	return l
}

// end stops the load and closes the connections of the users.
func (l *load) end() {
	l.fleet.t.Helper()
	l.Stop()
	l.fleet.t.Logf("the longest call took %v, and its error is %v", l.longest.Round(time.Millisecond), l.outcome)
	var closing sync.WaitGroup
	for _, u := range l.users {
		closing.Go(func() {
			if err := u.Close(); err != nil {
				l.fleet.t.Errorf("%s, %s: %v", u.name, u.wire.name, err)
			}
		})
	}
	closing.Wait()
}

// act makes one call, of a kind that the wire supports.
func (l *load) act(u *user) error {
	ctx, w := context.Background(), u.wire
	switch n := rand.N(20); {
	case n < 2:
		return l.ask(u, "sample")
	case n < 3:
		err := l.ask(u, "roots-parked")
		if err != nil && modern(w) {
			l.abandoned.Add(1)
		}
		return err
	case n < 5 && w.revision >= mcp.V20250618:
		return u.call(ctx, "elicit", arguments{})
	case n < 7 && hasTasks(w):
		return u.call(ctx, "job-replayed", arguments{Name: "open"})
	case n < 8:
		return l.cancel(u)
	case n < 13:
		return u.call(ctx, "steps", arguments{Steps: 5, Pause: 20}, u.progress(nil))
	default:
		return u.call(ctx, "echo", arguments{})
	}
}

// ask calls a tool that asks the user. Over HTTP+SSE, the call fails if its replica stops receiving requests before
// the answer arrives.
func (l *load) ask(u *user, tool string) error {
	err := u.call(context.Background(), tool, arguments{})
	if err != nil && u.wire.pair {
		l.unanswered.Add(1)
	}
	return err
}

// cancel calls a tool and cancels the call while its handler runs.
func (l *load) cancel(u *user) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	err := u.callUntil(ctx, "wait", arguments{}, u.progress(func(float64) { cancel() }))
	if !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// loads is the number of tests that call repeat.
const loads = 5

// repeat repeats f the given number of times, or for a share of the time that the flag -duration sets.
func repeat(times int, f func(i int)) {
	until := time.Now().Add(*duration / loads)
	for i := 0; *duration == 0 && i < times || time.Now().Before(until); i++ {
		f(i)
	}
}

// usage is what a replica uses: the result of the tool usage.
type usage struct {
	Goroutines int `json:"goroutines"`
	Files      int `json:"files"` // 0 if the system does not say
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

// Tolerances of a comparison. A leak for each call or user soon exceeds them.
const (
	goroutineSlack = 8       // background goroutines, for instance of the Redis client when it dials again
	fileSlack      = 16      // connections to Redis that are opened later
	heapSlack      = 1 << 20 // tables that have grown do not shrink, and connections have buffers
)

// bound returns the most that a replica may use if it used u before. The heap may be 5 % larger.
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

// usageBound lets users call tools without a fault. It returns the most that a replica may use once they have gone.
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

// finalUsage waits until the usage of a replica no longer changes, and returns it.
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

// checkUsage ends a load, and records a violation if a replica keeps using more than bound.
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
