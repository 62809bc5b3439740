// Package topics delivers the messages of a store.Bus to the subscriptions of one process.
package topics

import "sync"

// Topics contains the subscriptions of one process, by topic. M is the type of the messages. Its methods never
// block. Set Lost before the first use. A Topics is safe for concurrent use and must not be copied.
type Topics[M any] struct {
	// Lost is the message that reports that messages may have been lost.
	Lost M

	mu     sync.Mutex
	topics map[string]map[*Subscription[M]]struct{}
	closed bool
}

// Subscription receives the messages of one topic.
type Subscription[M any] struct {
	// C delivers the messages. Both Close methods close it; queued messages can still be received.
	C <-chan M

	all    *Topics[M]
	topic  string
	closed func() // called once by Close; may be nil

	// Guarded by all.mu. The channel has one slot more than the queue, for a report of loss. While lost is set,
	// that report was received or is the last message in the channel.
	c    chan M
	lost bool
	done bool
}

// Subscribe adds a subscription. queue is how many messages may wait. closed is called when the subscriber
// closes the subscription, but not by Topics.Close. It may be nil. After Close, Subscribe returns a closed
// subscription.
func (all *Topics[M]) Subscribe(topic string, queue int, closed func()) *Subscription[M] {
	c := make(chan M, queue+1)
	s := &Subscription[M]{C: c, all: all, topic: topic, closed: closed, c: c}
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.closed {
		s.done = true
		close(c)
		return s
	}
	if all.topics == nil {
		all.topics = make(map[string]map[*Subscription[M]]struct{})
	}
	of := all.topics[topic]
	if of == nil {
		of = make(map[*Subscription[M]]struct{}, 1)
		all.topics[topic] = of
	}
	of[s] = struct{}{}
	return s
}

// Deliver sends a message to the subscriptions of topic, or reports the loss to subscriptions whose queue is full. The
// message must not change afterwards.
func (all *Topics[M]) Deliver(topic string, message M) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for s := range all.topics[topic] {
		s.send(message, false)
	}
}

// ReportLoss reports to the subscriptions of topic that messages may have been lost.
func (all *Topics[M]) ReportLoss(topic string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for s := range all.topics[topic] {
		s.send(all.Lost, true)
	}
}

// Close closes every subscription.
func (all *Topics[M]) Close() {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.closed = true
	for _, of := range all.topics {
		for s := range of {
			s.end()
		}
	}
}

// Close ends the subscription. It may be called more than once and concurrently.
func (s *Subscription[M]) Close() {
	s.all.mu.Lock()
	first := s.end()
	s.all.mu.Unlock()
	if first && s.closed != nil {
		s.closed()
	}
}

// end ends the subscription and reports whether it was open. all.mu must be held.
func (s *Subscription[M]) end() bool {
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

// send queues a message or a report of loss. all.mu must be held and s must be open.
func (s *Subscription[M]) send(message M, isLoss bool) {
	if s.lost {
		if len(s.c) > 0 {
			return // the report is still in the channel and covers this message, too
		}
		s.lost = false
	}
	if isLoss || len(s.c) == cap(s.c)-1 {
		s.lost = true
		message = s.all.Lost
	}
	s.c <- message // never blocks: only send adds messages, and there is a free slot
}
