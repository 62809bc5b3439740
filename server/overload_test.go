package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// checkOverload checks the JSON-RPC error of a request that a limit has rejected.
func checkOverload(t *testing.T, name, response, limit string) {
	t.Helper()
	var m struct {
		Error struct {
			Code    int64
			Message string
			Data    struct{ RetryAfterMs int64 }
		}
	}
	if err := json.Unmarshal([]byte(response), &m); err != nil || m.Error.Code != -32603 || m.Error.Data.RetryAfterMs <= 0 || !strings.HasPrefix(m.Error.Message, "too many "+limit) {
		t.Errorf("%s: %s, want too many %s with retryAfterMs", name, response, limit)
	}
}

// Each limit rejects requests with the same error on every wire. Over HTTP the status is 429 or
// 503 with Retry-After. The limit is logged.
func TestOverloadHasOneErrorOnEveryWire(t *testing.T) {
	const waiting = `"name":"wait"`
	newServer := func(log *bytes.Buffer, l server.Limits) *server.Server {
		s := httpServer()
		s.Limits, s.Logger = l, slog.New(slog.NewTextHandler(log, nil))
		return s
	}
	logged := func(t *testing.T, log *bytes.Buffer, limit string) {
		t.Helper()
		if !strings.Contains(log.String(), "overload: ") || !strings.Contains(log.String(), "limit="+strconv.Quote(limit)) && !strings.Contains(log.String(), "limit="+limit) {
			t.Errorf("the log does not name the limit %q: %s", limit, log)
		}
	}
	over := func(t *testing.T, name string, a answer, status int, limit string) {
		t.Helper()
		if seconds, err := strconv.Atoi(a.header.Get("Retry-After")); a.status != status || err != nil || seconds < 1 {
			t.Errorf("%s: %s, want status %d", name, a, status)
		}
		checkOverload(t, name, a.body, limit)
	}

	t.Run("rate of calls", func(t *testing.T) {
		var log bytes.Buffer
		onEverySurface(t, func() *server.Server {
			return newServer(&log, server.Limits{CallsPerSecond: 0.001, CallBurst: 1})
		}, func(t *testing.T, s surface) {
			s.ask(1, mcp.MethodCallTool, `"name":"echo","arguments":{"text":"x"}`)
			checkOverload(t, "call", s.ask(2, mcp.MethodCallTool, `"name":"echo","arguments":{"text":"x"}`), "calls")
		})
		logged(t, &log, "calls")
		e := endpointOf(t, newServer(&log, server.Limits{CallsPerSecond: 0.001, CallBurst: 1}))
		session := e.session("2025-11-25")
		call := message(mcp.V20251125, 1, mcp.MethodCallTool, `"name":"echo","arguments":{"text":"x"}`)
		e.do("POST", "/", call, session...)
		over(t, "session", e.do("POST", "/", call, session...), http.StatusTooManyRequests, "calls")
		e.modern("1", mcp.MethodCallTool, `"name":"echo","arguments":{"text":"x"}`)
		over(t, "stateless", e.modern("1", mcp.MethodCallTool, `"name":"echo","arguments":{"text":"x"}`), http.StatusTooManyRequests, "calls")
	})

	t.Run("rate of lists", func(t *testing.T) {
		var log bytes.Buffer
		onEverySurface(t, func() *server.Server {
			return newServer(&log, server.Limits{ListsPerSecond: 0.001, ListBurst: 1})
		}, func(t *testing.T, s surface) {
			s.ask(1, mcp.MethodListTools, "")
			checkOverload(t, "list", s.ask(2, mcp.MethodListTools, ""), "requests for lists")
			if response := s.ask(3, mcp.MethodCallTool, `"name":"echo","arguments":{"text":"x"}`); strings.Contains(response, `"error"`) {
				t.Errorf("a call counts as a list: %s", response)
			}
		})
		e := endpointOf(t, newServer(&log, server.Limits{ListsPerSecond: 0.001, ListBurst: 1}))
		e.modern("1", mcp.MethodListResources, "")
		over(t, "other list", e.modern("1", mcp.MethodDiscover, ""), http.StatusTooManyRequests, "requests for lists")
	})

	t.Run("requests in flight", func(t *testing.T) {
		var log bytes.Buffer
		s := newServer(&log, server.Limits{MaxInflight: 1, InflightPerAddress: 1})
		calls := addWait(s)
		e := endpointOf(t, s)
		session := e.session("2025-03-26")
		pair := e.pair("/")
		e.do("POST", pair.endpoint, fmt.Sprintf(wiretest.Initialize, "2024-11-05"))
		pair.Data()
		body, header := wiretest.Modern("1", mcp.MethodCallTool, waiting)
		for name, send := range map[string]func() answer{
			"stateless": func() answer { return e.do("POST", "/", body, header...) },
			"session":   func() answer { return e.do("POST", "/", fmt.Sprintf(waitCall, 1), session...) },
			"batch":     func() answer { return e.do("POST", "/", "["+fmt.Sprintf(waitCall, 1)+"]", session...) },
			"pair":      func() answer { return e.do("POST", pair.endpoint, fmt.Sprintf(waitCall, 1)) },
		} {
			log.Reset()
			first := make(chan answer, 1)
			go func() { first <- send() }()
			w := <-calls
			over(t, name, send(), http.StatusTooManyRequests, "requests in flight")
			logged(t, &log, "requests in flight")
			close(w.release)
			<-first
			if name == "pair" {
				pair.Data()
			}
		}
	})

	t.Run("sessions", func(t *testing.T) {
		var log bytes.Buffer
		e := endpointOf(t, newServer(&log, server.Limits{SessionsPerAddress: 1}))
		e.session("2025-11-25")
		over(t, "session", e.do("POST", "/", fmt.Sprintf(wiretest.Initialize, "2025-11-25")), http.StatusServiceUnavailable, "sessions")
		logged(t, &log, "sessions")
	})

	t.Run("subscriptions", func(t *testing.T) {
		var log bytes.Buffer
		s := newServer(&log, server.Limits{})
		l := connectLine(t, s)
		for i := range 65 {
			l.Send(message(mcp.V20260728, i+1, mcp.MethodListen, `"notifications":{}`))
			response := l.Receive()
			if i == 64 {
				checkOverload(t, "stream", response, "subscriptions")
			}
		}
		logged(t, &log, "subscriptions")
	})
}

// A handler can reject calls because of a limit of its own.
func TestAHandlerReportsOverload(t *testing.T) {
	limited := func() *server.Server {
		s := httpServer()
		server.AddResource(s, mcp.Resource{URI: "test:r", Name: "r"}, func(context.Context) (string, error) {
			return "", &call.OverloadError{Limit: "printers in use", RetryAfter: time.Second}
		})
		return s
	}
	onEverySurface(t, limited, func(t *testing.T, s surface) {
		checkOverload(t, "read", s.ask(1, mcp.MethodReadResource, `"uri":"test:r"`), "printers")
	})
}
