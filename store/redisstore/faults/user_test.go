//go:build integration && unix

//lint:file-ignore SA1019 These tests use deprecated features.

package faults

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/ledger"
	"github.com/parley-mcp/parley/mcp"
)

// wire is a revision of the protocol over HTTP.
type wire struct {
	name     string
	revision mcp.Revision
	pair     bool // the HTTP+SSE pair of 2024-11-05
}

// wires are all that clients use.
var wires = []wire{
	{"2024-11-05", mcp.V20241105, true},
	{"2025-03-26", mcp.V20250326, false},
	{"2025-06-18", mcp.V20250618, false},
	{"2025-11-25", mcp.V20251125, false},
	{"2026-07-28", mcp.V20260728, false},
}

// user is a client with its own principal.
type user struct {
	*client.Client
	fleet *fleet
	wire  wire
	name  string
	logs  chan string // messages of the server's log
}

// callTime is the time for one call. It is longer than a lease, so that only a call that hangs needs it.
const callTime = 45 * time.Second

// dial connects a new user through the proxy.
func (f *fleet) dial(t testing.TB, w wire, change ...func(*client.Dialer)) *user {
	t.Helper()
	u := f.newUser(w)
	u.connect(t, f.proxy.url, change...)
	return u
}

func (f *fleet) newUser(w wire) *user {
	return &user{fleet: f, wire: w, name: fmt.Sprintf("user-%d", f.users.Add(1)), logs: make(chan string, 16)}
}

// connect connects the user to a URL. The connection ends with the test.
func (u *user) connect(t testing.TB, url string, change ...func(*client.Dialer)) {
	t.Helper()
	c, err := u.tryConnect(url, change...)
	if err != nil {
		t.Fatal(err)
	}
	u.Client = c
	t.Cleanup(func() { _ = c.Close() })
}

func (u *user) tryConnect(url string, change ...func(*client.Dialer)) (*client.Client, error) {
	target := &client.HTTPTarget{URL: url, Header: http.Header{"Authorization": {"Bearer " + u.name}}}
	d := &client.Dialer{
		Name: u.name, Revision: u.wire.revision, Logger: slog.New(slog.DiscardHandler),
		Elicit: func(_ context.Context, question *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			u.fleet.ledger.Received(u.name, question.Message)
			return mcp.AcceptElicit(form{u.name})
		},
		Sample: func(_ context.Context, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
			if text, ok := params.Messages[0].Content[0].(*mcp.TextContent); ok {
				u.fleet.ledger.Received(u.name, text.Text)
			}
			return &mcp.CreateMessageResult{Role: "assistant", Model: "test", Content: []mcp.Content{mcp.Text(u.name)}}, nil
		},
		Roots: func(context.Context) ([]mcp.Root, error) { return []mcp.Root{{URI: "file:///" + u.name}}, nil },
		OnLog: func(_ context.Context, m mcp.LoggingMessageParams) {
			select {
			case u.logs <- string(m.Data):
			default:
			}
		},
	}
	if u.wire.pair {
		d.Discovery = &client.Discovery{Target: target.String(), Revision: u.wire.revision, HTTPWithSSE: true, ReceivedAt: time.Now()}
	}
	for _, f := range change {
		f(d)
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	return d.Dial(ctx, target)
}

// call calls a tool and records the outcome. It returns the error of a call that has failed.
func (u *user) call(ctx context.Context, tool string, in arguments, options ...client.CallOption) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	return u.callUntil(ctx, tool, in, options...)
}

// progress calls f, if it is set, with each progress notification, and records it.
func (u *user) progress(f func(done float64)) client.CallOption {
	return client.WithProgress(func(done, _ float64, nonce string) {
		if nonce != "" || u.wire.revision >= mcp.V20250326 { // 2024-11-05 has no message
			u.fleet.ledger.Received(u.name, nonce)
		}
		if f != nil {
			f(done)
		}
	})
}

// callUntil is like call, with the deadline of ctx.
func (u *user) callUntil(ctx context.Context, tool string, in arguments, options ...client.CallOption) error {
	c := u.issue(ctx)
	in.Nonce = c.Nonce()
	if tool == "job-replayed" || u.fleet.forgets && recordsOnce(tool) {
		c.MayRepeat()
	}
	text, err := client.CallTool[string](ctx, u.Client, tool, in, options...)
	if err != nil {
		c.Failed(err)
		return fmt.Errorf("%s: %w", tool, err)
	}
	u.returned(c, text)
	return nil
}

// issue records a call that must end with ctx.
func (u *user) issue(ctx context.Context) ledger.Call {
	deadline, _ := ctx.Deadline()
	return u.fleet.ledger.Issue(u.name, deadline)
}

// returned records the result of a call. The tools that ask return the nonce and the name of the user who has answered.
func (u *user) returned(c ledger.Call, text string) {
	nonce, name, asked := strings.Cut(text, " ")
	c.Returned(nonce)
	if asked {
		u.fleet.ledger.Received(name, c.Nonce())
	}
}
