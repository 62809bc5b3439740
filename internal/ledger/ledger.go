// Package ledger checks that nothing is lost, duplicated or delivered to the wrong client while parts of a system
// fail. A test records the calls that it issues, their outcomes and what else it observes. The processes under test
// record the starts of handlers in a [Journal]. At the end, [Ledger.Check] returns what must not have happened. Only
// tests import this package.
package ledger

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Kind is the kind of a violation.
type Kind string

const (
	// Lost: a call gets no outcome in time, an event or a task is missing, or there is a result although no
	// handler has started.
	Lost Kind = "lost"
	// Duplicated: a call gets two outcomes, its handler has started twice, or an event has arrived twice or too
	// late.
	Duplicated Kind = "duplicated"
	// Crossed: a client has received what belongs to another client, or a handler has run for the wrong
	// principal.
	Crossed Kind = "crossed"
	// Changed: a task that had ended shows another state or result.
	Changed Kind = "changed"
	// Exceeded: a measurement is over its bound.
	Exceeded Kind = "exceeded"
)

// Violation is one observation that contradicts an invariant.
type Violation struct {
	Kind Kind
	Text string
}

func (v Violation) String() string { return string(v.Kind) + ": " + v.Text }

// maxViolations limits the violations that a Ledger keeps. It counts the others.
const maxViolations = 100

// Ledger records calls and their outcomes. The zero Ledger is ready for use. It is safe for concurrent use. It needs
// about 24 bytes for each call, for as long as it lives.
type Ledger struct {
	// Typed reports whether a caller can act on an error. Other errors are violations. If Typed is nil, every
	// error is accepted.
	Typed func(error) bool
	// Patience is how long after its deadline the outcome of a call may arrive. 0 means one second.
	Patience time.Duration
	// Now is the clock. Nil means time.Now.
	Now func() time.Time

	mu         sync.Mutex
	prefix     string // prefix of nonces, so that nonces of other ledgers are unknown
	calls      []record
	owners     []string
	numbers    map[string]uint32 // numbers of the owners
	totals     Totals
	violations []Violation
	tasks      map[string]*taskState
}

// record is what is known about one call.
type record struct {
	deadline int64 // in Unix milliseconds
	owner    uint32
	outcomes uint8
	starts   uint8
	result   bool // the outcome is a result
	repeats  bool // see Call.MayRepeat
}

// Call is one call that was issued.
type Call struct {
	ledger *Ledger
	number int
}

// Issue records that an owner, such as a user or a session, issues a call whose outcome must arrive by deadline.
func (l *Ledger) Issue(owner string, deadline time.Time) Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.prefix == "" {
		l.prefix = rand.Text()[:8] + "-"
		l.numbers = make(map[string]uint32)
	}
	number, known := l.numbers[owner]
	if !known {
		number = uint32(len(l.owners))
		l.owners = append(l.owners, owner)
		l.numbers[owner] = number
	}
	l.calls = append(l.calls, record{deadline: deadline.UnixMilli(), owner: number})
	l.totals.Calls++
	return Call{l, len(l.calls) - 1}
}

// Nonce identifies the call. The test sends it in the arguments, and the handler returns it.
func (c Call) Nonce() string { return c.ledger.prefix + strconv.Itoa(c.number) }

// MayRepeat allows the handler of the call to start more than once, like the handler of a task that another replica
// takes over.
func (c Call) MayRepeat() {
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	c.ledger.calls[c.number].repeats = true
}

// Returned records that the call has returned a result with a nonce.
func (c Call) Returned(nonce string) {
	l := c.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if nonce != c.Nonce() {
		l.violate(Crossed, "%s has received the result of call %.40q as that of %s", l.ownerOf(c.number), nonce,
			c.Nonce())
	}
	l.totals.Results++
	l.calls[c.number].result = true
	l.outcome(c)
}

// Failed records that the call has ended with an error.
func (c Call) Failed(err error) {
	l := c.ledger
	typed := l.Typed == nil || l.Typed(err)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !typed {
		l.violate(Lost, "call %s of %s has ended with an error that its caller cannot act upon: %v", c.Nonce(),
			l.ownerOf(c.number), err)
	}
	l.totals.Errors++
	l.outcome(c)
}

// outcome records one outcome. l.mu must be held.
func (l *Ledger) outcome(c Call) {
	r := &l.calls[c.number]
	if r.outcomes > 0 {
		l.violate(Duplicated, "call %s of %s has more than one outcome", c.Nonce(), l.ownerOf(c.number))
		return
	}
	r.outcomes++
	if late := l.now().Sub(time.UnixMilli(r.deadline)); late > cmp.Or(l.Patience, time.Second) {
		l.violate(Lost, "call %s of %s has its outcome %v after its deadline", c.Nonce(), l.ownerOf(c.number),
			late.Round(time.Millisecond))
	}
}

// Received records that an owner has received a message about a call, such as a progress notification.
func (l *Ledger) Received(owner, nonce string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch number, found := l.find(nonce); {
	case !found:
		l.violate(Crossed, "%s has received a message about the unknown call %.40q", owner, nonce)
	case l.ownerOf(number) != owner:
		l.violate(Crossed, "%s has received a message about call %s of %s", owner, nonce, l.ownerOf(number))
	}
}

// Started records that the handler of a call has started on behalf of an owner. See [Ledger.ReadJournal] for handlers
// in other processes.
func (l *Ledger) Started(owner, nonce string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	number, found := l.find(nonce)
	if !found {
		l.violate(Crossed, "a handler has started for %s with the unknown call %.40q", owner, nonce)
		return
	}
	if l.ownerOf(number) != owner {
		l.violate(Crossed, "the handler of call %s of %s has started for %s", nonce, l.ownerOf(number), owner)
	}
	l.totals.Starts++
	r := &l.calls[number]
	if r.starts > 0 && !r.repeats {
		l.violate(Duplicated, "the handler of call %s of %s has started more than once", nonce, l.ownerOf(number))
	}
	r.starts = 1
}

// Fault records that the test has injected a fault.
func (l *Ledger) Fault() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.totals.Faults++
}

// Bound records a measurement that must not exceed a limit.
func (l *Ledger) Bound(what string, value, limit int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if value > limit {
		l.violate(Exceeded, "%s: %d, the limit is %d", what, value, limit)
	}
}

// find returns the number of the call with a nonce. l.mu must be held.
func (l *Ledger) find(nonce string) (int, bool) {
	digits, ours := strings.CutPrefix(nonce, l.prefix)
	number, err := strconv.Atoi(digits)
	return number, ours && err == nil && number >= 0 && number < len(l.calls)
}

func (l *Ledger) ownerOf(number int) string { return l.owners[l.calls[number].owner] }

// violate records a violation. l.mu must be held.
func (l *Ledger) violate(kind Kind, format string, args ...any) {
	l.totals.count(kind)
	if len(l.violations) < maxViolations {
		l.violations = append(l.violations, Violation{kind, fmt.Sprintf(format, args...)})
	}
}

func (l *Ledger) now() time.Time {
	if l.Now != nil {
		return l.Now()
	}
	return time.Now()
}

// Check ends the ledger: it returns the totals and the first 100 violations. Calls without an outcome and tasks that
// have not ended count as lost. Call it once, after all journals have been read.
func (l *Ledger) Check() (Totals, []Violation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for number := range l.calls {
		r, c := &l.calls[number], Call{l, number}
		switch {
		case r.outcomes == 0:
			l.violate(Lost, "call %s of %s has no outcome", c.Nonce(), l.ownerOf(number))
		case r.result && r.starts == 0:
			l.violate(Lost, "call %s of %s has a result, but its handler has not started", c.Nonce(), l.ownerOf(number))
		}
	}
	l.checkTasks()
	return l.totals, l.violations
}

// Totals contains the sums of a ledger. A run has passed if all violations are 0.
type Totals struct {
	Calls   int `json:"calls"`
	Results int `json:"results"`
	Errors  int `json:"errors"`
	Starts  int `json:"starts"` // starts of handlers
	Events  int `json:"events"` // events of streams
	Tasks   int `json:"tasks"`
	Faults  int `json:"faults"`

	Lost       int `json:"lost"`
	Duplicated int `json:"duplicated"`
	Crossed    int `json:"crossed"`
	Changed    int `json:"changed"`
	Exceeded   int `json:"exceeded"`
}

func (t *Totals) count(kind Kind) {
	*map[Kind]*int{
		Lost: &t.Lost, Duplicated: &t.Duplicated, Crossed: &t.Crossed, Changed: &t.Changed, Exceeded: &t.Exceeded,
	}[kind]++
}

// Violations returns the number of all violations.
func (t Totals) Violations() int { return t.Lost + t.Duplicated + t.Crossed + t.Changed + t.Exceeded }

func (t Totals) String() string {
	return fmt.Sprintf("%d calls (%d results, %d errors), %d starts, %d events, %d tasks, %d faults: %d lost, %d "+
		"duplicated, %d crossed, %d changed, %d exceeded",
		t.Calls, t.Results, t.Errors, t.Starts, t.Events, t.Tasks, t.Faults, t.Lost, t.Duplicated, t.Crossed, t.Changed,
		t.Exceeded)
}

// Append appends the totals of a test to a file, as one line of JSON.
func (t Totals) Append(path, test string, took time.Duration) error {
	line, err := json.Marshal(struct {
		Test    string  `json:"test"`
		Seconds float64 `json:"seconds"`
		Totals
	}{test, took.Round(time.Millisecond).Seconds(), t})
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	_, err = file.Write(append(line, '\n'))
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

// Stream records the numbered events of one stream that may be cut and resumed. It is not safe for concurrent use.
type Stream struct {
	ledger *Ledger
	name   string
	last   int
}

// Stream returns the record of a stream whose events are numbered 1, 2, 3 and so on.
func (l *Ledger) Stream(name string) *Stream { return &Stream{ledger: l, name: name} }

// Last returns the number of the last event.
func (s *Stream) Last() int { return s.last }

// Received records that the event with a number has arrived.
func (s *Stream) Received(number int) {
	l := s.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	l.totals.Events++
	switch {
	case number <= s.last:
		l.violate(Duplicated, "event %d of stream %s arrives after event %d", number, s.name, s.last)
		return
	case number > s.last+1:
		l.violate(Lost, "event %d of stream %s arrives after event %d", number, s.name, s.last)
	}
	s.last = number
}

// Purged records that the server has reported that it has dropped events. The next event may have any greater
// number.
func (s *Stream) Purged(next int) { s.last = max(s.last, next-1) }

// Ended records that the stream has ended, after a number of events.
func (s *Stream) Ended(events int) {
	l := s.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.last < events {
		l.violate(Lost, "stream %s has ended after event %d of %d", s.name, s.last, events)
	}
}
