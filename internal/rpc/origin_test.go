package rpc_test

import (
	"context"
	"testing"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
)

// A message without a stream belongs to a request whose caller still waits, not to one that is being cancelled.
func TestMessagesDoNotBelongToRequestsWhoseCallerHasLeft(t *testing.T) {
	w := newWire(t)
	sending, release := make(chan struct{}, 2), make(chan struct{})
	w.send = func(context.Context, *rpc.Outgoing) error {
		sending <- struct{}{}
		<-release
		return nil
	}
	o := &rpc.Outbound{Wire: w}
	type key struct{}
	left, leave := context.WithCancel(context.WithValue(t.Context(), key{}, "left"))
	first := do(left, o, &rpc.Request{Method: "a"})
	waits, stop := context.WithCancel(context.WithValue(t.Context(), key{}, "waits"))
	second := do(waits, o, &rpc.Request{Method: "a"})
	for range 2 {
		<-sending
	}
	leave()
	origin, err := o.OriginOf(jsonrpc.ID{}, func(*rpc.Request) bool { return true })
	if err != nil {
		t.Error(err)
	} else if got := origin.Context(t.Context()).Value(key{}); len(origin) != 1 || got != "waits" {
		t.Errorf("the message belongs to %d requests, the first is the one that %v", len(origin), got)
	}
	stop()
	close(release)
	<-first
	<-second
}
