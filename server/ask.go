package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// A handler can send requests to the client that it serves: for input of the user (Elicit),
// for a message of the client's model (Sample), for the client's directories (Roots). The
// handler is the same in every revision that has the feature. In a session the server sends
// a request, and the handler waits for the response. In 2026-07-28 the call ends with result
// type input_required; when the client retries it, the handler runs again from its
// beginning, and finds the answer. Code before a question therefore runs once for each
// round, unless it is in [Once].
//
// Questions are allowed while serving tools/call, prompts/get and resources/read.

// Errors of questions. Others are *call.CapabilityError for a client that has not declared
// the capability, and *call.AnswerError for a client that responds with an error.
var (
	// ErrInputRequired is returned while the answer is not known. Return it, or any other
	// error, from the handler: the handler runs again once the client has sent the answer.
	ErrInputRequired = rpc.ErrInputRequired
	// ErrCannotAsk is returned outside of the methods that allow questions, and for clients
	// that cannot receive messages before the response.
	ErrCannotAsk = rpc.ErrCannotAsk
	// ErrUnsupported is returned for a feature that the client's revision does not have.
	ErrUnsupported = rpc.ErrUnsupported
	// ErrDeclined is returned when the user declined.
	ErrDeclined = errors.New("the user declined")
	// ErrDismissed is returned when the user dismissed the question without an answer.
	ErrDismissed = errors.New("the user dismissed the question")
	// ErrUnfinished is returned when the user agreed to open a URL but did not finish there
	// in time.
	ErrUnfinished = errors.New("the user has not finished at the URL in time")
	// ErrBadAnswer is returned when the client's answer does not match the requested schema,
	// and neither do the answers to two repetitions of the question.
	ErrBadAnswer = errors.New("the client's answer does not match the question")
)

// maxReasks is how often a question is repeated after an invalid answer.
const maxReasks = 2

// AskOption is an option of one question.
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

// Key sets the key under which the answer to a question is found when the handler runs
// again. It is needed when several goroutines of a handler ask, and must be unique within
// the call.
func Key(key string) AskOption {
	return func(o *askOptions) { o.key = key }
}

// Question is a question for [Ask], together with the variable that receives its answer.
type Question struct {
	question rpc.Question
	check    func(c *rpc.Call) error            // nil: no precondition
	accept   func(answer json.RawMessage) error // an error that wraps errUnfit repeats the question
}

// errUnfit is wrapped by errors about invalid answers, after which the question is repeated.
var errUnfit = errors.New("invalid answer")

// Ask sends several questions at once and waits for all answers; see [ElicitInto],
// [SampleInto] and [RootsInto]. It returns the error of the first answer that has one. With
// a client of 2026-07-28, the code before Ask runs again for each round; see [Once].
func Ask(ctx context.Context, questions ...Question) error {
	c := rpc.From(ctx)
	if c == nil {
		return call.ErrNoCall
	}
	for _, a := range questions {
		if a.check == nil {
			continue
		}
		if err := a.check(c); err != nil {
			return err
		}
	}
	open := questions
	for again := 0; ; again++ {
		requests := make([]rpc.Question, len(open))
		for i, a := range open {
			requests[i] = a.question
			if again > 0 && a.question.Key != "" {
				requests[i].Key = fmt.Sprintf("%s~%d", a.question.Key, again)
			}
		}
		answers, err := c.Ask(ctx, requests...)
		if err != nil {
			return err
		}
		var unfit []Question
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

// SampleInto is the question of [Sample] for [Ask]. It stores the answer in into.
func SampleInto(into *mcp.CreateMessageResult, params mcp.CreateMessageParams, options ...AskOption) Question {
	a := newQuestion(mcp.MethodCreateMessage, params, options)
	a.check = func(c *rpc.Call) error {
		sampling := c.Peer().Capabilities.Sampling
		needsTools := params.UsesTools()
		switch {
		case needsTools && !c.Can(revision.SamplingTools):
			return fmt.Errorf("sampling with tools: %w", ErrUnsupported)
		case sampling == nil:
			return &call.CapabilityError{Required: mcp.ClientCapabilities{Sampling: &mcp.SamplingCapability{}}}
		case needsTools && sampling.Tools == nil:
			return &call.CapabilityError{Required: mcp.ClientCapabilities{Sampling: &mcp.SamplingCapability{Tools: &mcp.Supported{}}}}
		}
		if err := mcp.CheckToolResults(params.Messages); err != nil {
			return fmt.Errorf("sampling/createMessage: %w", err)
		}
		return nil
	}
	a.accept = func(answer json.RawMessage) error {
		var result mcp.CreateMessageResult // into is set only by a valid answer
		if err := schema.Decode(answer, &result); err != nil {
			return fmt.Errorf("%w: sampling/createMessage: %w", errUnfit, err)
		}
		*into = result
		return nil
	}
	return a
}

// Sample asks the client for a message of its model. It returns the errors of [Ask]. Tools
// require a client that has declared sampling.tools, and each use of a tool in the messages
// must be followed by its result; see [mcp.CheckToolResults].
//
// Deprecated: 2026-07-28 deprecates sampling. Call a model from the server instead.
func Sample(ctx context.Context, params mcp.CreateMessageParams, options ...AskOption) (*mcp.CreateMessageResult, error) {
	result := new(mcp.CreateMessageResult)
	if err := Ask(ctx, SampleInto(result, params, options...)); err != nil {
		return nil, err
	}
	return result, nil
}

// RootsInto is the question of [Roots] for [Ask]. It stores the answer in into.
func RootsInto(into *[]mcp.Root, options ...AskOption) Question {
	a := newQuestion(mcp.MethodListRoots, nil, options)
	a.check = func(c *rpc.Call) error {
		if c.Peer().Capabilities.Roots == nil {
			return &call.CapabilityError{Required: mcp.ClientCapabilities{Roots: &mcp.RootsCapability{}}}
		}
		return nil
	}
	a.accept = func(answer json.RawMessage) error {
		var result mcp.ListRootsResult
		if err := schema.Decode(answer, &result); err != nil {
			return fmt.Errorf("%w: roots/list: %w", errUnfit, err)
		}
		if result.Roots == nil || slices.ContainsFunc(result.Roots, func(r mcp.Root) bool { return r.URI == "" }) {
			return fmt.Errorf("%w: roots/list: roots must be a list of objects with a uri", errUnfit)
		}
		*into = result.Roots
		return nil
	}
	return a
}

// Roots returns the directories that the client works in. It returns the errors of [Ask].
//
// Deprecated: 2026-07-28 deprecates roots. Use tool arguments for directories instead.
func Roots(ctx context.Context, options ...AskOption) ([]mcp.Root, error) {
	var roots []mcp.Root
	err := Ask(ctx, RootsInto(&roots, options...))
	return roots, err
}

// newQuestion encodes a question. Params without a JSON encoding are an error of the
// program, which Ask reports.
func newQuestion(method string, params any, options []AskOption) Question {
	a := Question{question: rpc.Question{Key: askOptionsOf(options).key, Method: method}}
	if params != nil {
		a.question.Params, _ = json.Marshal(params)
	}
	return a
}
