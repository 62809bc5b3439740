package rpc

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// SessionNotifier sends messages that belong to no call, on the stream of the session.
type SessionNotifier interface {
	// SessionID identifies the session among all sessions of the server, of this replica and of others.
	SessionID() string
	// SetLevel changes the log level of the session.
	SetLevel(ctx context.Context, level mcp.LoggingLevel) error
	// Notify sends an encoded notification. Without a stream it waits for the next one. The oldest
	// are dropped if too many wait.
	Notify(notification []byte)
	// NotifyWhenDone sends n after n.Done has returned true, which may be after the call has ended. It reports false
	// if it will not, because the session has ended or too many notifications are waiting. The context provides values
	// only.
	NotifyWhenDone(ctx context.Context, n DeferredNotification) bool
	// Listens reports whether the client may receive messages now: its stream is open, or another replica may have the
	// stream.
	Listens() bool
	// RequestInput sends an input request and returns the client's response.
	RequestInput(ctx context.Context, r InputRequest) (json.RawMessage, error)
}

// DeferredNotification is a notification that is sent when an activity has ended.
type DeferredNotification struct {
	Method string
	Params []byte // a JSON object
	// Done is called repeatedly until it returns true or an error.
	Done    func(ctx context.Context) (bool, error)
	Timeout time.Duration // how long Done is called
}

// Intervals between the calls of Poll. They double from the first to the second.
const (
	MinPollInterval = 250 * time.Millisecond
	maxPollInterval = 5 * time.Second
)

// Poll calls done until it returns true or an error, or the time-out is over. Done may block
// until its context ends. The error is that of done, or the cause of the end of ctx.
func Poll(ctx context.Context, timeout time.Duration, done func(ctx context.Context) (bool, error)) (bool, error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for interval := MinPollInterval; ; interval = min(2*interval, maxPollInterval) {
		finished, err := done(limited)
		switch {
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case err == nil && finished:
			return true, nil
		case errors.Is(err, context.DeadlineExceeded) && limited.Err() != nil: // it blocked until the time-out
			return false, nil
		case err != nil:
			return false, err
		}
		timer := time.NewTimer(interval)
		select {
		case <-timer.C:
		case <-limited.Done():
			timer.Stop()
			if ctx.Err() != nil {
				return false, context.Cause(ctx)
			}
			return false, nil
		}
	}
}

// RecoverPanics returns done with panics converted to errors, for a goroutine of the server.
func RecoverPanics(done func(context.Context) (bool, error)) func(context.Context) (bool, error) {
	return func(ctx context.Context) (finished bool, err error) {
		defer func() {
			if v := recover(); v != nil {
				finished, err = false, fmt.Errorf("panic: %v\n%s", v, debug.Stack())
			}
		}()
		return done(ctx)
	}
}

// MaxRequiredURLs limits the URLs of one call.URLRequiredError.
const MaxRequiredURLs = 8

// Time limits of RequiredURL.Done.
const (
	defaultURLTime = 5 * time.Minute
	MaxURLTime     = time.Hour
)

// CheckElicitURL returns an error if the client cannot ask its user to open a URL: it wraps
// ErrUnsupported or is a *call.CapabilityError.
func (c *Call) CheckElicitURL() error {
	switch {
	case !revision.URLElicitation.In(c.Revision()):
		return fmt.Errorf("URL elicitation: %w", ErrUnsupported)
	case !c.Peer().Capabilities.Elicitation.SupportsURL():
		required := mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{URL: &mcp.Supported{}}}
		return &call.CapabilityError{Required: required}
	}
	return nil
}

// CheckURLs returns an error if the URLs of e are invalid, or if the client cannot ask its user to open them.
func (c *Call) CheckURLs(e *call.URLRequiredError) error {
	if err := c.CheckElicitURL(); err != nil {
		return err
	}
	if len(e.URLs) == 0 || len(e.URLs) > MaxRequiredURLs {
		return fmt.Errorf("number of required URLs must be 1 to %d, not %d", MaxRequiredURLs, len(e.URLs))
	}
	for _, u := range e.URLs {
		if _, err := mcp.ParseElicitURL(u.URL); err != nil {
			return fmt.Errorf("required URL: %w", err)
		}
	}
	return nil
}

// InputRequestsFor returns the input requests that take the place of e in 2026-07-28.
func (c *Call) InputRequestsFor(e *call.URLRequiredError) []InputRequest {
	var all []InputRequest
	for _, params := range elicitations(e, c.Revision()) {
		raw, _ := json.Marshal(params) // has only strings
		all = append(all, InputRequest{Method: mcp.MethodElicit, Params: raw})
	}
	return all
}

func elicitations(e *call.URLRequiredError, r mcp.Revision) []mcp.ElicitParams {
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

// urlRequiredResponse returns the error that the client receives for e. Only 2025-11-25 has an error for it; in
// 2026-07-28 input requests have taken its place unless they could not be sent.
func (c *Call) urlRequiredResponse(ctx context.Context, e *call.URLRequiredError) *jsonrpc.Error {
	err := c.CheckURLs(e)
	var missing *call.CapabilityError
	switch {
	case errors.As(err, &missing):
		return capabilityResponse(missing, c.Revision())
	case errors.Is(err, ErrUnsupported), err == nil && !revision.ElicitationIDs.In(c.Revision()):
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: e.Error()}
	case err != nil:
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
	}
	all := elicitations(e, c.Revision())
	c.notifyWhenDone(ctx, e, all)
	data, _ := json.Marshal(mcp.URLElicitationRequiredData{Elicitations: all})
	return &jsonrpc.Error{Code: mcp.CodeURLElicitationRequired, Message: "the user must open a URL first", Data: data}
}

// notifyWhenDone has the client notified of each URL when its user has finished there.
func (c *Call) notifyWhenDone(ctx context.Context, e *call.URLRequiredError, elicitations []mcp.ElicitParams) {
	if c.SessionNotifier == nil {
		return
	}
	for i, u := range e.URLs {
		if u.Done == nil {
			continue
		}
		within := u.Within
		if within <= 0 {
			within = defaultURLTime
		}
		// has only strings
		params, _ := json.Marshal(mcp.ElicitationCompleteParams{ElicitationID: elicitations[i].ElicitationID})
		c.SessionNotifier.NotifyWhenDone(ctx, DeferredNotification{
			Method: mcp.NotificationElicitationComplete, Params: params, Done: u.Done, Timeout: min(within, MaxURLTime),
		})
	}
}
