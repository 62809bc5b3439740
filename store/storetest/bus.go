package storetest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/parley-mcp/parley/store"
)

// patience is how long a case waits for a message before it fails.
const patience = 10 * time.Second

// subscribe begins a subscription under a name.
func subscribe(name, topic string, queue int) step {
	return func(r *run) { r.queues[name] = r.subscribe(topic, queue) }
}

func (r *run) subscribe(topic string, queue int) *store.Subscription {
	r.Helper()
	ctx, cancel := context.WithTimeout(background, patience)
	defer cancel()
	s, err := r.bus().Subscribe(ctx, topic, queue)
	r.want(nil, err, "Subscribe", topic)
	return s
}

func (r *run) subscribeFails(topic string, queue int) error {
	_, err := r.bus().Subscribe(background, topic, queue)
	return err
}

func publish(topic string, messages ...string) step {
	return func(r *run) {
		for _, message := range messages {
			copied := []byte(message)
			r.want(nil, r.bus().Publish(background, topic, copied), "Publish", topic, message)
			for i := range copied {
				copied[i] = '!' // the Bus does not retain it
			}
		}
	}
}

// next returns the content of the next message of a subscription, "lost" for a report of loss, and "closed" after the
// last one.
func (r *run) next(s *store.Subscription) string {
	r.Helper()
	select {
	case m, open := <-s.C:
		switch {
		case !open:
			return "closed"
		case m.Lost && m.Data != nil:
			r.Fatalf("a report of loss has the content %.40q", m.Data)
		case m.Lost:
			return "lost"
		}
		return string(m.Data)
	case <-time.After(patience):
		r.Fatalf("no message arrived")
		return ""
	}
}

// receive checks the next messages of a subscription.
func receive(name string, want ...string) step {
	return func(r *run) {
		r.Helper()
		for _, want := range want {
			if got := r.next(r.queues[name]); got != want {
				r.Fatalf("subscription %s received %.40q, want %.40q", name, got, want)
			}
		}
	}
}

func closeSubscription(name string) step { return func(r *run) { r.queues[name].Close() } }

// queued waits until a subscription has n messages in its channel. A store may deliver messages after Publish has
// returned, and to one subscription later than to another.
func queued(name string, n int) step {
	return func(r *run) {
		for deadline := time.Now().Add(patience); len(r.queues[name].C) < n; {
			if time.Now().After(deadline) {
				r.Fatalf("the queue has %d messages, want %d", len(r.queues[name].C), n)
			}
			other := r.subscribe("probe", 1) // a message to another topic takes the same path
			publish("probe", "")(r)
			r.next(other)
			other.Close()
		}
	}
}

// pass publishes the messages first to last to topic t, and receives each from the subscription watch.
func pass(first, last int) step {
	return each(last-first+1, func(i int) []step {
		return []step{publish("t", fmt.Sprint(first+i)), receive("watch", fmt.Sprint(first+i))}
	})
}

var busCases = []testCase{
	{"EverySubscriberReceivesEveryMessageInOrder", []step{subscribe("a", "t", 500), subscribe("b", "t", 500),
		each(500, func(i int) []step { return []step{publish("t", fmt.Sprint(i))} }),
		each(500, func(i int) []step {
			return []step{receive("a", fmt.Sprint(i)), receive("b", fmt.Sprint(i))}
		})}},
	{"TopicsAreIndependent", []step{
		forEach(names, func(topic string) []step { return []step{subscribe(topic, topic, 10)} }),
		forEach(names, func(topic string) []step { return []step{publish(topic, "to "+topic)} }),
		forEach(names, func(topic string) []step { return []step{publish(topic, "end")} }),
		forEach(names, func(topic string) []step { return []step{receive(topic, "to "+topic, "end")} })}},
	{"SubscriberDoesNotReceiveEarlierMessages", []step{publish("t", "nobody"), subscribe("a", "t", 10),
		publish("t", "early"), receive("a", "early"), subscribe("b", "t", 10), publish("t", "late"),
		receive("b", "late"), receive("a", "late")}},
	{"MessagesMayHaveAnyBytes", []step{subscribe("a", "t", 10),
		publish("t", "", "\x00", "\r\n\xff\xfe", "+OK\r\n", "lost?"),
		receive("a", "", "\x00", "\r\n\xff\xfe", "+OK\r\n", "lost?"), subscribe("b", longKey[1:], 10),
		publish(longKey[1:], strings.Repeat("m", maxMessage)), receive("b", strings.Repeat("m", maxMessage))}},
	{"ReceivedMessageNeverChanges", []step{subscribe("a", "t", 10), publish("t", "first"), func(r *run) {
		first := <-r.queues["a"].C
		publish("t", "other")(r)
		receive("a", "other")(r)
		if string(first.Data) != "first" {
			r.Fatalf("the message became %q", first.Data)
		}
	}}},
	{"ClosedSubscriptionReceivesOnlyWhatIsInItsQueue", []step{subscribe("a", "t", 10), subscribe("b", "t", 10),
		publish("t", "one", "two"), receive("a", "one"), queued("a", 1), closeSubscription("a"), closeSubscription("a"),
		publish("t", "three"), receive("b", "one", "two", "three"), receive("a", "two", "closed")}},
	{"InvalidArgumentsReturnErrInvalidArgument", []step{invalid(map[string]func(r *run) error{
		"Publish without a topic": func(r *run) error { return r.bus().Publish(background, "", nil) },
		"Publish to a long topic": func(r *run) error { return r.bus().Publish(background, longKey, nil) },
		"Publish of a long message": func(r *run) error {
			return r.bus().Publish(background, "t", make([]byte, maxMessage+1))
		},
		"Subscribe without a topic":   func(r *run) error { return r.subscribeFails("", 1) },
		"Subscribe to a long topic":   func(r *run) error { return r.subscribeFails(longKey, 1) },
		"Subscribe without a queue":   func(r *run) error { return r.subscribeFails("t", 0) },
		"Subscribe with a long queue": func(r *run) error { return r.subscribeFails("t", maxQueue+1) },
	})}},
	{"CancelledContextPublishesNothing", []step{subscribe("a", "t", 10),
		cancelled(map[string]func(r *run, ctx context.Context) error{
			"Publish": func(r *run, ctx context.Context) error {
				return r.bus().Publish(ctx, "t", []byte("unwanted"))
			},
			"Subscribe": func(r *run, ctx context.Context) error {
				_, err := r.bus().Subscribe(ctx, "t", 1)
				return err
			},
		}), publish("t", "wanted"), receive("a", "wanted")}},
	{"FullQueueKeepsItsMessagesAndReportsLoss", []step{subscribe("watch", "t", 10), subscribe("slow", "t", 4),
		pass(1, 20), queued("slow", 5), receive("slow", "1", "2", "3", "4", "lost")}},
	{"SubscriptionContinuesAfterLoss", []step{subscribe("watch", "t", 10), subscribe("slow", "t", 2), func(r *run) {
		for round, last := 0, 0; round < 3; round++ {
			pass(last+1, last+9)(r)
			queued("slow", 3)(r)
			receive("slow", fmt.Sprint(last+1), fmt.Sprint(last+2), "lost")(r)
			last += 9
			// The last lost message may arrive after the report and fill the queue again.
			for got := "lost"; got == "lost"; {
				if last++; last > 1000 {
					r.Fatalf("the subscription reports loss again and again")
				}
				pass(last, last)(r)
				for got = r.next(r.queues["slow"]); got != "lost" && got != fmt.Sprint(last); {
					got = r.next(r.queues["slow"])
				}
			}
		}
	}}},
	{"SlowSubscriberDelaysNobody", []step{subscribe("slow", "t", 1), subscribe("watch", "t", 10),
		subscribe("other", "other", 1), pass(1, 300), publish("other", "message"), receive("other", "message")}},
	{"ConcurrentPublishersKeepTheirOrder", []step{subscribe("a", "t", racers*50), func(r *run) {
		race(func(racer int) {
			for i := range 50 {
				if err := r.bus().Publish(background, "t", fmt.Append(nil, racer, " ", i)); err != nil {
					r.Errorf("Publish: %v", err)
				}
			}
		})
		var seen [racers]int
		for range racers * 50 {
			var racer, i int
			got := r.next(r.queues["a"])
			if _, err := fmt.Sscan(got, &racer, &i); err != nil || i != seen[racer] {
				r.Fatalf("received %q, want message %d of publisher %d", got, seen[racer], racer)
			}
			seen[racer]++
		}
	}}},
	{"SubscribersMayComeAndGoConcurrently", []step{func(r *run) {
		race(func(racer int) {
			for i := range 20 {
				if err := r.hearItself(fmt.Sprint("t", racer%2), fmt.Sprint(racer, " ", i)); err != nil {
					r.Errorf("%v", err)
					return
				}
			}
		})
	}}},
}

// hearItself subscribes to a topic, publishes a message, waits until it has arrived among others, and closes the
// subscription twice at the same time.
func (r *run) hearItself(topic, message string) error {
	ctx, cancel := context.WithTimeout(background, patience)
	defer cancel()
	s, err := r.bus().Subscribe(ctx, topic, 1000)
	if err != nil {
		return fmt.Errorf("cannot subscribe: %w", err)
	}
	defer s.Close()
	if err := r.bus().Publish(ctx, topic, []byte(message)); err != nil {
		return fmt.Errorf("cannot publish: %w", err)
	}
	for {
		select {
		case m, open := <-s.C:
			switch {
			case !open || m.Lost:
				return fmt.Errorf("message %q did not arrive: open %t, lost %t", message, open, m.Lost)
			case string(m.Data) == message:
				race(func(int) { s.Close() })
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("message %q did not arrive: %w", message, ctx.Err())
		}
	}
}
