package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/replicatest"
	"github.com/parley-mcp/parley/internal/syncbuffer"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// recordingStore records all bytes that a server passes to its store.
type recordingStore struct {
	*hookedStore
	mu  sync.Mutex
	all strings.Builder
}

func newRecordingStore() *recordingStore {
	s := new(recordingStore)
	s.hookedStore = newHookedStore(func(_ context.Context, _, key string, value []byte) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all.WriteString(key + "\n" + string(value) + "\n")
		return nil
	})
	return s
}

func (s *recordingStore) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.String()
}

// The texts that the features of addSecretTools write to a store.
var secretTexts = []string{
	"canary-client", "canary-capability", "canary-uri", // of a session
	"canary-argument", "canary-progress", "canary-question", "canary-answer", "canary-result", // of calls and tasks
	"canary-once", "canary-change", "canary-error",
}

const canaryToken = "canary-token-"

// secretReplica returns a replica with a tool that reports progress, asks two questions and has an
// effect: as an ordinary call, as a task and as a parked call.
func secretReplica(t *testing.T, shared *recordingStore, keys [][]byte) *endpoint {
	return newEndpoint(t, func(s *server.Server) {
		s.Store, s.Keys = shared, keys
		s.Auth = &auth.ProtectedResource{
			URI: "http://localhost", Issuers: []string{"https://issuer.example"},
			Verifier: auth.VerifierFunc(func(_ context.Context, token string) (*auth.Info, error) {
				who, err := principal.New("https://issuer.example", strings.TrimPrefix(token, canaryToken), "")
				return &auth.Info{Principal: who, Audience: []string{"http://localhost"},
					Expiry: time.Now().Add(time.Hour)}, err
			}),
		}
		type input struct {
			Text string `json:"text"`
		}
		handler := func(ctx context.Context, in input) (string, error) {
			if err := server.Progress(ctx, 1, 2, "canary-progress"); err != nil {
				return "", err
			}
			first, err := server.Elicit[nameForm](ctx, "canary-question")
			if err != nil {
				return "", err
			}
			if _, err := server.Once(ctx, "pay", func(context.Context, string) (string, error) {
				return "canary-once", nil
			}); err != nil {
				return "", err
			}
			second, err := server.Elicit[nameForm](ctx, "canary-question again")
			return "canary-result for " + in.Text + strings.ToUpper(first.Name[:6]+second.Name[:6]), err
		}
		server.AddTool(s, mcp.Tool{Name: "talk"}, handler)
		server.AddTool(s, mcp.Tool{Name: "job"}, handler, server.AsTask(server.TaskOptions{}))
		server.AddTool(s, mcp.Tool{Name: "park"}, handler, server.Parked())
		server.AddTool(s, mcp.Tool{Name: "fail"}, func(context.Context, input) (string, error) {
			return "", jsonrpc.Errorf(-32099, "canary-error")
		}, server.AsTask(server.TaskOptions{}))
		server.AddStatic(s, mcp.Resource{URI: "note://canary-uri", Name: "note"}, "text")
		server.AddStatic(s, mcp.Resource{URI: "note://canary-change", Name: "change"}, "text")
	})
}

// useEverything calls the tools of secretReplica in each revision that has them, and answers at
// another replica. It returns the ids of the sessions.
func useEverything(t *testing.T, first, second *endpoint) (sessions []string) {
	t.Helper()
	// longer than what a client holds or a Bus forwards
	answer := `{"action":"accept","content":{"name":"` + strings.Repeat("canary-answer", 4000) + `"}}`
	// encoding/json would escape it
	published := `{"action":"accept","content":{"name":"canary-answer` + strings.Repeat("<", 30_000) + `"}}`
	token := []string{"Authorization", "Bearer " + canaryToken + "ada"}
	for _, r := range resumableRevisions {
		if r < "2025-06-18" { // without elicitation
			continue
		}
		a := first.do(http.MethodPost, "/",
			`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+r+
				`","clientInfo":{"name":"canary-client","version":"1"},"capabilities":{"elicitation":{},`+
				`"experimental":{"canary-capability":{}}}}}`, token...)
		id := a.header.Get("Mcp-Session-Id")
		session := append([]string{"Mcp-Session-Id", id, "MCP-Protocol-Version", r}, token...)
		sessions = append(sessions, id)
		first.do(http.MethodPost, "/", wiretest.Initialized, session...)
		if a := second.do(http.MethodPost, "/",
			`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"note://canary-uri"}}`,
			session...); a.status != http.StatusOK {
			t.Fatalf("subscribe: %s", a)
		}
		call := wiretest.Stream(t, first.open(t.Context(), http.MethodPost, "/",
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"talk",`+
				`"arguments":{"text":"canary-argument"},"_meta":{"progressToken":1}}}`, session...))
		for done := false; !done; {
			data := call.Data()
			var m struct {
				ID     json.RawMessage
				Method string
			}
			must.Do(t, json.Unmarshal([]byte(data), &m), "the stream ended", data)
			switch done = m.Method == ""; m.Method {
			case "":
				must.Contains(t, data, "canary-result for canary-argumentCANARYCANARY")
			case mcp.MethodElicit:
				a := second.do(http.MethodPost, "/", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID,
					map[bool]string{true: answer, false: published}[r == "2025-11-25"]), session...)
				must.Equal(t, a.status, http.StatusAccepted, "the answer", a)
			}
		}
	}
	able := strings.Replace(wiretest.Meta, `Capabilities":{}`,
		`Capabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}},"progressToken":"p"`, 1)
	ask := func(e *endpoint, method, name, members string) string {
		t.Helper()
		resp := e.open(t.Context(), http.MethodPost, "/",
			fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,%s}}`, method, members, able),
			append([]string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name}, token...)...)
		defer resp.Body.Close()
		if resp.Header.Get("Content-Type") != "text/event-stream" {
			return wiretest.Text(t, resp)
		}
		all := frames(t, resp, everything)
		return all[len(all)-1].Data
	}
	for _, tool := range []string{"talk", "park"} {
		members := `"name":"` + tool + `","arguments":{"text":"canary-argument"}`
		got := ask(first, mcp.MethodCallTool, tool, members)
		for round := 0; !strings.Contains(got, "canary-result"); round++ {
			must.That(t, round <= 2 && strings.Contains(got, "input_required"), "%s: %.500s", tool, got)
			got = ask([]*endpoint{second, first}[round%2], mcp.MethodCallTool, tool,
				members+`,"requestState":"`+member(t, got, "requestState")+`","inputResponses":{"`+inputKey(t, got)+
					`":`+answer+`}`)
		}
	}
	id := member(t, ask(first, mcp.MethodCallTool, "job", `"name":"job","arguments":{"text":"canary-argument"}`),
		"taskId")
	eventually(t, func() bool {
		got := ask(second, mcp.MethodGetTask, id, `"taskId":"`+id+`"`)
		if strings.Contains(got, `"inputRequests"`) && strings.Contains(got, "canary-question") {
			ask(second, mcp.MethodUpdateTask, id, `"taskId":"`+id+`","inputResponses":{"`+inputKey(t, got)+`":`+answer+
				`}`)
		}
		return strings.Contains(got, "canary-result")
	})
	failed := member(t, ask(first, mcp.MethodCallTool, "fail", `"name":"fail","arguments":{"text":"canary-argument"}`),
		"taskId")
	eventually(t, func() bool {
		return strings.Contains(ask(second, mcp.MethodGetTask, failed, `"taskId":"`+failed+`"`), "canary-error")
	})
	// The first replica subscribes to a resource, and the second announces a change.
	watching := wiretest.Stream(t, first.open(t.Context(), http.MethodPost, "/",
		`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen",`+
			`"params":{"notifications":{"resourceSubscriptions":["note://canary-change"]},`+able+`}}`,
		append([]string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", mcp.MethodListen}, token...)...))
	for _, want := range []string{"acknowledged", "resources/updated"} {
		must.Contains(t, watching.Data(), want)
		second.server.ResourceUpdated("note://canary-change")
	}
	return sessions
}

// DESIGN, section 6: what is stored is encrypted with the server's keys when there are any, and access
// tokens are never stored. Ids of sessions are secrets, too.
func TestStoredAndPublishedTextsAreEncrypted(t *testing.T) {
	for name, keys := range map[string][][]byte{"with keys": {make([]byte, 32)}, "without keys": nil} {
		t.Run(name, func(t *testing.T) {
			if keys == nil {
				t.Log("the texts are found in the store, so the test can fail")
			}
			shared := newRecordingStore()
			first, second := secretReplica(t, shared, keys), secretReplica(t, shared, keys)
			if keys == nil { // then only sessions and tasks work at any replica
				second = first
			}
			sessions := useEverything(t, first, second)
			all := shared.text()
			for _, secret := range append(sessions, canaryToken) {
				must.CheckThat(t, !strings.Contains(all, secret), "the store has %s", secret)
			}
			for _, secret := range secretTexts {
				if keys == nil { // a replica publishes announcements in the background
					eventually(t, func() bool { return strings.Contains(shared.text(), secret) })
				} else if strings.Contains(all, secret) {
					t.Errorf("the store has %s", secret)
				}
			}
		})
	}
}

// storedWith returns an endpoint whose server has these keys.
func storedWith(t *testing.T, memory store.Store, keys ...string) *endpoint {
	return newEndpoint(t, func(s *server.Server) {
		s.Store = memory
		for _, key := range keys {
			s.Keys = append(s.Keys, bytes.Repeat([]byte(key), 32))
		}
	})
}

func (e *endpoint) pings(session []string) int {
	return e.do(http.MethodPost, "/", pingBody, session...).status
}

// Server.Keys: a session that is used while the server has both keys needs only the new one afterwards.
func TestKeysRotateWithoutEndingSessions(t *testing.T) {
	memory := store.NewMemory()
	session := storedWith(t, memory, "a").session("2025-11-25")
	unused := storedWith(t, memory, "a").session("2025-11-25")
	for _, rotation := range [][]string{{"a", "b"}, {"b", "a"}, {"b"}, {"c", "b"}, {"c"}} {
		e := storedWith(t, memory, rotation...)
		for range 3 { // the first request reads the session, the others find it in memory
			must.CheckEqual(t, e.pings(session), http.StatusOK, rotation)
		}
	}
	must.CheckEqual(t, storedWith(t, memory, "c", "a").pings(unused), http.StatusOK)
}

// A session that the server cannot decrypt does not exist, so that the client starts another one
// (2025-11-25, basic/transports, Session Management).
func TestSessionsOfUnknownKeysDoNotExist(t *testing.T) {
	for name, before := range map[string][]string{"another key": {"a"}, "no key": nil} {
		t.Run(name, func(t *testing.T) {
			memory := store.NewMemory()
			session := storedWith(t, memory, before...).session("2025-11-25")
			e := storedWith(t, memory, "b")
			var logged syncbuffer.Buffer
			e.server.Logger = slog.New(slog.NewTextHandler(&logged, nil))
			unknown := append([]string{}, session...)
			unknown[1] = strings.Repeat("A", len(unknown[1]))
			got := e.do(http.MethodPost, "/", pingBody, session...)
			want := e.do(http.MethodPost, "/", pingBody, unknown...)
			must.CheckEqual(t, got.status, http.StatusNotFound, got, want)
			must.CheckEqual(t, got.body, want.body, got, want)
			must.CheckContains(t, logged.String(), "replicas need the same Keys")
			must.CheckEqual(t, e.pings(e.session("2025-11-25")), http.StatusOK)
		})
	}
}

// An entry is bound to its key: a writer of the store cannot give a session the state of another one.
func TestStoredSessionsCannotBeExchanged(t *testing.T) {
	shared := newRecordingStore()
	e := newEndpoint(t, func(s *server.Server) { s.Store, s.Keys = shared, [][]byte{make([]byte, 32)} })
	one, other := e.session("2025-06-18"), e.session("2025-11-25")
	var keys []string
	for line := range strings.Lines(shared.text()) {
		if key := strings.TrimSpace(line); strings.Contains(key, "session/") && (len(keys) == 0 || keys[0] != key) {
			keys = append(keys, key)
		}
	}
	item := must.Get(shared.Store.Get(t.Context(), keys[0]))(t)
	must.Do(t, must.Err(shared.Store.Put(t.Context(), keys[len(keys)-1], item.Value,
		store.PutOptions{TTL: wiretest.Patience})))
	if first, second := e.pings(one), e.pings(other); first != http.StatusOK || second != http.StatusNotFound {
		t.Errorf("status %d and %d", first, second)
	}
}

// The events of a stream are bound to their stream and number.
func TestStoredEventsCannotBeExchanged(t *testing.T) {
	for name, spoil := range map[string]func(entries [][]byte){
		"none":      func([][]byte) {},
		"exchanged": func(e [][]byte) { e[1], e[2] = e[2], e[1] },
		"modified":  func(e [][]byte) { e[1] = append(bytes.Clone(e[1][:len(e[1])-1]), e[1][len(e[1])-1]^1) },
	} {
		t.Run(name, func(t *testing.T) {
			memory := &spoiledLog{Store: store.NewMemory(), spoil: spoil}
			s := newStepping(t, func(s *server.Server) { s.Store, s.Keys = memory, [][]byte{make([]byte, 32)} })
			session := s.session(string(mcp.V20251125))
			got := s.begin(session, 3)
			close(s.steps)
			resp := s.resume(session, got[0].ID)
			defer resp.Body.Close()
			must.CheckEqual(t, resp.StatusCode == http.StatusOK, name == "none", resp.StatusCode)
		})
	}
}

// spoiledLog changes the entries that are read.
type spoiledLog struct {
	store.Store
	spoil func(entries [][]byte)
}

func (l *spoiledLog) ReadAfter(ctx context.Context, key store.StreamKey, seq uint64) ([][]byte, error) {
	entries, err := l.Store.ReadAfter(ctx, key, seq)
	if len(entries) > 2 {
		l.spoil(entries)
	}
	return entries, err
}

// silentStore is a store that stops answering.
type silentStore struct {
	*hookedStore
	silent bool
}

func newSilentStore() *silentStore {
	s := new(silentStore)
	s.hookedStore = newHookedStore(func(ctx context.Context, op, _ string, _ []byte) error {
		if !s.silent || op == "add" {
			return nil
		}
		<-ctx.Done()
		return errors.New("no answer")
	})
	return s
}

// A store that does not answer delays each request by one time-out at most.
func TestAStoreThatDoesNotAnswerDelaysRequestsOnce(t *testing.T) {
	for name, request := range map[string]struct{ method, body string }{
		"handshake":      {"POST", fmt.Sprintf(wiretest.Initialize, "2025-11-25")},
		"request":        {"POST", pingBody},
		"notification":   {"POST", wiretest.Initialized},
		"response":       {"POST", `{"jsonrpc":"2.0","id":1,"result":{}}`},
		"standalone GET": {"GET", ""},
		"DELETE":         {"DELETE", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			kv, s := newSilentStore(), httpServer()
			s.Store = store.Join(kv, kv.Store, kv.Store, kv.Store)
			defer shutdown(t, s)
			session := begin(t, s)
			if name == "handshake" {
				session = nil
			}
			kv.silent = true
			begun := time.Now()
			rec := inBubble(s, request.method, request.body,
				append(session, "Accept", "application/json, text/event-stream")...)
			if took := time.Since(begun); rec.Code != http.StatusServiceUnavailable || took > 10*time.Second {
				t.Errorf("%s: %d after %v: %s", name, rec.Code, took, rec.Body)
			}
		})
	}
}

// shutdown ends a server in a bubble.
func shutdown(t *testing.T, s *server.Server) {
	t.Helper()
	must.Check(t, s.Shutdown(t.Context()))
}

// stalledStore is a store that fails while it is down. If it is silent, writes have an effect nevertheless.
type stalledStore struct {
	*hookedStore
	down, silent atomic.Bool
}

func newStalledStore() *stalledStore {
	s := new(stalledStore)
	refused := errors.New("dial tcp 192.0.2.1:6379: connection refused")
	s.hookedStore = newHookedStore(func(_ context.Context, op, _ string, _ []byte) error {
		if s.down.Load() && (op == "get" || op == "add" || op == "put" && !s.silent.Load()) {
			return refused
		}
		return nil
	})
	s.after = func(_ context.Context, op, _ string, _ []byte) error {
		if s.down.Load() && op == "put" {
			return refused
		}
		return nil
	}
	return s
}

// stall makes the store fail for a while.
func (s *stalledStore) stall(d time.Duration, silent bool) {
	s.silent.Store(silent)
	s.down.Store(true)
	time.AfterFunc(d, func() { s.down.Store(false) })
}

// stallServer returns a server with the tools "pay", "ask" and "park", whose store fails for d when they use it.
func stallServer(d time.Duration, silent bool, effects *atomic.Int32, log io.Writer) *server.Server {
	db := newStalledStore()
	s := &server.Server{Store: store.Join(db, db.Store, db.Store, db.Store), Logger: slog.New(slog.NewTextHandler(log, nil))}
	server.AddTool(s, mcp.Tool{Name: "pay"}, func(ctx context.Context, _ struct{}) (string, error) {
		db.stall(d, silent)
		return server.Once(ctx, "pay", func(context.Context, string) (string, error) {
			db.stall(d, silent)
			return fmt.Sprint("paid ", effects.Add(1)), nil
		})
	})
	ask := func(ctx context.Context, _ struct{}) (string, error) {
		db.stall(d, silent)
		form, err := server.Elicit[struct{ Name string }](ctx, "name?")
		return fmt.Sprint("asked ", effects.Add(1), form.Name), err
	}
	server.AddTool(s, mcp.Tool{Name: "ask"}, ask, server.AsTask(server.TaskOptions{}))
	server.AddTool(s, mcp.Tool{Name: "park"}, ask, server.Parked())
	return s
}

const askable = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`

// A handler that uses the store waits while it is not available. A write whose answer is lost has no second effect.
func TestHandlersWaitForAStoreThatHasFailed(t *testing.T) {
	for _, silent := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var effects atomic.Int32
			s := stallServer(3*time.Second, silent, &effects, io.Discard)
			defer shutdown(t, s)
			w := connect(t, s)
			call := func(tool, more string) string {
				w.Send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":{},` +
					more + askable + `}}`)
				return w.Receive()
			}
			must.CheckContains(t, call("pay", ""), `"text":"paid 1"`, silent)
			first := call("park", "")
			must.Contains(t, first, "name?", silent)
			got := call("park", `"requestState":"`+member(t, first, "requestState")+`","inputResponses":{"`+
				inputKey(t, first)+`":{"action":"accept","content":{"Name":"-Ada"}}},`)
			must.CheckContains(t, got, `"text":"asked 2-Ada"`, silent)
			id := member(t, call("ask", ""), "taskId")
			time.Sleep(6 * time.Second)
			w.Send(`{"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"` + id + `",` + askable + `}}`)
			if got := w.Receive(); !strings.Contains(got, `"status":"input_required"`) ||
				!strings.Contains(got, "name?") {
				t.Errorf("silent %v: a task: %s", silent, got)
			}
			w.Send(`{"jsonrpc":"2.0","id":3,"method":"tasks/cancel","params":{"taskId":"` + id + `",` + askable + `}}`)
			w.Receive()
		})
	}
}

// A store that is away for long does not hold back the response of a call, which does not name the store. The log does.
func TestErrorsOfTheStoreHaveNoDetails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var effects atomic.Int32
		var log syncbuffer.Buffer
		s := stallServer(3*time.Minute, false, &effects, &log)
		defer shutdown(t, s)
		for _, tool := range []string{"pay", "park"} {
			begun := time.Now()
			rec := inBubble(s, http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+
				`","arguments":{},`+askable+`}}`,
				"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", tool, "Accept",
				"application/json, text/event-stream")
			if took := time.Since(begun); took > 70*time.Second ||
				!strings.Contains(rec.Body.String(), "the store of the server is not available: try again later") {
				t.Errorf("%s after %v: %s", tool, took, rec.Body)
			}
			must.CheckThat(t, !strings.Contains(rec.Body.String(), "192.0.2.1") &&
				strings.Contains(log.String(), "192.0.2.1"), "%s: %s\nlog: %s", tool, rec.Body, log.String())
		}
		time.Sleep(5 * time.Minute)
	})
}

// Rules K1, K6, T9, M2: what a server has stored for one principal does not exist for another one.
func TestStoredThingsDoNotExistForOtherPrincipals(t *testing.T) {
	memory := store.NewMemory()
	replicatest.Principals(t, memory, memory, replicatest.Tokens())
}

// Rule R12. Middleware in front of a server authenticates its callers, with or without Server.Auth: nothing of one user
// exists for another one.
func TestThingsOfCallersWhomTheProgramAuthenticatesDoNotExistForOthers(t *testing.T) {
	for _, withAuth := range []bool{false, true} {
		t.Run(fmt.Sprintf("Auth %v", withAuth), func(t *testing.T) {
			memory := store.NewMemory()
			replicatest.Principals(t, memory, memory, replicatest.Door{
				Protect: func(s *server.Server) http.Handler {
					if withAuth {
						replicatest.Tokens().Protect(s)
					}
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						who, err := principal.New("the program", r.Header.Get("X-User"), "")
						if err != nil {
							http.Error(w, "who are you?", http.StatusUnauthorized)
							return
						}
						s.ServeHTTP(w, r.WithContext(auth.NewContext(r.Context(), &auth.Info{Principal: who})))
					})
				},
				Headers: func(user string) []string { return []string{"X-User", user} },
			})
		})
	}
}
