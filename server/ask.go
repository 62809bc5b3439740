package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
)

// A handler may ask the client that it serves: for something from the user
// (Elicit), for an answer of the client's model (Sample), for the directories it
// works in (Roots). Where the protocol has the feature the handler is the same in
// every revision. On a session the question is a request of the server's, and the
// handler waits. In 2026-07-28 the call ends with the question, and its retry runs
// the handler again, from its beginning, with the answer in hand: code before an
// ask runs once more for each round. What must not, belongs into [Once].
//
// Asks are legal while serving tools/call, prompts/get and resources/read.

// Errors of asking, besides a *call.CapabilityError for a client that has not
// declared the capability and a *call.AnswerError for one that answers with an error.
var (
	// ErrInputRequired is returned when the answer is not there yet. Return it, or any
	// other error: the handler runs again when it is.
	ErrInputRequired = rpc.ErrInputRequired
	// ErrCannotAsk is returned where nothing can be asked.
	ErrCannotAsk = rpc.ErrCannotAsk
	// ErrUnsupported is returned for what the client's revision does not have.
	ErrUnsupported = rpc.ErrUnsupported
	// ErrDeclined: the user said no.
	ErrDeclined = errors.New("the user declined")
	// ErrDismissed: the user closed the question without an answer.
	ErrDismissed = errors.New("the user dismissed the question")
	// ErrUnfinished: the user has agreed to visit a URL, and was not done there in time.
	ErrUnfinished = errors.New("the user has not finished at the URL in time")
	// ErrBadAnswer: the client's answer does not fit the question, not even when asked again.
	ErrBadAnswer = errors.New("the client's answer does not fit the question")
)

// maxReasks is how often an answer that does not fit is asked for once more.
const maxReasks = 2

// AskOption changes how one question is put.
type AskOption func(*askOptions)

type askOptions struct {
	key      string
	within   time.Duration // of ElicitURL
	required bool          // of ElicitURL
}

func askOptionsOf(options []AskOption) askOptions {
	var o askOptions
	for _, option := range options {
		option(&o)
	}
	return o
}

// Key names a question, so that its answer is found when the handler runs again.
// It is needed when several goroutines ask, and must be unique within the call.
func Key(key string) AskOption {
	return func(o *askOptions) { o.key = key }
}

// Asking is a question for [Ask], with the place that its answer goes to.
type Asking struct {
	question rpc.Question
	check    func(c *rpc.Call) error            // nil: may be asked
	accept   func(answer json.RawMessage) error // errUnfit: ask again
}

// errUnfit is wrapped by the errors of answers that are asked for again.
var errUnfit = errors.New("unfit answer")

// Ask puts several questions at once and waits for all their answers: see
// [ElicitInto], [SampleInto] and [RootsInto]. The first answer that cannot be used
// is the error. The code before an ask runs again for each round of a client of
// 2026-07-28; see [Once].
func Ask(ctx context.Context, asking ...Asking) error {
	c := rpc.From(ctx)
	if c == nil {
		return rpc.ErrNoCall
	}
	for _, a := range asking {
		if a.check == nil {
			continue
		}
		if err := a.check(c); err != nil {
			return err
		}
	}
	open := asking
	for again := 0; ; again++ {
		questions := make([]rpc.Question, len(open))
		for i, a := range open {
			questions[i] = a.question
			if again > 0 && a.question.Key != "" {
				questions[i].Key = fmt.Sprintf("%s~%d", a.question.Key, again)
			}
		}
		answers, err := c.Ask(ctx, questions...)
		if err != nil {
			return err
		}
		var unfit []Asking
		var reason error
		for i, a := range open {
			if err := a.accept(answers[i]); errors.Is(err, errUnfit) {
				unfit, reason = append(unfit, a), err
			} else if err != nil {
				return err
			}
		}
		if len(unfit) == 0 {
			return nil
		}
		if again == maxReasks {
			return fmt.Errorf("%w: %w", ErrBadAnswer, reason)
		}
		open = unfit
	}
}

// SampleInto asks the client's model. The answer goes to into. See [Sample].
func SampleInto(into *mcp.CreateMessageResult, params mcp.CreateMessageParams, options ...AskOption) Asking {
	a := newAsking(mcp.MethodCreateMessage, params, options)
	a.check = func(c *rpc.Call) error {
		sampling := c.Peer.Capabilities.Sampling
		needsTools := params.UsesTools()
		switch {
		case needsTools && !revision.SamplingTools.In(c.Revision):
			return fmt.Errorf("sampling with tools: %w", ErrUnsupported)
		case sampling == nil:
			return &rpc.CapabilityError{Required: mcp.ClientCapabilities{Sampling: &mcp.SamplingCapability{}}}
		case needsTools && sampling.Tools == nil:
			return &rpc.CapabilityError{Required: mcp.ClientCapabilities{Sampling: &mcp.SamplingCapability{Tools: &mcp.Supported{}}}}
		}
		if err := mcp.CheckToolResults(params.Messages); err != nil {
			return fmt.Errorf("sampling/createMessage: %w", err)
		}
		return nil
	}
	a.accept = func(answer json.RawMessage) error {
		var result mcp.CreateMessageResult // a whole one, or none
		if err := json.Unmarshal(answer, &result); err != nil {
			return fmt.Errorf("%w: sampling/createMessage: %w", errUnfit, err)
		}
		*into = result
		return nil
	}
	return a
}

// Sample has the client's model answer a message. It returns what [Ask] does. Tools are
// for clients that have declared sampling.tools, and each use of one must be followed by
// its result: see mcp.CheckToolResults.
//
// Deprecated: 2026-07-28 deprecates sampling. Call the model of your choice yourself.
func Sample(ctx context.Context, params mcp.CreateMessageParams, options ...AskOption) (*mcp.CreateMessageResult, error) {
	result := new(mcp.CreateMessageResult)
	if err := Ask(ctx, SampleInto(result, params, options...)); err != nil {
		return nil, err
	}
	return result, nil
}

// RootsInto asks for the client's roots. The answer goes to into. See [Roots].
func RootsInto(into *[]mcp.Root, options ...AskOption) Asking {
	a := newAsking(mcp.MethodListRoots, nil, options)
	a.check = func(c *rpc.Call) error {
		if c.Peer.Capabilities.Roots == nil {
			return &rpc.CapabilityError{Required: mcp.ClientCapabilities{Roots: &mcp.RootsCapability{}}}
		}
		return nil
	}
	a.accept = func(answer json.RawMessage) error {
		var result mcp.ListRootsResult
		if err := json.Unmarshal(answer, &result); err != nil {
			return fmt.Errorf("%w: roots/list: %w", errUnfit, err)
		}
		if result.Roots == nil || slices.ContainsFunc(result.Roots, func(r mcp.Root) bool { return r.URI == "" }) {
			return fmt.Errorf("%w: roots/list: there is no list of roots that have URIs", errUnfit)
		}
		*into = result.Roots
		return nil
	}
	return a
}

// Roots returns the directories that the client works in. It returns what [Ask] does.
//
// Deprecated: 2026-07-28 deprecates roots. Take directories as arguments of tools.
func Roots(ctx context.Context, options ...AskOption) ([]mcp.Root, error) {
	var roots []mcp.Root
	err := Ask(ctx, RootsInto(&roots, options...))
	return roots, err
}

// newAsking encodes a question. Params that have no JSON form are a fault of the
// program, which shows when the question is put.
func newAsking(method string, params any, options []AskOption) Asking {
	a := Asking{question: rpc.Question{Key: askOptionsOf(options).key, Method: method}}
	if params != nil {
		a.question.Params, _ = json.Marshal(params)
	}
	return a
}
