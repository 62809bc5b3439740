package legacy

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// originOf returns the requests of this client that a request of the server may belong to. Over Streamable HTTP it
// arrives on the stream of its request (2025-11-25, basic/transports, Sending Messages to the Server), and a request
// for a task names the task. Otherwise nothing identifies it.
func (c *Client) originOf(m *jsonrpc.Message, stream jsonrpc.ID) outbound.Origin {
	if task := relatedTaskID(m.Raw); task != "" {
		origin := c.OriginWhere(func(r *outbound.Request) bool { return isAboutTask(r.Method) && r.Name == task })
		if len(origin) > 0 {
			return origin
		}
	}
	return c.OriginOf(stream, isForCaller)
}

// isForCaller reports whether a server requests input because of a request.
func isForCaller(r *outbound.Request) bool {
	return rpc.MayRequestInput(r.Method) || r.Method == mcp.MethodTaskResult
}

// isLogged reports whether a server may send log messages for a caller because of a request.
func isLogged(r *outbound.Request) bool { return isForCaller(r) || r.Method == mcp.MethodComplete }

// isNotified reports whether a server may send notifications of extensions because of a request.
func (c *Client) isNotified(r *outbound.Request) bool {
	return isLogged(r) || revision.LeavesToExtensions(r.Method, c.revision)
}

func isAboutTask(method string) bool {
	switch method {
	case mcp.MethodTaskResult, mcp.MethodGetTask, mcp.MethodCancelTask:
		return true
	}
	return false
}

// relatedTaskID returns the id of the task that params name, or "".
func relatedTaskID(params []byte) string {
	id, _ := jsonrpc.Get(revision.RelatedTask(params), "taskId")
	if len(id) == 0 || id[0] != '"' {
		return ""
	}
	return jsonrpc.Unquote(id)
}

// ask returns the answer to a request of the server. If the request may belong to several calls of one user, and the
// chosen call receives its response in the meantime, another call is chosen, but not if the client of the chosen call
// gave up: then the question has most likely ended with it. The request of a task does not end with the wait for the
// task. Nor does a request for roots end with a call, unless something says that it belongs to the call.
func (c *Client) ask(ctx context.Context, q *inputRequest) (answer json.RawMessage, err error) {
	if relatedTaskID(q.params) == "" && !q.ofSession {
		var stop func()
		ctx, stop = q.origin.WhileInFlight(ctx)
		defer stop()
	}
	if q.elicitation != nil {
		ctx = outbound.WithCompletion(ctx, &q.elicitation.completion)
	}
	for origin := q.origin; ; {
		answer, err = c.answerer(origin.Context(ctx), q.method, q.params)
		if len(origin) < 2 || !errors.Is(err, call.ErrCallDone) || !origin.Answered() || ctx.Err() != nil {
			return revision.DowngradeAnswer(c.revision, q.method, answer), err
		}
		origin = origin[1:]
	}
}

// receiveLog passes a log message to OnLog, with the context of its request if that is known.
func (c *Client) receiveLog(m *jsonrpc.Message, stream jsonrpc.ID) {
	if c.OnLog == nil {
		return
	}
	if params, ok := revision.LogOf(m); ok {
		c.OnLog(c.OriginOf(stream, isLogged).Context(c.ctx), params)
	}
}
