package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// recordingStore records all bytes that a server passes to its store.
type recordingStore struct {
	*store.Memory

	mu  sync.Mutex
	all strings.Builder
}

func (s *recordingStore) note(texts ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range texts {
		s.all.WriteString(text + "\n")
	}
}

func (s *recordingStore) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.String()
}

func (s *recordingStore) Get(ctx context.Context, key string) (store.Item, error) {
	s.note(key)
	return s.Memory.Get(ctx, key)
}

func (s *recordingStore) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	s.note(key, string(value))
	return s.Memory.Put(ctx, key, value, opt)
}

func (s *recordingStore) Touch(ctx context.Context, key string, ttl time.Duration) (store.Item, error) {
	s.note(key)
	return s.Memory.Touch(ctx, key, ttl)
}

func (s *recordingStore) Add(ctx context.Context, set, member string, opt store.AddOptions) error {
	s.note(set, member)
	return s.Memory.Add(ctx, set, member, opt)
}

func (s *recordingStore) Append(ctx context.Context, key store.StreamKey, seq uint64, entry []byte, opt store.AppendOptions) error {
	s.note(key.Group, key.Stream, string(entry))
	return s.Memory.Append(ctx, key, seq, entry, opt)
}

func (s *recordingStore) Publish(ctx context.Context, topic string, message []byte) error {
	s.note(topic, string(message))
	return s.Memory.Publish(ctx, topic, message)
}

func (s *recordingStore) Subscribe(ctx context.Context, topic string, queue int) (*store.Subscription, error) {
	s.note(topic)
	return s.Memory.Subscribe(ctx, topic, queue)
}

// The texts that the features of addSecretTools write to a store.
var secretTexts = []string{
	"canary-client", "canary-capability", "canary-uri", // of a session
	"canary-argument", "canary-progress", "canary-question", "canary-answer", "canary-result", // of calls and tasks
	"canary-once", "canary-change",
}

const canaryToken = "canary-token-"

// secretReplica returns a replica with a tool that reports progress, asks two questions and has an
// effect: as an ordinary call, as a task and as a parked call.
func secretReplica(t *testing.T, shared *recordingStore, keys [][]byte) *endpoint {
	return newEndpoint(t, func(s *server.Server) {
		s.KV, s.Log, s.Bus, s.Keys = shared, shared, shared, keys
		s.Auth = &auth.ProtectedResource{
			URI: "http://localhost", Issuers: []string{"https://issuer.example"},
			Verifier: auth.VerifierFunc(func(_ context.Context, token string) (*auth.Info, error) {
				who, err := principal.New("https://issuer.example", strings.TrimPrefix(token, canaryToken), "")
				return &auth.Info{Principal: who, Audience: []string{"http://localhost"}, Expiry: time.Now().Add(time.Hour)}, err
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
			if _, err := server.Once(ctx, "pay", func(context.Context, string) (string, error) { return "canary-once", nil }); err != nil {
				return "", err
			}
			second, err := server.Elicit[nameForm](ctx, "canary-question again")
			return "canary-result for " + in.Text + strings.ToUpper(first.Name[:6]+second.Name[:6]), err
		}
		server.AddTool(s, mcp.Tool{Name: "talk"}, handler)
		server.AddTool(s, mcp.Tool{Name: "job"}, handler, server.AsTask(server.TaskOptions{}))
		server.AddTool(s, mcp.Tool{Name: "park"}, handler, server.Parked())
		server.AddStatic(s, mcp.Resource{URI: "note://canary-uri", Name: "note"}, "text")
		server.AddStatic(s, mcp.Resource{URI: "note://canary-change", Name: "change"}, "text")
	})
}

// useEverything calls the tools of secretReplica in each revision that has them, and answers at
// another replica. It returns the ids of the sessions.
func useEverything(t *testing.T, first, second *endpoint) (sessions []string) {
	t.Helper()
	answer := `{"action":"accept","content":{"name":"` + strings.Repeat("canary-answer", 4000) + `"}}`       // longer than what a client holds or a Bus forwards
	published := `{"action":"accept","content":{"name":"canary-answer` + strings.Repeat("<", 30_000) + `"}}` // encoding/json would escape it
	token := []string{"Authorization", "Bearer " + canaryToken + "ada"}
	for _, r := range resumableRevisions {
		if r < "2025-06-18" { // without elicitation
			continue
		}
		a := first.do(http.MethodPost, "/", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+r+
			`","clientInfo":{"name":"canary-client","version":"1"},"capabilities":{"elicitation":{},"experimental":{"canary-capability":{}}}}}`, token...)
		id := a.header.Get("Mcp-Session-Id")
		session := append([]string{"Mcp-Session-Id", id, "MCP-Protocol-Version", r}, token...)
		sessions = append(sessions, id)
		first.do(http.MethodPost, "/", wiretest.Initialized, session...)
		if a := second.do(http.MethodPost, "/", `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"note://canary-uri"}}`, session...); a.status != http.StatusOK {
			t.Fatalf("subscribe: %s", a)
		}
		call := wiretest.Stream(t, first.open(t.Context(), http.MethodPost, "/",
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"talk","arguments":{"text":"canary-argument"},"_meta":{"progressToken":1}}}`, session...))
		for done := false; !done; {
			data := call.Data()
			var m struct {
				ID     json.RawMessage
				Method string
			}
			if json.Unmarshal([]byte(data), &m) != nil {
				t.Fatalf("the stream ended: %s", data)
			}
			switch done = m.Method == ""; m.Method {
			case "":
				if !strings.Contains(data, "canary-result for canary-argumentCANARYCANARY") {
					t.Fatalf("%.500s", data)
				}
			case mcp.MethodElicit:
				if a := second.do(http.MethodPost, "/", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, map[bool]string{true: answer, false: published}[r == "2025-11-25"]), session...); a.status != http.StatusAccepted {
					t.Fatalf("the answer: %s", a)
				}
			}
		}
	}
	able := strings.Replace(wiretest.Meta, `Capabilities":{}`, `Capabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}},"progressToken":"p"`, 1)
	ask := func(e *endpoint, method, name, members string) string {
		t.Helper()
		resp := e.open(t.Context(), http.MethodPost, "/", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,%s}}`, method, members, able),
			append([]string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name}, token...)...)
		defer resp.Body.Close()
		if resp.Header.Get("Content-Type") != "text/event-stream" {
			return decodeBody(t, resp)
		}
		all := frames(t, resp, everything)
		return all[len(all)-1].Data
	}
	for _, tool := range []string{"talk", "park"} {
		members := `"name":"` + tool + `","arguments":{"text":"canary-argument"}`
		got := ask(first, mcp.MethodCallTool, tool, members)
		for round := 0; !strings.Contains(got, "canary-result"); round++ {
			if round > 2 || !strings.Contains(got, "input_required") {
				t.Fatalf("%s: %.500s", tool, got)
			}
			got = ask([]*endpoint{second, first}[round%2], mcp.MethodCallTool, tool,
				members+`,"requestState":"`+member(t, got, "requestState")+`","inputResponses":{"`+inputKey(t, got)+`":`+answer+`}`)
		}
	}
	id := member(t, ask(first, mcp.MethodCallTool, "job", `"name":"job","arguments":{"text":"canary-argument"}`), "taskId")
	eventually(t, func() bool {
		got := ask(second, mcp.MethodGetTask, id, `"taskId":"`+id+`"`)
		if strings.Contains(got, `"inputRequests"`) && strings.Contains(got, "canary-question") {
			ask(second, mcp.MethodUpdateTask, id, `"taskId":"`+id+`","inputResponses":{"`+inputKey(t, got)+`":`+answer+`}`)
		}
		return strings.Contains(got, "canary-result")
	})
	// The first replica subscribes to a resource, and the second announces a change.
	watching := wiretest.Stream(t, first.open(t.Context(), http.MethodPost, "/",
		`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["note://canary-change"]},`+able+`}}`,
		append([]string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", mcp.MethodListen}, token...)...))
	for _, want := range []string{"acknowledged", "resources/updated"} {
		if data := watching.Data(); !strings.Contains(data, want) {
			t.Fatalf("no %s: %s", want, data)
		}
		second.server.ResourceUpdated("note://canary-change")
	}
	return sessions
}

func decodeBody(t *testing.T, resp *http.Response) string {
	t.Helper()
	var raw json.RawMessage
	if err := json.NewDecoder(resp.Body).Decode(&raw); err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// DESIGN, section 6: what is stored is encrypted with the server's keys when there are any, and access
// tokens are never stored. Ids of sessions are secrets, too.
func TestStoredAndPublishedTextsAreEncrypted(t *testing.T) {
	for name, keys := range map[string][][]byte{"with keys": {make([]byte, 32)}, "without keys": nil} {
		t.Run(name, func(t *testing.T) {
			if keys == nil {
				t.Log("the texts are found in the store, so the test can fail")
			}
			shared := &recordingStore{Memory: store.NewMemory(store.MemoryOptions{})}
			first, second := secretReplica(t, shared, keys), secretReplica(t, shared, keys)
			if keys == nil { // then only sessions and tasks work at any replica
				second = first
			}
			sessions := useEverything(t, first, second)
			all := shared.text()
			for _, secret := range append(sessions, canaryToken) {
				if strings.Contains(all, secret) {
					t.Errorf("the store has %s", secret)
				}
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
