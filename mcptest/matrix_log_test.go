//lint:file-ignore SA1019 deprecated features must still work

package mcptest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// journal records the log messages that a client receives.
type journal struct {
	mu       sync.Mutex
	messages []mcp.LoggingMessageParams
}

func (j *journal) configure(d *client.Dialer) {
	d.OnLog = func(_ context.Context, m mcp.LoggingMessageParams) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.messages = append(j.messages, m)
	}
}

// take returns and removes the recorded messages, as lines of level, logger and data.
func (j *journal) take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var lines []string
	for _, m := range j.messages {
		lines = append(lines, fmt.Sprintf("%s %s %s", m.Level, m.Logger, m.Data))
	}
	j.messages = nil
	return lines
}

// logging returns a server with a tool that logs.
func logging() *server.Server {
	s := newServer()
	server.AddTool(s, mcp.Tool{Name: "log", Description: "Logs at every level."}, func(ctx context.Context, _ struct{}) (string, error) {
		log := server.Logger(ctx).WithGroup("db").With("host", "here")
		for _, level := range []slog.Level{
			slog.LevelDebug, slog.LevelInfo, server.LevelNotice, slog.LevelWarn,
			slog.LevelError, server.LevelCritical, server.LevelAlert, server.LevelEmergency,
		} {
			log.Log(context.Background(), level, "connected", "n", int(level))
		}
		return "logged", nil
	})
	return s
}

func logLevels(lines []string) string {
	var levels []string
	for _, line := range lines {
		level, _, _ := strings.Cut(line, " ")
		levels = append(levels, level)
	}
	return strings.Join(levels, " ")
}

// Rule Y4: a client receives messages of the level that it has set and above. Before it has set
// one it receives none in 2026-07-28, and messages of level info and above in older
// revisions.
func TestLogMessagesFollowLevelOfClient(t *testing.T) {
	const all = "debug info notice warning error critical alert emergency"
	var j journal
	everywhere(t, logging, func(t *testing.T, c *client.Client) {
		j.take()
		expect := func(want string) []string {
			t.Helper()
			if text, err := client.CallTool[string](t.Context(), c, "log", nil); err != nil || text != "logged" {
				t.Fatal(text, err)
			}
			lines := j.take() // the messages of a call arrive before its response
			if got := logLevels(lines); got != want {
				t.Errorf("levels %q, want %q", got, want)
			}
			return lines
		}
		if c.Revision().Modern() {
			expect("")
		} else {
			expect("info notice warning error critical alert emergency")
		}
		for from, level := range mcp.LoggingLevels() {
			if err := c.SetLogLevel(t.Context(), level); err != nil {
				t.Fatal(err)
			}
			expect(strings.Join(strings.Fields(all)[from:], " "))
		}
		if err := c.SetLogLevel(t.Context(), mcp.LevelEmergency); err != nil {
			t.Fatal(err)
		}
		if lines := expect("emergency"); lines[0] != `emergency db {"host":"here","message":"connected","n":20}` {
			t.Errorf("the message is %s", lines[0])
		}
		if c.Server().Capabilities.Logging == nil {
			t.Error("the logging capability is not declared")
		}
	}, j.configure)
}

func TestClientRejectsUnknownLogLevel(t *testing.T) {
	everywhere(t, logging, func(t *testing.T, c *client.Client) {
		if err := c.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.SetLogLevel(t.Context(), "loud"); err == nil {
			t.Error("SetLogLevel accepts an unknown level")
		}
	})
}

// Rule Y4: the rate of log messages is limited. The client receives the number of omitted
// messages.
func TestRateOfLogMessagesIsLimited(t *testing.T) {
	const flood = 2000
	flooding := func() *server.Server {
		s := newServer()
		server.AddTool(s, mcp.Tool{Name: "flood", Description: "Logs too much."}, func(ctx context.Context, _ struct{}) (string, error) {
			for i := range flood {
				server.Logger(ctx).Warn("again", "i", i)
			}
			return "done", nil
		})
		return s
	}
	var j journal
	everywhere(t, flooding, func(t *testing.T, c *client.Client) {
		if err := c.SetLogLevel(t.Context(), mcp.LevelWarning); err != nil {
			t.Fatal(err)
		}
		j.take()
		if _, err := client.CallTool[string](t.Context(), c, "flood", nil); err != nil {
			t.Fatal(err)
		}
		sent, lost := 0, 0
		for _, line := range j.take() {
			var data struct {
				I     *int
				Count int
			}
			if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "warning  ")), &data); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if data.I != nil {
				sent++
			}
			lost += data.Count
		}
		if sent+lost != flood || lost == 0 {
			t.Errorf("%d messages were sent and %d reported as omitted, want %d together", sent, lost, flood)
		}
	}, j.configure)
}

// In 2026-07-28 the handler runs again with the answer. Messages from before the question
// must not be sent again.
func TestReplayDoesNotRepeatLogMessages(t *testing.T) {
	replaying := func() *server.Server {
		s := newServer()
		server.AddTool(s, mcp.Tool{Name: "order", Description: "Asks in between."}, func(ctx context.Context, _ struct{}) (string, error) {
			log := server.Logger(ctx)
			log.Error("before")
			answer, err := question(ctx, "what?")
			if err != nil {
				log.Error("must not be sent")
				return "", err
			}
			log.Error("after")
			return answer, nil
		})
		return s
	}
	var j journal
	everywhere(t, replaying, func(t *testing.T, c *client.Client) {
		if err := c.SetLogLevel(t.Context(), mcp.LevelError); err != nil {
			t.Fatal(err)
		}
		j.take()
		if _, err := client.CallTool[string](t.Context(), c, "order", nil); err != nil {
			t.Fatal(err)
		}
		want := `[error  {"message":"before"} error  {"message":"after"}]`
		if got := fmt.Sprint(j.take()); got != want {
			t.Errorf("received %s, want %s", got, want)
		}
	}, answering, j.configure)
}

func TestLoggerOfFinishedCallSendsNothing(t *testing.T) {
	loggers := make(chan *slog.Logger, 1)
	late := func() *server.Server {
		s := newServer()
		server.AddTool(s, mcp.Tool{Name: "leak", Description: "Leaks its logger."}, func(ctx context.Context, _ struct{}) (string, error) {
			loggers <- server.Logger(ctx)
			return "", nil
		})
		return s
	}
	var j journal
	everywhere(t, late, func(t *testing.T, c *client.Client) {
		if err := c.SetLogLevel(t.Context(), mcp.LevelDebug); err != nil {
			t.Fatal(err)
		}
		if _, err := c.CallTool(t.Context(), "leak", nil); err != nil {
			t.Fatal(err)
		}
		log := <-loggers
		if log.Enabled(t.Context(), slog.LevelError) {
			t.Error("the logger of a finished call is enabled")
		}
		log.Error("too late")
		if err := c.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		if lines := j.take(); len(lines) > 0 {
			t.Errorf("received %s", lines)
		}
	}, j.configure)
}

// When a session is lost, the client sets the level again in the new session.
func TestLogLevelSurvivesLossOfSession(t *testing.T) {
	for _, r := range []mcp.Revision{mcp.V20250326, mcp.V20250618, mcp.V20251125} {
		t.Run(string(r), func(t *testing.T) {
			var session atomic.Value // the session of the last request
			s := logging()
			endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				session.Store(r.Header.Get("Mcp-Session-Id"))
				s.ServeHTTP(w, r)
			}))
			defer endpoint.Close()
			var j journal
			d := &client.Dialer{Revision: r}
			j.configure(d)
			c, err := d.Dial(t.Context(), client.URL(endpoint.URL))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := c.SetLogLevel(t.Context(), mcp.LevelAlert); err != nil {
				t.Fatal(err)
			}
			if _, err := c.CallTool(t.Context(), "log", nil); err != nil {
				t.Fatal(err)
			}
			if got := logLevels(j.take()); got != "alert emergency" {
				t.Errorf("levels %q", got)
			}

			first := session.Load().(string)
			end, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, endpoint.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			end.Header.Set("Mcp-Session-Id", first)
			resp, err := http.DefaultClient.Do(end)
			if err != nil || resp.StatusCode != http.StatusNoContent {
				t.Fatal(resp, err)
			}
			resp.Body.Close()
			if _, err := c.CallTool(t.Context(), "log", nil); err != nil {
				t.Fatal(err)
			}
			if last := session.Load().(string); last == first {
				t.Fatal("the session has not been replaced")
			}
			if got := logLevels(j.take()); got != "alert emergency" {
				t.Errorf("levels %q in the new session", got)
			}
		})
	}
}

func TestServerRejectsInvalidLogLevel(t *testing.T) {
	const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":`
	for name, message := range map[string]string{
		"unknown level":          `{"jsonrpc":"2.0","id":"x","method":"logging/setLevel","params":{"level":"loud"}}`,
		"no level":               `{"jsonrpc":"2.0","id":"x","method":"logging/setLevel","params":{}}`,
		"a number":               `{"jsonrpc":"2.0","id":"x","method":"logging/setLevel","params":{"level":3}}`,
		"request, unknown level": `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"log",` + modernMeta + `"loud"}}}`,
		"request, a number":      `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"log",` + modernMeta + `3}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			p := newRawPeer(t, logging(), mcp.V20251125)
			if got := p.Ask(message); !strings.Contains(got, `"code":-32602`) {
				t.Errorf("response to %s: %s", message, got)
			}
			if got := p.Ask(`{"jsonrpc":"2.0","id":"x","method":"logging/setLevel","params":{"level":"alert"}}`); got != `{"jsonrpc":"2.0","id":"x","result":{}}` {
				t.Errorf("response to a valid level: %s", got)
			}
		})
	}
	p := newRawPeer(t, logging(), mcp.V20251125)
	if got := p.Ask(`{"jsonrpc":"2.0","id":"x","method":"logging/setLevel","params":{"level":"alert",` + modernMeta + `"alert"}}}`); !strings.Contains(got, `"code":-32601`) {
		t.Errorf("response in 2026-07-28, which does not have the method: %s", got)
	}
}

// newRawPeer returns a peer after the handshake.
func newRawPeer(t *testing.T, s *server.Server, r mcp.Revision) *wiretest.Peer {
	t.Helper()
	p := wiretest.Connect(t, s.ServeConn)
	p.Handshake(string(r))
	return p
}
