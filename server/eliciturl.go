package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
)

const (
	// visitTime is how long a user may take at a URL, unless Within says otherwise.
	visitTime = 5 * time.Minute
	// visitRound bounds the wait in one round of a call of 2026-07-28, whose client
	// would give up before long: at 30 seconds, some of them.
	visitRound = 20 * time.Second
	// maxVisitAsks is in how many rounds of a call a user is sent to one URL.
	maxVisitAsks = 5
)

// URLRequiredError is the error of a handler that cannot do anything before its user
// has been at some URLs. Return it before anything is done. See call.URLRequiredError
// for what becomes of it, and [URLRequired] for how to have ElicitURL return it.
type URLRequiredError = rpc.URLRequiredError

// RequiredURL is one of the URLs of a URLRequiredError.
type RequiredURL = rpc.RequiredURL

// Within bounds how long [ElicitURL] waits until the user is done, instead of 5
// minutes. In a round of a client of 2026-07-28 it waits 20 seconds at most.
func Within(d time.Duration) AskOption {
	return func(o *askOptions) { o.within = d }
}

// URLRequired has [ElicitURL] return a *[URLRequiredError] to the handler instead of
// asking, in 2025-11-25: the call ends with the error URLElicitationRequired, nothing
// stays open while the user is away, and the client calls again, as soon as it is told
// that they are done. Elsewhere it changes nothing: in 2026-07-28 every question ends the
// call.
func URLRequired() AskOption {
	return func(o *askOptions) { o.required = true }
}

// ElicitURL asks the user to visit a URL, where they enter what must not pass through
// the client: credentials, payments. It returns when they are done there.
//
// Done tells whether they are. It is called before anybody is asked, and nobody is
// if it says yes; and again and again once the user has agreed to go there, which says
// nothing about when they arrive. It may wait, for as long as its context lasts, which
// spares it further calls. Its error is ElicitURL's. A client of 2025-11-25 is told of
// the end by notifications/elicitation/complete. In 2026-07-28 a user who takes longer
// than a round lasts is asked again, in five rounds at most. Those who are not done by
// then, or within what [Within] says, leave [ErrUnfinished]. If done is nil, ElicitURL
// returns when the user has agreed to go there.
//
// The URL leads over https, or over http to this machine. It must hold nothing that
// identifies or authorizes the user, be the same whenever the handler runs for the
// call ([Once] can make it), and lead to a page that makes sure that whoever opens it
// is the user who was asked: anybody may have been sent the link.
//
// [ErrDeclined] and [ErrDismissed] say that the user would not go there. Otherwise
// ElicitURL returns what [Ask] does; the code before it runs again for each round of a
// client of 2026-07-28, see [Once]. Since 2025-11-25 (client/elicitation, URL Mode).
func ElicitURL(ctx context.Context, address, message string, done func(ctx context.Context) (bool, error), options ...AskOption) error {
	if _, err := mcp.ParseElicitURL(address); err != nil {
		return fmt.Errorf("elicit: %w", err)
	}
	c := rpc.From(ctx)
	if c == nil {
		return rpc.ErrNoCall
	}
	v := &visit{call: c, address: address, message: message, options: askOptionsOf(options)}
	if err := c.CheckElicitURL(); err != nil {
		return err
	}
	question := v.question(0)
	if done == nil {
		return Ask(ctx, question)
	}
	// An answer that is known has to be taken, or what follows it would not be reached.
	if !c.Answered(question.question) {
		if finished, err := already(ctx, done); err != nil || finished {
			return err
		}
	}
	if v.options.required && !c.Revision.Modern() {
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
		case !c.Revision.Modern() || again == maxVisitAsks:
			return ErrUnfinished
		}
	}
}

// visit is one user's way to a URL.
type visit struct {
	call             *rpc.Call
	address, message string
	options          askOptions
	id               string // of the newest question, where questions have one
}

// question asks for consent, for the first time or again.
func (v *visit) question(again int) Asking {
	params := mcp.ElicitParams{Mode: mcp.ElicitModeURL, URL: v.address, Message: v.message}
	if revision.ElicitationIDs.In(v.call.Revision) {
		if v.id == "" { // sessions ask once
			v.id = rand.Text()
		}
		params.ElicitationID = v.id
	}
	key := v.options.key
	if key != "" && again > 0 {
		key = fmt.Sprintf("%s/%d", key, again)
	}
	a := newAsking(mcp.MethodElicit, params, []AskOption{Key(key)})
	a.accept = func(answer json.RawMessage) error {
		_, err := accepted(answer)
		return err
	}
	return a
}

// wait waits until the user is done, and tells the client; or not any longer.
func (v *visit) wait(ctx context.Context, done func(context.Context) (bool, error)) (finished bool, err error) {
	patience := v.options.within
	if patience <= 0 {
		patience = visitTime
	}
	if v.call.Revision.Modern() {
		patience = min(patience, visitRound)
	}
	if finished, err = rpc.Poll(ctx, patience, done); err != nil || !finished {
		return false, err
	}
	if v.id != "" {
		params, _ := json.Marshal(mcp.ElicitationCompleteParams{ElicitationID: v.id})
		// That the user is done counts, whoever hears of it.
		_ = v.call.Notify(ctx, mcp.NotificationElicitationComplete, params)
	}
	return true, nil
}

// already calls a done, which may be one that waits, for the time being.
func already(ctx context.Context, done func(context.Context) (bool, error)) (bool, error) {
	waiting, cancel := context.WithTimeout(ctx, rpc.FirstPoll)
	defer cancel()
	finished, err := done(waiting)
	if ctx.Err() == nil && waiting.Err() != nil && errors.Is(err, context.DeadlineExceeded) {
		return false, nil
	}
	return finished, err
}
