package ledger

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/must"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

var errTyped = errors.New("typed")

// fixed returns a ledger whose clock is set by the test.
func fixed() (l *Ledger, now *time.Time) {
	now = new(time.Time)
	*now = start
	return &Ledger{
		Now:   func() time.Time { return *now },
		Typed: func(err error) bool { return errors.Is(err, errTyped) },
	}, now
}

func issue(l *Ledger) Call { return l.Issue("ada", start.Add(time.Minute)) }

// want checks the violations of a ledger: each is the kind, and a part of the text.
func want(t *testing.T, l *Ledger, violations ...string) Totals {
	t.Helper()
	totals, got := l.Check()
	matches := func(v Violation, want string) bool {
		kind, text, _ := strings.Cut(want, ": ")
		return string(v.Kind) == kind && strings.Contains(v.Text, text)
	}
	must.CheckThat(t, slices.EqualFunc(got, violations, matches), "violations %q, want %q", got, violations)
	must.CheckEqual(t, totals.Violations(), len(violations), totals)
	return totals
}

func TestCallsWithOneOutcomeViolateNothing(t *testing.T) {
	l, now := fixed()
	for _, owner := range []string{"ada", "bob"} {
		ok := l.Issue(owner, start.Add(time.Minute))
		l.Started(owner, ok.Nonce())
		l.Received(owner, ok.Nonce())
		ok.Returned(ok.Nonce())
		failed := l.Issue(owner, start.Add(time.Minute))
		*now = start.Add(time.Minute + time.Second)
		failed.Failed(errTyped) // whether or not its handler has started
		again := l.Issue(owner, start.Add(2*time.Minute))
		again.MayRepeat()
		l.Started(owner, again.Nonce())
		l.Started(owner, again.Nonce())
		again.Returned(again.Nonce())
		l.Bound("goroutines", 10, 10)
		l.Fault()
		*now = start
	}
	must.CheckEqual(t, want(t, l), (Totals{Calls: 6, Results: 4, Errors: 2, Starts: 6, Faults: 2}))
}

// Each case causes one violation.
func TestViolationsAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(l *Ledger, now *time.Time)
		want []string
	}{
		"no outcome": {func(l *Ledger, _ *time.Time) { issue(l) }, []string{"lost: has no outcome"}},
		"two outcomes": {func(l *Ledger, _ *time.Time) {
			c := issue(l)
			c.Failed(errTyped)
			c.Failed(errTyped)
		}, []string{"duplicated: more than one outcome"}},
		"a result after an error": {func(l *Ledger, _ *time.Time) {
			c := issue(l)
			l.Started("ada", c.Nonce())
			c.Failed(errTyped)
			c.Returned(c.Nonce())
		}, []string{"duplicated: more than one outcome"}},
		"a late outcome": {func(l *Ledger, now *time.Time) {
			c := issue(l)
			*now = start.Add(time.Minute + time.Second + time.Millisecond)
			c.Failed(errTyped)
		}, []string{"lost: 1.001s after its deadline"}},
		"an error without a type": {func(l *Ledger, _ *time.Time) {
			issue(l).Failed(errors.New("boom"))
		}, []string{"lost: cannot act upon: boom"}},
		"the result of another call": {func(l *Ledger, _ *time.Time) {
			a, b := issue(l), issue(l)
			l.Started("ada", a.Nonce())
			l.Started("ada", b.Nonce())
			a.Returned(b.Nonce())
			b.Returned(b.Nonce())
		}, []string{"crossed: as that of"}},
		"a result without a start": {func(l *Ledger, _ *time.Time) {
			c := issue(l)
			c.Returned(c.Nonce())
		}, []string{"lost: has not started"}},
		"two starts": {func(l *Ledger, _ *time.Time) {
			c := issue(l)
			l.Started("ada", c.Nonce())
			l.Started("ada", c.Nonce())
			c.Returned(c.Nonce())
		}, []string{"duplicated: started more than once"}},
		"a start for another owner": {func(l *Ledger, _ *time.Time) {
			c := issue(l)
			l.Started("bob", c.Nonce())
			c.Returned(c.Nonce())
		}, []string{"crossed: of ada has started for bob"}},
		"a start of an unknown call": {func(l *Ledger, _ *time.Time) {
			issue(l).Failed(errTyped)
			l.Started("ada", (&Ledger{prefix: "other-"}).call(0).Nonce())
			l.Started("ada", l.call(1).Nonce())
		}, []string{"crossed: unknown call", "crossed: unknown call"}},
		"a message about the call of another owner": {func(l *Ledger, _ *time.Time) {
			c := issue(l)
			c.Failed(errTyped)
			l.Received("bob", c.Nonce())
			l.Received("ada", "nonsense")
		}, []string{"crossed: bob has received a message about call", "crossed: unknown call"}},
		"a measurement over its bound": {func(l *Ledger, _ *time.Time) {
			l.Bound("goroutines", 11, 10)
		}, []string{"exceeded: goroutines: 11"}},
		"an event twice": {func(l *Ledger, _ *time.Time) {
			receive(l, 1, 2, 2, 3).Ended(3)
		}, []string{"duplicated: event 2"}},
		"an event too late": {func(l *Ledger, _ *time.Time) {
			receive(l, 1, 3, 2).Ended(3)
		}, []string{"lost: event 3", "duplicated: event 2"}},
		"a gap in a stream": {func(l *Ledger, _ *time.Time) {
			receive(l, 1, 2, 4).Ended(4)
		}, []string{"lost: event 4 of stream s arrives after event 2"}},
		"the end of a stream missing": {func(l *Ledger, _ *time.Time) {
			receive(l, 1, 2).Ended(3)
		}, []string{"lost: has ended after event 2 of 3"}},
		"a task that does not end": {func(l *Ledger, _ *time.Time) {
			l.CreatedTask("ada", "t")
			l.ObservedTask("ada", "replica 1", "t", "working", false, nil)
		}, []string{`lost: task t of ada has not ended; its last status is "working"`}},
		"a task that a replica does not have": {func(l *Ledger, _ *time.Time) {
			end(l).LostTask("replica 2", "t", errTyped)
		}, []string{"lost: replica 2 cannot find task t: typed"}},
		"a task that goes on after its end": {func(l *Ledger, _ *time.Time) {
			end(l).ObservedTask("ada", "replica 2", "t", "working", false, nil)
		}, []string{"changed: replica 2 has task t as working after it was completed"}},
		"a task that ends twice": {func(l *Ledger, _ *time.Time) {
			end(l).ObservedTask("ada", "replica 2", "t", "failed", true, []byte("result"))
		}, []string{"changed: as failed after it was completed"}},
		"another result": {func(l *Ledger, _ *time.Time) {
			end(l).ObservedTask("ada", "replica 2", "t", "completed", true, []byte("other"))
		}, []string{`changed: another result of task t: "other"`}},
		"the task of another owner": {func(l *Ledger, _ *time.Time) {
			end(l).ObservedTask("bob", "replica 2", "t", "completed", true, []byte("result"))
		}, []string{"crossed: of bob has task t of ada"}},
		"an unknown task": {func(l *Ledger, _ *time.Time) {
			l.ObservedTask("ada", "replica 2", "t", "working", false, nil)
		}, []string{"crossed: unknown task t"}},
		"an id of two tasks": {func(l *Ledger, _ *time.Time) {
			l.CreatedTask("bob", "t")
			end(l)
		}, []string{"duplicated: two tasks"}},
	} {
		t.Run(name, func(t *testing.T) {
			l, now := fixed()
			c.do(l, now)
			want(t, l, c.want...)
		})
	}
}

func (l *Ledger) call(number int) Call { return Call{l, number} }

func receive(l *Ledger, numbers ...int) *Stream {
	s := l.Stream("s")
	for _, number := range numbers {
		s.Received(number)
	}
	return s
}

func end(l *Ledger) *Ledger {
	l.CreatedTask("ada", "t")
	l.ObservedTask("ada", "replica 1", "t", "working", false, nil)
	l.ObservedTask("ada", "replica 1", "t", "completed", true, []byte("result"))
	l.ObservedTask("ada", "replica 2", "t", "completed", true, []byte("result"))
	return l
}

func TestAGapIsAllowedAfterAReportThatEventsWerePurged(t *testing.T) {
	l, _ := fixed()
	s := receive(l, 1, 2)
	s.Purged(7)
	s.Received(7)
	s.Ended(s.Last())
	want(t, l)
}

func TestViolationsBeyondTheLimitAreCounted(t *testing.T) {
	l, _ := fixed()
	for range maxViolations + 1 {
		issue(l)
	}
	totals, violations := l.Check()
	must.CheckEqual(t, totals.Lost, maxViolations+1, totals)
	must.CheckEqual(t, len(violations), maxViolations, totals)
}
