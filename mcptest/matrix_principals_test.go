package mcptest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// These tests check that a user cannot use the cursors, sessions, events, states and cached
// lists of another user of the same server.

// rawClient sends raw messages of a revision over HTTP as a user.
type rawClient struct {
	t        *testing.T
	url      string
	token    string
	revision mcp.Revision
	session  string // the session id, or the endpoint in 2024-11-05
	events   *wiretest.Events
}

// newRawClient returns a client for a user. It starts a session if the revision has sessions.
func (w *realm) newRawClient(t *testing.T, r mcp.Revision, user string) *rawClient {
	t.Helper()
	c := &rawClient{t: t, url: w.url, token: w.token(user), revision: r}
	initialize := fmt.Sprintf(`{"jsonrpc":"2.0","id":"r1","method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, r)
	switch {
	case r.Modern():
		return c
	case r == mcp.V20241105:
		res := c.do(http.MethodGet, w.url, "", "Accept", "text/event-stream")
		c.events = wiretest.ReadEvents(res.Body)
		endpoint := c.events.Data()
		c.session = strings.TrimSuffix(w.url, "/mcp") + endpoint
		c.do(http.MethodPost, c.session, initialize)
		c.events.Data()
	default:
		c.session = c.do(http.MethodPost, w.url, initialize).Header.Get("Mcp-Session-Id")
	}
	c.do(http.MethodPost, c.target(), `{"jsonrpc":"2.0","method":"notifications/initialized"}`, c.headers()...)
	return c
}

func (c *rawClient) do(method, url, body string, header ...string) *http.Response {
	c.t.Helper()
	return wiretest.Do(c.t, method, url, body, append([]string{"Authorization", "Bearer " + c.token}, header...)...)
}

// target returns the URL that messages are posted to.
func (c *rawClient) target() string {
	if c.events != nil {
		return c.session
	}
	return c.url
}

func (c *rawClient) headers() []string {
	if c.events != nil || c.session == "" {
		return nil
	}
	header := []string{"Mcp-Session-Id", c.session}
	if c.revision >= mcp.V20250618 {
		header = append(header, "MCP-Protocol-Version", string(c.revision))
	}
	return header
}

// ask sends a request and returns the response. params are the members of an object.
func (c *rawClient) ask(method, params string) string {
	c.t.Helper()
	if c.revision.Modern() {
		var named struct{ Name, URI string }
		if err := json.Unmarshal([]byte("{"+params+"}"), &named); err != nil {
			c.t.Fatal(err)
		}
		header := []string{"MCP-Protocol-Version", string(c.revision), "Mcp-Method", method}
		if name := named.Name + named.URI; name != "" {
			header = append(header, "Mcp-Name", name)
		}
		if params != "" {
			params += ","
		}
		return wiretest.Text(c.t, c.do(http.MethodPost, c.url, fmt.Sprintf(`{"jsonrpc":"2.0","id":"r1","method":%q,"params":{%s"_meta":{
			"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`, method, params), header...))
	}
	res := c.do(http.MethodPost, c.target(), fmt.Sprintf(`{"jsonrpc":"2.0","id":"r1","method":%q,"params":{%s}}`, method, params), c.headers()...)
	if c.events == nil {
		return wiretest.Text(c.t, res)
	}
	if res.StatusCode != http.StatusAccepted {
		return wiretest.Text(c.t, res)
	}
	return c.events.Data()
}

// member returns a string member of the result of a response.
func member(t *testing.T, response, name string) string {
	t.Helper()
	var message struct{ Result map[string]any }
	if err := json.Unmarshal([]byte(response), &message); err != nil {
		t.Fatalf("%s: %v", response, err)
	}
	text, _ := message.Result[name].(string)
	if text == "" {
		t.Fatalf("no %s in %s", name, response)
	}
	return text
}

// shared returns a server with some entries that are visible to ada only. Pages of lists
// have one entry.
func shared() *server.Server {
	s := &server.Server{PageSize: 1, ListCache: server.CachePolicy{TTL: time.Hour}}
	forAda := server.VisibleTo(func(who principal.Principal, _ string) bool { return who.Subject() == "ada" })
	server.AddTool(s, mcp.Tool{Name: "a"}, func(context.Context, struct{}) (string, error) { return "a", nil })
	server.AddTool(s, mcp.Tool{Name: "diary"}, func(context.Context, struct{}) (string, error) { return "dear diary", nil }, forAda)
	server.AddTool(s, mcp.Tool{Name: "z"}, func(ctx context.Context, _ struct{}) (string, error) {
		type answer struct {
			Name string `json:"name"`
		}
		got, err := server.Elicit[answer](ctx, "Who are you?")
		return got.Name, err
	})
	server.AddTool(s, mcp.Tool{Name: "report"}, func(ctx context.Context, _ struct{}) (string, error) {
		err := server.Progress(ctx, 1, 2, "of "+server.PrincipalOf(ctx).Subject())
		return "reported", err
	})
	server.AddPrompt(s, mcp.Prompt{Name: "diary"}, func(context.Context, struct{}) (string, error) { return "dear diary", nil }, forAda)
	server.AddStatic(s, mcp.Resource{URI: "note://diary", Name: "diary"}, "dear diary", forAda)
	return s
}

// Rules R7, R8: an entry that is visible to another user only does not exist for a user.
func TestEntriesVisibleToOtherUserDoNotExist(t *testing.T) {
	guardedEverywhere(t, shared, func(t *testing.T, r mcp.Revision, w *realm) {
		ada, bob := w.newRawClient(t, r, "ada"), w.newRawClient(t, r, "bob")
		for _, ask := range [][2]string{{"tools/call", `"name":"diary"`}, {"resources/read", `"uri":"note://diary"`}, {"prompts/get", `"name":"diary"`}} {
			if response := ada.ask(ask[0], ask[1]); !strings.Contains(response, "dear diary") {
				t.Errorf("ada receives %s", response)
			}
			response := bob.ask(ask[0], ask[1])
			absent := bob.ask(ask[0], strings.ReplaceAll(ask[1], "diary", "absent"))
			if !strings.Contains(response, `"error"`) || response != strings.ReplaceAll(absent, "absent", "diary") {
				t.Errorf("bob receives %s, and for an entry that does not exist %s", response, absent)
			}
		}
	})
}

// Rules J18, R8: a user cannot use the cursor of another user.
func TestCursorOfOtherUserIsRejected(t *testing.T) {
	guardedEverywhere(t, shared, func(t *testing.T, r mcp.Revision, w *realm) {
		ada, bob := w.newRawClient(t, r, "ada"), w.newRawClient(t, r, "bob")
		next := fmt.Sprintf(`"cursor":%q`, member(t, ada.ask("tools/list", ""), "nextCursor"))
		if response := bob.ask("tools/list", next); !strings.Contains(response, "-32602") || strings.Contains(response, "diary") {
			t.Errorf("bob receives %s", response)
		}
		if response := ada.ask("tools/list", next); !strings.Contains(response, "diary") {
			t.Errorf("ada receives %s", response)
		}
	})
}

// Rules T9, T10: a session of another user does not exist for a user, with any HTTP method.
func TestSessionOfOtherUserDoesNotExist(t *testing.T) {
	guardedEverywhere(t, shared, func(t *testing.T, r mcp.Revision, w *realm) {
		if r.Modern() {
			return // no sessions; see TestRequestStateOfOtherUserIsRejected
		}
		ada, bob := w.newRawClient(t, r, "ada"), w.newRawClient(t, r, "bob")
		stolen := *bob
		stolen.session = ada.session
		ping := `{"jsonrpc":"2.0","id":"r1","method":"ping"}`
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
			if ada.events != nil && method != http.MethodPost {
				continue // in 2024-11-05 GET starts a new session
			}
			res := stolen.do(method, stolen.target(), ping, append(stolen.headers(), "Accept", "application/json, text/event-stream")...)
			unknown := stolen
			unknown.session = strings.Replace(ada.session, ada.session[len(ada.session)-4:], "AAAA", 1)
			other := unknown.do(method, unknown.target(), ping, append(unknown.headers(), "Accept", "application/json, text/event-stream")...)
			if got, want := wiretest.Text(t, res), wiretest.Text(t, other); res.StatusCode != http.StatusNotFound || got != want || other.StatusCode != res.StatusCode {
				t.Errorf("%s: response for ada's session: %s %s; for an unknown session: %s %s", method, res.Status, got, other.Status, want)
			}
		}
		if response := ada.ask("tools/call", `"name":"a"`); !strings.Contains(response, `"text":"a"`) {
			t.Errorf("ada's own session: %s", response)
		}
	})
}

// Rules T12, T13: events for one user are not replayed to another.
func TestStreamOfOtherUserCannotBeResumed(t *testing.T) {
	guardedEverywhere(t, shared, func(t *testing.T, r mcp.Revision, w *realm) {
		if r.Modern() || r == mcp.V20241105 {
			return // streams cannot be resumed
		}
		ada, bob := w.newRawClient(t, r, "ada"), w.newRawClient(t, r, "bob")
		stream := ada.ask("tools/call", `"name":"report","_meta":{"progressToken":1}`)
		_, rest, _ := strings.Cut(stream, "id: ")
		id, _, found := strings.Cut(rest, "\n")
		if !found || !strings.Contains(stream, "of ada") {
			t.Fatalf("the stream cannot be resumed: %s", stream)
		}
		resume := func(v *rawClient) (string, int) {
			res := v.do(http.MethodGet, v.url, "", append(v.headers(), "Accept", "text/event-stream", "Last-Event-ID", id)...)
			if v != ada && res.StatusCode == http.StatusOK { // do not read a stream that may stay open
				return "a stream", res.StatusCode
			}
			return wiretest.Text(t, res), res.StatusCode
		}
		stolen := *bob
		stolen.session = ada.session
		for name, v := range map[string]*rawClient{"in his session": bob, "in her session": &stolen} {
			if text, status := resume(v); status < 400 || strings.Contains(text, "ada") || strings.Contains(text, "reported") {
				t.Errorf("bob, %s: %d %s", name, status, text)
			}
		}
		if text, status := resume(ada); status != http.StatusOK || !strings.Contains(text, "reported") {
			t.Errorf("ada: %d %s", status, text)
		}
	})
}

// Rule M2: a user cannot continue the call of another user.
func TestRequestStateOfOtherUserIsRejected(t *testing.T) {
	w := newRealm(t, shared())
	ada, bob := w.newRawClient(t, mcp.V20260728, "ada"), w.newRawClient(t, mcp.V20260728, "bob")
	question := ada.ask("tools/call", `"name":"z"`)
	var message struct {
		Result struct{ InputRequests map[string]json.RawMessage }
	}
	if err := json.Unmarshal([]byte(question), &message); err != nil || len(message.Result.InputRequests) != 1 {
		t.Fatalf("%s: %v", question, err)
	}
	for key := range message.Result.InputRequests {
		answer := fmt.Sprintf(`"name":"z","requestState":%q,"inputResponses":{%q:{"action":"accept","content":{"name":"Eve"}}}`, member(t, question, "requestState"), key)
		if got := bob.ask("tools/call", answer); !strings.Contains(got, "-32602") {
			t.Errorf("bob receives %s", got)
		}
		if got := ada.ask("tools/call", answer); !strings.Contains(got, "Eve") {
			t.Errorf("ada receives %s", got)
		}
	}
}

// Rule C1: clients of different users that share a cache do not receive each other's lists. The
// same applies to a client whose user changes.
func TestCachedListIsNotUsedForOtherUser(t *testing.T) {
	w := newRealm(t, shared())
	var cache client.Cache
	sharing := func(d *client.Dialer) { d.Cache = &cache }
	ada, bob := &person{}, &person{}
	ada.browser.User, bob.browser.User = "ada", "bob"
	login := ada.program()
	first, second := w.mustDial(t, mcp.V20260728, login, sharing), w.mustDial(t, mcp.V20260728, bob.program(), sharing)
	sees := func(c *client.Client) bool { return slices.Contains(namesOf(t, c), "tool diary") }
	if !sees(first) || sees(second) || !sees(first) {
		t.Error("a client receives the cached list of another user")
	}
	if n, _ := cache.Size(); n == 0 {
		t.Error("the cache is empty, so the test is meaningless")
	}
	ada.browser.User = "bob"
	if err := login.Login(t.Context(), w.url); err != nil {
		t.Fatal(err)
	}
	if sees(first) {
		t.Error("a client receives the cached list of its previous user")
	}
}
