package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "notes" {
		server.Main(notes())
		return
	}
	os.Exit(m.Run())
}

// notes is a program that keeps a note in memory.
func notes() *server.Server {
	s := &server.Server{Name: "notes"}
	type none struct{}
	var mu sync.Mutex
	note := "empty"
	server.AddTool(s, mcp.Tool{Name: "read_note"}, func(ctx context.Context, _ none) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		return note, server.Progress(ctx, 1, 1, note)
	})
	server.AddTool(s, mcp.Tool{Name: "delete_note"}, func(context.Context, none) (string, error) {
		return "deleted", nil
	})
	server.AddTool(s, mcp.Tool{Name: "write_note"}, func(ctx context.Context, _ none) (string, error) {
		answer, err := server.Elicit[struct{ Text string }](ctx, "Which text?")
		if err != nil {
			return "", err
		}
		message := mcp.LoggingMessageParams{Level: mcp.LevelInfo, Data: fmt.Appendf(nil, "%q", answer.Text)}
		if err := server.Log(ctx, message); err != nil {
			return "", err
		}
		mu.Lock()
		defer mu.Unlock()
		note = answer.Text
		return "written", nil
	})
	return s
}

// user is a user with a client of a revision.
type user struct {
	*client.Client
	name string

	mu       sync.Mutex
	received []string      // questions, log messages and progress
	more     chan struct{} // capacity 1: signals that received has grown
}

func (u *user) receive(text string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.received = append(u.received, text)
	select {
	case u.more <- struct{}{}:
	default:
	}
}

// receives checks that u has received texts with these prefixes since the last time, and nothing that belongs to
// others. The messages of a call may arrive after its result.
func (u *user) receives(t *testing.T, want ...string) {
	t.Helper()
	for timeout := time.After(10 * time.Second); ; {
		u.mu.Lock()
		missing := slices.DeleteFunc(slices.Clone(want), func(w string) bool {
			return slices.ContainsFunc(u.received, func(text string) bool { return strings.Contains(text, w) })
		})
		got := u.received
		if len(missing) == 0 {
			u.received = nil
		}
		u.mu.Unlock()
		if len(missing) > 0 {
			select {
			case <-u.more:
				continue
			case <-timeout:
				t.Errorf("%s receives %q, and not %q", u.name, got, missing)
			}
		}
		if len(want) == 0 && len(got) > 0 {
			t.Errorf("%s receives %q", u.name, got)
		}
		for _, text := range got {
			if strings.Contains(text, "the note of") && !strings.Contains(text, u.name) {
				t.Errorf("%s receives %q", u.name, text)
			}
		}
		return
	}
}

func (u *user) call(t *testing.T, tool, want string) {
	t.Helper()
	got, err := client.CallTool[string](t.Context(), u.Client, tool, nil, client.WithLogLevel(mcp.LevelInfo),
		client.WithProgress(func(_, _ float64, text string) { u.receive("progress " + text) }))
	if err != nil || got != want {
		t.Errorf("%s calls %s: %q, %v, want %q", u.name, tool, got, err, want)
	}
}

func (u *user) tools(t *testing.T) (names []string) {
	t.Helper()
	for tool, err := range u.Tools(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	return names
}

// start starts a gateway for two users with servers of a revision, and connects clients of another.
func start(t *testing.T, r, theirs mcp.Revision, servers map[string]*entry) (ada, bob *user) {
	g := newGateway(servers)
	for i := range g.host.Servers {
		g.host.Servers[i].Revision = theirs
	}
	if err := errors.Join(g.host.Start(), g.host.WaitReady(t.Context())); err != nil {
		t.Fatal(err)
	}
	ready, cancel := context.WithCancel(t.Context())
	cancel()
	g.follow(ready) // adds the tools of the servers that are ready
	var keys auth.Keys
	g.server.Auth = &auth.ProtectedResource{Verifier: &keys}
	ada, bob = &user{name: "ada", more: make(chan struct{}, 1)}, &user{name: "bob", more: make(chan struct{}, 1)}
	tokens := make(map[*user]string)
	for _, u := range []*user{ada, bob} {
		tokens[u] = auth.NewKey()
		keys.List = append(keys.List, auth.Key{User: u.name, SHA256: auth.HashKey(tokens[u])})
	}
	endpoint := httptest.NewServer(&g.server)
	t.Cleanup(func() {
		_ = g.server.Shutdown(context.Background())
		endpoint.Close()
		_ = g.host.Close()
	})
	for u, token := range tokens {
		d := client.Dialer{Revision: r, OnLog: func(_ context.Context, m mcp.LoggingMessageParams) {
			u.receive("log " + string(m.Data))
		}, Elicit: func(_ context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			u.receive(form.Message)
			if strings.Contains(form.Message, "Which text?") {
				return mcp.AcceptElicit(map[string]string{"Text": "the note of " + u.name})
			}
			return mcp.AcceptElicit(map[string]bool{"approve": true})
		}}
		c, err := d.Dial(t.Context(), &client.HTTPTarget{URL: endpoint.URL,
			Header: http.Header{"Authorization": {"Bearer " + token}}})
		if err != nil {
			t.Fatal(err)
		}
		u.Client = c
		t.Cleanup(func() { _ = c.Close() })
	}
	return ada, bob
}

func program(more entry) *entry {
	more.Command = []string{os.Args[0], "notes"}
	return &more
}

// Each user gets their own process of a server that is not shared, and is asked about their own calls. Others
// neither see nor call a server that is for one user.
func TestUsersDoNotShareWhatIsPrivate(t *testing.T) {
	for _, r := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
		for _, theirs := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
			t.Run(string(r)+" to "+string(theirs), func(t *testing.T) { testPrivacy(t, r, theirs) })
		}
	}
}

func testPrivacy(t *testing.T, r, theirs mcp.Revision) {
	ada, bob := start(t, r, theirs, map[string]*entry{
		"notes": program(entry{}),
		"board": program(entry{Shared: true}),
		"diary": program(entry{Users: []string{"ada"}}),
	})
	all := []string{"board__read_note", "board__write_note", "diary__read_note", "diary__write_note",
		"notes__read_note", "notes__write_note"}
	for u, want := range map[*user][]string{ada: all, bob: slices.Concat(all[:2], all[4:])} {
		got := u.tools(t)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s has the tools %q, want %q", u.name, got, want)
		}
	}
	ada.call(t, "notes__write_note", "written")
	ada.receives(t, `Allow the tool "write_note"`, "Which text?", `log "the note of ada"`)
	bob.receives(t)
	bob.call(t, "notes__read_note", "empty")
	bob.receives(t, "progress empty")
	bob.call(t, "notes__write_note", "written")
	bob.receives(t, `Allow the tool "write_note"`, "Which text?", `log "the note of bob"`)
	ada.call(t, "notes__read_note", "the note of ada")
	ada.receives(t, "progress the note of ada")
	if theirs.Modern() { // other revisions ask nobody on a shared connection
		ada.call(t, "board__write_note", "written")
		bob.call(t, "board__read_note", "the note of ada")
	}
	for _, denied := range []struct {
		*user
		tool string
	}{{bob, "diary__read_note"}, {bob, "diary__write_note"}, {ada, "notes__delete_note"}} {
		if result, err := denied.CallTool(t.Context(), denied.tool, nil); err == nil && !result.IsError {
			t.Errorf("%s calls %s: %v", denied.name, denied.tool, result)
		}
	}
}
