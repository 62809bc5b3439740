//go:build integration && unix

package faults

import (
	"syscall"
	"testing"
)

// Replicas are restarted one after another: each gets no more requests, ends gracefully and starts again. No call fails.
func TestRollingRestartFailsNoCall(t *testing.T) {
	f := newFleet(t)
	bound := f.usageBound(t, 100)
	l := startLoad(t, f, 100)
	l.Proceed(100)
	repeat(replicas, func(i int) {
		replica := i % replicas
		f.ledger.Fault()
		f.proxy.drain(t, replica)
		f.replicas[replica].signal(syscall.SIGTERM)
		f.replicas[replica].end()
		l.Proceed(100)
		f.start(replica)
		l.Proceed(100)
	})
	l.checkUsage(t, bound)
	f.finish(t)
	if n := l.Failed(); n > 0 {
		t.Errorf("%d calls have failed", n)
	}
}
