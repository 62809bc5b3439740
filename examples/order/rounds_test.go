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
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// In 2026-07-28 a call that asks takes several requests, and everything may happen
// between two of them. The requests of these tests are made by hand, each by a client
// that knows nothing but what the last response said.

// replica is one of the processes that serve the shop: it shares the keys and the
// store with the others, and nothing else.
func replica(t *testing.T, kv store.KV, charge charger) string {
	t.Helper()
	s := newServer(&server.Server{
		Keys: [][]byte{[]byte("0123456789abcdef0123456789abcdef")}, KV: kv, Logger: slog.New(slog.DiscardHandler),
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

// reply is what a round ends with.
type reply struct {
	ResultType    string
	InputRequests map[string]struct {
		Params struct{ Message string }
	}
	RequestState json.RawMessage
	Content      []struct{ Text string }
	IsError      bool
}

// asks checks that the round has ended with a question.
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

// says checks that the call has ended with a text.
func (r *reply) says(t *testing.T, text string) {
	t.Helper()
	if r.ResultType != "complete" || r.IsError || len(r.Content) != 1 || r.Content[0].Text != text {
		t.Fatalf("%+v, want %q", r, text)
	}
}

// isUncertain checks that the call has ended with ErrOnceUncertain, of which the
// handler makes this text.
func (r *reply) isUncertain(t *testing.T) {
	t.Helper()
	if !r.IsError || len(r.Content) != 1 || !strings.Contains(r.Content[0].Text, server.ErrOnceUncertain.Error()) {
		t.Fatalf("%+v, want %q", r, server.ErrOnceUncertain)
	}
}

// requestIDs makes an id for each request: a retry is a request of its own.
type requestIDs struct{ last atomic.Int64 }

// send makes one request of a new client. After is the reply that it answers, nil for
// the first round.
func (ids *requestIDs) send(ctx context.Context, url string, after *reply) (*reply, error) {
	params := `"name":"order","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}`
	if after != nil {
		responses := make(map[string]any)
		for key, q := range after.InputRequests {
			responses[key] = map[string]any{"action": "accept", "content": map[string]string{"answer": answers[q.Params.Message]}}
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
	own := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := own.Do(req)
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
	r, err := ids.send(t.Context(), url, after)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAClientThatRestartsBetweenRoundsGoesOn(t *testing.T) {
	var ids requestIDs
	var paid card
	shop := replica(t, store.NewMemory(store.MemoryOptions{}), paid.charge)
	var after *reply
	for _, question := range []string{"Which pizza?", "Which size?", "Where to?"} {
		after = ids.mustSend(t, shop, after).asks(t, question)
		// All that the next client has is what was written down.
		written, err := json.Marshal(after)
		if err != nil {
			t.Fatal(err)
		}
		after = new(reply)
		if err := json.Unmarshal(written, after); err != nil {
			t.Fatal(err)
		}
	}
	ids.mustSend(t, shop, after).says(t, delivered)
	paid.expect(t, 1)
}

func TestAnotherReplicaGoesOnInEachRound(t *testing.T) {
	var ids requestIDs
	var paid card
	kv := store.NewMemory(store.MemoryOptions{})
	var after *reply
	for _, question := range []string{"Which pizza?", "Which size?", "Where to?"} {
		after = ids.mustSend(t, replica(t, kv, paid.charge), after).asks(t, question)
	}
	ids.mustSend(t, replica(t, kv, paid.charge), after).says(t, delivered)
	paid.expect(t, 1)
}

// A client that has not received a response sends the same round again.
func TestALostResponseIsGivenAgain(t *testing.T) {
	var ids requestIDs
	var paid card
	kv := store.NewMemory(store.MemoryOptions{})
	one, two := replica(t, kv, paid.charge), replica(t, kv, paid.charge)
	var after *reply
	for _, question := range []string{"Which pizza?", "Which size?", "Where to?"} {
		if after != nil { // of the first round it would be another call
			ids.mustSend(t, one, after).asks(t, question)
		}
		after = ids.mustSend(t, two, after).asks(t, question)
	}
	ids.mustSend(t, one, after).says(t, delivered)
	ids.mustSend(t, two, after).says(t, delivered)
	paid.expect(t, 1)
}

func TestAnOlderStateDoesNotChargeAgain(t *testing.T) {
	var ids requestIDs
	var paid card
	shop := replica(t, store.NewMemory(store.MemoryOptions{}), paid.charge)
	first := ids.mustSend(t, shop, nil).asks(t, "Which pizza?")
	second := ids.mustSend(t, shop, first).asks(t, "Which size?")
	third := ids.mustSend(t, shop, second).asks(t, "Where to?")
	ids.mustSend(t, shop, third).says(t, delivered)
	for _, older := range []*reply{first, second, third} {
		again := ids.mustSend(t, shop, older)
		for again.ResultType != "complete" {
			again = ids.mustSend(t, shop, again)
		}
		again.says(t, delivered)
	}
	paid.expect(t, 1)
}

// While a card is being charged nobody else knows how that will end.
func TestTheSameRoundTwiceAtOnceChargesOnce(t *testing.T) {
	var ids requestIDs
	var paid card
	charging, release := make(chan struct{}), make(chan struct{})
	kv := store.NewMemory(store.MemoryOptions{})
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
	first.reply.asks(t, "Where to?")
	ids.mustSend(t, other, ids.mustSend(t, other, second)).says(t, delivered)
	paid.expect(t, 1)
}

// dying is the store as a process sees it that has ended: nothing that it knew gets
// there. What it wrote before is there, the start of the charge among it.
type dying struct {
	store.KV
	dead atomic.Bool
}

var errDead = errors.New("the process is dead")

func (d *dying) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	if d.dead.Load() {
		return 0, errDead
	}
	return d.KV.Put(ctx, key, value, opt)
}

func (d *dying) Delete(ctx context.Context, key string) error {
	if d.dead.Load() {
		return errDead
	}
	return d.KV.Delete(ctx, key)
}

func TestACrashAroundTheChargeIsUncertainAndNoSecondCharge(t *testing.T) {
	for name, crash := range map[string]struct {
		charges int
		charge  func(paid *card, kill func()) charger
	}{
		"before the card was charged": {0, func(_ *card, kill func()) charger {
			return func(context.Context, string) (string, error) { kill(); return "", errDead }
		}},
		"after the card was charged": {1, func(paid *card, kill func()) charger {
			return func(ctx context.Context, key string) (string, error) { defer kill(); return paid.charge(ctx, key) }
		}},
		"by a panic": {1, func(paid *card, kill func()) charger {
			return func(ctx context.Context, key string) (string, error) {
				_, _ = paid.charge(ctx, key)
				kill()
				panic("out of memory")
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var ids requestIDs
			var paid card
			kv := store.NewMemory(store.MemoryOptions{})
			doomed := &dying{KV: kv}
			one := replica(t, doomed, crash.charge(&paid, func() { doomed.dead.Store(true) }))
			second := ids.mustSend(t, one, ids.mustSend(t, one, nil)).asks(t, "Which size?")
			_, _ = ids.send(t.Context(), one, second) // its response is lost with it
			for range 2 {
				ids.mustSend(t, replica(t, kv, paid.charge), second).isUncertain(t)
			}
			paid.expect(t, crash.charges)
		})
	}
}

// A charge that is known to have failed may be tried again, under the same key.
func TestAChargeThatFailedIsTriedAgain(t *testing.T) {
	var ids requestIDs
	var paid card
	var failed []string
	shop := replica(t, store.NewMemory(store.MemoryOptions{}), func(ctx context.Context, key string) (string, error) {
		if len(failed) == 0 {
			failed = append(failed, key)
			return "", errors.New("the bank is closed")
		}
		return paid.charge(ctx, key)
	})
	second := ids.mustSend(t, shop, ids.mustSend(t, shop, nil)).asks(t, "Which size?")
	if r := ids.mustSend(t, shop, second); !r.IsError || !strings.Contains(r.Content[0].Text, "the bank is closed") {
		t.Fatalf("%+v", r)
	}
	ids.mustSend(t, shop, ids.mustSend(t, shop, second)).says(t, delivered)
	paid.expect(t, 1)
	if paid.keys[0] != failed[0] {
		t.Errorf("the keys are %q and %q", failed[0], paid.keys[0])
	}
}
