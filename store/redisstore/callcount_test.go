//go:build integration

package redisstore

import (
	"context"
	"testing"
	"time"
)

// operationsTimeout limits how long the operations of a call are awaited. A call that needs fewer than the
// table says is found after this time.
const operationsTimeout = 2 * time.Second

// maxRepeats limits how often a call is measured again because a replica was occupied with its lease meanwhile.
const maxRepeats = 5

// Each kind of call takes the round trips of the table.
func TestCallsTakeTheRoundTripsOfTheTable(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		redis := start(t, program)
		m := newMonitor(t, redis)
		f := newFleet(t, redis, m)
		for replica := range f.replicas {
			f.modernCall(replica, "echo", "") // a server starts with its first request
		}
		// Each replica subscribes to two topics, for announcements and forwarded messages, and registers itself.
		m.await(2*len(f.replicas), "Subscribe")
		m.await(len(f.replicas), "Add")
		calls := f.calls()
		for _, c := range callTable {
			if c.isHeading() {
				continue
			}
			prepare := calls[c.call]
			if prepare == nil {
				t.Errorf("%s: the test does not make this call", c.call)
				continue
			}
			delete(calls, c.call)
			for repeat := 1; ; repeat++ {
				m.begin()
				do := prepare()
				got, exact := m.measure(do, c.operations)
				f.endSessions()
				if !exact && repeat < maxRepeats {
					continue
				}
				if got != c.operations {
					t.Errorf("%s: %s, want %s", c.call, got, c.operations)
				}
				break
			}
		}
		for call := range calls {
			t.Errorf("the table does not have %s", call)
		}
	})
}

// measure makes a call and returns its operations. It waits for those that follow the response. It reports
// whether all of them belong to the call.
func (m *monitor) measure(call func(), want string) (operations string, exact bool) {
	m.t.Helper()
	m.begin()
	call()
	most := callCost{operations: want}.trips()
	ctx, cancel := context.WithTimeout(m.t.Context(), operationsTimeout)
	defer cancel()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for {
		m.update()
		if operations = summary(m.window); operations == want || len(m.window) > most {
			return operations, !m.occupied
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return operations, !m.occupied
		}
	}
}
