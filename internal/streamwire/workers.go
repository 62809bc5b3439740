package streamwire

import (
	"sync/atomic"
	"time"
)

// workers are the goroutines of a connection that serve requests. A worker that has served a
// request waits some time for another, because its stack has the size that handlers need. A new
// goroutine has a small stack, and copying it to larger ones can take a quarter of the time of a
// call.
type workers struct {
	jobs chan job // unbuffered: from the reading goroutine to an idle worker
	idle atomic.Int32
}

const (
	maxIdleWorkers = 64
	idleTime       = time.Second // after which an idle worker ends
)

// start serves an accepted request in a worker.
func (c *connection) start(j job) {
	select {
	case c.workers.jobs <- j:
	default:
		c.goroutines.Go(func() { c.work(j) })
	}
}

// work serves a request, and then others until the worker is idle for too long.
func (c *connection) work(j job) {
	timer := time.NewTimer(idleTime)
	defer timer.Stop()
	for ok := true; ok; {
		c.serve(j)
		timer.Reset(idleTime)
		j, ok = c.workers.next(timer.C, c.closing.Done())
	}
}

// next returns the next request of an idle worker. It reports false if the worker must end.
func (w *workers) next(timeout <-chan time.Time, closing <-chan struct{}) (j job, ok bool) {
	defer w.idle.Add(-1)
	if w.idle.Add(1) > maxIdleWorkers {
		return job{}, false
	}
	select {
	case j = <-w.jobs:
		return j, true
	case <-timeout:
	case <-closing:
	}
	return job{}, false
}
