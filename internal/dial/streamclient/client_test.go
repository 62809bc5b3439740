package streamclient_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/dial/streamclient"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// receiver records the messages of a client.
type receiver struct {
	mu       sync.Mutex
	messages []string
	invalid  []string
	lost     []error
}

func (r *receiver) Receive(m *jsonrpc.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages = append(r.messages, fmt.Sprintf("%s%s %s", m.Method, m.ID, m.Raw))
}

func (r *receiver) ReceiveInvalid(m *jsonrpc.Message, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.invalid = append(r.invalid, fmt.Sprintf("%v %s: %v", m.Kind == jsonrpc.Response, m.ID, err))
}

func (r *receiver) Lost(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = append(r.lost, err)
}

func newClient(t *testing.T) (c *streamclient.Client, r *receiver, far transport.Conn) {
	near, far := transport.PipeLimits(1000, 1000)
	r = new(receiver)
	c = streamclient.NewClient(near, r, jsonrpc.Limits{})
	t.Cleanup(func() {
		c.Close()
		far.Close()
	})
	return c, r, far
}

// Rule S1: the client ignores a malformed message and continues with the next one.
func TestClientIgnoresMalformedMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, r, far := newClient(t)
		for _, line := range []string{
			"Server listening on stdio", `{"jsonrpc":"2.0","method":"hello"}`, `{"jsonrpc":"2.0","id":7,"result":[]}`,
			`[{"jsonrpc":"2.0","method":"hello"}]`, `{"jsonrpc":"2.0","id":8,"result":{}}`,
		} {
			must.Do(t, far.Write(t.Context(), []byte(line)))
		}
		synctest.Wait()
		must.CheckEqual(t, strings.Join(r.messages, "; "), "hello ; 8 {}")
		must.CheckThat(t, len(r.invalid) == 3 && strings.HasPrefix(r.invalid[1], "true 7:"), "invalid: %q", r.invalid)
		want := `: "Server listening on stdio"`
		must.CheckThat(t, strings.HasSuffix(r.invalid[0], want), "the error does not show the line: %s", r.invalid[0])
		must.CheckThat(t, len(r.lost) == 0, "lost: %v", r.lost)
	})
}

func TestClientReportsWhyTheConnectionEnded(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(c *streamclient.Client, far transport.Conn)
		want error
		not  error
	}{
		"server closes": {func(_ *streamclient.Client, far transport.Conn) { far.Close() }, call.ErrConnectionLost,
			call.ErrClosed},
		"client closes": {func(c *streamclient.Client, _ transport.Conn) { c.Close() }, call.ErrClosed,
			call.ErrConnectionLost},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, r, far := newClient(t)
				test.end(c, far)
				synctest.Wait()
				must.CheckThat(t, len(r.lost) == 1 && errors.Is(r.lost[0], test.want) &&
					!errors.Is(r.lost[0], test.not), "lost: %v", r.lost)
			})
		})
	}
}

// A message that is too large is skipped, and the connection stays usable.
func TestTooLargeMessageIsSkipped(t *testing.T) {
	for message, want := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"result":{"x":"%s"}}`:   "the limit of 1000 bytes",
		`{"result":{"x":"%s"},"jsonrpc":"2.0","id":"7"}`: "the limit of 1000 bytes",
		`{"method":"m","params":{"x":"%s"},"id":7}`:      "the limit of 1000 bytes",
		`[{"jsonrpc":"2.0","id":7,"result":{"x":"%s"}}]`: "no id that can be read",
		"%s": "no id that can be read",
	} {
		synctest.Test(t, func(t *testing.T) {
			_, r, far := newClient(t)
			must.Do(t, far.Write(t.Context(), fmt.Appendf(nil, message, strings.Repeat("x", 1001))))
			must.Do(t, far.Write(t.Context(), []byte(`{"jsonrpc":"2.0","method":"m"}`)))
			synctest.Wait()
			r.mu.Lock()
			defer r.mu.Unlock()
			must.CheckThat(t, len(r.lost) == 0 && len(r.invalid) == 1 && strings.Contains(r.invalid[0], want),
				"%s: invalid %q, lost %v", message, r.invalid, r.lost)
		})
	}
}

// A server that does not read is lost, even if it still writes.
func TestFailedWriteLosesTheConnection(t *testing.T) {
	near, far := transport.Pipe()
	r := new(receiver)
	c := streamclient.NewClient(brokenConn{near}, r, jsonrpc.Limits{})
	defer far.Close()
	defer c.Close()
	err := c.Send(t.Context(), &outbound.Outgoing{Message: []byte("{}")})
	must.CheckIs(t, err, call.ErrConnectionLost)
	must.CheckIs(t, err, call.ErrNotSent)
	r.mu.Lock()
	defer r.mu.Unlock()
	must.CheckThat(t, len(r.lost) == 1 && errors.Is(r.lost[0], call.ErrConnectionLost) &&
		!errors.Is(r.lost[0], call.ErrNotSent), "lost: %v", r.lost) // for the requests that were sent
}

// brokenConn is a connection that cannot be written to.
type brokenConn struct{ transport.Conn }

func (brokenConn) Write(context.Context, []byte) error {
	return &transport.WriteError{Err: errors.New("broken pipe")}
}

// The connection may be lost while a request is sent. The context of the request then ends, and the
// error names the cause.
func TestUnsentMessagesHaveTheCause(t *testing.T) {
	c, _, _ := newClient(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(call.ErrConnectionLost)
	err := c.Send(ctx, &outbound.Outgoing{Message: []byte("{}")})
	must.CheckIs(t, err, call.ErrNotSent)
	must.CheckIs(t, err, call.ErrConnectionLost)
}

func TestSendReportsUnsentMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _ := newClient(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var err error
		for err == nil { // until the pipe is full
			err = c.Send(ctx, &outbound.Outgoing{Message: []byte("{}")})
		}
		must.CheckIs(t, err, call.ErrNotSent)
		must.CheckIs(t, err, context.DeadlineExceeded)
		c.Close()
		must.CheckIs(t, c.Send(t.Context(), &outbound.Outgoing{Message: []byte("{}")}), call.ErrClosed)
	})
}

// recorder is a receiver that records what it receives.
type recorder struct {
	lines chan string
}

func (o recorder) Receive(m *jsonrpc.Message)             { o.lines <- fmt.Sprint(m.Method, m.ID) }
func (o recorder) ReceiveInvalid(*jsonrpc.Message, error) { o.lines <- "invalid" }
func (o recorder) Lost(error)                             { close(o.lines) }

// Rules J7, J8: the client accepts batches only in the revision that has them.
func TestClientAcceptsBatchesOf20250326Only(t *testing.T) {
	for _, r := range mcp.Revisions() {
		t.Run(string(r), func(t *testing.T) {
			near, far := transport.Pipe()
			received := recorder{make(chan string, 16)}
			c := streamclient.NewClient(near, received, jsonrpc.Limits{})
			c.SetRevision(r)
			for _, message := range []string{
				`[{"jsonrpc":"2.0","method":"a"},7,{"jsonrpc":"2.0","id":3,"result":{}}]`, `[]`,
				`{"jsonrpc":"2.0","method":"last"}`,
			} {
				must.Do(t, far.Write(t.Context(), []byte(message)))
			}
			want := "invalid invalid last"
			if r == mcp.V20250326 {
				want = "a invalid 3 invalid last"
			}
			var got []string
			for line := range received.lines {
				if got = append(got, line); line == "last" {
					break
				}
			}
			must.CheckEqual(t, strings.Join(got, " "), want, got)
			must.Check(t, c.Close())
		})
	}
}
