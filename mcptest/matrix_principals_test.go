package mcptest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// Two people at one server, who have nothing of each other's: what one was given is of no
// use in the other's hands, and tells them nothing.

// visitor speaks a revision over HTTP message by message, as somebody.
type visitor struct {
	t        *testing.T
	url      string
	token    string
	revision mcp.Revision
	session  string // the id, or the endpoint of the pair
	events   *bufio.Reader
}

// enter begins a session, where the revision has some.
func (w *realm) enter(t *testing.T, r mcp.Revision, who string) *visitor {
	t.Helper()
	v := &visitor{t: t, url: w.url, token: w.token(who), revision: r}
	hello := fmt.Sprintf(`{"jsonrpc":"2.0","id":"r1","method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, r)
	switch {
	case r.Modern():
		return v
	case r == mcp.V20241105:
		res := v.do(http.MethodGet, w.url, "", "Accept", "text/event-stream")
		v.events = bufio.NewReader(res.Body)
		_, endpoint := rawEvent(t, v.events)
		v.session = strings.TrimSuffix(w.url, "/mcp") + endpoint
		v.do(http.MethodPost, v.session, hello)
		rawEvent(t, v.events)
	default:
		v.session = v.do(http.MethodPost, w.url, hello).Header.Get("Mcp-Session-Id")
	}
	v.do(http.MethodPost, v.target(), `{"jsonrpc":"2.0","method":"notifications/initialized"}`, v.headers()...)
	return v
}

func (v *visitor) do(method, url, body string, header ...string) *http.Response {
	v.t.Helper()
	return rawHTTP(v.t, method, url, body, append([]string{"Authorization", "Bearer " + v.token}, header...)...)
}

// target is where messages are posted to.
func (v *visitor) target() string {
	if v.events != nil {
		return v.session
	}
	return v.url
}

func (v *visitor) headers() []string {
	if v.events != nil || v.session == "" {
		return nil
	}
	header := []string{"Mcp-Session-Id", v.session}
	if v.revision >= mcp.V20250618 {
		header = append(header, "MCP-Protocol-Version", string(v.revision))
	}
	return header
}

// ask makes a request. Params are the members of an object.
func (v *visitor) ask(method, params string) string {
	v.t.Helper()
	if v.revision.Modern() {
		var named struct{ Name, URI string }
		if err := json.Unmarshal([]byte("{"+params+"}"), &named); err != nil {
			v.t.Fatal(err)
		}
		header := []string{"MCP-Protocol-Version", string(v.revision), "Mcp-Method", method}
		if name := named.Name + named.URI; name != "" {
			header = append(header, "Mcp-Name", name)
		}
		if params != "" {
			params += ","
		}
		return rawText(v.t, v.do(http.MethodPost, v.url, fmt.Sprintf(`{"jsonrpc":"2.0","id":"r1","method":%q,"params":{%s"_meta":{
			"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`, method, params), header...))
	}
	res := v.do(http.MethodPost, v.target(), fmt.Sprintf(`{"jsonrpc":"2.0","id":"r1","method":%q,"params":{%s}}`, method, params), v.headers()...)
	if v.events == nil {
		return rawText(v.t, res)
	}
	if res.StatusCode != http.StatusAccepted {
		return rawText(v.t, res)
	}
	_, answer := rawEvent(v.t, v.events)
	return answer
}

// member returns a string in the result of an answer.
func member(t *testing.T, answer, name string) string {
	t.Helper()
	var reply struct{ Result map[string]any }
	if err := json.Unmarshal([]byte(answer), &reply); err != nil {
		t.Fatalf("%s: %v", answer, err)
	}
	text, _ := reply.Result[name].(string)
	if text == "" {
		t.Fatalf("there is no %s in %s", name, answer)
	}
	return text
}

// shared offers something to Ada alone, in lists of one entry a page.
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

// R7, R8: what is shown to one is not there for the other.
func TestWhatIsVisibleToOneIsNotThereForTheOther(t *testing.T) {
	guardedEverywhere(t, shared, func(t *testing.T, r mcp.Revision, w *realm) {
		ada, bob := w.enter(t, r, "ada"), w.enter(t, r, "bob")
		for _, ask := range [][2]string{{"tools/call", `"name":"diary"`}, {"resources/read", `"uri":"note://diary"`}, {"prompts/get", `"name":"diary"`}} {
			if answer := ada.ask(ask[0], ask[1]); !strings.Contains(answer, "dear diary") {
				t.Errorf("ada is answered %s", answer)
			}
			answer := bob.ask(ask[0], ask[1])
			absent := bob.ask(ask[0], strings.ReplaceAll(ask[1], "diary", "absent"))
			if !strings.Contains(answer, `"error"`) || answer != strings.ReplaceAll(absent, "absent", "diary") {
				t.Errorf("bob is answered %s, and of what is not there %s", answer, absent)
			}
		}
	})
}

// J18, R8: a cursor of one does not open the other's page.
func TestACursorIsOfNoUseToTheOther(t *testing.T) {
	guardedEverywhere(t, shared, func(t *testing.T, r mcp.Revision, w *realm) {
		ada, bob := w.enter(t, r, "ada"), w.enter(t, r, "bob")
		next := fmt.Sprintf(`"cursor":%q`, member(t, ada.ask("tools/list", ""), "nextCursor"))
		if answer := bob.ask("tools/list", next); !strings.Contains(answer, "-32602") || strings.Contains(answer, "diary") {
			t.Errorf("bob gets %s", answer)
		}
		if answer := ada.ask("tools/list", next); !strings.Contains(answer, "diary") {
			t.Errorf("ada gets %s", answer)
		}
	})
}

// T9, T10: nor does a session's id open the session, whatever is done with it.
func TestASessionIsNotThereForTheOther(t *testing.T) {
	guardedEverywhere(t, shared, func(t *testing.T, r mcp.Revision, w *realm) {
		if r.Modern() {
			return // it has none: what is in place of it, requestState, is below
		}
		ada, bob := w.enter(t, r, "ada"), w.enter(t, r, "bob")
		stolen := *bob
		stolen.session = ada.session
		ping := `{"jsonrpc":"2.0","id":"r1","method":"ping"}`
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
			if ada.events != nil && method != http.MethodPost {
				continue // there a GET begins a session of its own
			}
			res := stolen.do(method, stolen.target(), ping, append(stolen.headers(), "Accept", "application/json, text/event-stream")...)
			unknown := stolen
			unknown.session = strings.Replace(ada.session, ada.session[len(ada.session)-4:], "AAAA", 1)
			other := unknown.do(method, unknown.target(), ping, append(unknown.headers(), "Accept", "application/json, text/event-stream")...)
			if got, want := rawText(t, res), rawText(t, other); res.StatusCode != http.StatusNotFound || got != want || other.StatusCode != res.StatusCode {
				t.Errorf("%s: ada's session is %s %s, one that is not there %s %s", method, res.Status, got, other.Status, want)
			}
		}
		if answer := ada.ask("tools/call", `"name":"a"`); !strings.Contains(answer, `"text":"a"`) {
			t.Errorf("ada's own session: %s", answer)
		}
	})
}

// T12, T13: events that were held for one are not replayed to the other.
func TestAStreamIsResumedByItsOwnerOnly(t *testing.T) {
	guardedEverywhere(t, shared, func(t *testing.T, r mcp.Revision, w *realm) {
		if r.Modern() || r == mcp.V20241105 {
			return // streams cannot be resumed
		}
		ada, bob := w.enter(t, r, "ada"), w.enter(t, r, "bob")
		stream := ada.ask("tools/call", `"name":"report","_meta":{"progressToken":1}`)
		_, rest, _ := strings.Cut(stream, "id: ")
		id, _, found := strings.Cut(rest, "\n")
		if !found || !strings.Contains(stream, "of ada") {
			t.Fatalf("nothing to resume: %s", stream)
		}
		resume := func(v *visitor) (string, int) {
			res := v.do(http.MethodGet, v.url, "", append(v.headers(), "Accept", "text/event-stream", "Last-Event-ID", id)...)
			if v != ada && res.StatusCode == http.StatusOK { // what might stay open is not waited for
				return "a stream", res.StatusCode
			}
			return rawText(t, res), res.StatusCode
		}
		stolen := *bob
		stolen.session = ada.session
		for name, v := range map[string]*visitor{"in his session": bob, "in hers": &stolen} {
			if text, status := resume(v); status < 400 || strings.Contains(text, "ada") || strings.Contains(text, "reported") {
				t.Errorf("bob, %s: %d %s", name, status, text)
			}
		}
		if text, status := resume(ada); status != http.StatusOK || !strings.Contains(text, "reported") {
			t.Errorf("ada: %d %s", status, text)
		}
	})
}

// M2: what one has begun, the other cannot go on with.
func TestARequestStateIsOfNoUseToTheOther(t *testing.T) {
	w := newRealm(t, shared())
	ada, bob := w.enter(t, mcp.V20260728, "ada"), w.enter(t, mcp.V20260728, "bob")
	question := ada.ask("tools/call", `"name":"z"`)
	var asked struct {
		Result struct{ InputRequests map[string]json.RawMessage }
	}
	if err := json.Unmarshal([]byte(question), &asked); err != nil || len(asked.Result.InputRequests) != 1 {
		t.Fatalf("%s: %v", question, err)
	}
	for key := range asked.Result.InputRequests {
		answer := fmt.Sprintf(`"name":"z","requestState":%q,"inputResponses":{%q:{"action":"accept","content":{"name":"Eve"}}}`, member(t, question, "requestState"), key)
		if got := bob.ask("tools/call", answer); !strings.Contains(got, "-32602") {
			t.Errorf("bob goes on: %s", got)
		}
		if got := ada.ask("tools/call", answer); !strings.Contains(got, "Eve") {
			t.Errorf("ada cannot: %s", got)
		}
	}
}

// C1: nor do programs that share a cache and nothing else, or have one user after another.
func TestAListThatWasKeptIsForItsOwnerOnly(t *testing.T) {
	w := newRealm(t, shared())
	var cache client.Cache
	sharing := func(d *client.Dialer) { d.Cache = &cache }
	ada, bob := &person{}, &person{}
	ada.browser.User, bob.browser.User = "ada", "bob"
	login := ada.program()
	first, second := w.mustDial(t, mcp.V20260728, login, sharing), w.mustDial(t, mcp.V20260728, bob.program(), sharing)
	sees := func(c *client.Client) bool { return slices.Contains(namesOf(t, c), "tool diary") }
	if !sees(first) || sees(second) || !sees(first) {
		t.Error("what is kept for one is given to the other")
	}
	if n, _ := cache.Size(); n == 0 {
		t.Error("nothing was kept: this test shows nothing")
	}
	ada.browser.User = "bob"
	if err := login.Login(t.Context(), w.url); err != nil {
		t.Fatal(err)
	}
	if sees(first) {
		t.Error("what was kept for one is given to who has logged in instead")
	}
}
