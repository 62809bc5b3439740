package rpc

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

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
		return &call.CapabilityError{Required: mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{URL: &mcp.Supported{}}}}
	}
	return nil
}

// CheckURLs returns an error if the URLs of e are invalid, or if the client cannot ask its user
// to open them.
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

// urlRequiredResponse returns the error that the client receives for e. Only 2025-11-25 has an
// error for it; in 2026-07-28 input requests have taken its place unless they could not be
// sent.
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
		params, _ := json.Marshal(mcp.ElicitationCompleteParams{ElicitationID: elicitations[i].ElicitationID}) // has only strings
		c.SessionNotifier.NotifyWhenDone(ctx, DeferredNotification{
			Method: mcp.NotificationElicitationComplete, Params: params, Done: u.Done, Timeout: min(within, MaxURLTime),
		})
	}
}
