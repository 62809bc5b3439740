package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/parley-mcp/parley/store"
)

// patience is how long a case waits for a message that must arrive. A case that waits for so long fails.
const patience = 10 * time.Second

func subscribe(t tb, bus store.Bus, topic string, queue int) *store.Subscription {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := bus.Subscribe(ctx, topic, queue)
	if err != nil {
		t.Fatalf("Subscribe(%.40q, %d): %v", topic, queue, err)
	}
	return s
}

func publish(t tb, bus store.Bus, topic string, messages ...string) {
	t.Helper()
	for _, message := range messages {
		if err := bus.Publish(context.Background(), topic, []byte(message)); err != nil {
			t.Fatalf("Publish(%.40q, %.40q): %v", topic, message, err)
		}
	}
}

// receive returns the next message of a subscription.
func receive(s *store.Subscription) (store.Message, error) {
	select {
	case m, open := <-s.C:
		if !open {
			return m, errors.New("the subscription was closed")
		}
		if m.Lost && m.Data != nil {
			return m, fmt.Errorf("a report of loss must have no data, got %.40q", m.Data)
		}
		return m, nil
	case <-time.After(patience):
		return store.Message{}, errors.New("no message arrived")
	}
}

// next returns the content of the next message of a subscription, "lost" for a report of loss.
func next(t tb, s *store.Subscription) string {
	t.Helper()
	m, err := receive(s)
	if err != nil {
		t.Fatal(err)
	}
	if m.Lost {
		return "lost"
	}
	return string(m.Data)
}

func wantNext(t tb, s *store.Subscription, want ...string) {
	t.Helper()
	for _, want := range want {
		if got := next(t, s); got != want {
			t.Fatalf("received %.40q, want %.40q", got, want)
		}
	}
}

// wantClosed checks that a subscription has no more messages and was closed.
func wantClosed(t tb, s *store.Subscription) {
	t.Helper()
	select {
	case m, open := <-s.C:
		if open {
			t.Fatalf("received %q after Close", m.Data)
		}
	case <-time.After(patience):
		t.Fatal("the channel of a closed subscription is open")
	}
}

var busCases = []testCase[store.Bus]{
	{"EverySubscriberReceivesEveryMessage", func(t tb, bus store.Bus) {
		var all []*store.Subscription
		for range 5 {
			s := subscribe(t, bus, "t", 10)
			defer s.Close()
			all = append(all, s)
		}
		publish(t, bus, "t", "one", "two", "three")
		for _, s := range all {
			wantNext(t, s, "one", "two", "three")
		}
	}},
	{"MessagesArriveInOrder", func(t tb, bus store.Bus) {
		s := subscribe(t, bus, "t", 500)
		defer s.Close()
		for i := range 500 {
			publish(t, bus, "t", fmt.Sprint(i))
		}
		for i := range 500 {
			wantNext(t, s, fmt.Sprint(i))
		}
	}},
	{"TopicsAreIndependent", func(t tb, bus store.Bus) {
		topics := []string{"t", "T", "t/", "t/a", "t/a/b/c/d", "t*", "*", "?", "[t]", "{t}", "}", "t\x00", "t\r\n",
			"\xff"}
		var all []*store.Subscription
		for _, topic := range topics {
			s := subscribe(t, bus, topic, 10)
			defer s.Close()
			all = append(all, s)
		}
		for _, topic := range topics {
			publish(t, bus, topic, "to "+topic)
		}
		for _, topic := range topics {
			publish(t, bus, topic, "end")
		}
		for i, topic := range topics {
			wantNext(t, all[i], "to "+topic, "end")
		}
	}},
	{"SubscriberDoesNotReceiveEarlierMessages", func(t tb, bus store.Bus) {
		first := subscribe(t, bus, "t", 10)
		defer first.Close()
		publish(t, bus, "t", "early")
		wantNext(t, first, "early")
		second := subscribe(t, bus, "t", 10)
		defer second.Close()
		publish(t, bus, "t", "late")
		wantNext(t, second, "late")
		wantNext(t, first, "late")
	}},
	{"MessagesMayHaveAnyBytes", func(t tb, bus store.Bus) {
		s := subscribe(t, bus, "t", 10)
		defer s.Close()
		messages := []string{"", "\x00", "\r\n\xff\xfe", "+OK\r\n", "lost?"}
		publish(t, bus, "t", messages...)
		wantNext(t, s, messages...)
	}},
	{"MessageMayHaveMaximumLength", func(t tb, bus store.Bus) {
		topic := strings.Repeat("t", maxKey)
		s := subscribe(t, bus, topic, 10)
		defer s.Close()
		message := strings.Repeat("m", maxMessage)
		publish(t, bus, topic, message)
		wantNext(t, s, message)
	}},
	{"PublishDoesNotRetainMessage", func(t tb, bus store.Bus) {
		s := subscribe(t, bus, "t", 10)
		defer s.Close()
		message := []byte("before")
		if err := bus.Publish(context.Background(), "t", message); err != nil {
			t.Fatal(err)
		}
		copy(message, "AFTER!")
		wantNext(t, s, "before")
	}},
	{"ReceivedMessageNeverChanges", func(t tb, bus store.Bus) {
		s := subscribe(t, bus, "t", 10)
		defer s.Close()
		publish(t, bus, "t", "first")
		first, err := receive(s)
		if err != nil {
			t.Fatal(err)
		}
		publish(t, bus, "t", "other")
		wantNext(t, s, "other")
		if !bytes.Equal(first.Data, []byte("first")) {
			t.Fatalf("the message that was received became %q", first.Data)
		}
	}},
	{"ClosedSubscriptionReceivesNothing", func(t tb, bus store.Bus) {
		s, other := subscribe(t, bus, "t", 10), subscribe(t, bus, "t", 10)
		defer other.Close()
		s.Close()
		s.Close()
		publish(t, bus, "t", "one")
		wantNext(t, other, "one")
		wantClosed(t, s)
	}},
	{"QueuedMessagesCanBeReceivedAfterClose", func(t tb, bus store.Bus) {
		s := subscribe(t, bus, "t", 10)
		publish(t, bus, "t", "one", "two", "three")
		wantNext(t, s, "one")
		probe(t, bus, s, 2)
		s.Close()
		wantNext(t, s, "two", "three")
		wantClosed(t, s)
	}},
	{"InvalidArgumentsReturnErrInvalidArgument", func(t tb, bus store.Bus) {
		ctx, long := context.Background(), strings.Repeat("t", maxKey+1)
		wantError(t, "Publish without a topic", bus.Publish(ctx, "", nil), store.ErrInvalidArgument)
		wantError(t, "Publish to a long topic", bus.Publish(ctx, long, nil), store.ErrInvalidArgument)
		wantError(t, "Publish of a long message", bus.Publish(ctx, "t", make([]byte, maxMessage+1)),
			store.ErrInvalidArgument)
		for name, arguments := range map[string]struct {
			topic string
			queue int
		}{
			"no topic": {"", 1}, "a long topic": {long, 1}, "no queue": {"t", 0}, "a negative queue": {"t", -1},
			"a long queue": {"t", maxQueue + 1},
		} {
			_, err := bus.Subscribe(ctx, arguments.topic, arguments.queue)
			wantError(t, "Subscribe with "+name, err, store.ErrInvalidArgument)
		}
	}},
	{"CancelledContextPublishesNothing", func(t tb, bus store.Bus) {
		s := subscribe(t, bus, "t", 10)
		defer s.Close()
		wantError(t, "Publish", bus.Publish(cancelled(), "t", []byte("unwanted")), context.Canceled)
		_, err := bus.Subscribe(cancelled(), "t", 1)
		wantError(t, "Subscribe", err, context.Canceled)
		publish(t, bus, "t", "wanted")
		wantNext(t, s, "wanted")
	}},
}

// probe waits until a subscription has n messages in its channel. A store may deliver
// messages after Publish has returned, and to one subscription later than to another.
func probe(t tb, bus store.Bus, s *store.Subscription, n int) {
	t.Helper()
	for deadline := time.Now().Add(patience); len(s.C) < n; {
		if time.Now().After(deadline) {
			t.Fatalf("the queue has %d messages, want %d", len(s.C), n)
		}
		// A message to another topic takes the same way.
		other := subscribe(t, bus, "probe", 1)
		publish(t, bus, "probe", "")
		next(t, other)
		other.Close()
	}
}

// publishAll publishes the messages first to last and receives each from watch, a
// subscription to the topic that has received all earlier messages.
func publishAll(t tb, bus store.Bus, watch *store.Subscription, topic string, first, last int) {
	t.Helper()
	for i := first; i <= last; i++ {
		publish(t, bus, topic, fmt.Sprint(i))
		wantNext(t, watch, fmt.Sprint(i))
	}
}

var queueCases = []testCase[store.Bus]{
	{"FullQueueKeepsItsMessagesAndReportsLoss", func(t tb, bus store.Bus) {
		watch, slow := subscribe(t, bus, "t", 10), subscribe(t, bus, "t", 4)
		defer watch.Close()
		defer slow.Close()
		publishAll(t, bus, watch, "t", 1, 20)
		probe(t, bus, slow, 5)
		wantNext(t, slow, "1", "2", "3", "4", "lost")
	}},
	{"SubscriptionContinuesAfterLoss", func(t tb, bus store.Bus) {
		watch, slow := subscribe(t, bus, "t", 10), subscribe(t, bus, "t", 2)
		defer watch.Close()
		defer slow.Close()
		for round, last := 0, 0; round < 3; round++ {
			publishAll(t, bus, watch, "t", last+1, last+9)
			probe(t, bus, slow, 3)
			wantNext(t, slow, fmt.Sprint(last+1), fmt.Sprint(last+2), "lost")
			last += 9
			// The last of the lost messages may arrive after the report, and fill the queue again.
			for got := "lost"; got == "lost"; {
				if last++; last > 1000 {
					t.Fatal("the subscription reports loss again and again")
				}
				publishAll(t, bus, watch, "t", last, last)
				for got = next(t, slow); got != "lost" && got != fmt.Sprint(last); {
					got = next(t, slow)
				}
			}
		}
	}},
	{"SlowSubscriberDelaysNeitherPublishersNorOthers", func(t tb, bus store.Bus) {
		slow, watch := subscribe(t, bus, "t", 1), subscribe(t, bus, "t", 10)
		defer slow.Close()
		defer watch.Close()
		other := subscribe(t, bus, "other", 1)
		defer other.Close()
		publishAll(t, bus, watch, "t", 1, 300)
		publish(t, bus, "other", "message")
		wantNext(t, other, "message")
	}},
}

var busRaceCases = []testCase[store.Bus]{
	{"ConcurrentPublishersKeepTheirOrder", func(t tb, bus store.Bus) {
		const each = 50
		s := subscribe(t, bus, "t", racers*each)
		defer s.Close()
		race(func(racer int) {
			for i := range each {
				if err := bus.Publish(context.Background(), "t", fmt.Append(nil, racer, " ", i)); err != nil {
					t.Errorf("Publish: %v", err)
				}
			}
		})
		var seen [racers]int
		for range racers * each {
			var racer, i int
			got := next(t, s)
			if _, err := fmt.Sscan(got, &racer, &i); err != nil || i != seen[racer] {
				t.Fatalf("received %q, want message %d of publisher %d", got, seen[racer], racer)
			}
			seen[racer]++
		}
	}},
	{"SubscribersMayComeAndGoConcurrently", func(t tb, bus store.Bus) {
		race(func(racer int) {
			for i := range 20 {
				if err := receiveOwn(bus, fmt.Sprint("t", racer%2), fmt.Sprint(racer, " ", i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}},
	{"SubscriptionMayBeClosedConcurrently", func(t tb, bus store.Bus) {
		for range 20 {
			s := subscribe(t, bus, "t", 1)
			race(func(racer int) {
				if racer%2 == 1 {
					s.Close()
				} else if err := bus.Publish(context.Background(), "t", []byte("message")); err != nil {
					t.Errorf("Publish: %v", err)
				}
			})
			for closed := false; !closed; {
				select {
				case _, open := <-s.C:
					closed = !open
				case <-time.After(patience):
					t.Fatal("the channel of a closed subscription is open")
				}
			}
		}
	}},
}

// receiveOwn subscribes to a topic and receives a message that it publishes, among others.
func receiveOwn(bus store.Bus, topic, message string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := bus.Subscribe(ctx, topic, 1000)
	if err != nil {
		return fmt.Errorf("cannot subscribe: %w", err)
	}
	defer s.Close()
	if err := bus.Publish(ctx, topic, []byte(message)); err != nil {
		return fmt.Errorf("cannot publish: %w", err)
	}
	for {
		switch m, err := receive(s); {
		case err != nil:
			return fmt.Errorf("message %q of the subscriber itself: %w", message, err)
		case m.Lost:
			return fmt.Errorf("message %q was lost", message)
		case string(m.Data) == message:
			return nil
		}
	}
}
