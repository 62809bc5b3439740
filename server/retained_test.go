package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// A question has a time-out of minutes. Once it is answered, nothing keeps the request of its call in memory until then.
func TestAnAnsweredQuestionDoesNotKeepItsRequest(t *testing.T) {
	type retained [64]byte
	type key struct{}
	s := &server.Server{Name: "up", Version: "1"}
	var request weak.Pointer[retained]
	server.AddTool(s, mcp.Tool{Name: "ask"}, func(ctx context.Context, _ struct{}) (string, error) {
		request = weak.Make(ctx.Value(key{}).(*retained))
		_, err := server.Elicit[struct{}](ctx, "Continue?")
		return "done", err
	})
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), key{}, new(retained))))
	}))
	t.Cleanup(func() {
		_ = s.Shutdown(context.Background())
		endpoint.Close()
	})
	d := &client.Dialer{Revision: mcp.V20251125, HTTPClient: endpoint.Client(), Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return mcp.AcceptElicit(struct{}{})
	}}
	c, err := d.Dial(t.Context(), client.URL(endpoint.URL))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := client.CallTool[string](t.Context(), c, "ask", nil); err != nil || got != "done" {
		t.Fatal(got, err)
	}
	endpoint.CloseClientConnections() // a connection keeps its latest request
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for request.Value() != nil {
		runtime.GC()
		if ctx.Err() != nil {
			t.Fatal("the request is in memory")
		}
		runtime.Gosched()
	}
}
