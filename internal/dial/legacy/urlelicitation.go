package legacy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// maxURLElicitations limits the URL elicitations whose completion the client tracks.
const maxURLElicitations = 64

// lateTime is how long the client tracks an elicitation that the user has accepted if no request of the client waits
// for it.
const lateTime = rpc.MaxURLTime

// Limits on completions that arrive early: their number, and the length of their ids in bytes.
const (
	maxEarly   = 16
	maxEarlyID = 256
)

// urlElicitations tracks the URL elicitations that the server has not completed yet
// (2025-11-25, client/elicitation, Completion Notifications).
type urlElicitations struct {
	mu   sync.Mutex
	open map[string]*urlElicitation // by elicitationId
	// completedEarly holds the ids of completions that arrived before their elicitation,
	// possibly on another stream. The newest come last.
	completedEarly []string
	closed         bool
}

// urlElicitation is one URL elicitation. A nil pointer is an elicitation that is not tracked.
type urlElicitation struct {
	all        *urlElicitations
	id         string
	done       chan struct{}
	completion outbound.Completion // set by the handler
	accepted   bool                // the user has accepted it; set before end
	late       *time.Timer         // ends the tracking after end; nil before. Guarded by all.mu
}

// add begins to track a URL elicitation. It returns nil if the id is empty, is already
// tracked, or the limit is reached.
func (e *urlElicitations) add(id string) *urlElicitation {
	e.mu.Lock()
	defer e.mu.Unlock()
	if id == "" || e.open[id] != nil || len(e.open) >= maxURLElicitations && !e.dropLate() {
		return nil
	}
	if e.open == nil {
		e.open = make(map[string]*urlElicitation)
	}
	o := &urlElicitation{all: e, id: id, done: make(chan struct{})}
	if i := slices.Index(e.completedEarly, id); i >= 0 {
		e.completedEarly = slices.Delete(e.completedEarly, i, i+1)
		o.completion.Complete()
		close(o.done)
		return o
	}
	e.open[id] = o
	return o
}

// dropLate forgets an elicitation that nothing waits for. It reports false if there is none. mu must be held.
func (e *urlElicitations) dropLate() bool {
	for id, o := range e.open {
		if o.late != nil {
			o.late.Stop()
			delete(e.open, id)
			return true
		}
	}
	return false
}

// end ends the wait for the completion. If the handler wants to know about the completion, the client
// continues to track it.
func (o *urlElicitation) end() {
	if o == nil {
		return
	}
	if !o.keep() {
		o.completion.Report()
	}
}

// keep reports whether the client continues to track the elicitation.
func (o *urlElicitation) keep() bool {
	e := o.all
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open[o.id] != o {
		return false
	}
	if !o.accepted || !o.completion.Wanted() || e.closed {
		delete(e.open, o.id)
		return false
	}
	o.late = time.AfterFunc(lateTime, o.forget)
	return true
}

func (o *urlElicitation) forget() {
	o.all.mu.Lock()
	defer o.all.mu.Unlock()
	if o.all.open[o.id] == o {
		delete(o.all.open, o.id)
	}
}

// close forgets all elicitations.
func (e *urlElicitations) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for e.dropLate() {
	}
}

// done completes the elicitation with this id, or records an early completion. It returns the elicitation if nothing
// waits for it.
func (e *urlElicitations) done(id string) (late *urlElicitation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if o := e.open[id]; o != nil {
		delete(e.open, id)
		o.completion.Complete()
		close(o.done)
		if o.late == nil {
			return nil
		}
		o.late.Stop()
		return o
	}
	if len(id) > maxEarlyID {
		return nil
	}
	if len(e.completedEarly) == maxEarly {
		e.completedEarly = slices.Delete(e.completedEarly, 0, 1)
	}
	e.completedEarly = append(e.completedEarly, strings.Clone(id))
	return nil
}

// elicitationOf begins to track the URL elicitation that a request of the server asks for. It returns nil for other
// requests. From then on, the server may report the completion at any time.
func (c *Client) elicitationOf(m *jsonrpc.Message) *urlElicitation {
	mode, _ := m.Params.Get("mode")
	id, _ := m.Params.Get("elicitationId")
	if m.Method != mcp.MethodElicit || mcp.ElicitMode(jsonrpc.Unquote(mode)) != mcp.ElicitModeURL || len(id) == 0 ||
		id[0] != '"' {
		return nil
	}
	return c.elicitations.add(jsonrpc.Unquote(id))
}

// completed processes notifications/elicitation/complete.
func (c *Client) completed(m *jsonrpc.Message) {
	id, _ := m.Params.Get("elicitationId")
	if len(id) == 0 || id[0] != '"' {
		return
	}
	if late := c.elicitations.done(jsonrpc.Unquote(id)); late != nil {
		c.run(late.completion.Report)
	}
}

// awaitElicitation returns when the elicitation is complete, times out, or idle is closed.
func (c *Client) awaitElicitation(o *urlElicitation, idle <-chan struct{}) {
	o.accepted = true
	timeout, stop := c.elicitationTimer()
	defer stop()
	select {
	case <-o.done:
		o.completion.Report()
	case <-idle:
	case <-timeout:
	case <-c.ctx.Done():
	}
}

func (c *Client) elicitationTimer() (<-chan time.Time, func() bool) {
	if c.ElicitationTimeout <= 0 {
		return nil, func() bool { return false }
	}
	timer := time.NewTimer(c.ElicitationTimeout)
	return timer.C, timer.Stop
}

var errDeclined = errors.New("the user declined the URL elicitation")

// completeRequired completes the URL elicitations that the server requires before it serves a request, if err is such
// an error. If an elicitation fails, it returns the error as failure. The server need not report completions, so after
// the time-out the request is worth another attempt.
func (c *Client) completeRequired(ctx context.Context, err error) (completed bool, failure error) {
	var reported *jsonrpc.Error
	var required mcp.URLElicitationRequiredData
	if c.answerer == nil || !revision.ElicitationIDs.In(c.revision) ||
		!errors.As(err, &reported) || reported.Code != mcp.CodeURLElicitationRequired {
		return false, nil
	}
	if err := schema.Decode(reported.Data, &required); err != nil {
		return false, fmt.Errorf("%w: %w", call.ErrInvalidResponse, err)
	}
	if n := len(required.Elicitations); n == 0 || n > rpc.MaxRequiredURLs {
		return false, fmt.Errorf("%w: number of required URLs must be 1 to %d, not %d", call.ErrInvalidResponse,
			rpc.MaxRequiredURLs, n)
	}
	// Track all of them first: the server may report a completion at any time.
	var open []*urlElicitation
	for i := range required.Elicitations {
		e := &required.Elicitations[i]
		if e.Mode != mcp.ElicitModeURL || e.ElicitationID == "" {
			return false,
				fmt.Errorf("%w: required elicitation must have mode url and an id, not mode %.20q and id %.40q",
					call.ErrInvalidResponse, e.Mode, e.ElicitationID)
		}
		o := c.elicitations.add(e.ElicitationID)
		defer o.end()
		if o == nil {
			return false,
				fmt.Errorf("%w: required elicitation id must be unique, and the limit is %d open elicitations: %.40q",
					call.ErrInvalidResponse, maxURLElicitations, e.ElicitationID)
		}
		open = append(open, o)
	}
	for i := range required.Elicitations {
		params, err := json.Marshal(&required.Elicitations[i])
		if err != nil {
			return false, err
		}
		answer, err := c.answerer(outbound.WithCompletion(ctx, &open[i].completion), mcp.MethodElicit, params)
		if err != nil {
			return false, outbound.Unanswered("cannot answer the required elicitation", err)
		}
		if !accepts(answer) {
			return false, errDeclined
		}
		open[i].accepted = true
	}
	timeout, stop := c.elicitationTimer()
	defer stop()
	for _, o := range open {
		select {
		case <-o.done:
			o.completion.Report()
		case <-timeout:
			return true, nil
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-c.Done():
			return false, c.Failed()
		}
	}
	return true, nil
}

// accepts reports whether the action of an answer is accept.
func accepts(answer json.RawMessage) bool {
	action, _ := jsonrpc.Get(answer, "action")
	return jsonrpc.Unquote(action) == string(mcp.ElicitAccept)
}
