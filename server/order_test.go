package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// On the pair, the status of a POST request says that the request is accepted, so that a
// cancellation finds it, and that another request with its id is rejected.
func TestRequestOnThePairIsAcceptedBeforeItsStatus(t *testing.T) {
	ended := make(chan error, 1)
	release := make(chan struct{})
	s := httpServer()
	server.AddTool(s, mcp.Tool{Name: "block"}, func(ctx context.Context, _ struct {
		Text string `json:"text"`
	}) (string, error) {
		select {
		case <-release:
			return "released", nil
		case <-ctx.Done():
			ended <- context.Cause(ctx)
			return "", nil
		}
	})
	e := endpointOf(t, s)
	p := e.pair("/")
	post := func(body string) { e.do(http.MethodPost, p.endpoint, body) }
	post(fmt.Sprintf(wiretest.Initialize, mcp.V20241105))
	p.Data()
	request := func(id int, tool string) string {
		return message(mcp.V20241105, id, mcp.MethodCallTool, fmt.Sprintf(`"name":%q,"arguments":{"text":"x"}`, tool))
	}
	for id := range 40 {
		post(request(id+1, "block"))
		post(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id+1))
		select {
		case err := <-ended:
			if !errors.Is(err, call.ErrCancelled) {
				t.Errorf("the handler's context ended with %v", err)
			}
		case <-time.After(wiretest.Patience):
			t.Fatal("the call was not cancelled")
		}
		post(request(id+1000, "block"))
		post(request(id+1000, "echo"))
		if data := p.Data(); !strings.Contains(data, `"code":-32600`) {
			t.Errorf("the second request: %s", data)
		}
		release <- struct{}{}
		if data := p.Data(); !strings.Contains(data, "released") {
			t.Errorf("the first request: %s", data)
		}
	}
}
