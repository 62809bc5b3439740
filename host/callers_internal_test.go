package host

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// testCallers returns callers of a server, whose clients never connect, and a shared client.
func testCallers(t *testing.T, max int) (*callers, *client.Client) {
	near, far := transport.Pipe()
	s := &server.Server{Name: "s"}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.ServeConn(context.Background(), far)
	}()
	target := client.Conn(near)
	shared, err := client.Dial(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		shared.Close()
		<-done
	})
	a := &callers{of: &supervisor{host: new(Host)}, target: target, idle: callerIdle, max: max, byKey: make(map[any]*callerClient)}
	return a, shared
}

func TestIdleClientsOfCallersAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, shared := testCallers(t, 10)
		use := func(key string) *callerClient {
			own, err := a.acquire(t.Context(), rpc.Caller{Key: key, Returns: true}, shared)
			if err != nil {
				t.Fatal(err)
			}
			return own
		}
		isClosed := func(own *callerClient) bool {
			synctest.Wait()
			return errors.Is(own.client.Ping(t.Context()), client.ErrClientClosed)
		}
		busy, idle, again := use("busy"), use("idle"), use("again")
		a.release(idle)
		a.release(again)
		sleep(t.Context(), callerIdle*3/4, nil)
		if use("again") != again {
			t.Error("a client was replaced")
		}
		a.release(again)
		sleep(t.Context(), callerIdle/2, nil)
		if !isClosed(idle) || a.byKey["again"] != again || a.byKey["busy"] != busy || len(a.byKey) != 2 {
			t.Errorf("clients left: %v", a.byKey)
		}
		a.release(busy)
		if err := a.close(); err != nil || !isClosed(again) || !isClosed(busy) {
			t.Error(err)
		}
		if _, err := a.acquire(t.Context(), rpc.Caller{Key: "late"}, shared); !errors.Is(err, ErrClosed) {
			t.Errorf("after close: %v", err)
		}
	})
}

func TestLeastRecentlyUsedClientOfACallerIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, shared := testCallers(t, 3)
		defer a.close()
		acquire := func(key string) (*callerClient, error) {
			return a.acquire(t.Context(), rpc.Caller{Key: key, Returns: true}, shared)
		}
		for _, key := range []string{"a", "b", "c", "a"} {
			own, err := acquire(key)
			if err != nil {
				t.Fatal(err)
			}
			a.release(own)
			sleep(t.Context(), 1, nil)
		}
		for _, key := range []string{"d", "e", "f"} {
			if _, err := acquire(key); err != nil {
				t.Fatal(err)
			}
			if key == "d" && (a.byKey["b"] != nil || a.byKey["a"] == nil) {
				t.Errorf("clients left: %v", a.byKey)
			}
		}
		var overload *call.OverloadError
		if _, err := acquire("g"); !errors.As(err, &overload) || len(a.byKey) != 3 {
			t.Errorf("%v, %d clients", err, len(a.byKey))
		}
	})
}

func TestPrincipalWithManySessionsDoesNotEndThoseOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, shared := testCallers(t, 3)
		defer a.close()
		ada, err := principal.New("https://issuer.example", "ada", "")
		if err != nil {
			t.Fatal(err)
		}
		bob, err := principal.New("https://issuer.example", "bob", "")
		if err != nil {
			t.Fatal(err)
		}
		for _, caller := range []rpc.Caller{{Key: "a", Owner: ada}, {Key: "1", Owner: bob}, {Key: "2", Owner: bob}, {Key: "3", Owner: bob}, {Key: "4", Owner: bob}} {
			own, err := a.acquire(t.Context(), caller, shared)
			if err != nil {
				t.Fatal(err)
			}
			a.release(own)
			sleep(t.Context(), 1, nil)
		}
		if a.byKey["a"] == nil || a.byKey["3"] == nil || a.byKey["4"] == nil {
			t.Errorf("clients left: %v", a.byKey)
		}
	})
}

func TestSessionDeclaresOnlyWhatItsCallerCanAnswer(t *testing.T) {
	all := func() *client.Dialer {
		return &client.Dialer{
			Elicit:    func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) { return nil, nil },
			ElicitURL: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) { return nil, nil },
			Sample:    func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) { return nil, nil },
			Roots:     func(context.Context) ([]mcp.Root, error) { return nil, nil }, SampleTools: true,
		}
	}
	for kinds := range rpc.AllInputKinds + 1 {
		d := all()
		limit(d, kinds)
		var got rpc.InputKinds
		for kind, declared := range map[rpc.InputKinds]bool{
			rpc.FormInput: d.Elicit != nil, rpc.URLInput: d.ElicitURL != nil, rpc.SamplingInput: d.Sample != nil,
			rpc.SamplingToolsInput: d.SampleTools, rpc.RootsInput: d.Roots != nil,
		} {
			if declared {
				got |= kind
			}
		}
		if got != kinds {
			t.Errorf("%b becomes %b", kinds, got)
		}
	}
}
