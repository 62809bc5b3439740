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

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// maxVisits bounds the URLs that a client's user is known to be at. Of more, the end
// is not waited for.
const maxURLElicitations = 64

// Bounds on the reports that come early: how many are kept, and how long their ids are,
// in bytes.
const (
	maxEarly   = 16
	maxEarlyID = 256
)

// visits are the URLs that the server has sent the user to, until it reports that
// they are done there (2025-11-25, client/elicitation, Completion Notifications).
type urlElicitations struct {
	mu   sync.Mutex
	open map[string]*urlElicitation // by elicitationId
	// early are those that were reported before the client had read of them: a report may
	// come on another stream. The newest come last.
	completedEarly []string
}

// openVisit is one of them. A nil one is of no interest.
type urlElicitation struct {
	all  *urlElicitations
	id   string
	done chan struct{}
}

// note notes that the user may be on their way; nil if that cannot be.
func (v *urlElicitations) add(id string) *urlElicitation {
	v.mu.Lock()
	defer v.mu.Unlock()
	if id == "" || v.open[id] != nil || len(v.open) >= maxURLElicitations {
		return nil
	}
	if v.open == nil {
		v.open = make(map[string]*urlElicitation)
	}
	o := &urlElicitation{all: v, id: id, done: make(chan struct{})}
	if i := slices.Index(v.completedEarly, id); i >= 0 {
		v.completedEarly = slices.Delete(v.completedEarly, i, i+1)
		close(o.done)
		return o
	}
	v.open[id] = o
	return o
}

func (o *urlElicitation) end() {
	if o == nil {
		return
	}
	o.all.mu.Lock()
	defer o.all.mu.Unlock()
	if o.all.open[o.id] == o {
		delete(o.all.open, o.id)
	}
}

// done ends the wait for somebody who is back.
func (v *urlElicitations) done(id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if o := v.open[id]; o != nil {
		delete(v.open, id)
		close(o.done)
		return
	}
	if len(id) > maxEarlyID {
		return
	}
	if len(v.completedEarly) == maxEarly {
		v.completedEarly = slices.Delete(v.completedEarly, 0, 1)
	}
	v.completedEarly = append(v.completedEarly, strings.Clone(id))
}

// visitFor begins a visit if a request of the server's asks for one. The server may
// report its end at any time from then on.
func (c *Client) elicitationOf(m *jsonrpc.Message) *urlElicitation {
	mode, _ := m.Params.Get("mode")
	id, _ := m.Params.Get("elicitationId")
	if m.Method != mcp.MethodElicit || jsonrpc.Unquote(mode) != mcp.ElicitModeURL || len(id) == 0 || id[0] != '"' {
		return nil
	}
	return c.elicitations.add(jsonrpc.Unquote(id))
}

// completed takes the report that the user is done at a URL. One that nobody waits
// for is ignored.
func (c *Client) completed(m *jsonrpc.Message) {
	id, _ := m.Params.Get("elicitationId")
	if len(id) == 0 || id[0] != '"' {
		return
	}
	c.elicitations.done(jsonrpc.Unquote(id))
}

// await returns when the user is done, or nobody waits for that any longer.
func (c *Client) awaitElicitation(o *urlElicitation, over <-chan struct{}) {
	timeout, stop := c.elicitationTimer()
	defer stop()
	select {
	case <-o.done:
	case <-over:
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

var errDeclined = errors.New("the user would not go there")

// visit has the user visit the URLs without which the server has refused a request,
// if that is what err says. The refusal is why they have not been there. The server
// need not report that they are done; after a while the request is worth another try.
func (c *Client) completeRequired(ctx context.Context, err error) (visited bool, refusal error) {
	var reported *jsonrpc.Error
	var required mcp.URLElicitationRequiredData
	if c.answerer == nil || c.revision != mcp.V20251125 ||
		!errors.As(err, &reported) || reported.Code != mcp.CodeURLElicitationRequired {
		return false, nil
	}
	if err := jsonv2.Unmarshal(reported.Data, &required); err != nil {
		return false, fmt.Errorf("%w: %w", call.ErrInvalidResponse, err)
	}
	if n := len(required.Elicitations); n == 0 || n > rpc.MaxRequiredURLs {
		return false, fmt.Errorf("%w: the server names %d URLs, not 1 to %d", call.ErrInvalidResponse, n, rpc.MaxRequiredURLs)
	}
	// The server may report the end of each at any time from now on.
	var open []*urlElicitation
	for i := range required.Elicitations {
		e := &required.Elicitations[i]
		if e.Mode != mcp.ElicitModeURL || e.ElicitationID == "" {
			return false, fmt.Errorf("%w: an elicitation that is required has the mode %.20q and the id %.40q", call.ErrInvalidResponse, e.Mode, e.ElicitationID)
		}
		o := c.elicitations.add(e.ElicitationID)
		defer o.end()
		if o == nil {
			return false, fmt.Errorf("%w: the server names the elicitation %.40q twice, or too many", call.ErrInvalidResponse, e.ElicitationID)
		}
		open = append(open, o)
	}
	for i := range required.Elicitations {
		params, err := json.Marshal(&required.Elicitations[i])
		if err != nil {
			return false, err
		}
		answer, err := c.answerer(ctx, mcp.MethodElicit, params)
		if err != nil {
			return false, err
		}
		if !accepts(answer) {
			return false, errDeclined
		}
	}
	timeout, stop := c.elicitationTimer()
	defer stop()
	for _, o := range open {
		select {
		case <-o.done:
		case <-timeout:
			return true, nil
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-c.Gone():
			return false, c.Failed()
		}
	}
	return true, nil
}

// consents reports whether an answer to an elicitation is yes.
func accepts(answer json.RawMessage) bool {
	action, _ := jsonrpc.Get(answer, "action")
	return jsonrpc.Unquote(action) == string(mcp.ElicitAccept)
}
