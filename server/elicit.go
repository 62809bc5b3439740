package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// Elicit asks the user to fill in a form, and returns the form's values. T is a struct whose
// fields are strings, numbers or booleans; the enum tag makes a string a choice. A field that is
// a pointer, has a default, or is tagged omitempty or omitzero is optional. A form must not ask
// for secrets; see [ElicitURL].
//
// It returns [ErrDeclined] or [ErrDismissed] if the user did not submit the form, [ErrBadAnswer]
// if the third answer still does not match T, and the other errors of [Ask]. Any other error
// means that T cannot be a form. With a client of 2026-07-28 the handler runs again from its
// beginning; see [Ask]. Since 2025-06-18 (client/elicitation).
func Elicit[T any](ctx context.Context, message string, options ...AskOption) (T, error) {
	var form T
	err := Ask(ctx, ElicitInto(&form, message, options...))
	return form, err
}

// ElicitInto returns the question of [Elicit] for [Ask], which stores the answer in into.
func ElicitInto[T any](into *T, message string, options ...AskOption) Question {
	form, err := formOf[T]()
	if err != nil {
		return Question{err: err}
	}
	a := newQuestion(mcp.MethodElicit, mcp.ElicitParams{Message: message, RequestedSchema: form.JSON()}, options)
	a.accept = func(answer json.RawMessage) error {
		content, err := accepted(answer)
		if err != nil {
			return err
		}
		var value T
		if err := form.Decode(content, &value); err != nil {
			return fmt.Errorf("%w: %w", errUnfit, err)
		}
		*into = value
		return nil
	}
	return a
}

// ElicitForm is [Elicit] with a JSON Schema instead of a type. The schema must be one that [mcp.ParseElicitSchema]
// accepts. ElicitForm returns the content of the form as the client sent it, after validation, and without optional
// fields that are null. The caller owns the content. Before 2025-11-25 there is no multiple choice: an optional one is
// left out of the form, and a required one is errors.ErrUnsupported.
func ElicitForm(
	ctx context.Context, message string, requestedSchema json.RawMessage, options ...AskOption,
) (json.RawMessage, error) {
	if _, err := mcp.ParseElicitSchema(requestedSchema); err != nil {
		return nil, fmt.Errorf("elicit: %w", err)
	}
	form, err := schema.Compile(requestedSchema)
	if err != nil {
		return nil, fmt.Errorf("elicit: requested schema: %w", err)
	}
	a := newQuestion(mcp.MethodElicit, mcp.ElicitParams{Message: message, RequestedSchema: requestedSchema}, options)
	var content json.RawMessage
	a.accept = func(answer json.RawMessage) (err error) {
		if content, err = accepted(answer); err != nil {
			return err
		}
		if content, _, err = conform(form, content, false); err != nil {
			return fmt.Errorf("%w: %w", errUnfit, err)
		}
		return nil
	}
	if err := Ask(ctx, a); err != nil {
		return nil, err
	}
	return content, nil
}

// formOf returns the schema of T in the subset of JSON Schema that forms have.
func formOf[T any]() (*schema.Schema, error) {
	inferred, err := schema.For[T]()
	if err != nil {
		return nil, fmt.Errorf("elicit: %w", err)
	}
	if !inferred.IsObject() {
		return nil, fmt.Errorf("elicit: a form must be a struct whose fields are strings, numbers or booleans, not %s",
			reflect.TypeFor[T]())
	}
	form, err := mcp.ParseElicitSchema(inferred.JSON())
	if err != nil {
		return nil, fmt.Errorf("elicit: %T cannot be a form: %w", *new(T), err)
	}
	raw, err := json.Marshal(form)
	if err != nil {
		return nil, fmt.Errorf("elicit: %w", err)
	}
	return schema.Compile(raw)
}

// accepted returns the content of an answer with action accept.
func accepted(answer json.RawMessage) (json.RawMessage, error) {
	var result mcp.ElicitResult
	if err := schema.Decode(answer, &result); err != nil {
		return nil, fmt.Errorf("%w: elicitation/create: %w", errUnfit, err)
	}
	switch result.Action {
	case mcp.ElicitAccept:
		if result.Content == nil {
			return json.RawMessage("{}"), nil
		}
		return result.Content, nil
	case mcp.ElicitDecline:
		return nil, ErrDeclined
	case mcp.ElicitCancel:
		return nil, ErrDismissed
	}
	return nil, fmt.Errorf("%w: elicitation/create: unknown action %.20q", errUnfit, result.Action)
}

const (
	// urlTime is how long a user may take at a URL, unless Within is set.
	urlTime = 5 * time.Minute
	// urlRound bounds the wait in one round of a call of 2026-07-28. Some clients give up
	// on a request after 30 seconds.
	urlRound = 20 * time.Second
	// maxURLRounds bounds the rounds of a call in which the user is sent to one URL.
	maxURLRounds = 5
)

// Within sets how long a session waits for the answer to a question, and how long [ElicitURL] waits
// for the user to finish at the URL, which is 5 minutes by default. A duration that is not
// positive means the default. In 2026-07-28 Within has no effect, except that ElicitURL waits for at
// most 20 seconds after each question.
//
// A client of 2025-11-25 that supports it runs an elicitation by form or a sampling request with
// Within as a task: it accepts the request at once, and the server polls (basic/utilities/tasks). Use
// Within for answers that may take long. A task outlives the event stream of the call, but not the
// session.
func Within(d time.Duration) AskOption {
	return func(o *askOptions) { o.within = max(d, 0) }
}

// ElicitURL asks the user to open a URL, and waits until the user has finished there. Use it for
// data that must not pass through the client, such as credentials and payment details. Since
// 2025-11-25 (client/elicitation, URL Mode).
//
// Done reports whether the user has finished. ElicitURL first calls done once, and returns nil
// without a question if done returns true. After the user has agreed to open the URL, ElicitURL
// calls done repeatedly, with pauses of up to 5 seconds, until done returns true. If done
// returns an error, ElicitURL returns that error. Done may block until its context ends, so that
// it need not be called again. If done is nil, ElicitURL returns as soon as the user has agreed
// to open the URL.
//
// In 2025-11-25 ElicitURL waits for 5 minutes, or as long as [Within] sets, and then returns
// [ErrUnfinished]. The client is notified when the user has finished. In 2026-07-28 it waits for
// at most 20 seconds after a question, and then asks again, so that no request of the client
// takes long. After five questions it returns ErrUnfinished. A handler that should not run while
// the user is busy returns a *[call.URLRequiredError] instead of calling ElicitURL.
//
// The URL must be one that [mcp.ParseElicitURL] accepts: https, or http to the loopback
// interface. It must not contain data that identifies or authorizes the user. It must be the
// same whenever the handler runs for the call; create it in [Once] if necessary. The page must
// check that its visitor is the user who was asked, because a link can be forwarded.
//
// ElicitURL returns [ErrDeclined] or [ErrDismissed] if the user does not agree, and the other
// errors of [Ask]. With a client of 2026-07-28 the handler runs again from its beginning; see
// Ask.
func ElicitURL(
	ctx context.Context, address, message string, done func(ctx context.Context) (bool, error), options ...AskOption,
) error {
	if _, err := mcp.ParseElicitURL(address); err != nil {
		return fmt.Errorf("elicit: %w", err)
	}
	c := rpc.From(ctx)
	if c == nil {
		return call.ErrNoCall
	}
	v := &urlElicitation{call: c, address: address, message: message, options: askOptionsOf(options)}
	if err := c.CheckInput(rpc.URLInput); err != nil {
		return err
	}
	question := v.question(0)
	if done == nil {
		return Ask(ctx, question)
	}
	// A known answer must be consumed, or the next question would get it.
	if !c.Answered(question.question) {
		if finished, err := finishedBefore(ctx, done); err != nil || finished {
			return err
		}
	}
	for again := 1; ; again++ {
		if err := Ask(ctx, question); err != nil {
			return err
		}
		question = v.question(again)
		if c.Answered(question.question) {
			continue
		}
		finished, err := v.wait(ctx, done)
		switch {
		case err != nil:
			return err
		case finished:
			return nil
		case !c.Can(revision.ReplayedInput) || again == maxURLRounds:
			return ErrUnfinished
		}
	}
}

// urlElicitation is the state of one call of ElicitURL.
type urlElicitation struct {
	call             *rpc.Call
	address, message string
	options          askOptions
	id               string // of the newest question, in revisions that have elicitation ids
}

// question asks for the user's consent, for the first time or again.
func (v *urlElicitation) question(again int) Question {
	params := mcp.ElicitParams{Mode: mcp.ElicitModeURL, URL: v.address, Message: v.message}
	if v.call.Can(revision.ElicitationIDs) {
		if v.id == "" { // a session asks only once
			v.id = rand.Text()
		}
		params.ElicitationID = v.id
	}
	key := v.options.key
	if key != "" && again > 0 {
		key = fmt.Sprintf("%s/%d", key, again)
	}
	a := newQuestion(mcp.MethodElicit, params, []AskOption{Keyed(key)})
	a.accept = func(answer json.RawMessage) error {
		_, err := accepted(answer)
		return err
	}
	return a
}

// wait waits until the user has finished, for a bounded time, and notifies the client.
func (v *urlElicitation) wait(
	ctx context.Context, done func(context.Context) (bool, error),
) (finished bool, err error) {
	limit := v.options.within
	if limit <= 0 {
		limit = urlTime
	}
	if v.call.Can(revision.ReplayedInput) {
		limit = min(limit, urlRound)
	}
	if finished, err = rpc.Poll(ctx, limit, done); err != nil || !finished {
		return false, err
	}
	if v.id != "" {
		params, _ := json.Marshal(mcp.ElicitationCompleteParams{ElicitationID: v.id})
		// The user has finished even if the client cannot be notified.
		_ = v.call.Notify(ctx, mcp.NotificationElicitationComplete, params)
	}
	return true, nil
}

// finishedBefore calls done, which may block, for a short time.
func finishedBefore(ctx context.Context, done func(context.Context) (bool, error)) (bool, error) {
	waiting, cancel := context.WithTimeout(ctx, rpc.MinPollInterval)
	defer cancel()
	finished, err := done(waiting)
	if ctx.Err() == nil && waiting.Err() != nil && errors.Is(err, context.DeadlineExceeded) {
		return false, nil
	}
	return finished, err
}
