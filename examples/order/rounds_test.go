package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// In 2026-07-28 a call with questions consists of several requests. These tests send the
// requests without the client package, each with only the state of the previous response.

// replica starts a replica of the server, which shares the keys and shared with the other replicas.
func replica(t *testing.T, shared store.Store, charge charger) string {
	t.Helper()
	s := newServer(&server.Server{
		Keys: [][]byte{[]byte("0123456789abcdef0123456789abcdef")}, Store: shared,
		Logger: slog.New(slog.DiscardHandler),
	}, charge)
	endpoint := httptest.NewServer(s)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.Shutdown(ctx)
		endpoint.Close()
	})
	return endpoint.URL
}

// reply is the result of a round.
type reply struct {
	ResultType    string
	InputRequests map[string]struct {
		Params struct{ Message string }
	}
	RequestState json.RawMessage
	Content      []struct{ Text string }
	IsError      bool
}

// asks checks that the result is a question.
func (r *reply) asks(t *testing.T, question string) *reply {
	t.Helper()
	for _, q := range r.InputRequests {
		if q.Params.Message == question {
			return r
		}
	}
	t.Fatalf("%+v, want the question %q", r, question)
	return nil
}

// completes checks that the call is complete with a text.
func (r *reply) completes(t *testing.T, text string) {
	t.Helper()
	if r.ResultType != "complete" || r.IsError || len(r.Content) != 1 || r.Content[0].Text != text {
		t.Fatalf("%+v, want %q", r, text)
	}
}

// isUncertain checks that the call ended with the handler's text for ErrOnceUncertain.
func (r *reply) isUncertain(t *testing.T) {
	t.Helper()
	if !r.IsError || len(r.Content) != 1 || !strings.Contains(r.Content[0].Text, server.ErrOnceUncertain.Error()) {
		t.Fatalf("%+v, want %q", r, server.ErrOnceUncertain)
	}
}

// requestIDs generates the ids of requests. A retry gets a new ID.
type requestIDs struct{ last atomic.Int64 }

// send sends one request on a new connection. after is the previous reply, or nil for the first round.
func (ids *requestIDs) send(ctx context.Context, url string, after *reply) (*reply, error) {
	params := `"name":"order","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}`
	if after != nil {
		responses := make(map[string]any)
		for key, q := range after.InputRequests {
			responses[key] = map[string]any{"action": "accept",
				"content": map[string]string{"answer": answers[q.Params.Message]}}
		}
		raw, err := json.Marshal(responses)
		if err != nil {
			return nil, err
		}
		params += fmt.Sprintf(`,"inputResponses":%s,"requestState":%s`, raw, after.RequestState)
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{%s}}`, ids.last.Add(1), params)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": string(mcp.V20260728), "Mcp-Method": mcp.MethodCallTool, "Mcp-Name": "order",
	} {
		req.Header.Set(name, value)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	text := strings.TrimSpace(string(raw))
	if i := strings.LastIndex(text, "data: "); i >= 0 { // the last event is the response
		text = text[i+len("data: "):]
	}
	var response struct {
		Result *reply
		Error  json.RawMessage
	}
	if err := json.Unmarshal([]byte(text), &response); err != nil || response.Result == nil {
		return nil, fmt.Errorf("%s: %s (%v)", res.Status, raw, err)
	}
	return response.Result, nil
}

func (ids *requestIDs) mustSend(t *testing.T, url string, after *reply) *reply {
	t.Helper()
	r := must.Get(ids.send(t.Context(), url, after))(t)
	return r
}

func TestOrderSurvivesARestartOfTheClient(t *testing.T) {
	var ids requestIDs
	var paid card
	shop := replica(t, store.NewMemory(), paid.charge)
	var after *reply
	for _, question := range []string{"Which pizza?", "Which size?", "Which address?"} {
		after = ids.mustSend(t, shop, after).asks(t, question)
		// The restarted client knows only the stored reply.
		stored := must.Get(json.Marshal(after))(t)
		after = new(reply)
		must.Do(t, json.Unmarshal(stored, after))
	}
	ids.mustSend(t, shop, after).completes(t, delivered)
	paid.checkCharges(t, 1)
}

func TestEachRoundCanUseAnotherReplica(t *testing.T) {
	var ids requestIDs
	var paid card
	kv := store.NewMemory()
	var after *reply
	for _, question := range []string{"Which pizza?", "Which size?", "Which address?"} {
		after = ids.mustSend(t, replica(t, kv, paid.charge), after).asks(t, question)
	}
	ids.mustSend(t, replica(t, kv, paid.charge), after).completes(t, delivered)
	paid.checkCharges(t, 1)
}

// A client that loses a response sends the same round again.
func TestARepeatedRoundHasTheSameResult(t *testing.T) {
	var ids requestIDs
	var paid card
	kv := store.NewMemory()
	one, two := replica(t, kv, paid.charge), replica(t, kv, paid.charge)
	var after *reply
	for _, question := range []string{"Which pizza?", "Which size?", "Which address?"} {
		if after != nil { // repeating the first round would start another call
			ids.mustSend(t, one, after).asks(t, question)
		}
		after = ids.mustSend(t, two, after).asks(t, question)
	}
	ids.mustSend(t, one, after).completes(t, delivered)
	ids.mustSend(t, two, after).completes(t, delivered)
	paid.checkCharges(t, 1)
}

func TestAnOlderStateDoesNotChargeAgain(t *testing.T) {
	var ids requestIDs
	var paid card
	shop := replica(t, store.NewMemory(), paid.charge)
	first := ids.mustSend(t, shop, nil).asks(t, "Which pizza?")
	second := ids.mustSend(t, shop, first).asks(t, "Which size?")
	third := ids.mustSend(t, shop, second).asks(t, "Which address?")
	ids.mustSend(t, shop, third).completes(t, delivered)
	for _, older := range []*reply{first, second, third} {
		again := ids.mustSend(t, shop, older)
		for again.ResultType != "complete" {
			again = ids.mustSend(t, shop, again)
		}
		again.completes(t, delivered)
	}
	paid.checkCharges(t, 1)
}

// While one replica charges the card, the outcome is unknown to the other replica.
func TestConcurrentRoundsChargeOnce(t *testing.T) {
	var ids requestIDs
	var paid card
	charging, release := make(chan struct{}), make(chan struct{})
	kv := store.NewMemory()
	slow := replica(t, kv, func(ctx context.Context, key string) (string, error) {
		close(charging)
		<-release
		return paid.charge(ctx, key)
	})
	other := replica(t, kv, paid.charge)
	second := ids.mustSend(t, slow, ids.mustSend(t, slow, nil)).asks(t, "Which size?")
	type outcome struct {
		reply *reply
		err   error
	}
	ended := make(chan outcome, 1)
	go func() {
		r, err := ids.send(t.Context(), slow, second)
		ended <- outcome{r, err}
	}()
	<-charging
	uncertain, err := ids.send(t.Context(), other, second)
	close(release)
	first := <-ended
	if err != nil || first.err != nil {
		t.Fatal(err, first.err)
	}
	uncertain.isUncertain(t)
	first.reply.asks(t, "Which address?")
	ids.mustSend(t, other, ids.mustSend(t, other, second)).completes(t, delivered)
	paid.checkCharges(t, 1)
}

// crashingKV is the store of a process that crashes: after the crash it rejects all writes, so
// only earlier writes, such as the start of the charge, are stored.
type crashingKV struct {
	store.Store
	crashed atomic.Bool
}

var errCrashed = errors.New("the process has crashed")

func (c *crashingKV) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	if c.crashed.Load() {
		return 0, errCrashed
	}
	return c.Store.Put(ctx, key, value, opt)
}

func (c *crashingKV) Delete(ctx context.Context, key string) error {
	if c.crashed.Load() {
		return errCrashed
	}
	return c.Store.Delete(ctx, key)
}

func TestACrashDuringTheChargeIsUncertainAndDoesNotChargeAgain(t *testing.T) {
	for name, test := range map[string]struct {
		charges int
		charge  func(paid *card, crash func()) charger
	}{
		"before the card was charged": {0, func(_ *card, crash func()) charger {
			return func(context.Context, string) (string, error) { crash(); return "", errCrashed }
		}},
		"after the card was charged": {1, func(paid *card, crash func()) charger {
			return func(ctx context.Context, key string) (string, error) { defer crash(); return paid.charge(ctx, key) }
		}},
		"a panic after the charge": {1, func(paid *card, crash func()) charger {
			return func(ctx context.Context, key string) (string, error) {
				_, _ = paid.charge(ctx, key)
				crash()
				panic("out of memory")
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var ids requestIDs
			var paid card
			kv := store.NewMemory()
			crashing := &crashingKV{Store: kv}
			connected, disconnect := context.WithCancel(t.Context())
			one := replica(t, crashing, test.charge(&paid, func() { crashing.crashed.Store(true); disconnect() }))
			second := ids.mustSend(t, one, ids.mustSend(t, one, nil)).asks(t, "Which size?")
			_, _ = ids.send(connected, one, second) // the crash loses the response
			for range 2 {
				ids.mustSend(t, replica(t, kv, paid.charge), second).isUncertain(t)
			}
			paid.checkCharges(t, test.charges)
		})
	}
}

// A charge that has returned an error is repeated with the same key.
func TestAFailedChargeIsRepeated(t *testing.T) {
	var ids requestIDs
	var paid card
	var failed []string
	shop := replica(t, store.NewMemory(), func(ctx context.Context, key string) (string, error) {
		if len(failed) == 0 {
			failed = append(failed, key)
			return "", errors.New("the bank is closed")
		}
		return paid.charge(ctx, key)
	})
	second := ids.mustSend(t, shop, ids.mustSend(t, shop, nil)).asks(t, "Which size?")
	if r := ids.mustSend(t, shop, second); !r.IsError || !strings.Contains(r.Content[0].Text, "the bank is closed") {
		t.Fatalf("reply %+v, want the error of the charge", r)
	}
	ids.mustSend(t, shop, ids.mustSend(t, shop, second)).completes(t, delivered)
	paid.checkCharges(t, 1)
	must.CheckEqual(t, paid.keys[0], failed[0])
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// card records the idempotency keys of its charges.
type card struct {
	mu   sync.Mutex
	keys []string
}

func (c *card) charge(_ context.Context, key string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keys = append(c.keys, key)
	return fmt.Sprintf("receipt %d", len(c.keys)), nil
}

func (c *card) checkCharges(t *testing.T, charges int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.keys) != charges {
		t.Errorf("the card was charged %d times, want %d: %q", len(c.keys), charges, c.keys)
	}
}

var answers = map[string]string{"Which pizza?": "margherita", "Which size?": "large", "Which address?": "Oslo"}

// answerQuestions makes a client answer questions as a user would, in any revision.
func answerQuestions(d *client.Dialer) {
	d.Elicit = func(_ context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return mcp.AcceptElicit(map[string]string{"answer": answers[form.Message]})
	}
	d.Sample = func(_ context.Context, p *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
		question := p.Messages[0].Content[0].(*mcp.TextContent).Text
		return &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: "user",
			Content: []mcp.Content{mcp.Text(answers[question])}}, nil
	}
}

const delivered = "large margherita to Oslo, receipt 1"

func TestOrderChargesOnceInEveryRevision(t *testing.T) {
	var paid *card
	newOrder := func() *server.Server {
		paid = new(card)
		return newServer(&server.Server{}, paid.charge)
	}
	mcptest.Everywhere(t, newOrder, func(t *testing.T, c *client.Client) {
		text := must.Get(client.CallTool[string](t.Context(), c, "order", nil))(t)
		must.CheckEqual(t, text, delivered)
		paid.checkCharges(t, 1)
	}, answerQuestions)
}
