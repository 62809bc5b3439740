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
	"github.com/parley-mcp/parley/mcp"
)

// Intervals between the calls of Poll. They double from the first to the second.
const (
	MinPollInterval = 250 * time.Millisecond
	maxPollInterval = 5 * time.Second
)

// Poll calls done until it returns true or an error, or the time-out is over. Done may block until its context ends. It
// returns the error of done, or the cause of the end of ctx.
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

// CheckURLs returns an error if the URLs of e are invalid, or if the client cannot ask its user to open them.
func (c *Call) CheckURLs(e *call.URLRequiredError) error {
	if err := c.CheckInput(URLInput); err != nil {
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
