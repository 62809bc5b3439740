package tasks

import (
	"context"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/parley-mcp/parley/internal/rpc"
)

// The client of a task sees its progress in the status message, and learns of changes by onChange.

// minProgress is the minimum time between two status messages, because each is a write to the store.
const minProgress = 500 * time.Millisecond

// progress is the progress of a run that is not stored yet.
type progress struct {
	mu     sync.Mutex
	stored time.Time // when a text was stored last
	text   string    // to store later; empty for none
}

// Progress makes the text of the handler's progress the status message, or the numbers if there is no text. Of texts
// that follow each other too soon, the last one is stored.
func (run *Run) Progress(ctx context.Context, done, total float64, text string) error {
	if text == "" {
		text = number(done)
		if total > 0 && !math.IsInf(total, 0) {
			text += " of " + number(total)
		}
	}
	p := &run.progress
	p.mu.Lock()
	if now := time.Now(); now.Sub(p.stored) >= minProgress {
		p.stored, p.text = now, ""
		p.mu.Unlock()
		return run.describe(ctx, text)
	}
	waits := p.text != ""
	p.text = text
	p.mu.Unlock()
	if !waits {
		run.changes.Wake() // watch stores it later
	}
	return nil
}

// next returns the time until a text may be stored that followed another one too soon. It reports false if there is
// none.
func (p *progress) next() (wait time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return minProgress - time.Since(p.stored), p.text != ""
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// describeLate stores a text that followed another one too soon, if it is time.
func (run *Run) describeLate(ctx context.Context) {
	p := &run.progress
	p.mu.Lock()
	text, now := p.text, time.Now()
	if now.Sub(p.stored) < minProgress {
		text = ""
	}
	if text != "" {
		p.stored, p.text = now, ""
	}
	p.mu.Unlock()
	if text != "" {
		_ = run.describe(ctx, text) // the handler need not know
	}
}

// describe stores a status message.
func (run *Run) describe(ctx context.Context, text string) error {
	_, err := run.runner.Store.Update(ctx, run.task.Request.Principal, run.task.ID,
		func(t *Task) error { return t.Describe(text) })
	if rpc.IsStoreFailure(err) { // the handler must go on
		return nil
	}
	return err
}

// changed passes the stored task to onChange.
func (run *Run) changed() {
	if run.onChange == nil {
		return
	}
	owner, id := run.task.Request.Principal, run.task.ID
	if now, err := run.runner.Store.Get(context.WithoutCancel(run.runner.life), owner, id); err == nil {
		run.notify(now)
	}
}

// quietTime is how long a task is not notified about, so that its client has the response that
// creates the task.
const quietTime = 250 * time.Millisecond

// Quiet reports whether the client may not have the id of the task yet.
func (run *Run) Quiet() bool { return run.quiet.Load() }

// notify calls onChange if the status or its message has changed.
func (run *Run) notify(now *Task) {
	if run.onChange == nil || run.Quiet() {
		return
	}
	if state := [2]string{string(now.Status), now.Message}; state != run.notified {
		run.notified = state
		run.onChange(now)
	}
}
