package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// repeating serves the tool t, which repeats a text, until the test ends.
func repeating(t *testing.T) host.ServerConfig {
	s := &server.Server{}
	type in struct {
		Text  string
		Count int
	}
	server.AddTool(s, mcp.Tool{Name: "t"}, func(_ context.Context, in in) (string, error) { return strings.Repeat(in.Text+"\n", in.Count), nil })
	up := httptest.NewServer(s)
	t.Cleanup(up.Close)
	return host.ServerConfig{Name: "up", Target: client.URL(up.URL)}
}

// repeat calls the tool of repeating, and returns an error unless the result is right.
func repeat(ctx context.Context, c *client.Client, text string, count int) error {
	got, err := client.CallTool[string](ctx, c, "up__t", map[string]any{"Text": text, "Count": count})
	if want := strings.Repeat(text+"\n", count); err == nil && got != want {
		err = fmt.Errorf("the result of %s has %d bytes and begins with %.50q, want %d bytes", text, len(got), got, len(want))
	}
	return err
}

// The memory of a result that was sent is used for others. The race detector has it cleared before.
func TestResultsOfConcurrentCallsDoNotMix(t *testing.T) {
	s := gatewayTo(t, repeating(t))
	endpoint := httptest.NewServer(s)
	defer endpoint.Close()
	var callers sync.WaitGroup
	for _, r := range mcp.Revisions() {
		d := client.Dialer{Revision: r}
		for caller := range 4 {
			c, err := d.Dial(t.Context(), client.URL(endpoint.URL))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			callers.Go(func() {
				for i, count := range []int{1, 20_000, 3, 200, 8_000, 1, 20_000} {
					if err := repeat(t.Context(), c, fmt.Sprintf("%s-%d-%d", r, caller, i), count); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	callers.Wait()
}

// A hook may keep the result that it is called with.
func TestResultsThatHooksKeepDoNotChange(t *testing.T) {
	var kept, copies []json.RawMessage
	h := &host.Host{Servers: []host.ServerConfig{repeating(t)}, Hooks: []host.Hook{{
		Response: func(_ context.Context, _ *host.Request, result json.RawMessage) (json.RawMessage, error) {
			kept, copies = append(kept, result), append(copies, bytes.Clone(result))
			return result, nil
		},
	}}}
	s := &server.Server{}
	gatewaytest.Run(t, h, s)
	endpoint := httptest.NewServer(s)
	defer endpoint.Close()
	c, err := client.Dial(t.Context(), client.URL(endpoint.URL))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range 20 {
		if err := repeat(t.Context(), c, fmt.Sprint(i), 1000); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.EqualFunc(kept, copies, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) || len(kept) != 20 {
		t.Error("the results that the hook has received have changed")
	}
}
