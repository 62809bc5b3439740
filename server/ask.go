package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/parley-mcp/parley/call"
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

// The errors of a question. A question can also fail with errors.ErrUnsupported, if the revision or the connection
// cannot carry it; with a *call.CapabilityError, if the client has not declared the capability; and with a
// *call.AnswerError, if the client responds with an error.
var (
	// ErrInputRequired is returned in 2026-07-28 while the client has not sent the answers. The
	// context of the handler ends at the same time, with this cause. The handler must return. The
	// client then receives the questions, whatever the handler returns, and the handler runs again
	// when the client sends the answers.
	ErrInputRequired = rpc.ErrInputRequired
	// ErrCannotAsk is returned if the handler may not ask, because the method is not tools/call, prompts/get or
	// resources/read, or because the client of the session accepts no messages before the response.
	ErrCannotAsk = rpc.ErrCannotAsk
	// ErrDeclined is returned if the user declined.
	ErrDeclined = errors.New("the user declined")
	// ErrDismissed is returned if the user dismissed the question without a decision.
	ErrDismissed = errors.New("the user dismissed the question")
	// ErrUnfinished is returned by [ElicitURL] if the user agreed to open the URL but did not
	// finish there in time.
	ErrUnfinished = errors.New("the user did not finish at the URL in time")
	// ErrBadAnswer is returned if the client's answer is invalid or does not match the requested
	// schema. The question was asked three times.
	ErrBadAnswer = errors.New("the client's answer does not match the question")
)

// maxReasks is how often a question is repeated after an invalid answer.
const maxReasks = 2

// AskOption is an option of one question: [Keyed] or [Within].
type AskOption func(*askOptions)

type askOptions struct {
	key    string
	within time.Duration
}

func askOptionsOf(options []AskOption) askOptions {
	var o askOptions
	for _, set := range options {
		set(&o)
	}
	return o
}

// Keyed gives a question a key, which must be unique within the call. In 2026-07-28 the key identifies the answer when
// the handler runs again. Without Keyed, questions with the same content are told apart by their order. Use Keyed if
// several goroutines of a handler ask questions with the same content.
func Keyed(key string) AskOption {
	return func(o *askOptions) { o.key = key }
}

// Question is a question for [Ask], with the variable that receives the answer.
type Question struct {
	question rpc.InputRequest
	err      error                              // of the program: the question cannot be asked
	accept   func(answer json.RawMessage) error // an error that wraps errUnfit repeats the question
}

// errUnfit is wrapped by errors about invalid answers, after which the question is repeated.
var errUnfit = errors.New("invalid answer")

// Ask asks the client several questions at once and waits for all answers. The questions come
// from [ElicitInto], [SampleInto] and [RootsInto]. [Elicit], [ElicitForm], [Sample] and [Roots]
// ask one question.
//
// Ask is for the handlers of tools, prompts and resources. In a session it sends a request for
// each question and waits for the responses: 10 minutes for an elicitation, 2 minutes for a
// message and 30 seconds for roots, unless [Within] sets another time. In 2026-07-28 it returns [ErrInputRequired] if
// an answer is missing. The call then ends with the questions, and the handler runs again from its beginning when the
// client has sent the answers. A call may ask in at most 10 such rounds, and the client must answer within an hour.
// Use [Once] for code before Ask that must not be repeated.
//
// A question whose answer is invalid is asked again, at most twice. Ask returns the error of the
// first question that has one:
//
//   - call.ErrNoCall if ctx is not the context of a handler, and call.ErrCallDone after the
//     call has ended;
//   - [ErrCannotAsk] or errors.ErrUnsupported if the question is impossible, and a
//     *[call.CapabilityError] if the client has not declared the capability;
//   - [ErrInputRequired] in 2026-07-28, and in a session a *call.TimeoutError, or a
//     *call.AnswerError if the client responds with an error;
//   - [ErrDeclined], [ErrDismissed] or [ErrBadAnswer];
//   - the cause of ctx when ctx ends.
func Ask(ctx context.Context, questions ...Question) error {
	c := rpc.From(ctx)
	if c == nil {
		return call.ErrNoCall
	}
	for _, a := range questions {
		if err := c.CheckInput(rpc.NeededInput(a.question.Method, a.question.Params)); err != nil {
			return err
		}
		if a.err != nil {
			return a.err
		}
	}
	open := questions
	for again := 0; ; again++ {
		requests := make([]rpc.InputRequest, len(open))
		for i, a := range open {
			requests[i] = a.question
			if again > 0 && a.question.Key != "" {
				requests[i].Key = fmt.Sprintf("%s~%d", a.question.Key, again)
			}
		}
		answers, err := c.RequestInput(ctx, requests...)
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

// SampleInto returns the question of [Sample] for [Ask], which stores the answer in into.
//
// Deprecated: 2026-07-28 deprecates sampling (SEP-2577). The earliest removal is the first revision from 2027-07-28 on.
// Use the API of a model provider instead.
func SampleInto(into *mcp.CreateMessageResult, params mcp.CreateMessageParams, options ...AskOption) Question {
	a := newQuestion(mcp.MethodCreateMessage, params, options)
	if err := mcp.CheckToolResults(params.Messages); err != nil {
		a.err = fmt.Errorf("sampling/createMessage: %w", err)
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

// Sample asks the client to sample a message from its model. It returns the errors of [Ask]. If
// the request requires tools (see [mcp.CreateMessageParams.UsesTools]), the client must have
// declared sampling.tools. Each tool use in the messages must be followed by its result; see
// [mcp.CheckToolResults].
//
// Deprecated: 2026-07-28 deprecates sampling (SEP-2577). The earliest removal is the first revision from 2027-07-28 on.
// Use the API of a model provider instead.
func Sample(
	ctx context.Context, params mcp.CreateMessageParams, options ...AskOption,
) (*mcp.CreateMessageResult, error) {
	result := new(mcp.CreateMessageResult)
	if err := Ask(ctx, SampleInto(result, params, options...)); err != nil {
		return nil, err
	}
	return result, nil
}

// RootsInto returns the question of [Roots] for [Ask], which stores the answer in into.
//
// Deprecated: 2026-07-28 deprecates roots (SEP-2577). The earliest removal is the first revision from 2027-07-28 on.
// Take directories from tool arguments, URIs or the configuration instead.
func RootsInto(into *[]mcp.Root, options ...AskOption) Question {
	a := newQuestion(mcp.MethodListRoots, nil, options)
	a.accept = func(answer json.RawMessage) error {
		var result mcp.ListRootsResult
		if err := schema.Decode(answer, &result); err != nil {
			return fmt.Errorf("%w: roots/list: %w", errUnfit, err)
		}
		if result.Roots == nil {
			return fmt.Errorf("%w: roots/list: roots must be a list", errUnfit)
		}
		if err := rpc.CheckRoots(result.Roots); err != nil {
			return fmt.Errorf("%w: roots/list: %w", errUnfit, err)
		}
		*into = result.Roots
		return nil
	}
	return a
}

// Roots asks the client for the directories that it works in. They have file:// URIs; for any other URI the error is
// [ErrBadAnswer]. It returns the errors of [Ask].
//
// When the roots change, the client of a session notifies the server; see [Server.RootsChanged].
//
// Deprecated: 2026-07-28 deprecates roots (SEP-2577). The earliest removal is the first revision from 2027-07-28 on.
// Take directories from tool arguments, URIs or the configuration instead.
func Roots(ctx context.Context, options ...AskOption) ([]mcp.Root, error) {
	var roots []mcp.Root
	err := Ask(ctx, RootsInto(&roots, options...))
	return roots, err
}

// newQuestion encodes a question. Params without a JSON encoding are an error of the
// program, which Ask reports.
func newQuestion(method string, params any, options []AskOption) Question {
	o := askOptionsOf(options)
	a := Question{question: rpc.InputRequest{Key: o.key, Method: method, Within: o.within}}
	if params != nil {
		a.question.Params, _ = json.Marshal(params)
	}
	return a
}
