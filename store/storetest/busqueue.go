package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/parley-mcp/parley/store"
)

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
	{"QueueOfOneKeepsOneMessage", func(t tb, bus store.Bus) {
		watch, slow := subscribe(t, bus, "t", 10), subscribe(t, bus, "t", 1)
		defer watch.Close()
		defer slow.Close()
		publishAll(t, bus, watch, "t", 1, 1)
		wantNext(t, slow, "1")
		publishAll(t, bus, watch, "t", 2, 5)
		probe(t, bus, slow, 2)
		wantNext(t, slow, "2", "lost")
	}},
	{"QueueHoldsAllItsMessages", func(t tb, bus store.Bus) {
		watch, s := subscribe(t, bus, "t", 10), subscribe(t, bus, "t", 50)
		defer watch.Close()
		defer s.Close()
		publishAll(t, bus, watch, "t", 1, 50)
		for i := range 50 {
			wantNext(t, s, fmt.Sprint(i+1))
		}
		publishAll(t, bus, watch, "t", 51, 51)
		wantNext(t, s, "51")
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
