package replicatest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
)

// denied fails unless bob receives the same response for ada's thing as for a thing that never existed,
// at both replicas. requests returns the requests for a thing with a name.
func denied(t *testing.T, f *fleet, bob *user, hers, unknown string, requests func(thing string) map[string]request) {
	t.Helper()
	forUnknown := requests(unknown)
	for what, q := range requests(hers) {
		for i, at := range []*replica{f.first, f.second} {
			got := strings.ReplaceAll(bob.answer(at, q), hers, "THING")
			want := strings.ReplaceAll(bob.answer(at, forUnknown[what]), unknown, "THING")
			if got != want {
				t.Errorf("%s at replica %d: %s\nwant %s", what, i, got, want)
			}
		}
	}
}

// other returns a text that looks like another random text: its characters are in another order.
func other(text string) string {
	b := []byte(text)
	for i, j := 0, len(b)-2; i < j; i, j = i+1, j-1 { // the last character has unused bits
		b[i], b[j] = b[j], b[i]
	}
	if string(b) == text {
		panic("replicatest: the text is symmetric")
	}
	return string(b)
}

// asking is a call in a session of ada that waits for her answer.
type asking struct {
	*wiretest.Events
	question string // ID of the server's request
	event    string // id of an event before it
}

const askCall = `{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"ask","arguments":{},` +
	`"_meta":{"progressToken":"p"}}}`

// ask begins a call at the first replica.
func ask(ada *user, f *fleet) *asking {
	ada.t.Helper()
	stream := wiretest.Stream(ada.t, ada.open(f.first, request{method: http.MethodPost, body: askCall}))
	data, before := until(ada.t, stream, `"method":"roots/list"`)
	return &asking{stream, rawID(data), before}
}

// rawID returns the ID of a message as it is written there.
func rawID(message string) string {
	_, rest, _ := strings.Cut(message, `"id":`)
	return rest[:strings.IndexAny(rest, ",}")]
}

const herRoots = `{"jsonrpc":"2.0","id":%s,"result":{"roots":[{"uri":"file:///%s"}]}}`

// finish answers the question. The call must be unaffected.
func (c *asking) finish(ada *user, f *fleet) {
	ada.t.Helper()
	ada.answer(f.second, request{method: http.MethodPost, body: fmt.Sprintf(herRoots, c.question, "ada")})
	if data, _ := until(ada.t, c.Events, `"id":77`); !strings.Contains(data, "file:///ada") {
		ada.t.Errorf("the call of ada: %s", data)
	}
}

// messages returns the requests that a client may post in a session.
func messages(c *asking) map[string]request {
	post := func(body string) request { return request{method: http.MethodPost, body: body} }
	return map[string]request{
		"ping":         legacy("ping", ""),
		"call":         legacy("tools/call", `"name":"ask","arguments":{}`),
		"list":         legacy("tools/list", ""),
		"subscribe":    legacy("resources/subscribe", `"uri":"note://a"`),
		"unsubscribe":  legacy("resources/unsubscribe", `"uri":"note://a"`),
		"set level":    legacy("logging/setLevel", `"level":"debug"`),
		"notification": post(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`),
		"answer":       post(fmt.Sprintf(herRoots, c.question, "bob")),
		"rejection":    post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-1,"message":"no"}}`, c.question)),
		"cancellation": post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}`),
		"malformed":    post(`{`),
	}
}

// testSession uses a session of ada.
func testSession(t *testing.T, f *fleet, r mcp.Revision) {
	ada := newUser(t, "ada").session(f.first, r)
	call := ask(ada, f)
	id := ada.headers[1]
	denied(t, f, newUser(t, "bob", "MCP-Protocol-Version", string(r)), id, other(id),
		func(session string) map[string]request {
			all := messages(call)
			all["stream"] = request{method: http.MethodGet}
			all["resumption"] = request{method: http.MethodGet, headers: []string{"Last-Event-ID", call.event}}
			all["resumption of nothing"] = request{method: http.MethodGet, headers: []string{"Last-Event-ID", "x.1"}}
			all["end"] = request{method: http.MethodDelete}
			for what, q := range all {
				q.headers = append(q.headers, "Mcp-Session-Id", session)
				all[what] = q
			}
			return all
		})
	call.finish(ada, f)
	if got := ada.answer(f.second, legacy("ping", "")); !strings.HasPrefix(got, "200") {
		t.Errorf("the session of ada: %s", got)
	}
}

// testOwnSession uses the ids of ada in a session of bob.
func testOwnSession(t *testing.T, f *fleet, r mcp.Revision) {
	ada, bob := newUser(t, "ada").session(f.first, r), newUser(t, "bob").session(f.second, r)
	call := ask(ada, f)
	stream, number, _ := strings.Cut(call.event, ".")
	unknown := stream[:1] + other(stream[1:]) + "." + number // the first character is the kind of the stream
	denied(t, f, bob, call.event, unknown, func(event string) map[string]request {
		return map[string]request{"resumption": {method: http.MethodGet, headers: []string{"Last-Event-ID", event}}}
	})
	denied(t, f, bob, call.question, `"never asked"`, func(question string) map[string]request {
		own := *call
		own.question = question
		all := messages(&own)
		return map[string]request{"answer": all["answer"], "rejection": all["rejection"]}
	})
	denied(t, f, bob, "77", "78", func(id string) map[string]request {
		return map[string]request{"cancellation": {method: http.MethodPost,
			body: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`}}
	})
	call.finish(ada, f)
}

// testPair uses the endpoint of a session of 2024-11-05.
func testPair(t *testing.T, f *fleet) {
	ada := newUser(t, "ada")
	stream := wiretest.Stream(t, ada.open(f.first, request{method: http.MethodGet}))
	endpoint := stream.Data()
	post := func(body string) { ada.answer(f.first, request{method: http.MethodPost, path: endpoint, body: body}) }
	post(fmt.Sprintf(initialize, mcp.V20241105))
	until(t, stream, `"id":0`)
	post(wiretest.Initialized)
	post(askCall)
	data, _ := until(t, stream, `"method":"roots/list"`)
	call := &asking{stream, rawID(data), ""}
	path, id, _ := strings.Cut(endpoint, "=")
	denied(t, f, newUser(t, "bob"), id, other(id), func(session string) map[string]request {
		all := messages(call)
		for what, q := range all {
			q.path = path + "=" + session
			all[what] = q
		}
		return all
	})
	ada.answer(f.first, request{method: http.MethodPost, path: endpoint,
		body: fmt.Sprintf(herRoots, call.question, "ada")})
	if data, _ := until(t, stream, `"id":77`); !strings.Contains(data, "file:///ada") {
		t.Errorf("the call of ada: %s", data)
	}
}

// testSessionTask uses a task of 2025-11-25.
func testSessionTask(t *testing.T, f *fleet) {
	ada, bob := newUser(t, "ada").session(f.first, mcp.V20251125), newUser(t, "bob").session(f.second, mcp.V20251125)
	created := ada.message(f.first, legacy("tools/call", `"name":"job","arguments":{},"task":{}`))
	id := member(t, created, "taskId")
	denied(t, f, bob, id, other(id), func(task string) map[string]request {
		all := make(map[string]request)
		for _, method := range []string{mcp.MethodGetTask, mcp.MethodTaskResult, mcp.MethodCancelTask} {
			all[method] = legacy(method, fmt.Sprintf(`"taskId":%q`, task))
		}
		return all
	})
	for _, at := range []*replica{f.first, f.second} {
		if got := bob.answer(at, legacy(mcp.MethodListTasks, "")); !strings.Contains(got, `"tasks":[]`) {
			t.Errorf("bob lists %s", got)
		}
		if got := ada.answer(at, legacy(mcp.MethodGetTask, fmt.Sprintf(`"taskId":%q`, id))); strings.Contains(got,
			"cancelled") || !strings.Contains(got, id) {
			t.Errorf("the task of ada: %s", got)
		}
	}
	ada.answer(f.first, legacy(mcp.MethodCancelTask, fmt.Sprintf(`"taskId":%q`, id)))
}

// testTask uses a task of the extension.
func testTask(t *testing.T, f *fleet) {
	ada, bob := newUser(t, "ada"), newUser(t, "bob")
	id := member(t, ada.message(f.first, modern(mcp.MethodCallTool, "job", `"name":"job","arguments":{}`)), "taskId")
	get := func() string {
		return ada.message(f.second, modern(mcp.MethodGetTask, id, fmt.Sprintf(`"taskId":%q`, id)))
	}
	question := eventually(t, get, `"inputRequests"`)
	responses := func(name string) string {
		return fmt.Sprintf(`"inputResponses":{%q:{"action":"accept","content":{"name":%q}}}`, inputKey(t, question),
			name)
	}
	denied(t, f, bob, id, other(id), func(task string) map[string]request {
		members := fmt.Sprintf(`"taskId":%q`, task)
		return map[string]request{
			"get":    modern(mcp.MethodGetTask, task, members),
			"cancel": modern(mcp.MethodCancelTask, task, members),
			"update": modern(mcp.MethodUpdateTask, task, members+","+responses("bob")),
			"listen": modern(mcp.MethodListen, "", fmt.Sprintf(`"notifications":{"taskIds":[%q]}`, task)),
		}
	})
	ada.answer(f.second, modern(mcp.MethodUpdateTask, id, fmt.Sprintf(`"taskId":%q,%s`, id, responses("ada"))))
	if got := eventually(t, get, `"completed"`); !strings.Contains(got, `"text":"ada"`) {
		t.Errorf("the task of ada: %s", got)
	}
}

// testCursor uses a cursor of a list that depends on the caller.
func testCursor(t *testing.T, f *fleet) {
	ada := newUser(t, "ada")
	cursor := member(t, ada.message(f.first, modern(mcp.MethodListTools, "", "")), "nextCursor")
	page := func(cursor string) request {
		return modern(mcp.MethodListTools, "", fmt.Sprintf(`"cursor":%q`, cursor))
	}
	denied(t, f, newUser(t, "bob"), cursor, other(cursor), func(cursor string) map[string]request {
		return map[string]request{"list": page(cursor)}
	})
	if got := ada.message(f.second, page(cursor)); !strings.Contains(got, `"tools":[{`) {
		t.Errorf("the list of ada: %s", got)
	}
}

// testState uses the requestState of a call that waits for an answer. A long answer is in the store.
func testState(t *testing.T, f *fleet, tool string, long bool) {
	ada, bob := newUser(t, "ada"), newUser(t, "bob")
	members := fmt.Sprintf(`"name":%q,"arguments":{}`, tool)
	got := ada.message(f.first, modern(mcp.MethodCallTool, tool, members))
	next := func(state, name string) request {
		return modern(mcp.MethodCallTool, tool,
			fmt.Sprintf(`%s,"requestState":%q,"inputResponses":{%q:{"action":"accept","content":{"name":%q}}}`,
				members, state, inputKey(t, got), name))
	}
	if long {
		got = ada.message(f.second, next(member(t, got, "requestState"), strings.Repeat("ada", 20_000)))
	}
	state := member(t, got, "requestState")
	denied(t, f, bob, state, other(state), func(state string) map[string]request {
		return map[string]request{"call": next(state, "bob")}
	})
	if got = ada.message(f.second, next(state, "ada")); !strings.Contains(got, "ada") ||
		!strings.Contains(got, `"content"`) {
		t.Errorf("the call of ada: %.500s", got)
	}
}

// testCancellation cancels a request of ada.
func testCancellation(t *testing.T, f *fleet) {
	ada, bob := newUser(t, "ada"), newUser(t, "bob")
	call := modern(mcp.MethodCallTool, "wait", `"name":"wait","arguments":{}`)
	call.body = strings.Replace(call.body, `"id":1`, `"id":77`, 1)
	stream := wiretest.Stream(t, ada.open(f.first, call))
	until(t, stream, "waiting")
	denied(t, f, bob, "77", "78", func(id string) map[string]request {
		return map[string]request{"cancellation": {
			method: http.MethodPost, headers: []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method",
				"notifications/cancelled"},
			body: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,` + modernMeta +
				`}}`,
		}}
	})
	f.first.release <- struct{}{}
	if data, _ := until(t, stream, `"id":77`); !strings.Contains(data, "released") {
		t.Errorf("the call of ada: %s", data)
	}
}

// testStrangers sends requests that nobody has authenticated, and uses a session of ada with them.
func testStrangers(t *testing.T, f *fleet, strangers map[string][]string) {
	ada := newUser(t, "ada").session(f.first, mcp.V20251125)
	f.second.door.Headers = nil // send only the strangers' headers
	defer func() { f.second.door = f.first.door }()
	for what, headers := range strangers {
		nobody := newUser(t, "nobody", headers...)
		session := append([]string{}, ada.headers...)
		for name, q := range map[string]request{
			"call": modern(mcp.MethodCallTool, "wait", `"name":"wait","arguments":{}`),
			"list": modern(mcp.MethodListTools, "", ""), "listen": modern(mcp.MethodListen, "", `"notifications":{}`),
			"discover":   modern("server/discover", "", ""),
			"initialize": {method: http.MethodPost, body: fmt.Sprintf(initialize, mcp.V20251125)},
			"session":    {method: http.MethodPost, body: legacy("ping", "").body, headers: session},
			"stream":     {method: http.MethodGet, headers: session},
			"end":        {method: http.MethodDelete, headers: session},
			"HTTP+SSE":   {method: http.MethodGet},
		} {
			if got := nobody.answer(f.second, q); !strings.HasPrefix(got, "401") {
				t.Errorf("%s, %s: %s", what, name, got)
			}
		}
	}
}

// testCatalog uses the tool and the resource of a catalog that only ada sees.
func testCatalog(t *testing.T, f *fleet) {
	ada, bob := newUser(t, "ada"), newUser(t, "bob")
	call := func(tool string) request {
		return modern(mcp.MethodCallTool, tool, fmt.Sprintf(`"name":%q,"arguments":{}`, tool))
	}
	read := func(note string) request {
		return modern(mcp.MethodReadResource, "note://"+note, fmt.Sprintf(`"uri":"note://%s"`, note))
	}
	listen := func(note string) request {
		return modern(mcp.MethodListen, "",
			fmt.Sprintf(`"notifications":{"resourceSubscriptions":["note://%s"]}`, note))
	}
	denied(t, f, bob, "hers", "none", func(thing string) map[string]request {
		return map[string]request{"call": call(thing), "read": read(thing), "listen": listen(thing)}
	})
	for name, want := range map[string]bool{"ada": true, "bob": false} {
		for _, method := range []string{mcp.MethodListTools, mcp.MethodListResources} {
			if got := pages(newUser(t, name), f.second, method); strings.Contains(got, "hers") != want {
				t.Errorf("%s lists %s", name, got)
			}
		}
	}
	for _, q := range []request{call("hers"), read("hers")} {
		if got := ada.message(f.second, q); !strings.Contains(got, "of ada") {
			t.Errorf("the catalog of ada: %s", got)
		}
	}
	// Both subscribe to the note of ada. Only she hears of its change: the first change that bob hears
	// of is another note.
	hers := wiretest.Stream(t, ada.open(f.first, listen("hers")))
	his := wiretest.Stream(t, bob.open(f.first, modern(mcp.MethodListen, "",
		`"notifications":{"resourceSubscriptions":["note://hers","note://a"]}`)))
	until(t, hers, "acknowledged")
	until(t, his, "acknowledged")
	f.first.hers.ResourceUpdated("note://hers")
	f.first.server.ResourceUpdated("note://a")
	until(t, hers, "notifications/resources/updated")
	if data, _ := until(t, his, "notifications/resources/updated"); !strings.Contains(data, "note://a") {
		t.Errorf("bob hears of the note of ada: %s", data)
	}
}

// pages returns all pages of a list.
func pages(u *user, at *replica, method string) (all string) {
	for cursor := ""; ; {
		page := u.message(at, modern(method, "", cursor))
		all += page
		if !strings.Contains(page, `"nextCursor"`) {
			return all
		}
		cursor = fmt.Sprintf(`"cursor":%q`, member(u.t, page, "nextCursor"))
	}
}

// testSessionCatalog uses a catalog of ada in a session of bob.
func testSessionCatalog(t *testing.T, f *fleet, r mcp.Revision) {
	ada, bob := newUser(t, "ada").session(f.first, r), newUser(t, "bob").session(f.first, r)
	requests := func(thing string) map[string]request {
		return map[string]request{
			"call":      legacy(mcp.MethodCallTool, fmt.Sprintf(`"name":%q,"arguments":{}`, thing)),
			"read":      legacy(mcp.MethodReadResource, fmt.Sprintf(`"uri":"note://%s"`, thing)),
			"subscribe": legacy(mcp.MethodSubscribe, fmt.Sprintf(`"uri":"note://%s"`, thing)),
		}
	}
	denied(t, f, bob, "hers", "none", requests)
	for what, q := range requests("hers") {
		if got := ada.message(f.second, q); strings.Contains(got, `"error"`) {
			t.Errorf("%s of ada: %s", what, got)
		}
	}
}

// testOnce makes the same call as two users: each gets a separate result of Once.
func testOnce(t *testing.T, f *fleet) {
	for _, name := range []string{"ada", "bob"} {
		u := newUser(t, name)
		got := u.message(f.first, modern(mcp.MethodCallTool, "pay", `"name":"pay","arguments":{}`))
		got = u.message(f.second, modern(mcp.MethodCallTool, "pay",
			fmt.Sprintf(`"name":"pay","arguments":{},"requestState":%q,"inputResponses":{%q:{"action":"accept",`+
				`"content":{"name":%q}}}`,
				member(t, got, "requestState"), inputKey(t, got), name)))
		if !strings.Contains(got, name+" and "+name) {
			t.Errorf("%s: %s", name, got)
		}
	}
}
