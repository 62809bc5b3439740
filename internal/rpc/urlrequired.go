package rpc

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// URLRequiredError refuses a call until its user has been at some URLs. Nothing must
// have been done for a call that is refused so: its client sends it again when the
// user has been there.
//
// In 2025-11-25 it becomes the error URLElicitationRequired. In 2026-07-28, which has
// no such error, the call ends with the same questions and is retried in its own way
// (both: client/elicitation). Older clients are told its text.
type URLRequiredError struct {
	// URLs are where the user has to go: at least one, at most MaxRequiredURLs.
	URLs []RequiredURL
}

// RequiredURL is a page that a user has to visit.
type RequiredURL struct {
	URL     string // see mcp.ParseElicitURL
	Message string // tells the user why
	// ID identifies the elicitation in 2025-11-25. Empty: a random one.
	ID string
	// Done tells whether the user is done there. If it is not nil, it is called every so
	// often once the call of a client of 2025-11-25 has ended, until it says yes: then the
	// client is told by notifications/elicitation/complete, on its session's own stream,
	// and need not guess when to call again. It may wait, for as long as its context
	// lasts, which has the values of the call's and ends with the session. An error ends
	// that. Of a session 16 are called at a time, of a server 1,024; nobody is told of more.
	Done func(ctx context.Context) (bool, error)
	// Within bounds how long Done is called; 0: 5 minutes. An hour at most.
	Within time.Duration
}

const (
	usualVisit = 5 * time.Minute
	maxVisit   = time.Hour
)

// MaxRequiredURLs bounds the URLs of one URLRequiredError.
const MaxRequiredURLs = 8

// Error implements the error interface.
func (e *URLRequiredError) Error() string {
	var all []string
	for _, u := range e.URLs {
		all = append(all, fmt.Sprintf("%s (%s)", u.URL, u.Message))
	}
	return "call again when the user has visited " + strings.Join(all, ", ")
}

// Check returns why the client of c cannot be sent there, or nil: a *call.CapabilityError,
// ErrUnsupported, or what is wrong with the URLs.
func (e *URLRequiredError) Check(c *Call) error {
	if err := c.CheckElicitURL(); err != nil {
		return err
	}
	if len(e.URLs) == 0 || len(e.URLs) > MaxRequiredURLs {
		return fmt.Errorf("%d URLs are required: name 1 to %d", len(e.URLs), MaxRequiredURLs)
	}
	for _, u := range e.URLs {
		if _, err := mcp.ParseElicitURL(u.URL); err != nil {
			return fmt.Errorf("require a URL: %w", err)
		}
	}
	return nil
}

// CheckElicitURL returns why the client of c cannot be asked to visit a URL, or nil.
func (c *Call) CheckElicitURL() error {
	switch {
	case !revision.URLElicitation.In(c.Revision()):
		return fmt.Errorf("elicitation by URL: %w", ErrUnsupported)
	case !c.Peer().Capabilities.Elicitation.SupportsURL():
		return &call.CapabilityError{Required: mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{URL: &mcp.Supported{}}}}
	}
	return nil
}

// elicitations are the questions that the error stands for.
func (e *URLRequiredError) elicitations(r mcp.Revision) []mcp.ElicitParams {
	all := make([]mcp.ElicitParams, len(e.URLs))
	for i, u := range e.URLs {
		all[i] = mcp.ElicitParams{Mode: mcp.ElicitModeURL, URL: u.URL, Message: u.Message}
		if revision.ElicitationIDs.In(r) {
			if all[i].ElicitationID = u.ID; u.ID == "" {
				all[i].ElicitationID = rand.Text()
			}
		}
	}
	return all
}

// Questions are the questions that the error stands for, for a client of revision r.
func (e *URLRequiredError) Questions(r mcp.Revision) []InputRequest {
	var all []InputRequest
	for _, params := range e.elicitations(r) {
		raw, _ := json.Marshal(params) // texts only
		all = append(all, InputRequest{Method: mcp.MethodElicit, Params: raw})
	}
	return all
}

// wire is the error that tells a client of 2025-11-25. No other revision has it: in
// 2026-07-28 questions have taken its place by now, unless they could not be put.
func (e *URLRequiredError) wire(ctx context.Context, c *Call) *jsonrpc.Error {
	err := e.Check(c)
	var missing *call.CapabilityError
	switch {
	case errors.As(err, &missing):
		return capabilityError(missing, c.Revision())
	case errors.Is(err, ErrUnsupported), err == nil && !revision.ElicitationIDs.In(c.Revision()):
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: e.Error()}
	case err != nil:
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
	}
	elicitations := e.elicitations(c.Revision())
	e.announce(ctx, c, elicitations)
	data, _ := json.Marshal(mcp.URLElicitationRequiredData{Elicitations: elicitations})
	return &jsonrpc.Error{Code: mcp.CodeURLElicitationRequired, Message: "the user has to visit a URL first", Data: data}
}

// announce has the client told when its user is done.
func (e *URLRequiredError) announce(ctx context.Context, c *Call, elicitations []mcp.ElicitParams) {
	if c.SessionNotifier == nil {
		return
	}
	for i, u := range e.URLs {
		if u.Done == nil {
			continue
		}
		within := u.Within
		if within <= 0 {
			within = usualVisit
		}
		params, _ := json.Marshal(mcp.ElicitationCompleteParams{ElicitationID: elicitations[i].ElicitationID}) // texts only
		c.SessionNotifier.NotifyWhenDone(ctx, DeferredNotification{
			Method: mcp.NotificationElicitationComplete, Params: params, Done: u.Done, Timeout: min(within, maxVisit),
		})
	}
}
