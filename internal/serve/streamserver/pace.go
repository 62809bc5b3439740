package streamserver

import (
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// pace is how quickly requests of one kind have been served lately: calls of one tool or prompt,
// or requests with one method. The goroutine that reads serves the quick ones. All others have a
// goroutine of their own, so that they run in parallel.
type pace struct{ score atomic.Int32 }

const (
	quick     = 50 * time.Microsecond // limit of a quick request
	enough    = 4                     // score from which requests are served by the reader
	maxScore  = 8
	slowCost  = 4   // reduction of the score by a request that is not quick
	lateScore = -16 // lowest score, after a request that has ended a turn
	maxPaces  = 256 // kinds of requests; when there are more, the connection forgets all
	maxKind   = 128 // length of the name of a kind, in bytes
)

// paces are the paces of a connection, by kind of request. They are used by the reading goroutine only.
type paces map[string]*pace

// of returns the pace of requests like m, or nil if they are not distinguished.
func (all paces) of(m *jsonrpc.Message) *pace {
	kind := []byte(m.Method)
	switch m.Method {
	case mcp.MethodCallTool, mcp.MethodGetPrompt:
		kind, _ = m.Params.Get("name")
	}
	p := all[string(kind)]
	if p == nil && len(kind) <= maxKind {
		if len(all) == maxPaces {
			clear(all)
		}
		p = new(pace)
		all[string(kind)] = p
	}
	return p
}

// isQuick reports whether the reading goroutine can serve the next request.
func (p *pace) isQuick() bool { return p != nil && p.score.Load() >= enough }

// record records that a request has been served since start. inTime is false if the request has ended a turn.
func (p *pace) record(start time.Time, inTime bool) {
	switch {
	case p == nil:
	case !inTime:
		p.score.Store(lateScore)
	case time.Since(start) > quick:
		p.score.Store(max(p.score.Load()-slowCost, lateScore))
	case p.score.Load() < maxScore:
		p.score.Add(1)
	}
}
