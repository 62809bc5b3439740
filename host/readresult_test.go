package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// userContext returns the context of a request of a user.
func userContext(t *testing.T, name string) context.Context {
	t.Helper()
	who, err := principal.New("https://as.example", name, "")
	if err != nil {
		t.Fatal(err)
	}
	return auth.NewContext(t.Context(), &auth.Info{Principal: who})
}

func TestPolicyDecidesAboutReadsOfLargeResultsAsAboutTheirCalls(t *testing.T) {
	up, audit := newCounted(), &log{}
	var now atomic.Int32
	now.Store(int32(host.Ask))
	var asked atomic.Int32
	config := configOf(t, up.Server, "up")
	config.MaxResult = 10
	h := start(t, &host.Host{
		Servers: []host.ServerConfig{config}, Audit: audit.write,
		Policy: policyFunc(func(_ context.Context, r *host.Request) (host.Decision, error) {
			if r.Method != mcp.MethodCallTool || r.Name != "write" || r.Tool == nil || !strings.Contains(string(r.Arguments), "begin") {
				t.Errorf("the policy is asked about %s with %s", r, r.Arguments)
			}
			return host.Decision{Action: host.Action(now.Load()), Version: "1"}, nil
		}),
		Approve: func(context.Context, *host.Approval) error { asked.Add(1); return nil },
	})
	ada, bob := userContext(t, "ada"), userContext(t, "bob")
	text := "begin " + strings.Repeat("x", 100)
	result, err := h.CallTool(ada, "up", "write", note{text})
	if err != nil {
		t.Fatal(err)
	}
	link, ok := result.Content[len(result.Content)-1].(*mcp.ResourceLink)
	if !ok {
		t.Fatalf("%+v", result.Content)
	}
	audit.want(t, "allowed write, approved", "done write, approved, ok")
	for _, action := range []host.Action{host.Ask, host.Allow} {
		now.Store(int32(action))
		read, err := h.ReadResource(ada, "up", link.URI)
		if err != nil || read.Contents[0].Text != "wrote "+text {
			t.Errorf("%s: %+v, %v", action, read, err)
		}
		audit.want(t, "allowed "+link.URI, "done "+link.URI+", ok")
	}
	if asked.Load() != 1 {
		t.Errorf("the user was asked %d times", asked.Load())
	}
	if _, err := h.ReadResource(bob, "up", link.URI); !errors.Is(err, client.ErrResourceNotFound) {
		t.Errorf("another principal: %v", err)
	}
	audit.want(t, "done "+link.URI+", error, other")
	now.Store(int32(host.Deny))
	_, err = h.ReadResource(ada, "up", link.URI)
	wantDenied(t, err, "the policy does not allow it")
	audit.want(t, "denied "+link.URI+", error, the policy does not allow it")
	if up.calls.Load() != 1 {
		t.Errorf("the server has received %d calls", up.calls.Load())
	}
}

func TestLargeResultsOfToolsThatAreWithheldAreNotRead(t *testing.T) {
	up := newCounted()
	var rejects atomic.Bool
	config := configOf(t, up.Server, "up")
	config.MaxResult = 10
	h := start(t, &host.Host{Servers: []host.ServerConfig{config}, Review: func(d host.Definition) error {
		if rejects.Load() && d.Name == "write" {
			return errors.New("not accepted")
		}
		return nil
	}})
	ada := userContext(t, "ada")
	result, err := h.CallTool(ada, "up", "write", json.RawMessage(`{"text":"0123456789"}`))
	if err != nil {
		t.Fatal(err)
	}
	uri := result.Content[len(result.Content)-1].(*mcp.ResourceLink).URI
	if _, err := h.ReadResource(ada, "up", uri); err != nil {
		t.Error(err)
	}
	rejects.Store(true)
	h.ReviewAgain()
	_, err = h.ReadResource(ada, "up", uri)
	wantDenied(t, err, "its definition is not accepted")
}
