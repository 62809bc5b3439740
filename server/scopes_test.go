package server_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// scopesLogged posts several calls of a tool that needs a scope, and returns the responses and the
// server's log.
func scopesLogged(t *testing.T, late bool, info *auth.Info) (answers, log string) {
	t.Helper()
	var logged bytes.Buffer
	s := &server.Server{Logger: slog.New(slog.NewTextHandler(&logged, nil))}
	server.AddTool(s, mcp.Tool{Name: "open"}, func(context.Context, struct{}) (string, error) { return "done", nil })
	add := func() {
		server.AddTool(s, mcp.Tool{Name: "guarded"}, func(context.Context, struct{}) (string, error) {
			return "done", nil
		}, server.RequireScopes("files"))
	}
	if !late {
		add()
	}
	for i, tool := range []string{"open", "guarded", "guarded"} {
		if i == 1 && late {
			add()
		}
		r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp",
			strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+
				`","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
				`"io.modelcontextprotocol/clientCapabilities":{}}}}`))
		for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json",
			"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool} {
			r.Header.Set(name, value)
		}
		if info != nil {
			r = r.WithContext(auth.NewContext(r.Context(), info))
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		answers += w.Body.String() + "\n"
	}
	return answers, logged.String()
}

// Callers over HTTP have no scopes without Server.Auth: their calls are rejected, and the server logs it once.
func TestScopesWithoutAuthorizationAreLoggedOnce(t *testing.T) {
	for _, late := range []bool{false, true} {
		answers, log := scopesLogged(t, late, nil)
		n := strings.Count(answers, "insufficient scope")
		must.CheckThat(t, n == 2 && strings.Contains(answers, "done"), "%d calls are rejected: %s", n, answers)
		if n := strings.Count(log, "set Server.Auth"); n != 1 || !strings.Contains(log, "level=ERROR") {
			t.Errorf("added late: %v: it is logged %d times: %s", late, n, log)
		}
	}
}

// A program that authenticates its callers in front of the server grants the scopes itself.
func TestScopesGrantedByTheProgramCount(t *testing.T) {
	answers, log := scopesLogged(t, false, &auth.Info{Principal: principal.Local, Scopes: []string{"files"}})
	must.CheckThat(t, !strings.Contains(answers, "insufficient") && log == "", "%s%s", answers, log)
}
