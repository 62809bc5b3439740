package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
)

const (
	// urlTime is how long a user may take at a URL, unless Within is set.
	urlTime = 5 * time.Minute
	// urlRound bounds the wait in one round of a call of 2026-07-28. Some clients give up
	// on a request after 30 seconds.
	urlRound = 20 * time.Second
	// maxURLRounds bounds the rounds of a call in which the user is sent to one URL.
	maxURLRounds = 5
)

// URLRequiredError is the error of a handler that can do nothing before its user has opened
// some URLs. Return it before any work is done. See [call.URLRequiredError] for its effect in
// each revision, and [URLRequired] to make ElicitURL return it.
type URLRequiredError = rpc.URLRequiredError

// RequiredURL is one URL of a URLRequiredError.
type RequiredURL = rpc.RequiredURL

// Within bounds how long [ElicitURL] waits for the user to finish; the default is 5 minutes.
// In one round of a client of 2026-07-28 it waits for at most 20 seconds.
func Within(d time.Duration) AskOption {
	return func(o *askOptions) { o.within = d }
}

// URLRequired makes [ElicitURL] return a *[URLRequiredError] instead of asking, in
// 2025-11-25. The call then ends with the error URLElicitationRequired, no connection stays
// open while the user is busy, and the client repeats the call when it is notified that the
// user has finished. In 2026-07-28 the option has no effect, because every question ends the
// call.
func URLRequired() AskOption {
	return func(o *askOptions) { o.required = true }
}

// ElicitURL asks the user to open a URL and to enter there what must not pass through the
// client, such as credentials and payment details. It returns when the user has finished
// there.
//
// Done reports whether the user has finished. It is called before the question, which is
// left out if done returns true, and repeatedly after the user has agreed to open the URL. It
// may block until its context ends, which saves further calls. An error of done ends
// ElicitURL. A client of 2025-11-25 is notified of the end by
// notifications/elicitation/complete. In 2026-07-28, a user who takes longer than one round
// is asked again, in at most five rounds. If the user has not finished after that, or within
// the time of [Within], ElicitURL returns [ErrUnfinished]. If done is nil, ElicitURL returns
// when the user has agreed to open the URL.
//
// The URL must have the scheme https, or http on this machine. It must not contain data that
// identifies or authorizes the user, must be the same in every run of the handler for the
// call ([Once] can create it), and must lead to a page that checks that the user who opens it
// is the user who was asked, because a link can be forwarded.
//
// It returns [ErrDeclined] or [ErrDismissed] when the user does not agree. Its other errors
// are those of [Ask]. With a client of 2026-07-28, the code before ElicitURL runs again for
// each round; see [Once]. Since 2025-11-25 (client/elicitation, URL Mode).
func ElicitURL(ctx context.Context, address, message string, done func(ctx context.Context) (bool, error), options ...AskOption) error {
	if _, err := mcp.ParseElicitURL(address); err != nil {
		return fmt.Errorf("elicit: %w", err)
	}
	c := rpc.From(ctx)
	if c == nil {
		return call.ErrNoCall
	}
	v := &urlElicitation{call: c, address: address, message: message, options: askOptionsOf(options)}
	if err := c.CheckElicitURL(); err != nil {
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
	if v.options.required && !c.Can(revision.ReplayedInput) {
		return &URLRequiredError{URLs: []RequiredURL{{URL: address, Message: message, Done: done, Within: v.options.within}}}
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
	a := newQuestion(mcp.MethodElicit, params, []AskOption{Key(key)})
	a.accept = func(answer json.RawMessage) error {
		_, err := accepted(answer)
		return err
	}
	return a
}

// wait waits until the user has finished, for a bounded time, and notifies the client.
func (v *urlElicitation) wait(ctx context.Context, done func(context.Context) (bool, error)) (finished bool, err error) {
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
	waiting, cancel := context.WithTimeout(ctx, rpc.FirstPoll)
	defer cancel()
	finished, err := done(waiting)
	if ctx.Err() == nil && waiting.Err() != nil && errors.Is(err, context.DeadlineExceeded) {
		return false, nil
	}
	return finished, err
}
