package gateway_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// startOpener starts a server of 2025-11-25 whose tool asks the user to open a URL, and does not wait until the user has
// finished there. The returned function reports that the user has finished.
func startOpener(t *testing.T) (config host.ServerConfig, finish func()) {
	near, far := transport.Pipe()
	answers := upstream{
		mcp.MethodListTools:  `{"tools":[{"name":"open","inputSchema":{"type":"object"}}]}`,
		mcp.MethodInitialize: `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"up","version":"1"}}`,
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var call jsonrpc.ID
		for {
			raw, err := far.Read(context.Background())
			if err != nil {
				return
			}
			m, err := jsonrpc.Parse(raw, jsonrpc.Limits{})
			switch {
			case err != nil:
			case m.Kind == jsonrpc.Response:
				_ = far.Write(context.Background(), jsonrpc.AppendResult(nil, call, []byte(`{"content":[{"type":"text","text":"asked"}]}`)))
			case m.Kind == jsonrpc.Request && m.Method == mcp.MethodCallTool:
				call = m.ID
				_ = far.Write(context.Background(), jsonrpc.AppendRequest(nil, jsonrpc.IntID(1000), mcp.MethodElicit,
					[]byte(`{"mode":"url","message":"open","url":"https://example.com/","elicitationId":"e1"}`)))
			case m.Kind == jsonrpc.Request:
				_ = far.Write(context.Background(), answers.answer(&m))
			}
		}
	}()
	t.Cleanup(func() {
		far.Close()
		<-done
	})
	finish = func() {
		_ = far.Write(context.Background(), jsonrpc.AppendNotification(nil, mcp.NotificationElicitationComplete, []byte(`{"elicitationId":"e1"}`)))
	}
	return host.ServerConfig{Name: "up", Target: client.Conn(near)}, finish
}

// The client whose user was asked is notified of the end of a URL elicitation after its call, with the id that it knows,
// and other clients are not.
func TestURLElicitationEndsAfterItsCall(t *testing.T) {
	config, finish := startOpener(t)
	s := &server.Server{Name: "gateway"}
	gatewaytest.Run(t, &host.Host{Servers: []host.ServerConfig{config}}, s)
	type user struct {
		*client.Client
		asked    chan string // the elicitationId
		finished chan string
	}
	dial := func(dial func(testing.TB, *server.Server, ...func(*client.Dialer)) *client.Client) user {
		u := user{asked: make(chan string, 1), finished: make(chan string, 2)}
		u.Client = dial(t, s, mcptest.WithRevision(mcp.V20251125), func(d *client.Dialer) {
			d.ElicitURL = func(_ context.Context, request *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				u.asked <- request.ElicitationID
				return &mcp.ElicitResult{Action: mcp.ElicitAccept}, nil
			}
			d.Trace = func(sent bool, message []byte) {
				if !sent && strings.Contains(string(message), mcp.NotificationElicitationComplete) {
					u.finished <- string(message)
				}
			}
		})
		return u
	}
	asked, other := dial(mcptest.DialHTTP), dial(mcptest.Dial)
	if got, err := client.CallTool[string](t.Context(), asked.Client, "up__open", nil); err != nil || got != "asked" {
		t.Fatal(got, err)
	}
	if err := other.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	finish()
	finish() // a notification for an unknown id is ignored
	select {
	case got := <-asked.finished:
		if id := <-asked.asked; !strings.Contains(got, id) {
			t.Errorf("received %s, want the id %s", got, id)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("no notification")
	}
	if err := other.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(asked.finished)+len(other.finished) > 0 {
		t.Errorf("%d notifications too many, and %d for another client", len(asked.finished), len(other.finished))
	}
}
