package legacy

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
)

// replying returns a client whose first replies fail with the errors, after it has received a request of the server.
func replying(t *testing.T, failures ...error) (*Client, *wire) {
	t.Helper()
	attempt := 0
	answer := func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(`{"roots":[]}`), nil
	}
	c, w := newClient(t, answer, func(context.Context, *rpc.Outgoing) (string, error) {
		attempt++
		if attempt <= len(failures) {
			return "", failures[attempt-1]
		}
		return "", nil
	})
	m, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":7,"method":"roots/list"}`), jsonrpc.Limits{})
	if err != nil {
		t.Fatal(err)
	}
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
			if got := <-w.sent; got != `{"jsonrpc":"2.0","id":7,"result":{"roots":[]}}` {
				t.Errorf("%s", got)
			}
		}
		time.Sleep(2 * replyTimeout)
		if n := len(w.sent); n != 0 {
			t.Errorf("%d more replies", n)
		}
	})
}

func TestRepliesAreNotRepeatedForPermanentErrors(t *testing.T) {
	for name, failure := range map[string]error{
		"status 400": &call.StatusError{Status: 400}, "status 500": &call.StatusError{Status: 500}, "another error": errors.New("broken"),
	} {
		synctest.Test(t, func(t *testing.T) {
			_, w := replying(t, failure)
			time.Sleep(2 * replyTimeout)
			if n := len(w.sent); n != 1 {
				t.Errorf("%s: %d replies, want 1", name, n)
			}
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
		if n := len(w.sent); n < 5 || n > 20 {
			t.Errorf("%d replies in %v", n, replyTimeout)
		}
		if n := len(c.replies); n != 0 {
			t.Errorf("%d replies are in progress", n)
		}
	})
}

// A byte stream that has ended accepts no more replies.
func TestRepliesEndWithTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := newClient(t, nil, func(context.Context, *rpc.Outgoing) (string, error) { return "", call.ErrConnectionLost })
		c.Lost(call.ErrConnectionLost)
		c.reply([]byte("{}"))
		time.Sleep(2 * replyTimeout)
		if n := len(w.sent); n != 1 {
			t.Errorf("%d replies, want 1", n)
		}
	})
}
