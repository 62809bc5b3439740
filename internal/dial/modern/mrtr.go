package modern

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// maxRounds is how often the server may require input in one call.
const maxRounds = 10

// inputRequired is the error for a result that requires input (2026-07-28, basic/patterns/mrtr).
type inputRequired struct{ raw json.RawMessage }

func (*inputRequired) Error() string { return "the server requires input" }

// rounds sends a request, and while the server requires input, sends it again with the
// answers. It fails after maxRounds.
func (c *Client) rounds(ctx context.Context, req *outbound.Request) (json.RawMessage, error) {
	round, uses := req, make(keyUses)
	for range maxRounds + 1 {
		raw, err := c.once(ctx, round)
		req.MayHaveRun = req.MayHaveRun || round.MayHaveRun
		if err == nil {
			req.TaskCreated = round.TaskCreated
			return raw, nil
		}
		asked, ok := errors.AsType[*inputRequired](err)
		if !ok {
			return raw, err
		}
		if !rpc.MayRequestInput(req.Method) {
			return nil, fmt.Errorf("%w: the server must not require input for %s", call.ErrInvalidResponse, req.Method)
		}
		if req.InputRequested != nil {
			*req.InputRequested = true
		}
		next := *req
		if next.Params, err = c.answerAll(ctx, req.Params, asked.raw, uses); err != nil {
			return nil, err
		}
		round = &next
	}
	return nil, fmt.Errorf("%w: the server requires input in more than %d rounds", call.ErrInvalidResponse, maxRounds)
}

// answerAll answers the input requests of a result and returns the params of the next
// round: the original params, the answers, and the server's requestState byte for byte.
func (c *Client) answerAll(ctx context.Context, params []byte, raw json.RawMessage, uses keyUses) ([]byte, error) {
	var result mcp.InputRequiredResult
	if err := schema.Decode(raw, &result); err != nil {
		return nil, fmt.Errorf("%w: input_required: %w", call.ErrInvalidResponse, err)
	}
	if len(result.InputRequests) == 0 && result.RequestState == nil {
		return nil, fmt.Errorf("%w: input_required must have inputRequests or a requestState", call.ErrInvalidResponse)
	}
	if n := len(result.InputRequests); n > outbound.MaxInputRequests {
		return nil, fmt.Errorf("%w: input_required has %d inputRequests, the limit is %d", call.ErrInvalidResponse, n,
			outbound.MaxInputRequests)
	}
	answers, err := c.answerRequests(ctx, result.InputRequests, uses)
	if err != nil {
		return nil, err
	}
	next := append([]byte(nil), params[:max(len(params)-1, 0)]...)
	if len(next) == 0 {
		next = append(next, '{')
	}
	member := func(name string) {
		if next[len(next)-1] != '{' {
			next = append(next, ',')
		}
		next = append(append(append(next, '"'), name...), `":`...)
	}
	if len(answers) > 0 {
		member("inputResponses")
		next = append(next, '{')
		for i, key := range slices.Sorted(maps.Keys(answers)) {
			if i > 0 {
				next = append(next, ',')
			}
			next = append(append(jsonrpc.AppendString(next, key), ':'), answers[key]...)
		}
		next = append(next, '}')
	}
	if state, ok := jsonrpc.Get(raw, "requestState"); ok && result.RequestState != nil {
		member("requestState")
		next = append(next, state...)
	}
	return append(next, '}'), nil
}

// keyUses counts how often the server has used a key in one call.
type keyUses map[string]int

// unique returns a key that is unique in the call for one that the server may use again in a later round.
func (u keyUses) unique(key string) string {
	u[key]++
	if n := u[key]; n > 1 {
		key = fmt.Sprintf("%s~%d", key, n)
	}
	return key
}

// Answer concurrently answers the input requests of a task. The server uses each key once in a task. It returns the
// responses by key, or the first error.
func (c *Client) Answer(ctx context.Context, questions mcp.InputRequests) (map[string]json.RawMessage, error) {
	return c.answerRequests(ctx, questions, make(keyUses))
}

// answerRequests answers input requests concurrently and returns the responses by key. It returns the first error.
func (c *Client) answerRequests(ctx context.Context, questions mcp.InputRequests,
	uses keyUses) (map[string]json.RawMessage, error) {
	if len(questions) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	answers := make(map[string]json.RawMessage, len(questions))
	batch := rpc.NewInputBatch(len(questions))
	var wg sync.WaitGroup
	for key, q := range questions {
		if c.answerer == nil {
			return nil, fmt.Errorf("%w: the server requests %s, a capability that this client has not declared",
				call.ErrInvalidResponse, q.Method)
		}
		ctx, end := batch.Handler(ctx, uses.unique(key))
		wg.Go(func() {
			defer end()
			answer, err := c.answerer(ctx, q.Method, q.Params)
			if err != nil {
				cancel(unanswered(q.Method, err))
				return
			}
			mu.Lock()
			defer mu.Unlock()
			answers[key] = answer
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return answers, nil
}

// unanswered returns the error for an input request that could not be answered. In this
// era, a *jsonrpc.Error of the answerer cannot be sent to the server. unanswered converts
// it, so that the caller does not mistake it for an error that the server reports.
func unanswered(method string, err error) error {
	if rejected, ok := errors.AsType[*rpc.RejectedInputError](err); ok {
		return fmt.Errorf("cannot answer %s of the server: %w", method, rejected.Err)
	}
	var forServer *jsonrpc.Error
	if errors.As(err, &forServer) {
		return fmt.Errorf("%w: cannot answer %s of the server: %s", call.ErrInvalidResponse, method, forServer.Message)
	}
	return outbound.Unanswered(fmt.Sprintf("cannot answer %s of the server", method), err)
}
