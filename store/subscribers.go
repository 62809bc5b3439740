package store

import "sync"

// Subscription receives the messages of one topic of a [Bus].
type Subscription struct {
	// C delivers the messages. Close and the end of the Bus close it; messages that
	// are in the queue can still be received then.
	C <-chan Message

	all    *Subscribers
	topic  string
	closed func() // called once by Close; may be nil

	// Guarded by all.mu. The channel has one slot more than the queue, for a report of
	// loss. While lost is set, the report is in the channel or was received, and it is
	// the last message in the channel.
	c    chan Message
	lost bool
	done bool
}

// Close ends the subscription. It is safe to call it more than once and concurrently.
func (s *Subscription) Close() {
	s.all.mu.Lock()
	first := s.end()
	s.all.mu.Unlock()
	if first && s.closed != nil {
		s.closed()
	}
}

// end requires that all.mu is held. It reports whether the subscription was open.
func (s *Subscription) end() bool {
	if s.done {
		return false
	}
	s.done = true
	close(s.c)
	of := s.all.topics[s.topic]
	delete(of, s)
	if len(of) == 0 {
		delete(s.all.topics, s.topic)
	}
	return true
}

// send requires that all.mu is held and s is open.
func (s *Subscription) send(m Message) {
	if s.lost {
		if len(s.c) > 0 {
			return // the subscriber has not received the report yet, which covers m too
		}
		s.lost = false
	}
	if m.Lost || len(s.c) == cap(s.c)-1 {
		s.lost = true
		m = Message{Lost: true}
	}
	s.c <- m // never blocks: only send adds messages, and there is a free slot
}

// Subscribers are the subscriptions of one process. Implementations of [Bus] use it to
// deliver messages. It never blocks. The zero value has no subscriptions. It is safe
// for concurrent use and must not be copied.
type Subscribers struct {
	mu     sync.Mutex
	topics map[string]map[*Subscription]struct{}
	closed bool
}

// Subscribe adds a subscription. The arguments must satisfy [CheckSubscribe]. closed is
// called when the subscriber closes the subscription, but not by Subscribers.Close. It
// may be nil. After Close, Subscribe returns a closed subscription.
func (all *Subscribers) Subscribe(topic string, queue int, closed func()) *Subscription {
	c := make(chan Message, queue+1)
	s := &Subscription{C: c, all: all, topic: topic, closed: closed, c: c}
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.closed {
		s.done = true
		close(c)
		return s
	}
	if all.topics == nil {
		all.topics = make(map[string]map[*Subscription]struct{})
	}
	of := all.topics[topic]
	if of == nil {
		of = make(map[*Subscription]struct{}, 1)
		all.topics[topic] = of
	}
	of[s] = struct{}{}
	return s
}

// Deliver sends a message to the subscriptions of topic, or reports its loss to those
// whose queue is full. message must not change afterwards.
func (all *Subscribers) Deliver(topic string, message []byte) {
	all.send(topic, Message{Data: message})
}

// ReportLoss reports to the subscriptions of topic that messages may have been lost.
func (all *Subscribers) ReportLoss(topic string) {
	all.send(topic, Message{Lost: true})
}

func (all *Subscribers) send(topic string, m Message) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for s := range all.topics[topic] {
		s.send(m)
	}
}

// Close closes every subscription.
func (all *Subscribers) Close() {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.closed = true
	for _, of := range all.topics {
		for s := range of {
			s.end()
		}
	}
}
