package modern

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/seal"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// askingServer returns a server whose tool asks all questions, one after the other, and returns the answers.
func askingServer(t testing.TB, questions ...rpc.InputRequest) *Server {
	t.Helper()
	seals := must.Get(seal.New([]byte(strings.Repeat("k", seal.KeySize))))(t)
	handler := func(ctx context.Context, c *rpc.Call) (any, error) {
		var all []string
		for _, q := range questions {
			given, err := c.RequestInput(ctx, q)
			if err != nil {
				return nil, err
			}
			all = append(all, string(given[0]))
		}
		return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(strings.Join(all, " "))}}, nil
	}
	engine := rpc.NewEngine(rpc.Handlers{mcp.MethodCallTool: handler}, slog.New(slog.DiscardHandler))
	engine.Identity = []byte(`{"name":"s","version":"1"}`)
	return &Server{Engine: engine, Peers: &rpc.PeerCache{}, Seals: seals}
}

func ask(key string) rpc.InputRequest {
	return rpc.InputRequest{Key: key, Method: mcp.MethodElicit, Params: json.RawMessage(`{"message":"` + key + `?"}`)}
}

// outcome is the result or the error of a round.
type outcome struct {
	Kind     string                      `json:"resultType"`
	Requests map[string]mcp.InputRequest `json:"inputRequests"`
	State    *string                     `json:"requestState"`
	Content  []struct{ Text string }     `json:"content"`
	err      *jsonrpc.Error
}

// round sends one round of a call of tool, with additional members of params.
func round(t *testing.T, s *Server, who principal.Principal, tool string, members ...string) outcome {
	t.Helper()
	return roundWith(t, s, who, tool, `{"a":1,"b":"x"}`, members...)
}

// roundWith is round with other arguments.
func roundWith(t testing.TB, s *Server, who principal.Principal, tool, arguments string, members ...string) outcome {
	t.Helper()
	return roundNamed(t, s, who, `"`+tool+`"`, arguments, members...)
}

// roundNamed is roundWith with the name of the tool as JSON.
func roundNamed(t testing.TB, s *Server, who principal.Principal, name, arguments string, members ...string) outcome {
	t.Helper()
	params := `"name":` + name + `,"arguments":` + arguments + `,` + strings.Join(members, "") +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`
	m, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+params+`}}`),
		jsonrpc.Limits{})
	must.Do(t, err)
	reply := must.Get(jsonrpc.Parse(serve(t.Context(), s, nil, &m, who), jsonrpc.Limits{}))(t)
	out := outcome{err: reply.Err}
	if out.err == nil {
		must.Do(t, json.Unmarshal(reply.Raw, &out), reply.Raw)
	}
	return out
}

func echoing(s *string) string { return `"requestState":"` + *s + `",` }

func answering(pairs ...string) string {
	var parts []string
	for i := 0; i < len(pairs); i += 2 {
		parts = append(parts, fmt.Sprintf(`%q:%s`, pairs[i], pairs[i+1]))
	}
	return `"inputResponses":{` + strings.Join(parts, ",") + `},`
}

const yes = `{"action":"accept","content":{"ok":true}}`

func TestRoundsContinueTheCall(t *testing.T) {
	s := askingServer(t, ask("one"), ask("two"))
	first := round(t, s, principal.Local, "x")
	must.That(t, first.Kind == mcp.ResultTypeInputRequired && len(first.Requests) == 1 &&
		first.Requests["one"].Method == mcp.MethodElicit && first.State != nil, "first round: %+v", first)
	second := round(t, s, principal.Local, "x", echoing(first.State), answering("one", yes))
	must.That(t, len(second.Requests) == 1 && second.Requests["two"].Method != "" && *second.State != *first.State,
		"second round: %+v", second)
	third := round(t, s, principal.Local, "x", echoing(second.State), answering("two", yes))
	must.That(t, third.Kind == mcp.ResultTypeComplete && third.Content[0].Text == yes+" "+yes,
		"third round: %+v", third)
}

// Answers to questions that were not asked are ignored. Missing answers are requested again.
func TestOnlyOpenQuestionsAreAnswered(t *testing.T) {
	s := askingServer(t, ask("one"), ask("two"))
	first := round(t, s, principal.Local, "x")
	for name, sent := range map[string]string{
		"nothing":       "",
		"another key":   answering("other", yes),
		"a later key":   answering("two", yes),
		"not an object": answering("one", `12345`),
		"null answer":   answering("one", `null`),
	} {
		t.Run(name, func(t *testing.T) {
			again := round(t, s, principal.Local, "x", echoing(first.State), sent)
			must.CheckThat(t, again.Kind == mcp.ResultTypeInputRequired && again.Requests["one"].Method != "",
				"%+v", again)
		})
	}
	extra := round(t, s, principal.Local, "x", echoing(first.State), answering("one", yes, "more", yes))
	must.CheckThat(t, extra.Requests["two"].Method != "", "with an unknown answer: %+v", extra)
}

// Rule M1: a modified state is rejected, and does not begin a new call.
func TestModifiedStatesAreRejected(t *testing.T) {
	s := askingServer(t, ask("one"))
	sealed := *round(t, s, principal.Local, "x").State
	raw := must.Get(base64.RawURLEncoding.DecodeString(sealed))(t)
	rejected := func(name, state string) {
		t.Helper()
		out := round(t, s, principal.Local, "x", `"requestState":`+state+`,`, answering("one", yes))
		must.CheckThat(t, out.err != nil && out.err.Code == jsonrpc.CodeInvalidParams &&
			strings.Contains(out.err.Message, "requestState"), "%s: %+v %v", name, out, out.err)
	}
	for i := range raw {
		changed := append([]byte(nil), raw...)
		changed[i] ^= 1 << (i % 8)
		rejected(fmt.Sprintf("byte %d", i), `"`+base64.RawURLEncoding.EncodeToString(changed)+`"`)
	}
	rejected("appended", `"`+sealed+`-TAMPERED"`)
	rejected("truncated", `"`+sealed[:len(sealed)-1]+`"`)
	rejected("empty", `""`)
	rejected("a number", `7`)
	rejected("null", `null`)
	rejected("an object", `{}`)
}

// Rule M2: a state belongs to one principal and one request, and expires after an hour.
func TestStatesBelongToPrincipalAndRequest(t *testing.T) {
	s := askingServer(t, ask("one"))
	now := time.Now()
	s.Now = func() time.Time { return now }
	mine := round(t, s, principal.Local, "x").State
	other := must.Get(principal.New("https://issuer.example", "other", ""))(t)
	for name, out := range map[string]outcome{
		"another principal": round(t, s, other, "x", echoing(mine), answering("one", yes)),
		"anonymous":         round(t, s, principal.Anonymous, "x", echoing(mine), answering("one", yes)),
		"another tool":      round(t, s, principal.Local, "y", echoing(mine), answering("one", yes)),
		"other arguments": roundWith(t, s, principal.Local, "x", `{"a":2,"b":"x"}`, echoing(mine),
			answering("one", yes)),
		"one more argument": roundWith(t, s, principal.Local, "x", `{"a":1,"b":"x","c":null}`, echoing(mine),
			answering("one", yes)),
		"no arguments": roundWith(t, s, principal.Local, "x", `{}`, echoing(mine), answering("one", yes)),
	} {
		must.CheckThat(t, out.err != nil && out.err.Code == jsonrpc.CodeInvalidParams, "%s: %+v", name, out)
	}
	// The client may send the same state again, because a response can be lost. server.Once
	// protects actions that must not run twice.
	for range 2 {
		out := round(t, s, principal.Local, "x", echoing(mine), answering("one", yes))
		must.CheckEqual(t, out.Kind, mcp.ResultTypeComplete, "sent again", out)
	}
	now = now.Add(stateLifetime - time.Second)
	out := round(t, s, principal.Local, "x", echoing(mine), answering("one", yes))
	must.CheckEqual(t, out.Kind, mcp.ResultTypeComplete, "before the expiry", out)
	now = now.Add(2 * time.Second)
	if out := round(t, s, principal.Local, "x", echoing(mine), answering("one", yes)); out.err == nil {
		t.Errorf("after the expiry: %+v", out)
	}
}

// The digest of a request does not depend on how its JSON is written.
func TestStatesAcceptEquivalentJSON(t *testing.T) {
	s := askingServer(t, ask("one"))
	first := round(t, s, principal.Local, "x")
	out := round(t, s, principal.Local, "x", echoing(first.State), answering("one", yes))
	must.Equal(t, out.Kind, mcp.ResultTypeComplete, out)
	params := `"arguments": { "b" : "\u0078", "a" : 1 }, "name":"x",` + echoing(first.State) + answering("one", yes) +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{}}`
	m, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+params+`}}`),
		jsonrpc.Limits{})
	must.Do(t, err)
	reply := serve(t.Context(), s, nil, &m, principal.Local)
	must.CheckContains(t, string(reply), `"resultType":"complete"`)
}

func TestOlderKeysOpenStates(t *testing.T) {
	s := askingServer(t, ask("one"))
	first := round(t, s, principal.Local, "x")
	retired, newest := []byte(strings.Repeat("k", seal.KeySize)), []byte(strings.Repeat("n", seal.KeySize))
	var err error
	if s.Seals, err = seal.New(newest, retired); err != nil {
		t.Fatal(err)
	}
	out := round(t, s, principal.Local, "x", echoing(first.State), answering("one", yes))
	must.CheckEqual(t, out.Kind, mcp.ResultTypeComplete, out)
	if s.Seals, err = seal.New(newest); err != nil {
		t.Fatal(err)
	}
	if out := round(t, s, principal.Local, "x", echoing(first.State), answering("one", yes)); out.err == nil {
		t.Errorf("without the older key: %+v", out)
	}
}

// A call may ask for input in ten rounds.
func TestRoundsAreLimited(t *testing.T) {
	var questions []rpc.InputRequest
	for i := range maxRounds + 1 {
		questions = append(questions, ask(fmt.Sprint("q", i)))
	}
	s := askingServer(t, questions...)
	out := round(t, s, principal.Local, "x")
	for i := range maxRounds - 1 {
		must.That(t, out.State != nil, "round %d: %+v %v", i, out, out.err)
		out = round(t, s, principal.Local, "x", echoing(out.State), answering(fmt.Sprint("q", i), yes))
	}
	out = round(t, s, principal.Local, "x", echoing(out.State), answering(fmt.Sprint("q", maxRounds-1), yes))
	must.CheckThat(t, out.err != nil && strings.Contains(out.err.Message, "rounds"), "%+v %v", out, out.err)
}

func TestStateSizeIsLimited(t *testing.T) {
	s := askingServer(t, ask("one"), ask("two"))
	first := round(t, s, principal.Local, "x")
	huge := `{"action":"accept","content":{"text":"` + strings.Repeat("x", maxState) + `"}}`
	out := round(t, s, principal.Local, "x", echoing(first.State), answering("one", huge))
	must.CheckThat(t, out.err != nil && strings.Contains(out.err.Message, "bytes"), "%+v %v", out, out.err)
}

// A question that has changed between two rounds has no answer, and another key: a client takes questions with one key
// for the same.
func TestChangedQuestionIsAskedAgain(t *testing.T) {
	first := round(t, askingServer(t, ask("one")), principal.Local, "x")
	changed := ask("one")
	changed.Params = json.RawMessage(`{"message":"something else?"}`)
	s := askingServer(t, changed)
	out := round(t, s, principal.Local, "x", echoing(first.State), answering("one", yes))
	must.Equal(t, len(out.Requests), 1, out)
	must.Equal(t, out.Requests["one"].Method, "", out)
	for key := range out.Requests {
		out = round(t, s, principal.Local, "x", echoing(out.State), answering(key, yes))
		must.CheckThat(t, len(out.Content) == 1 && out.Content[0].Text == yes, "%+v", out)
	}
}

// FuzzRequestState checks that a state which was changed, or which comes with another tool or arguments or from another
// principal, is rejected, and that the unchanged state continues the call.
func FuzzRequestState(f *testing.F) {
	s := askingServer(f, ask("one"), ask("two"))
	const arguments = `{"a":1,"b":"x"}`
	ada := must.Get(principal.New("https://as.example", "ada", ""))(f)
	first := roundWith(f, s, ada, "x", arguments)
	second := roundWith(f, s, ada, "x", arguments, echoing(first.State), answering("one", yes))
	state := *second.State
	f.Add(0, []byte{0}, "", "x", `{ "b":"\u0078", "a":1 }`, "ada")
	f.Add(0, []byte{}, "", "x", `{"a":1.0,"b":"x"}`, "ada")
	f.Add(0, []byte{1}, "", "x", arguments, "ada")
	f.Add(len(state)-1, []byte{2}, "", "x", arguments, "ada")
	f.Add(5, []byte{}, "A", "x", arguments, "ada")
	f.Add(0, []byte{}, "", "y", arguments, "ada")
	f.Add(0, []byte{}, "", "x", `{"a":2,"b":"x"}`, "ada")
	f.Add(0, []byte{}, "", "x", arguments, "bob")
	f.Fuzz(func(t *testing.T, at int, flip []byte, inserted, tool, given, subject string) {
		changed := []byte(state)
		for i, b := range flip {
			changed[(max(at, 0)+i)%len(changed)] ^= b
		}
		at = max(at, 0) % len(state)
		text := string(changed[:at]) + inserted + string(changed[at:])
		who, err := principal.New("https://as.example", subject, "")
		canonical, invalid := digest.Canonical([]byte(given))
		if err != nil || !utf8.ValidString(text) || !utf8.ValidString(tool) || !jsontext.Value(given).IsValid() ||
			invalid != nil || len(canonical) == 0 || canonical[0] != '{' {
			return
		}
		raw := must.Get(json.Marshal(text))(t)
		name := must.Get(json.Marshal(tool))(t)
		got := roundNamed(t, s, who, string(name), given, `"requestState":`+string(raw)+",", answering("two", yes))
		same := text == state && tool == "x" && string(canonical) == arguments && subject == "ada"
		switch {
		case !same && (got.err == nil || got.err.Code != jsonrpc.CodeInvalidParams):
			t.Fatalf("%q from %q with the state %q: %+v", tool, subject, text, got)
		case same && (got.Kind != mcp.ResultTypeComplete || got.Content[0].Text != yes+" "+yes):
			t.Fatalf("%q with %q: %+v", tool, given, got)
		}
	})
}

// book is a store that records its keys, and that can be made to fail.
type book struct {
	store.KV
	mu   sync.Mutex
	keys map[string]bool
	fail error
}

func newBook() *book { return &book{KV: store.NewMemory(), keys: make(map[string]bool)} }

func (b *book) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	if b.fail != nil {
		return 0, b.fail
	}
	b.mu.Lock()
	b.keys[key] = true
	b.mu.Unlock()
	return b.KV.Put(ctx, key, value, opt)
}

func (b *book) Get(ctx context.Context, key string) (store.Item, error) {
	if b.fail != nil {
		return store.Item{}, b.fail
	}
	return b.KV.Get(ctx, key)
}

// huge is an answer that is too large for requestState.
var huge = `{"action":"accept","content":{"text":"` + strings.Repeat("x", maxState) + `"}}`

func principalNamed(t *testing.T, name string) principal.Principal {
	t.Helper()
	who := must.Get(principal.New("https://issuer.example", name, ""))(t)
	return who
}

// overflowing returns the outcome of a call that waits for its second answer, after a huge first one.
func overflowing(t *testing.T, b *book, who principal.Principal) (*Server, outcome) {
	t.Helper()
	s := askingServer(t, ask("one"), ask("two"))
	s.Store = b
	first := round(t, s, who, "x")
	return s, round(t, s, who, "x", echoing(first.State), answering("one", huge))
}

func TestLargeStatesAreStored(t *testing.T) {
	b, ada := newBook(), principalNamed(t, "ada")
	_, second := overflowing(t, b, ada)
	must.That(t, second.Requests["two"].Method != "" && len(*second.State) <= 4096, "%+v %v", second, second.err)
	for key := range b.keys {
		must.CheckThat(t, strings.HasPrefix(key, ada.Key()), "the key %q does not begin with its principal", key)
		item, err := b.KV.Get(t.Context(), key)
		must.CheckThat(t, err == nil && !strings.Contains(string(item.Value), strings.Repeat("x", 20)),
			"the stored state is not encrypted: %v", err)
	}
	// Another replica can continue the call. A round whose response was lost can be sent again.
	other := askingServer(t, ask("one"), ask("two"))
	other.Store = b
	for range 2 {
		third := round(t, other, ada, "x", echoing(second.State), answering("two", yes))
		must.CheckThat(t, third.Kind == mcp.ResultTypeComplete && third.Content[0].Text == huge+" "+yes,
			"%+v %v", third.Kind, third.err)
	}
}

// The state of each round contains the huge answer, so each round uses a slot.
func TestEachRoundWithALargeStateUsesASlot(t *testing.T) {
	b, ada := newBook(), principalNamed(t, "ada")
	s := askingServer(t, ask("one"), ask("two"), ask("three"))
	s.Store = b
	out := round(t, s, ada, "x")
	out = round(t, s, ada, "x", echoing(out.State), answering("one", huge))
	out = round(t, s, ada, "x", echoing(out.State), answering("two", yes))
	must.That(t, out.Requests["three"].Method != "", "%+v %v", out, out.err)
	out = round(t, s, ada, "x", echoing(out.State), answering("three", yes))
	must.CheckEqual(t, out.Kind, mcp.ResultTypeComplete, out, out.err)
	must.CheckEqual(t, len(b.keys), 2)
}

// Rule M2: a stored state belongs to its principal.
func TestStoredStatesBelongToPrincipalAndRequest(t *testing.T) {
	b, ada := newBook(), principalNamed(t, "ada")
	s, second := overflowing(t, b, ada)
	rejected := func(name, why string, out outcome) {
		t.Helper()
		must.CheckThat(t, out.err != nil && out.err.Code == jsonrpc.CodeInvalidParams &&
			strings.Contains(out.err.Message, why), "%s: %+v %v", name, out, out.err)
	}
	rejected("another principal", "another caller",
		round(t, s, principalNamed(t, "eve"), "x", echoing(second.State), answering("two", yes)))
	rejected("anonymous", "another caller",
		round(t, s, principal.Anonymous, "x", echoing(second.State), answering("two", yes)))
	rejected("another tool", "another request", round(t, s, ada, "y", echoing(second.State), answering("two", yes)))

	// Even with a reference to the slot, another principal cannot read it.
	note := &storedState{Slot: strings.TrimPrefix(slices.Collect(maps.Keys(b.keys))[0], ada.Key()), Digest: "?"}
	text, err := s.loadState(t.Context(), principalNamed(t, "eve"), note)
	must.CheckThat(t, err != nil, "eve reads %.40q", text)
}

// Rule M1: a modified state in the store is rejected.
func TestModifiedStoredStatesAreRejected(t *testing.T) {
	for name, change := range map[string]func(b *book, key string){
		"lost": func(b *book, key string) { _ = b.KV.Delete(context.Background(), key) },
		"a changed byte": func(b *book, key string) {
			item, _ := b.KV.Get(context.Background(), key)
			changed := slices.Clone(item.Value)
			changed[len(changed)/2] ^= 1
			_, _ = b.KV.Put(context.Background(), key, changed, store.PutOptions{TTL: time.Hour})
		},
		"empty": func(b *book, key string) {
			_, _ = b.KV.Put(context.Background(), key, nil, store.PutOptions{TTL: time.Hour})
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, ada := newBook(), principalNamed(t, "ada")
			s, second := overflowing(t, b, ada)
			for key := range b.keys {
				change(b, key)
			}
			out := round(t, s, ada, "x", echoing(second.State), answering("two", yes))
			must.CheckThat(t, out.err != nil && out.err.Code == jsonrpc.CodeInvalidParams &&
				strings.Contains(out.err.Message, "stored state"), "%+v %v", out, out.err)
		})
	}
	t.Run("the state of another round", func(t *testing.T) {
		b, ada := newBook(), principalNamed(t, "ada")
		s, second := overflowing(t, b, ada)
		mine := maps.Clone(b.keys)
		again := round(t, s, ada, "x")
		round(t, s, ada, "x", echoing(again.State), answering("one", huge))
		for key := range b.keys {
			if mine[key] {
				continue
			}
			theirs, _ := b.KV.Get(t.Context(), key)
			for key := range mine {
				_, _ = b.KV.Put(t.Context(), key, theirs.Value, store.PutOptions{TTL: time.Hour})
			}
		}
		out := round(t, s, ada, "x", echoing(second.State), answering("two", yes))
		must.CheckThat(t, out.err != nil && out.err.Code == jsonrpc.CodeInvalidParams, "%+v", out)
	})
}

// A state is not invalid because the store fails.
func TestStoreFailureIsAnInternalError(t *testing.T) {
	b, ada := newBook(), principalNamed(t, "ada")
	s, second := overflowing(t, b, ada)
	b.fail = errors.New("redis at 10.0.0.1 is down")
	out := round(t, s, ada, "x", echoing(second.State), answering("two", yes))
	must.CheckThat(t, out.err != nil && out.err.Code == jsonrpc.CodeInternalError &&
		!strings.Contains(out.err.Message, "redis"), "%+v %v", out, out.err)
	out = round(t, s, ada, "x")
	out = round(t, s, ada, "x", echoing(out.State), answering("one", huge))
	must.CheckThat(t, out.err != nil && out.err.Code == jsonrpc.CodeInternalError &&
		!strings.Contains(out.err.Message, "redis"), "%+v %v", out, out.err)
	b.fail = nil
	out = round(t, s, ada, "x", echoing(second.State), answering("two", yes))
	must.CheckEqual(t, out.Kind, mcp.ResultTypeComplete, out, out.err)
}

func TestStoredStatesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, ada, eve := newBook(), principalNamed(t, "ada"), principalNamed(t, "eve")
		for i := range maxStoredStates {
			_, out := overflowing(t, b, eve)
			must.That(t, out.err == nil, "call %d: %v", i, out.err)
		}
		if _, out := overflowing(t, b, eve); out.err == nil || !strings.Contains(string(out.err.Data), "retryAfterMs") {
			t.Errorf("%+v %v", out, out.err)
		}
		if _, out := overflowing(t, b, ada); out.err != nil {
			t.Errorf("another principal: %v", out.err)
		}
		time.Sleep(stateLifetime + time.Second)
		if _, out := overflowing(t, b, eve); out.err != nil {
			t.Errorf("after the states have expired: %v", out.err)
		}
		s := askingServer(t, ask("one"), ask("two"))
		s.Store = b
		first := round(t, s, ada, "x")
		out := round(t, s, ada, "x", echoing(first.State),
			answering("one", `{"action":"accept","content":{"text":"`+strings.Repeat("x", maxStoredBytes)+`"}}`))
		must.CheckThat(t, out.err != nil && strings.Contains(out.err.Message, "bytes"),
			"an answer over the limit: %+v %v", out, out.err)
	})
}
