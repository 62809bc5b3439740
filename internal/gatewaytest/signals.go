package gatewaytest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/store"
)

// signalsTopic is the topic of the signals of handlers. The processes of a server receive them, too, and apply the
// changes.
const signalsTopic = "gatewaytest/signals"

// signal says what a handler does that was called with a nonce.
type signal struct {
	Kind  signalKind
	Nonce string
}

type signalKind string

const (
	begun     signalKind = "begun"     // the handler waits for its cancellation
	cancelled signalKind = "cancelled" // the handler was cancelled
	added     signalKind = "added"     // each process of the server adds a tool
	updated   signalKind = "updated"   // each process of the server reports a change of a resource
)

// send sends the signal, even if ctx has ended.
func (s signal) send(ctx context.Context, bus store.Bus) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return bus.Publish(context.WithoutCancel(ctx), signalsTopic, data)
}

// follow calls f with each signal, until the returned function is called.
func follow(ctx context.Context, bus store.Bus, f func(signal)) (stop func(), err error) {
	signals, err := bus.Subscribe(ctx, signalsTopic, 1024)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	following.Go(func() {
		for {
			select {
			case m, open := <-signals.C:
				if !open {
					return
				}
				var s signal
				if !m.Lost && jsonv2.Unmarshal(m.Data, &s) == nil {
					f(s)
				}
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		following.Wait()
		signals.Close()
	}, nil
}

// observer waits for signals.
type observer struct {
	mu   sync.Mutex
	seen map[signal]chan struct{} // each is closed when the signal has arrived
}

// observe returns an observer of the signals from now on, until the test ends.
func observe(t testing.TB, bus store.Bus) *observer {
	t.Helper()
	o := &observer{seen: make(map[signal]chan struct{})}
	stop, err := follow(context.Background(), bus, func(s signal) {
		select {
		case <-o.of(s):
		default:
			close(o.of(s))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return o
}

func (o *observer) of(s signal) chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen[s] == nil {
		o.seen[s] = make(chan struct{})
	}
	return o.seen[s]
}

// await waits until a signal has arrived.
func (o *observer) await(ctx context.Context, kind signalKind, nonce string) error {
	select {
	case <-o.of(signal{kind, nonce}):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the handler has not %s", kind)
	}
}
