package legacy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// wire is the wire of a client whose server is a function. The function returns the
// server's response to a message, in which "$id" is replaced by the message's id.
type wire struct {
	to     outbound.Receiver
	serve  func(ctx context.Context, out *outbound.Outgoing) (string, error)
	sent   chan string
	agreed mcp.Revision
}

func (w *wire) Send(ctx context.Context, out *outbound.Outgoing) error {
	w.sent <- string(out.Message)
	if w.serve == nil {
		return nil
	}
	raw, err := w.serve(ctx, out)
	if err != nil || raw == "" {
		return err
	}
	m, err := jsonrpc.Parse([]byte(strings.ReplaceAll(raw, "$id", out.ID.String())), jsonrpc.Limits{})
	if err != nil {
		w.to.ReceiveInvalid(&m, err)
	} else {
		w.to.Receive(&m)
	}
	return nil
}

func (w *wire) SetRevision(r mcp.Revision) { w.agreed = r }
func (w *wire) Close() error               { return nil }

func newClient(t *testing.T, answerer rpc.InputHandler,
	serve func(ctx context.Context, out *outbound.Outgoing) (string, error)) (*Client, *wire) {
	t.Helper()
	c := NewClient(answerer, slog.New(slog.DiscardHandler))
	w := &wire{to: c, serve: serve, sent: make(chan string, 100)}
	c.Wire = w
	c.answered.Store(true)
	t.Cleanup(c.Close)
	return c, w
}

func TestHandshakeAcceptsLegacyRevisions(t *testing.T) {
	for version, want := range map[string]error{
		"2024-11-05": nil, "2025-11-25": nil, "2026-07-28": call.ErrRevision, "2099-01-01": call.ErrRevision,
		"": call.ErrRevision,
	} {
		c, w := newClient(t, nil, func(_ context.Context, out *outbound.Outgoing) (string, error) {
			if out.Method != mcp.MethodInitialize {
				return "", nil
			}
			return `{"jsonrpc":"2.0","id":$id,"result":{"protocolVersion":"` + version +
				`","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`, nil
		})
		_, err := c.Handshake(t.Context(), mcp.V20251125, mcp.Implementation{Name: "c", Version: "1"},
			mcp.ClientCapabilities{}, &outbound.Request{})
		must.CheckThat(t, errors.Is(err, want) && (err == nil) == (want == nil), "%q: %v", version, err)
		must.CheckContains(t, <-w.sent, `"protocolVersion":"2025-11-25"`)
		if err == nil {
			if initialized := <-w.sent; initialized != `{"jsonrpc":"2.0","method":"notifications/initialized"}` ||
				w.agreed != mcp.Revision(version) {
				t.Errorf("%s, %s", initialized, w.agreed)
			}
		}
		if len(w.sent) != 0 {
			t.Errorf("%q: second request: %s", version, <-w.sent)
		}
	}
}

func TestServerErrorsDifferFromLocalErrors(t *testing.T) {
	reported := &jsonrpc.Error{Code: -32602, Message: "not like this"}
	for name, tc := range map[string]struct {
		raw  string
		fail error
		want error
	}{
		"JSON-RPC error": {raw: `{"jsonrpc":"2.0","id":$id,"error":{"code":-32602,"message":"not ` +
			`like this"}}`, want: reported},
		"JSON-RPC error with status 400": {fail: &call.StatusError{Status: 400, Err: reported}, want: reported},
		"status 400":                     {fail: &call.StatusError{Status: 400}, want: nil},
		"nonsense":                       {raw: `{"jsonrpc":"2.0","id":$id,"result":7}`, want: call.ErrInvalidResponse},
		"lost connection":                {fail: call.ErrConnectionLost, want: call.ErrConnectionLost},
	} {
		c, _ := newClient(t, nil, func(context.Context, *outbound.Outgoing) (string, error) { return tc.raw, tc.fail })
		_, err := c.Call(t.Context(), &outbound.Request{Method: mcp.MethodListTools})
		must.CheckThat(t, err != nil && (tc.want == nil || errors.Is(err, tc.want)), "%s: %v", name, err)
	}
	// A proxy or a server of another era may answer 404. That does not mean that the method is missing.
	c, _ := newClient(t, nil, func(context.Context, *outbound.Outgoing) (string, error) {
		return "", &call.StatusError{Status: 404, Err: reported}
	})
	var status *call.StatusError
	_, err := c.Call(t.Context(), &outbound.Request{Method: mcp.MethodListTools})
	must.CheckThat(t, errors.As(err, &status), "%v", err)
}

func TestClientAnswersServerRequests(t *testing.T) {
	answerer := func(_ context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
		switch string(params) {
		case `{"ok":1}`:
			return json.RawMessage(`{"method":"` + method + `"}`), nil
		case `{"reported":1}`:
			return nil, &jsonrpc.Error{Code: -1, Message: "the user rejected it"}
		}
		return nil, errors.New("secret")
	}
	for _, tc := range []struct {
		request  string
		answerer rpc.InputHandler
		want     string
	}{
		{`"method":"ping"`, nil, `{"jsonrpc":"2.0","id":1,"result":{}}`},
		{`"method":"sampling/createMessage","params":{"ok":1}`, answerer,
			`{"jsonrpc":"2.0","id":1,"result":{"method":"sampling/createMessage"}}`},
		{`"method":"elicitation/create","params":{"reported":1}`, answerer,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"the user rejected it"}}`},
		{`"method":"roots/list","params":{}`, answerer,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"cannot answer the request"}}`},
		{`"method":"roots/list"`, nil,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method \"roots/list\" is not supported by ` +
				`this client"}}`},
		{`"method":"tools/call","params":{"ok":1}`, answerer,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method \"tools/call\" is not supported by ` +
				`this client"}}`},
	} {
		c, w := newClient(t, tc.answerer, nil)
		c.Receive(parseMessage(t, `{"jsonrpc":"2.0","id":1,`+tc.request+`}`))
		must.CheckEqual(t, <-w.sent, tc.want, tc.request)
	}
}

// Rules J2, J15: the server numbers its requests independently, and a cancelled request gets no response.
func TestServerRequestsHaveTheirOwnIDs(t *testing.T) {
	begun, release := make(chan context.Context, 4), make(chan struct{})
	c, w := newClient(t, func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
		begun <- ctx
		select {
		case <-release:
		case <-ctx.Done():
		}
		return json.RawMessage(`{}`), nil
	}, nil)
	const question = `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`
	c.Receive(parseMessage(t, question))
	ctx := <-begun
	c.Receive(parseMessage(t, question))
	got := <-w.sent
	must.CheckEqual(t, errorCode(t, []byte(got)), jsonrpc.CodeInvalidRequest, got)
	c.Receive(parseMessage(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`))
	<-ctx.Done()
	c.Receive(parseMessage(t, `{"jsonrpc":"2.0","id":2,"method":"roots/list"}`))
	<-begun
	close(release)
	must.CheckEqual(t, <-w.sent, `{"jsonrpc":"2.0","id":2,"result":{}}`)
}

func TestCloseWaitsForReplies(t *testing.T) {
	sending := make(chan struct{})
	c, w := newClient(t, nil, func(ctx context.Context, _ *outbound.Outgoing) (string, error) {
		close(sending)
		<-ctx.Done()
		return "", ctx.Err()
	})
	c.Receive(parseMessage(t, `{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	<-sending
	c.Close()
	<-w.sent
	for range 2 * maxReplies {
		c.Receive(parseMessage(t, `{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	}
	c.Close()
	must.CheckEqual(t, len(w.sent), 0)
}

// A server that accepts no replies does not make them accumulate.
func TestRepliesTimeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := newClient(t, nil, func(ctx context.Context, _ *outbound.Outgoing) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
		begun := time.Now()
		for range maxReplies + 1 {
			c.Receive(parseMessage(t, `{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		}
		must.CheckEqual(t, time.Since(begun), replyTimeout)
		c.Close()
		must.CheckThat(t, len(w.sent) <= maxReplies+1, "%d replies sent", len(w.sent))
	})
}

// Rule J3: a response to no request is ignored.
func TestUnknownResponsesAreIgnored(t *testing.T) {
	c, w := newClient(t, nil, nil)
	for _, raw := range []string{
		`{"jsonrpc":"2.0","id":99,"result":{}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"?"}}`,
		`{"jsonrpc":"2.0","method":"notifications/whatever"}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`,
	} {
		c.Receive(parseMessage(t, raw))
	}
	m, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":99,"result":7}`), jsonrpc.Limits{})
	c.ReceiveInvalid(&m, err)
	c.Close()
	if len(w.sent) != 0 {
		t.Errorf("sent %s", <-w.sent)
	}
}

func parseMessage(t *testing.T, raw string) *jsonrpc.Message {
	t.Helper()
	m, err := jsonrpc.Parse([]byte(raw), jsonrpc.Limits{})
	must.Do(t, err, raw)
	return &m
}
func errorCode(t *testing.T, raw []byte) int64 {
	t.Helper()
	m, err := jsonrpc.Parse(raw, jsonrpc.Limits{})
	switch {
	case err != nil:
		t.Fatalf("%v: %q", err, raw)
	case m.Err != nil:
		return m.Err.Code
	}
	return 0
}

// replying returns a client whose first replies fail with the errors, after it has received a request of the server.
func replying(t *testing.T, failures ...error) (*Client, *wire) {
	t.Helper()
	attempt := 0
	answer := func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(`{"roots":[]}`), nil
	}
	c, w := newClient(t, answer, func(context.Context, *outbound.Outgoing) (string, error) {
		attempt++
		if attempt <= len(failures) {
			return "", failures[attempt-1]
		}
		return "", nil
	})
	m := must.Get(jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":7,"method":"roots/list"}`), jsonrpc.Limits{}))(t)
	c.Receive(&m)
	return c, w
}

// The handler of the server waits for the reply, so it is sent until a replica accepts it.
func TestRepliesAreSentUntilTheyAreAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := []error{
			&call.StatusError{Status: 502}, &call.StatusError{Status: 503}, &call.StatusError{Status: 504},
			&call.StatusError{Status: 429}, call.ErrConnectionLost,
		}
		_, w := replying(t, failures...)
		for range len(failures) + 1 {
			must.CheckEqual(t, <-w.sent, `{"jsonrpc":"2.0","id":7,"result":{"roots":[]}}`)
		}
		time.Sleep(2 * replyTimeout)
		must.CheckEqual(t, len(w.sent), 0)
	})
}

func TestRepliesAreNotRepeatedForPermanentErrors(t *testing.T) {
	for name, failure := range map[string]error{
		"status 400": &call.StatusError{Status: 400}, "status 500": &call.StatusError{Status: 500},
		"another error": errors.New("broken"),
	} {
		synctest.Test(t, func(t *testing.T) {
			_, w := replying(t, failure)
			time.Sleep(2 * replyTimeout)
			must.CheckEqual(t, len(w.sent), 1, name)
		})
	}
}

func TestRepliesHaveATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := make([]error, 1000)
		for i := range failures {
			failures[i] = call.ErrConnectionLost
		}
		c, w := replying(t, failures...)
		time.Sleep(2 * replyTimeout)
		n := len(w.sent)
		must.CheckThat(t, n >= 5 && n <= 20, "%d replies in %v", n, replyTimeout)
		must.CheckEqual(t, len(c.replies), 0)
	})
}

// A byte stream that has ended accepts no more replies.
func TestRepliesEndWithTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := newClient(t, nil, func(context.Context, *outbound.Outgoing) (string, error) {
			return "",
				call.ErrConnectionLost
		})
		c.Lost(call.ErrConnectionLost)
		c.reply([]byte("{}"))
		time.Sleep(2 * replyTimeout)
		must.CheckEqual(t, len(w.sent), 1)
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A program may close its client as soon as its call has ended. If a reply is not sent for that reason, no warning is
// logged.
func TestReplyThatIsNotSentIsLoggedUnlessTheConnectionEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		err, lost error
		logged    bool
	}{
		"closing": {fmt.Errorf("%w: %w", call.ErrNotSent, call.ErrClosed), nil, false},
		"lost":    {call.ErrConnectionLost, call.ErrConnectionLost, false},
		"other":   {&call.StatusError{Status: 400}, nil, true},
	} {
		var log bytes.Buffer
		c, w := newClient(t, nil, func(context.Context, *outbound.Outgoing) (string, error) { return "", tc.err })
		c.logger = slog.New(slog.NewTextHandler(&log, nil))
		if tc.lost != nil {
			c.Fail(tc.lost)
		}
		c.Receive(&jsonrpc.Message{Kind: jsonrpc.Request, ID: jsonrpc.IntID(1), Method: mcp.MethodPing})
		<-w.sent
		c.mu.Lock()
		c.running.Wait()
		c.mu.Unlock()
		must.CheckEqual(t, strings.Contains(log.String(), "cannot send a reply"), tc.logged, name)
	}
}
