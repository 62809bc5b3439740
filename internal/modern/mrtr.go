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
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// inputRequired is a result that asks for another request, with answers
// (2026-07-28, basic/patterns/mrtr).
type inputRequired struct{ raw json.RawMessage }

func (*inputRequired) Error() string { return "the server asks for input" }

// rounds sends a request, and sends it again with answers for as long as the server
// asks, which is bounded.
func (c *Client) rounds(ctx context.Context, req *rpc.Request) (json.RawMessage, error) {
	round := req
	for range maxRounds + 1 {
		raw, err := c.once(ctx, round)
		if err == nil {
			return raw, nil
		}
		asked, ok := errors.AsType[*inputRequired](err)
		if !ok {
			return raw, err
		}
		if req.Asked != nil {
			*req.Asked = true
		}
		next := *req
		if next.Params, err = c.answerAll(ctx, req.Params, asked.raw); err != nil {
			return nil, err
		}
		round = &next
	}
	return nil, fmt.Errorf("%w: the server asks for input in more than %d rounds", call.ErrInvalidResponse, maxRounds)
}

// answerAll answers the questions and returns the params of the next round: those
// of the first, with the answers and the server's state as it was, byte for byte.
func (c *Client) answerAll(ctx context.Context, params []byte, raw json.RawMessage) ([]byte, error) {
	var result mcp.InputRequiredResult
	if err := json.Unmarshal(raw, &result); err != nil {
		return nil, fmt.Errorf("%w: input_required: %w", call.ErrInvalidResponse, err)
	}
	if len(result.InputRequests) == 0 && result.RequestState == nil {
		return nil, fmt.Errorf("%w: input_required asks for nothing", call.ErrInvalidResponse)
	}
	answers, err := c.answer(ctx, result.InputRequests)
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

// answer answers all questions, at the same time. The first that cannot be is the error.
func (c *Client) answer(ctx context.Context, questions mcp.InputRequests) (map[string]json.RawMessage, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	answers := make(map[string]json.RawMessage, len(questions))
	var wg sync.WaitGroup
	for key, q := range questions {
		if c.answerer == nil {
			return nil, fmt.Errorf("%w: the server asks for %s, which this client has not declared that it gives", call.ErrInvalidResponse, q.Method)
		}
		wg.Go(func() {
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

// unanswered is why a question has no answer. What an answerer would tell the server,
// which cannot be told in this era, must not be taken for the server's word.
func unanswered(method string, err error) error {
	var forServer *jsonrpc.Error
	if errors.As(err, &forServer) {
		return fmt.Errorf("%w: the server's %s cannot be answered: %s", call.ErrInvalidResponse, method, forServer.Message)
	}
	return fmt.Errorf("answer the server's %s: %w", method, err)
}
