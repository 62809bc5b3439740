package modern

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	v2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/seal"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// In this era a server has no requests of its own. A call that needs its client's
// input ends with the questions, and the client sends the request again with the
// answers (2026-07-28, basic/patterns/mrtr). The handler then runs again from its
// beginning, and each question that it asks is answered at once from what is known
// by then. What is known travels with the client, sealed.

const (
	maxRounds     = 10
	stateLifetime = time.Hour
	maxState      = 48 << 10 // bytes of what is sealed
	statePurpose  = "requestState"
)

// state is what is known of a call between its rounds.
type state struct {
	Principal string            `json:"p"`
	Request   string            `json:"q"` // digest of what was called, with which arguments
	Key       string            `json:"k"` // the call's
	Round     int               `json:"r"`
	Expires   int64             `json:"e"` // seconds since 1970
	Answers   map[string]answer `json:"a,omitempty"`
	Open      map[string]string `json:"o,omitempty"` // outstanding questions, as digests
	Kept      *kept             `json:"s,omitempty"` // where the whole of it is; then Answers and Open are not here
}

type answer struct {
	Question string          `json:"q"` // digest
	Answer   json.RawMessage `json:"a"`
}

// replay is the asker of one round of a call.
type replay struct {
	server *Server
	call   *rpc.Call

	mu       sync.Mutex
	state    state
	unheard  int            // answers that the handler has not come to
	ahead    []byte         // answers that came without a state, before their questions
	asked    map[string]int // how often a question without a key of its own came
	used     map[string]bool
	required mcp.InputRequests // what is to be asked now
	digests  map[string]string // of required
}

var _ rpc.Replayer = (*replay)(nil)

// replay makes r the asker of a round of c, whose params may hold the state of the
// round before, and answers.
func (s *Server) replay(ctx context.Context, c *rpc.Call, r *replay) *jsonrpc.Error {
	r.server, r.call, c.Asker = s, c, r
	sealed, ok := c.Params().Get("requestState")
	if !ok {
		r.ahead, _ = c.Params().Get("inputResponses")
		return nil
	}
	if err := r.restore(ctx, sealed); errors.Is(err, errStoreFailed) {
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
	} else if err != nil {
		return jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "requestState is not accepted: %s: send the request again without it", err)
	}
	c.Restore(r.state.Key)
	responses, _ := c.Params().Get("inputResponses")
	r.take(responses)
	if r.unheard = len(r.state.Answers); r.unheard > 0 {
		c.Mute(true) // what the handler says on its way to here has been said
	}
	return nil
}

func (r *replay) restore(ctx context.Context, raw []byte) error {
	if raw[0] != '"' {
		return fmt.Errorf("it is not a string")
	}
	text, err := r.server.Seals.Open(statePurpose, jsonrpc.Unquote(raw))
	if err != nil {
		return err
	}
	if err := r.decode(text); err != nil {
		return err
	}
	if r.state.Kept == nil {
		return nil
	}
	if text, err = r.server.fetch(ctx, r.call.Principal(), r.state.Kept); err != nil {
		return err
	}
	return r.decode(text)
}

// decode takes a state that was sealed here, if it is one of this call.
func (r *replay) decode(text []byte) error {
	r.state = state{}
	if err := v2.Unmarshal(text, &r.state); err != nil {
		return seal.ErrInvalid
	}
	switch {
	case r.state.Principal != r.call.Principal().Key():
		return fmt.Errorf("it belongs to somebody else")
	case r.state.Request != requestDigest(r.call):
		return fmt.Errorf("it belongs to another request")
	case r.server.now().Unix() > r.state.Expires:
		return fmt.Errorf("it has expired")
	}
	return nil
}

// take keeps the answers to the questions that are outstanding. Everything else a
// client may have sent is not looked at.
func (r *replay) take(responses []byte) {
	if len(responses) == 0 || responses[0] != '{' {
		return
	}
	for key, raw := range jsonrpc.All(responses) {
		digest, open := r.state.Open[key]
		if !open || len(raw) == 0 || raw[0] != '{' {
			continue
		}
		if r.state.Answers == nil {
			r.state.Answers = make(map[string]answer)
		}
		r.state.Answers[key] = answer{digest, json.RawMessage(raw)}
	}
}

// Ask implements call.Asker.
func (r *replay) Ask(_ context.Context, _ *rpc.Call, questions []rpc.Question) ([]json.RawMessage, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.required != nil {
		return nil, rpc.ErrInputRequired // the round is over
	}
	answers := make([]json.RawMessage, len(questions))
	for i, q := range questions {
		sum := digest.Join([]byte(q.Method), q.Params)
		key, err := r.key(q, sum)
		if err != nil {
			return nil, err
		}
		// A question that has changed meanwhile has not been answered.
		if known, ok := r.state.Answers[key]; ok && known.Question == sum {
			answers[i] = known.Answer
			r.unheard--
			continue
		}
		if raw, ok := r.answeredAhead(q.Key); ok {
			if r.state.Answers == nil {
				r.state.Answers = make(map[string]answer)
			}
			r.state.Answers[key] = answer{sum, raw}
			answers[i] = raw
			continue
		}
		if r.required == nil {
			r.required, r.digests = make(mcp.InputRequests), make(map[string]string)
		}
		r.required[key] = mcp.InputRequest{Method: q.Method, Params: q.Params}
		r.digests[key] = sum
	}
	if r.required != nil {
		r.call.Suspend()
		return nil, rpc.ErrInputRequired
	}
	if r.unheard <= 0 {
		r.call.Mute(false)
	}
	return answers, nil
}

// Answered implements call.Replayer.
func (r *replay) Answered(q rpc.Question) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum := digest.Join([]byte(q.Method), q.Params)
	key := q.Key
	if key == "" {
		key = keyOf(q.Method, sum, r.asked[sum]+1)
	}
	known, ok := r.state.Answers[key]
	return ok && known.Question == sum
}

// Settle implements call.Asker: whatever the handler has returned, a call that has
// asked something ends with the questions.
func (r *replay) Settle(ctx context.Context, result any, err error) (any, error) {
	if err != nil {
		if required, ok := errors.AsType[*rpc.URLRequiredError](err); ok {
			err = r.require(ctx, required)
		}
	}
	required, failure := r.result(ctx)
	switch {
	case failure != nil:
		return nil, jsonrpc.Errorf(jsonrpc.CodeInternalError, "%s", failure)
	case required != nil:
		return required, nil
	}
	return result, err
}

// require asks for what a handler cannot do without. It asks again when the user has
// agreed, and the handler has run and still cannot.
func (r *replay) require(ctx context.Context, e *rpc.URLRequiredError) error {
	if e.Check(r.call) != nil {
		return e
	}
	for { // uses up what is known, and then asks
		answers, err := r.Ask(ctx, r.call, e.Questions(r.call.Revision()))
		if err != nil {
			return err
		}
		for i, raw := range answers {
			var answer mcp.ElicitResult
			if json.Unmarshal(raw, &answer) == nil && (answer.Action == mcp.ElicitDecline || answer.Action == mcp.ElicitCancel) {
				return jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "the call needs its user to visit %s, who would not", e.URLs[i].URL)
			}
		}
	}
}

// answeredAhead returns the answer to a question that has a name of its own and has
// not been asked yet. A client may know what will be asked; its answer is worth as
// much as one that comes when it is asked to.
func (r *replay) answeredAhead(key string) (json.RawMessage, bool) {
	if key == "" || len(r.ahead) == 0 || r.ahead[0] != '{' {
		return nil, false
	}
	raw, ok := jsonrpc.Get(r.ahead, key)
	return json.RawMessage(raw), ok && raw[0] == '{'
}

// key is the question's own or one made for it. No two questions of a round share one.
func (r *replay) key(q rpc.Question, digest string) (string, error) {
	if r.used == nil {
		r.used, r.asked = make(map[string]bool), make(map[string]int)
	}
	key := q.Key
	if key == "" {
		r.asked[digest]++
		key = keyOf(q.Method, digest, r.asked[digest])
	}
	if r.used[key] {
		return "", fmt.Errorf("the key %q has been used for another question of this call: choose another", key)
	}
	r.used[key] = true
	return key, nil
}

// keyOf is the key of a question that is asked for the nth time in a call.
func keyOf(method, digest string, n int) string {
	return method + "-" + digest[:12] + "-" + strconv.Itoa(n)
}

// result is what ends a round in which something was asked, or nil.
func (r *replay) result(ctx context.Context) (*mcp.InputRequiredResult, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.required == nil {
		return nil, nil
	}
	next := r.state
	next.Principal, next.Request, next.Key = r.call.Principal().Key(), requestDigest(r.call), r.call.Key()
	next.Round++
	if next.Round > maxRounds {
		return nil, fmt.Errorf("the call has asked its client in %d rounds, which is the most there may be", maxRounds)
	}
	next.Expires = r.server.now().Add(stateLifetime).Unix()
	next.Open, next.Kept = r.digests, nil
	text, err := v2.Marshal(next, v2.Deterministic(true))
	if err != nil {
		return nil, err
	}
	if len(text) > maxState {
		if next.Kept, err = r.server.keep(ctx, r.call, text); err != nil {
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

// requestDigest tells one request from another by what it is for: the method, and
// all params but those that differ from round to round. Two ways to write the same
// JSON are one request.
func requestDigest(c *rpc.Call) string {
	parts := [][]byte{[]byte(c.Method())}
	for _, member := range []string{"name", "uri", "arguments"} {
		raw, _ := c.Params().Get(member)
		canonical := jsontext.Value(raw).Clone()
		if len(canonical) > 0 && canonical.Canonicalize() != nil {
			canonical = jsontext.Value(raw)
		}
		parts = append(parts, []byte(member), canonical)
	}
	return digest.Join(parts...)
}
