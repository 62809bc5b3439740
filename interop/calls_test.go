//go:build integration

//lint:file-ignore SA1019 These tests use deprecated features.

package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// offerCalls adds tools for cancellation and logging, and the method of an extension.
func offerCalls(s *server.Server) {
	var cancelled atomic.Int64
	server.AddTool(s, mcp.Tool{Name: "wait", Description: "Wait to be cancelled"}, func(ctx context.Context, _ struct{}) (string, error) {
		if err := server.Progress(ctx, 1, 0, ""); err != nil {
			return "", err
		}
		<-ctx.Done()
		cancelled.Add(1)
		return "", ctx.Err()
	})
	server.AddTool(s, mcp.Tool{Name: "cancelled", Description: "The number of cancelled calls of wait"}, func(context.Context, struct{}) (string, error) {
		return fmt.Sprint(cancelled.Load()), nil
	})
	server.AddTool(s, mcp.Tool{Name: "talk", Description: "Log at four levels"}, func(ctx context.Context, _ struct{}) (string, error) {
		for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
			server.Logger(ctx).WithGroup("interop").Log(ctx, level, "this is "+level.String())
		}
		return "logged", nil
	})
	server.AddExtension(s, server.Extension{ID: shouting, Requests: map[string]server.ExtensionRequest{
		shoutMethod: func(_ context.Context, params json.RawMessage) (any, error) {
			var in struct{ Text string }
			if err := json.Unmarshal(params, &in); err != nil {
				return nil, err
			}
			return map[string]string{"shouted": strings.ToUpper(in.Text)}, nil
		},
	}})
}

// useCalls cancels a call, calls tools that log and ping, and calls the method of an extension.
func useCalls(t *testing.T, p *peer) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := p.CallTool(ctx, "wait", nil, client.WithProgress(func(float64, float64, string) { cancel() }))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled call: %v", err)
	}
	for text := ""; text != "1"; { // until the cancellation has arrived
		if text, err = client.CallTool[string](t.Context(), p.Client, "cancelled", nil); err != nil {
			t.Fatalf("cancelled: %q, %v", text, err)
		}
	}

	if err := p.SetLogLevel(t.Context(), mcp.LevelWarning); err != nil {
		t.Fatal(err)
	}
	if _, err := p.CallTool(t.Context(), "talk", nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []mcp.LoggingLevel{mcp.LevelWarning, mcp.LevelError} {
		if got := await(t, p.logged); got.Level != want || got.Logger != "interop" || !json.Valid(got.Data) {
			t.Errorf("logged %+v, want a message at level %s", got, want)
		}
	}

	if p.Revision() < mcp.V20260728 { // 2026-07-28 has no pings
		if text, err := client.CallTool[string](t.Context(), p.Client, "ping", nil); err != nil || text != "pong" {
			t.Errorf("ping by the server: %q, %v", text, err)
		}
	}

	shouted, err := client.CallExtension[struct {
		Shouted string `json:"shouted"`
	}](t.Context(), p.Client, shoutMethod, map[string]string{"text": "hey"})
	if err != nil || shouted.Shouted != "HEY" {
		t.Errorf("a method of an extension: %+v, %v", shouted, err)
	}
}

// The extension "shouting" has one method.
const (
	shouting    = "com.example/shouting"
	shoutMethod = "com.example/shout"
)

// loggedMessage is a log message that a client peer received.
type loggedMessage struct {
	Level, Logger string
	Data          json.RawMessage
}

// callsObservation is what a client peer reports about cancellation, logging, pings and the extension.
type callsObservation struct {
	Error     *observedError
	Wait      callObservation
	Cancelled callObservation
	Logs      []loggedMessage
	Ping      *struct{ Error *observedError }
	Shout     *struct { // nil through a gateway, which does not forward it
		Shouted string
		Error   *observedError
	}
}

func (o callsObservation) check(t *testing.T, revision string) {
	t.Helper()
	if o.Error != nil {
		t.Fatalf("calls: %+v", o.Error)
	}
	if o.Wait.Error == nil || o.Cancelled.text() != "1" {
		t.Errorf("a cancelled call: %+v; cancelled calls at the server: %q, want 1", o.Wait, o.Cancelled.text())
	}
	var levels []string
	for _, log := range o.Logs {
		levels = append(levels, log.Level)
	}
	if !slices.Equal(levels, []string{"warning", "error"}) {
		t.Errorf("logged: %+v, want a warning and an error", o.Logs)
	}
	if revision < "2026-07-28" && (o.Ping == nil || o.Ping.Error != nil) {
		t.Errorf("ping: %+v", o.Ping)
	}
	if o.Shout != nil && o.Shout.Shouted != "HEY" {
		t.Errorf("a method of an extension: %+v", o.Shout)
	}
}

// Node closes connections that are idle for five seconds, and a Go server may do the same without an announcement.
// Calls that clients send around that time arrive.
func TestNoCallIsLostWhenServersCloseIdleConnections(t *testing.T) {
	t.Parallel()
	ours := httptest.NewUnstartedServer(newServer())
	ours.Config.IdleTimeout = 5 * time.Second
	ours.Start()
	defer ours.Close()
	urls := []string{listen(t, node(t, "v1-server.mjs", "http", "0")), ours.URL}
	var calls sync.WaitGroup
	for i := range 40 {
		c := dial(t, new(client.Dialer), client.URL(urls[i%2]))
		calls.Go(func() {
			<-time.After(4900*time.Millisecond + time.Duration(i)*5*time.Millisecond)
			if _, err := client.CallTool[string](t.Context(), c, "echo", map[string]string{"text": "a"}); err != nil {
				t.Errorf("client %d: %v", i, err)
			}
		})
	}
	calls.Wait()
}
