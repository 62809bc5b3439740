package policy_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/cmd/parley/internal/serve/policy"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/principal"
)

// serve starts a server for hooks, and returns a hook that calls it, and a client.
func serve(t *testing.T, f http.HandlerFunc) (*policy.HookClient, *policy.Hook) {
	s := httptest.NewServer(f)
	c := policy.NewHookClient()
	t.Cleanup(func() {
		c.Close()
		s.Close()
	})
	return c, &policy.Hook{URL: s.URL + "/hook?key=s3cret", Header: http.Header{"X-Key": {"k"}},
		Hook: config.Hook{Timeout: time.Minute, Request: true, Response: true}}
}

func newRequest(t *testing.T) *host.Request {
	ada := must.Get(principal.New("https://as.example", "ada", "editor"))(t)
	return &host.Request{Method: "tools/call", Server: "files", Kind: "tool", Name: "write",
		Arguments: json.RawMessage(`{"a":1}`), Caller: &auth.Info{Principal: ada, Scopes: []string{"x"}}}
}

// respond returns a handler with one answer.
func respond(status int, kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestHookReceivesTheEvent(t *testing.T) {
	var got []string
	c, h := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, r.Method+" "+r.Header.Get("X-Key")+" "+r.Header.Get("Content-Type")+" "+string(body))
		w.WriteHeader(http.StatusNoContent)
	})
	r := newRequest(t)
	err := c.Request(t.Context(), h, r)
	must.CheckThat(t, err == nil && string(r.Arguments) == `{"a":1}`, "%v, arguments %s", err, r.Arguments)
	result := must.Get(c.Response(t.Context(), h, r, json.RawMessage(`{"content":[]}`)))(t)
	must.CheckEqual(t, string(result), `{"content":[]}`, result)
	const who = `"caller":{"issuer":"https://as.example","subject":"ada","client":"editor","scopes":["x"]}}`
	want := []string{
		`POST k application/json {"event":"request","server":"files","method":"tools/call","kind":"tool",` +
			`"name":"write","arguments":{"a":1},` + who,
		`POST k application/json {"event":"response","server":"files","method":"tools/call","kind":"tool",` +
			`"name":"write","arguments":{"a":1},"result":{"content":[]},` + who,
	}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("the hook has received\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	// Events and requests that are not selected.
	h.Hook.Request = false
	h.Server = "others"
	_ = c.Request(t.Context(), h, r)
	_, _ = c.Response(t.Context(), h, r, nil)
	must.CheckEqual(t, len(got), 2, "the hook was called")
}

func TestHookChangesAndRejects(t *testing.T) {
	c, h := serve(t, respond(200, "application/json; charset=utf-8", `{"action":"allow","arguments":{"b":2}}`))
	r := newRequest(t)
	err := c.Request(t.Context(), h, r)
	must.CheckThat(t, err == nil && string(r.Arguments) == `{"b":2}`, "%v, arguments %s", err, r.Arguments)
	c, h = serve(t, respond(200, "application/json", `{"action":"allow","result":{"content":[]}}`))
	result := must.Get(c.Response(t.Context(), h, r, json.RawMessage(`{}`)))(t)
	must.CheckEqual(t, string(result), `{"content":[]}`, result)
	c, h = serve(t, respond(200, "application/json", `{"action":"deny","reason":"not today"}`))
	if err := c.Request(t.Context(), h, r); err == nil || err.Error() != "not today" {
		t.Errorf("%v", err)
	}
	if _, err := c.Response(t.Context(), h, r, json.RawMessage(`{}`)); err == nil || err.Error() != "not today" {
		t.Errorf("%v", err)
	}
}

func TestHookThatDoesNotAnswerWellRejects(t *testing.T) {
	followed := false
	for name, test := range map[string]struct {
		f    http.HandlerFunc
		want string
	}{
		"status":         {respond(500, "application/json", `{"action":"allow"}`), "with status 500"},
		"type":           {respond(200, "text/plain", `{"action":"allow"}`), "content type application/json"},
		"no JSON":        {respond(200, "application/json", `allow`), "is invalid"},
		"duplicate name": {respond(200, "application/json", `{"action":"deny","action":"allow"}`), "is invalid"},
		"no action":      {respond(200, "application/json", `{}`), "must be allow or deny"},
		"result":         {respond(200, "application/json", `{"action":"allow","result":{}}`), "with a result"},
		"too long": {respond(200, "application/json",
			`{"action":"allow","reason":"`+strings.Repeat("x", 16<<20)+`"}`), "too long"},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			followed = followed || r.URL.Path == "/other"
			http.Redirect(w, r, "/other", http.StatusTemporaryRedirect)
		}, "with status 307"},
		"closed": {func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		}, "cannot call the hook at 127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			c, h := serve(t, test.f)
			err := c.Request(t.Context(), h, newRequest(t))
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%v, want %s", err, test.want)
			}
		})
	}
	must.CheckThat(t, !followed, "a redirect was followed")
}

func TestSlowHookRejects(t *testing.T) {
	release := make(chan struct{})
	c, h := serve(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	defer close(release)
	h.Timeout = 20 * time.Millisecond
	must.CheckFails(t, c.Request(context.Background(), h, newRequest(t)), "deadline")
}

func TestURLOfAHookIsChecked(t *testing.T) {
	for _, bad := range []string{"", "hook", "ftp://x", "http://", "file:///etc/passwd"} {
		must.CheckThat(t, (&policy.Hook{URL: bad}).Check() != nil, "%q is accepted", bad)
	}
	must.Check(t, (&policy.Hook{URL: "https://x/y"}).Check())
}
