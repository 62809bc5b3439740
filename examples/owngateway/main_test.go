package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// notes returns a server for one user, whose tools must not be called twice.
func notes(t *testing.T, user string, r mcp.Revision) host.ServerConfig {
	s := &server.Server{Name: "notes"}
	type none struct{}
	server.AddTool(s, mcp.Tool{Name: "read_note"}, func(context.Context, none) (string, error) {
		return "the note of " + user, nil
	})
	server.AddTool(s, mcp.Tool{Name: "delete_note"}, func(context.Context, none) (string, error) {
		return "deleted", nil
	})
	var renamed atomic.Int32
	server.AddTool(s, mcp.Tool{Name: "rename_note"}, func(ctx context.Context, _ none) (string, error) {
		if renamed.Add(1) > 1 && !r.Modern() { // a question of 2026-07-28 makes the handler run again
			t.Errorf("the note of %s is renamed twice", user)
		}
		if err := server.Progress(ctx, 1, 2, ""); err != nil {
			t.Error(err)
		}
		if err := server.Log(ctx, mcp.LoggingMessageParams{Level: mcp.LevelInfo, Data: []byte(`"` + user + `"`)}); err != nil {
			t.Error(err)
		}
		answer, err := server.Elicit[struct{ Name string }](ctx, "Which name?")
		return "renamed to " + answer.Name, err
	})
	near, far := transport.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.ServeConn(ctx, far)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return host.ServerConfig{Name: "notes", Target: client.Conn(near), Revision: r}
}

// Each user has the tools of their own servers, without those that the policy denies, and is asked about their own
// calls, in every revision that has questions.
func TestEachUserHasServersOfTheirOwn(t *testing.T) {
	for _, r := range []mcp.Revision{mcp.V20250618, mcp.V20251125, mcp.V20260728} {
		for _, theirs := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
			t.Run(string(r)+" to "+string(theirs), func(t *testing.T) {
				var keys auth.Keys
				tokens := make(map[string]string)
				for _, name := range []string{"ada", "bob"} {
					tokens[name] = auth.NewKey()
					keys.List = append(keys.List, auth.Key{User: name, SHA256: auth.HashKey(tokens[name])})
				}
				g := &Gateway{Servers: func(who principal.Principal) []host.ServerConfig {
					return []host.ServerConfig{notes(t, who.Subject(), theirs)}
				}}
				t.Cleanup(g.Close)
				s := &server.Server{Name: "owngateway", Catalogs: g.Catalogs,
					Auth: &auth.ProtectedResource{Verifier: &keys}}
				endpoint := httptest.NewServer(s)
				t.Cleanup(func() {
					_ = s.Shutdown(context.Background())
					endpoint.Close()
				})
				for name, token := range tokens {
					use(t, name, r, &client.HTTPTarget{URL: endpoint.URL,
						Header: http.Header{"Authorization": {"Bearer " + token}}})
				}
			})
		}
	}
}

func use(t *testing.T, name string, r mcp.Revision, target client.Target) {
	var asked []string
	messages := make(chan string, 10)
	d := client.Dialer{Revision: r, OnLog: func(_ context.Context, m mcp.LoggingMessageParams) {
		messages <- "logs " + string(m.Data)
	}, Elicit: func(_ context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		asked = append(asked, form.Message)
		if strings.Contains(form.Message, "Which name?") {
			return mcp.AcceptElicit(map[string]string{"Name": name})
		}
		return mcp.AcceptElicit(map[string]bool{"approve": true})
	}}
	c, err := d.Dial(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var tools []string
	for tool, err := range c.Tools(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		tools = append(tools, tool.Name)
	}
	if !slices.Equal(tools, []string{"notes__read_note", "notes__rename_note"}) {
		t.Errorf("%s has the tools %q", name, tools)
	}
	for tool, want := range map[string]string{
		"notes__read_note":   "the note of " + name,
		"notes__rename_note": "renamed to " + name,
	} {
		got, err := client.CallTool[string](t.Context(), c, tool, nil, client.WithLogLevel(mcp.LevelInfo),
			client.WithProgress(func(done, _ float64, _ string) { messages <- "progress" }))
		if err != nil || got != want {
			t.Errorf("%s calls %s: %q, %v, want %q", name, tool, got, err, want)
		}
	}
	for missing := map[string]bool{"progress": true, `logs "` + name + `"`: true}; len(missing) > 0; {
		select {
		case m := <-messages:
			if delete(missing, m); strings.Contains(m, "logs") && !strings.Contains(m, name) {
				t.Errorf("%s received %s", name, m)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s does not receive %v", name, missing)
		}
	}
	if len(asked) != 2 || !strings.HasPrefix(asked[0], `Allow the tool "rename_note"`) {
		t.Errorf("%s was asked %q", name, asked)
	}
	if result, err := c.CallTool(t.Context(), "notes__delete_note", nil); err == nil && !result.IsError {
		t.Errorf("%s deletes a note: %v", name, result)
	}
}
