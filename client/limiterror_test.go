package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// excesses are results that exceed a limit, by its name.
func excesses() map[string]string {
	var members strings.Builder
	for i := range 10_001 {
		fmt.Fprintf(&members, `,"%d":0`, i)
	}
	result := func(value string) string { return `"result":{"content":[],"structuredContent":` + value + `}` }
	return map[string]string{
		"MaxMembers": result("{" + members.String()[1:] + "}"),
		"MaxDepth":   result(strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200)),
		"MaxTokens":  result(`{"a":[0` + strings.Repeat(",0", 1_000_000) + `]}`),
	}
}

// patient returns a Dialer whose calls wait for an hour.
func patient() client.Dialer {
	d := quiet()
	d.Timeouts.Tool = time.Hour
	return d
}

// answeringCalls returns servers for every form of a response over HTTP. They answer tools/call with body.
func answeringCalls(body string) map[string]*mock {
	all := func(handshake string, opened, called reply) map[string][]reply {
		return map[string][]reply{handshake: {opened}, "tools/call": {called}}
	}
	whole := reply{status: 200, body: body}
	event := reply{status: 200, kind: "text/event-stream", body: "data: " + body + "\n\n"}
	old := strings.ReplaceAll(initialized, "2025-06-18", "2024-11-05")
	return map[string]*mock{
		"JSON, 2026-07-28":         {answers: all("server/discover", ok(discovered), whole), otherwise: status(404, "")},
		"event stream, 2026-07-28": {answers: all("server/discover", ok(discovered), event), otherwise: status(404, "")},
		"JSON, session":            {answers: all("initialize", ok(initialized), whole), otherwise: status(404, "")},
		"event stream, session":    {answers: all("initialize", ok(initialized), event), otherwise: status(404, "")},
		"pair":                     {answers: all("initialize", ok(old), whole), otherwise: status(404, ""), streams: make(chan string, 10)},
	}
}

// The call that waits for a response over a limit fails with that limit, on every transport
// and in both eras.
func TestResponseOverALimitEndsItsCall(t *testing.T) {
	for name, result := range excesses() {
		check := func(t *testing.T, how string, c *client.Client, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err = c.CallTool(ctx, "a", nil)
			var limit *jsonrpc.LimitError
			if !errors.As(err, &limit) || limit.Name != name || !errors.Is(err, call.ErrInvalidResponse) {
				t.Errorf("%s: %v", how, err)
			}
		}
		t.Run(name, func(t *testing.T) {
			for _, s := range []*script{modernServer(), legacyServer()} {
				synctest.Test(t, func(t *testing.T) {
					s.Answers["tools/call"] = []string{result}
					to, _ := target(s)
					d := patient()
					c, err := d.Dial(t.Context(), to)
					check(t, "stream", c, err)
				})
			}
			for how, m := range answeringCalls(ok(result).body) {
				c, err := m.dial(t, patient())
				check(t, how, c, err)
			}
		})
	}
}

// The calls that wait for the responses of a batch over a limit fail (2025-03-26, basic,
// Batching).
func TestBatchOverALimitEndsItsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{Answers: answers("initialize", strings.ReplaceAll(initialized, "2025-06-18", "2025-03-26")), Otherwise: methodNotFound}
		s.Answers["tools/call"] = []string{"", "!lines [" + strings.Repeat(`{"jsonrpc":"2.0","id":99,"result":{}},`, 100) +
			`{"jsonrpc":"2.0","id":2,` + called + `},{"jsonrpc":"2.0","id":$id,` + called + `}]`}
		to, _ := target(s)
		d := patient()
		d.Revision = mcp.V20250326
		c, err := d.Dial(t.Context(), to)
		if err != nil {
			t.Fatal(err)
		}
		var calls sync.WaitGroup
		for range 2 {
			calls.Go(func() {
				begin := time.Now()
				_, err := c.CallTool(t.Context(), "a", nil)
				var limit *jsonrpc.LimitError
				if !errors.As(err, &limit) || limit.Name != "MaxBatch" || time.Since(begin) > 0 {
					t.Errorf("after %v: %v", time.Since(begin), err)
				}
			})
			synctest.Wait()
		}
		calls.Wait()
		c.Close()
	})
}

// Messages that the client cannot use do not fill the log, and the log has their number.
func TestUnusableMessagesDoNotFillTheLog(t *testing.T) {
	const (
		lines   = 10_000
		request = `{"jsonrpc":"2.0","id":"x","method":"sampling/createMessage","params":{}}`
	)
	for _, flood := range []string{"no message", `{"jsonrpc":"2.0","method":"m","params":[]}`, `{"jsonrpc":"2.0","id":"x","result":7}`, `{"jsonrpc":"2.0","id":"x","result":{}}`, request} {
		servers := []*script{modernServer(), legacyServer()}
		if flood == request {
			servers = servers[:1] // a session has requests of the server
		}
		for _, s := range servers {
			synctest.Test(t, func(t *testing.T) {
				s.Answers["tools/call"] = []string{"!lines " + strings.Repeat(flood+"\n", lines) + `{"jsonrpc":"2.0","id":$id,` + called + `}`}
				to, _ := target(s)
				var log bytes.Buffer
				d := quiet()
				d.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
				c, err := d.Dial(t.Context(), to)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := c.CallTool(t.Context(), "a", nil); err != nil {
					t.Errorf("%s: %v", flood, err)
				}
				c.Close()
				written := strings.Count(log.String(), "\n")
				if written > 100 {
					t.Errorf("%s: the log has %d lines", flood, written)
				}
				if omitted := fmt.Sprintf("not_logged=%d", lines-(written-1)); written > 0 && !strings.Contains(log.String(), omitted) {
					t.Errorf("%s: the log lacks %s: %s", flood, omitted, log.String()[max(0, log.Len()-300):])
				}
			})
		}
	}
}

// A request of the server over a limit is answered, since the server waits for it.
func TestRequestOfTheServerOverALimitIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := legacyServer()
		s.Answers["tools/call"] = []string{`!lines {"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":` + strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200) + `}
{"jsonrpc":"2.0","id":$id,` + called + `}`}
		c, rec := dial(t, s)
		if _, err := c.CallTool(t.Context(), "a", nil); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		c.Close()
		if received := rec.methods(); !strings.Contains(received, `response {"jsonrpc":"2.0","id":"s","error":{"code":-32700,"message":"invalid message: nested too deeply`) {
			t.Errorf("the server received %s", received)
		}
	})
}
