package modern

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"

	v2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/seal"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// A server of this era sends no requests. A call that requires input ends with a result
// that lists the input requests, and the client sends the request again with the answers
// (2026-07-28, basic/patterns/mrtr). The handler then runs again from its beginning, and
// receives the known answers at once. The answers travel with the client in a sealed state.

const (
	maxRounds    = 10
	statePurpose = "requestState"
)

// state holds the answers of a call between its rounds.
type state struct {
	Principal string            `json:"p"`
	Request   string            `json:"q"` // digest of the method, the name and the arguments
	Key       string            `json:"k"` // the key of the call
	Round     int               `json:"r"`
	Expires   int64             `json:"e"` // Unix time
	Answers   map[string]answer `json:"a,omitempty"`
	Open      map[string]string `json:"o,omitempty"` // unanswered input requests, as digests by key
	Parked    *string           `json:"h,omitempty"` // id of the parked call; nil for most calls
	Sent      int               `json:"n,omitempty"` // notifications of the handler in a round, at most
	// refers to the whole state in the store; Answers and Open are then empty
	Stored *storedState `json:"s,omitempty"`
}

type answer struct {
	Question string          `json:"q"` // digest
	Answer   json.RawMessage `json:"a"`
}

// replay is the input requester of one round of a call.
type replay struct {
	server *Server
	call   *rpc.Call

	mu       sync.Mutex
	state    state
	pending  map[string]bool // the answers of this round that the handler has not asked for yet
	keys     rpc.InputKeys
	required mcp.InputRequests // the input requests of this round
}

var (
	_ rpc.Replayer = (*replay)(nil)
	_ rpc.Parker   = (*replay)(nil)
)

// restore restores the state of the previous round of c, if c has input requests, and reads the
// answers from the params.
func restore(ctx context.Context, c *rpc.Call) *jsonrpc.Error {
	r, ok := c.InputRequester.(*replay)
	if !ok {
		return nil
	}
	responses, ok := c.Params().Get("inputResponses")
	if ok && responses[0] != '{' {
		return jsonrpc.Errorf(jsonrpc.CodeInvalidParams,
			"params.inputResponses must be an object with the answers by key")
	}
	sealed, ok := c.Params().Get("requestState")
	if !ok { // see earlyAnswer
		for name := range c.Params().All() {
			if name == "requestState" { // it is null: the client has lost it, and the call would begin again
				return invalidState(errNoString)
			}
		}
		return nil
	}
	if err := r.openState(ctx, sealed); errors.Is(err, rpc.ErrStoreUnavailable) {
		return rpc.StoreFailure
	} else if err != nil {
		return invalidState(err)
	}
	c.RestoreKey(r.state.Key)
	accepted := r.acceptAnswers(responses)
	c.SetRound(r.state.Round, accepted)
	if r.state.Parked == nil {
		// Do not repeat the notifications of the earlier rounds: those up to the questions that are answered now,
		// and no more than there were, since a handler may take another way.
		r.pending = maps.Clone(accepted)
		c.Mute(r.state.Sent)
	}
	return nil
}

var errNoString = errors.New("must be a string")

func invalidState(err error) *jsonrpc.Error {
	return jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "invalid requestState: %s: send the request again without it", err)
}

// openState sets r.state to the state in a requestState, or in the store if it was too large for the client.
func (r *replay) openState(ctx context.Context, raw []byte) error {
	if raw[0] != '"' {
		return errNoString
	}
	text, err := r.server.Seals.Open(statePurpose, jsonrpc.Unquote(raw))
	if err != nil {
		return err
	}
	if err := r.decode(text); err != nil {
		return err
	}
	if r.state.Stored == nil {
		return nil
	}
	if text, err = r.server.loadState(ctx, r.call.Principal(), r.state.Stored); err != nil {
		return err
	}
	return r.decode(text)
}

// decode decodes an opened state and checks that it belongs to the call.
func (r *replay) decode(text []byte) error {
	r.state = state{}
	if err := v2.Unmarshal(text, &r.state); err != nil {
		return seal.ErrInvalid
	}
	switch {
	case r.state.Principal != r.call.Principal().Key():
		return seal.ErrInvalid
	case r.state.Request != requestDigest(r.call):
		return fmt.Errorf("it belongs to another request")
	case r.server.now().Unix() > r.state.Expires:
		return fmt.Errorf("it has expired")
	}
	return nil
}

// acceptAnswers keeps the answers to unanswered input requests and ignores all others. It returns the keys of those
// requests.
func (r *replay) acceptAnswers(responses []byte) (accepted map[string]bool) {
	for key, raw := range jsonrpc.All(responses) {
		digest, open := r.state.Open[key]
		if !open || len(raw) == 0 || raw[0] != '{' {
			continue
		}
		if r.state.Answers == nil {
			r.state.Answers = make(map[string]answer)
		}
		if accepted == nil {
			accepted = make(map[string]bool)
		}
		r.state.Answers[key], accepted[key] = answer{digest, json.RawMessage(raw)}, true
	}
	return accepted
}

// RequestInput implements rpc.InputRequester.
func (r *replay) RequestInput(_ context.Context, _ *rpc.Call, questions []rpc.InputRequest) ([]json.RawMessage, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.required != nil {
		return nil, rpc.ErrInputRequired // the round has ended
	}
	answers := make([]json.RawMessage, len(questions))
	passed := false // the questions at which the previous round has ended
	for i, q := range questions {
		sum := q.Digest()
		key, err := r.keys.Take(q, r.digestOf)
		if err != nil {
			return nil, err
		}
		// An answer to an earlier text of the question does not count.
		if known, ok := r.state.Answers[key]; ok && known.Question == sum {
			answers[i] = known.Answer
			if delete(r.pending, key); len(r.pending) == 0 && r.pending != nil {
				passed = true
			}
			continue
		}
		if raw, ok := r.earlyAnswer(q.Key); ok {
			if r.state.Answers == nil {
				r.state.Answers = make(map[string]answer)
			}
			r.state.Answers[key] = answer{sum, raw}
			answers[i] = raw
			continue
		}
		if r.required == nil {
			r.required = make(mcp.InputRequests)
		}
		r.required[key] = mcp.InputRequest{Method: q.Method, Params: q.Params}
	}
	if r.required != nil {
		r.call.Suspend()
		return nil, rpc.ErrInputRequired
	}
	if passed {
		r.call.Mute(0)
	}
	return answers, nil
}

// digestOf returns the digest of the input request of an earlier round with a key, or "". It is called with mu held.
func (r *replay) digestOf(key string) string {
	return cmp.Or(r.state.Answers[key].Question, r.state.Open[key])
}

// Answered implements rpc.Replayer.
func (r *replay) Answered(q rpc.InputRequest) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.state.Answers[r.keys.Next(q, r.digestOf)]
	return ok && known.Question == q.Digest()
}

// Parked implements rpc.Parker.
func (r *replay) Parked() (id string, answers map[string]json.RawMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.state.Answers) > 0 {
		answers = make(map[string]json.RawMessage, len(r.state.Answers))
	}
	for key, known := range r.state.Answers {
		answers[key] = known.Answer
	}
	if r.state.Parked != nil {
		id = *r.state.Parked
	}
	return id, answers
}

// Park implements rpc.Parker.
func (r *replay) Park(id string, questions mcp.InputRequests) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.Parked, r.state.Answers = &id, nil
	r.required = questions
}

// Finish implements rpc.InputRequester. A call that has asked for input ends with the input
// requests, whatever its handler returned.
func (r *replay) Finish(ctx context.Context, result any, err error) (any, error) {
	if err != nil {
		if required, ok := errors.AsType[*call.URLRequiredError](err); ok {
			err = r.require(ctx, required)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.required == nil {
		return result, err
	}
	required, err := r.inputRequired(ctx)
	if err == nil {
		return required, nil
	}
	if overload, ok := errors.AsType[*call.OverloadError](err); ok {
		return nil, overload
	}
	return nil, jsonrpc.Errorf(jsonrpc.CodeInternalError, "%s", err)
}

// require asks for the URL elicitations that a handler requires. It asks again if the user
// has accepted and the handler still requires them.
func (r *replay) require(ctx context.Context, e *call.URLRequiredError) error {
	if r.call.CheckURLs(e) != nil {
		return e
	}
	for { // the first iteration may use known answers
		answers, err := r.RequestInput(ctx, r.call, r.call.InputRequestsFor(e))
		if err != nil {
			return err
		}
		for i, raw := range answers {
			var answer mcp.ElicitResult
			if v2.Unmarshal(raw, &answer) == nil && (answer.Action == mcp.ElicitDecline ||
				answer.Action == mcp.ElicitCancel) {
				return jsonrpc.Errorf(jsonrpc.CodeInvalidRequest,
					"the user declined to open %s, which this call requires",
					e.URLs[i].URL)
			}
		}
	}
}

// earlyAnswer returns the answer to an input request that has a key and has not been made
// yet. A client that knows the key may send the answer with its first request.
func (r *replay) earlyAnswer(key string) (json.RawMessage, bool) {
	if _, later := r.call.Params().Get("requestState"); later || key == "" {
		return nil, false
	}
	responses, _ := r.call.Params().Get("inputResponses") // an object: see restore
	raw, ok := jsonrpc.Get(responses, key)
	return json.RawMessage(raw), ok && raw[0] == '{'
}

// inputRequired returns the result that ends a round with input requests. It is called with mu held.
func (r *replay) inputRequired(ctx context.Context) (*mcp.InputRequiredResult, error) {
	next := r.state
	next.Principal, next.Request, next.Key = r.call.Principal().Key(), requestDigest(r.call), r.call.Key()
	next.Round++
	next.Sent = max(next.Sent, r.call.Notified())
	if next.Round > maxRounds {
		return nil, fmt.Errorf("the call has asked for input in %d rounds, which is the limit", maxRounds)
	}
	next.Expires = r.server.now().Add(stateLifetime).Unix()
	next.Open, next.Stored = make(map[string]string, len(r.required)), nil
	for key, q := range r.required {
		next.Open[key] = rpc.InputRequest{Method: q.Method, Params: q.Params}.Digest()
	}
	text, err := v2.Marshal(next, v2.Deterministic(true))
	if err != nil {
		return nil, err
	}
	if len(text) > maxState {
		if next.Stored, err = r.server.storeState(ctx, r.call, text); err != nil {
			return nil, err
		}
		next.Answers, next.Open = nil, nil
		if text, err = v2.Marshal(next, v2.Deterministic(true)); err != nil {
			return nil, err
		}
	}
	sealed := r.server.Seals.Seal(statePurpose, text)
	return &mcp.InputRequiredResult{
		ResultBase:    mcp.ResultBase{ResultType: mcp.ResultTypeInputRequired},
		InputRequests: r.required,
		RequestState:  &sealed,
	}, nil
}

// requestDigest identifies a request by its method and the params that do not change between rounds, as the client has
// sent them: middleware replaces them anew in each round.
func requestDigest(c *rpc.Call) string {
	parts := [][]byte{[]byte(c.Method())}
	for _, member := range []string{"name", "uri", "arguments"} {
		raw, _ := c.ParamsBefore().Get(member)
		canonical, err := digest.Canonical(raw)
		if err != nil {
			canonical = raw
		}
		parts = append(parts, []byte(member), canonical)
	}
	return digest.Join(parts...)
}
