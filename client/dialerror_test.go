package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

func TestDialErrorHasStageAndAdvice(t *testing.T) {
	// An address without a listener.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	answering := func(status int, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, body, status) }))
		t.Cleanup(s.Close)
		return s.URL
	}
	moved := httptest.NewServer(http.RedirectHandler("http://moved.example/mcp?key=secret", http.StatusPermanentRedirect))
	defer moved.Close()
	mismatch := modernServer()
	mismatch.Answers["server/discover"] = []string{`"error":{"code":-32020,"message":"no"}`}
	newer, _ := target(mismatch)
	rejecting := legacyServer()
	rejecting.Answers["initialize"] = []string{`"error":{"code":-32603,"message":"try tomorrow"}`}
	older, _ := target(rejecting)
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	script := filepath.Join(t.TempDir(), "server")
	if err := os.WriteFile(script, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		target client.Target
		stage  client.DialStage
		is     error
		want   string
	}{
		"invalid URL":        {client.URL("localhost"), client.StageTarget, nil, "must begin with http"},
		"missing command":    {client.Command("no-such-program-anywhere"), client.StageConnect, exec.ErrNotFound, "install the command"},
		"connection refused": {client.URL("http://" + l.Addr().String()), client.StageConnect, client.ErrConnectionLost, "check that the server is running"},
		"no credentials":     {client.URL(answering(401, "no")), client.StageDiscover, nil, "send credentials"},
		"credentials by hand": {
			&client.HTTPTarget{URL: answering(403, "no"), Header: http.Header{"X-Api-Key": {"secret"}}}, client.StageDiscover, nil,
			"HTTP status 403 Forbidden, although the request has the header X-Api-Key; use credentials",
		},
		"moved":              {client.URL(moved.URL), client.StageDiscover, nil, "HTTP status 308 Permanent Redirect to http://moved.example/mcp; if you trust"},
		"not found":          {client.URL(answering(404, "no")), client.StageDiscover, nil, "check that the URL"},
		"no TLS":             {client.URL(strings.Replace(answering(200, ""), "http:", "https:", 1)), client.StageDiscover, http.ErrSchemeMismatch, "use http://"},
		"unavailable":        {client.URL(answering(503, "no")), client.StageDiscover, nil, "try again later"},
		"unknown authority":  {client.URL(secure.URL), client.StageDiscover, nil, "x509: certificate signed by unknown authority; if you trust"},
		"not executable":     {client.Command(script), client.StageConnect, fs.ErrPermission, "make the file of the command executable"},
		"modern error":       {newer, client.StageDiscover, nil, "-32020"},
		"handshake rejected": {older, client.StageInitialize, nil, "try tomorrow"},
	} {
		t.Run(name, func(t *testing.T) {
			d := quiet()
			_, err := d.Dial(t.Context(), c.target)
			var dial *client.DialError
			if !errors.As(err, &dial) {
				t.Fatalf("%T %v", err, err)
			}
			if dial.Stage != c.stage || dial.Target != c.target.String() || !strings.Contains(err.Error(), c.want) {
				t.Errorf("stage %s of %s: %v", dial.Stage, dial.Target, err)
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%v does not wrap %v", err, c.is)
			}
		})
	}
}

// The advice is in the text of the error once, whichever requests the server answers with a
// page.
func TestDialErrorGivesItsAdviceOnce(t *testing.T) {
	const advice = "check that the URL is that of an MCP endpoint"
	for name, pages := range map[string][]string{"every request": {"GET", "POST"}, "GET only": {"GET"}, "POST only": {"POST"}, "none": nil} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			if !slices.Contains(pages, r.Method) {
				w.WriteHeader(http.StatusMethodNotAllowed)
			}
			_, _ = io.WriteString(w, "<!doctype html><title>Welcome</title>")
		}))
		d := quiet()
		d.HTTPClient = s.Client()
		_, err := d.Dial(t.Context(), client.URL(s.URL))
		if err == nil || strings.Count(err.Error(), advice) != 1 {
			t.Errorf("a page for %s: %v", name, err)
		}
		s.Close()
	}
}

func TestRequireReportsMissingCapabilities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := modernServer()
		s.Answers["server/discover"] = []string{strings.Replace(discovered, `"capabilities":{"tools":{}}`,
			`"capabilities":{"tools":{"listChanged":true},"resources":{},"extensions":{"com.example/a":{"x":1}},"experimental":{"com.example/c":{}}}`, 1)}
		for _, c := range []struct {
			require mcp.ServerCapabilities
			missing []string
		}{
			{mcp.ServerCapabilities{}, nil},
			{mcp.ServerCapabilities{Tools: &mcp.ToolsCapability{ListChanged: true}, Resources: &mcp.ResourcesCapability{}}, nil},
			{mcp.ServerCapabilities{Extensions: map[string]json.RawMessage{"com.example/a": json.RawMessage(`{"y":2}`)}}, nil},
			{mcp.ServerCapabilities{Extensions: map[string]json.RawMessage{"com.example/c": json.RawMessage(`{}`)}}, nil},
			{mcp.ServerCapabilities{Prompts: &mcp.PromptsCapability{}, Resources: &mcp.ResourcesCapability{Subscribe: true}}, []string{"prompts", "resources.subscribe"}},
			{mcp.ServerCapabilities{Extensions: map[string]json.RawMessage{"com.example/b": json.RawMessage(`{}`)}}, []string{"extensions[com.example/b]"}},
			{mcp.ServerCapabilities{Experimental: map[string]json.RawMessage{"x": json.RawMessage(`{}`)}}, []string{"experimental[x]"}},
		} {
			to, _ := target(s)
			d := quiet()
			d.Require = c.require
			got, err := d.Dial(t.Context(), to)
			var missing *client.MissingCapabilitiesError
			var dial *client.DialError
			switch {
			case c.missing == nil && err == nil:
				got.Close()
				continue
			case !errors.As(err, &missing) || !errors.As(err, &dial) || dial.Stage != client.StageRequire:
				t.Errorf("%+v: %v", c.require, err)
				continue
			}
			slices.Sort(missing.Missing)
			if !slices.Equal(missing.Missing, c.missing) || missing.Offered.Tools == nil {
				t.Errorf("missing %q, want %q", missing.Missing, c.missing)
			}
		}
	})
}

// A server may offer other capabilities after a restart.
func TestRequireAppliesToEachConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exiting, other := modernServer(), modernServer()
		exiting.Answers["tools/list"] = []string{"!close"}
		other.Answers["server/discover"] = []string{strings.Replace(discovered, `{"tools":{}}`, `{}`, 1)}
		to, _ := target(exiting, other)
		d := quiet()
		d.Require.Tools = &mcp.ToolsCapability{}
		c, err := d.Dial(t.Context(), to)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var missing *client.MissingCapabilitiesError
		for _, err := range c.Tools(t.Context()) {
			if !errors.As(err, &missing) {
				t.Errorf("got %v", err)
			}
		}
	})
}

func TestPanicsOfDialerFunctionsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := modernServer()
		s.Answers["tools/call"] = []string{"!lines " + `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}` + "\n" + `{"jsonrpc":"2.0","id":$id,` + called + `}`, "!close"}
		to, _ := target(s)
		var log bytes.Buffer
		lost := make(chan struct{})
		d := client.Dialer{
			Logger:           slog.New(slog.NewTextHandler(&log, nil)),
			Trace:            func(bool, []byte) { panic("trace") },
			OnLog:            func(context.Context, mcp.LoggingMessageParams) { panic("log") },
			OnConnectionLost: func(error) { defer close(lost); panic("lost") },
		}
		c, err := d.Dial(t.Context(), to)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.CallTool(t.Context(), "a", nil); err != nil {
			t.Error(err)
		}
		if _, err := c.CallTool(t.Context(), "a", nil); !errors.Is(err, client.ErrConnectionLost) {
			t.Error(err)
		}
		<-lost
		c.Close()
		for _, what := range []string{"panic=trace", "panic=log", "panic=lost"} {
			if !strings.Contains(log.String(), what) {
				t.Errorf("the log lacks %s: %s", what, log.String())
			}
		}
	})
}
