package ledger

// Stream records the numbered events of one stream that may be cut and resumed. It is not safe for concurrent use.
type Stream struct {
	ledger *Ledger
	name   string
	last   int
}

// Stream returns the record of a stream whose events have the numbers 1, 2, 3 and so on.
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

// Purged records that the server has reported that it no longer has all events. The next event may have any greater
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
