package gateway_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
)

// A server that does not respond, one that requires a login and one that cannot be started do not delay the lists.
func TestListsDoNotWaitForServersThatAreNotReady(t *testing.T) {
	release := make(chan struct{})
	slow := answering("slow")
	waiting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
			slow.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(waiting.Close)
	respond := sync.OnceFunc(func() { close(release) })
	t.Cleanup(respond)
	private := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "log in", http.StatusUnauthorized)
	}))
	t.Cleanup(private.Close)
	h := &host.Host{Logger: quiet, Servers: []host.ServerConfig{
		inMemory(t, "fast", answering("fast")),
		{Name: "gone", Target: client.Command("no-such-program-anywhere")},
		{Name: "private", Target: client.URL(private.URL)},
		{Name: "slow", Target: client.URL(waiting.URL)},
	}}
	start(t, h)
	if err := h.WaitReady(t.Context(), "fast"); err != nil {
		t.Fatal(err)
	}
	s := present(t, h, nil)
	partly := present(t, h, &gateway.Toolset{Servers: []string{"fast"}, Tools: []string{"gone__*"}})
	const text = "are missing in the lists, because the servers are not ready: "
	awaitInstructions(t, func() string { return mcptest.Dial(t, s).Server().Instructions }, text+"gone, private (needs a login), slow. ")
	awaitInstructions(t, func() string { return mcptest.Dial(t, partly).Server().Instructions }, text+"gone. ")
	respond()
	awaitList(t, mcptest.Dial(t, s), func(tools []*mcp.Tool) bool { return len(tools) == 2 })
	awaitInstructions(t, func() string { return mcptest.Dial(t, s).Server().Instructions }, text+"gone, private (needs a login). ")
}

// awaitInstructions waits until instructions contain a text.
func awaitInstructions(t *testing.T, instructions func() string, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		got := instructions()
		if strings.Contains(got, want) {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("instructions %q, want %q", got, want)
		}
	}
}
