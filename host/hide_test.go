package host_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/principal"
)

// denying is a policy that denies everything once it is set, and panics when it is asked what it hides.
type denying struct{ atomic.Bool }

func (d *denying) Decide(context.Context, *host.Request) (host.Decision, error) {
	if d.Load() {
		return host.Decision{Reason: "changed"}, nil
	}
	return host.Decision{Action: host.Allow}, nil
}

func (d *denying) Hides(principal.Principal) func(*host.Request) bool { panic("unexpected") }

func TestSubscribeEndsWhenThePolicyDeniesIt(t *testing.T) {
	policy := new(denying)
	h := start(t, &host.Host{Servers: []host.ServerConfig{inMemory(t, "s")}, Policy: policy})
	if err := h.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	subscribed := make(chan struct{}, 10)
	go func() {
		subscribed <- struct{}{}
		ended <- h.Subscribe(t.Context(), "s", "lib://a", func() {})
	}()
	<-subscribed
	h.PolicyChanged() // asks again, or before the subscription
	policy.Store(true)
	h.PolicyChanged()
	select {
	case err := <-ended:
		if !errors.As(err, new(*host.DeniedError)) {
			t.Errorf("Subscribe ends with %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("Subscribe does not end")
	}
}

// A policy that cannot tell what it hides hides everything, since it would deny the requests.
func TestPolicyThatPanicsHidesEverything(t *testing.T) {
	h := start(t, &host.Host{Servers: []host.ServerConfig{inMemory(t, "s")}, Policy: new(denying)})
	if hides := linked.Hides(h, principal.Anonymous); hides == nil || !hides(&host.Request{Server: "s", Kind: host.KindTool, Name: "t"}) {
		t.Error("the tool is not hidden")
	}
	open := &host.Host{Policy: host.Rules{Default: host.Ask, Rules: []host.Rule{{Tool: "*", Action: host.Allow}}}}
	if linked.Hides(open, principal.Anonymous) != nil {
		t.Error("a policy that denies nothing hides something")
	}
}
