//go:build integration && unix

package faults

import "testing"

// Users go on while replicas are killed and started in turn. Calls may fail, but each has one outcome, no handler starts
// twice, and no user receives what belongs to another one.
func TestReplicasAreKilledUnderLoad(t *testing.T) {
	f := newFleet(t)
	bound := f.usageBound(t, 200)
	l := startLoad(t, f, 200)
	l.Proceed(100)
	repeat(5, func(i int) {
		f.kill(i % replicas)
		l.Proceed(150)
		f.start(i % replicas)
		l.Proceed(150)
	})
	l.checkUsage(t, bound)
	f.finish(t)
	if n := l.late.Load(); n > 0 {
		t.Errorf("%d calls were not told that their replica has ended", n)
	}
}
