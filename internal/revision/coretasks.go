package revision

import (
	"strconv"
	"time"

	"github.com/parley-mcp/parley/internal/jsonscan"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// RequestedTTL returns the time to live of a task whose request has the member task in its params:
// what the requestor asks for, at least minTTL and at most limit. The response reports it (2025-11-25,
// basic/utilities/tasks, TTL and Resource Management).
func RequestedTTL(task []byte, limit time.Duration) (time.Duration, error) {
	if len(task) == 0 || task[0] != '{' {
		return 0, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "params.task must be an object")
	}
	raw, ok := jsonrpc.Get(task, "ttl")
	if !ok || string(raw) == "null" {
		return limit, nil
	}
	ms, ok := jsonscan.Integer(raw)
	if !ok || ms <= 0 {
		return 0, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "params.task.ttl must be a positive number of milliseconds")
	}
	if ms >= limit.Milliseconds() {
		return limit, nil
	}
	return min(max(time.Duration(ms)*time.Millisecond, minTTL), limit), nil
}

// minTTL is the shortest life of a task that a client can use.
const minTTL = time.Second

// WithTask returns params, a JSON object that has been checked, with the request to run as a task for
// ttl.
func WithTask(params []byte, ttl time.Duration) []byte {
	return withMember(params, "task", append(strconv.AppendInt([]byte(`{"ttl":`), max(ttl.Milliseconds(), 1), 10), '}'))
}

// WithRelatedTask returns object with the id of a task in its _meta. Object is the params or the
// result of a message that belongs to the task, a JSON object that has been checked, or nil
// (2025-11-25, basic/utilities/tasks, Related Task Metadata).
func WithRelatedTask(object []byte, id string) []byte {
	related := jsonrpc.AppendString([]byte(`{"taskId":`), id)
	meta, _ := jsonrpc.Get(object, "_meta")
	return withMember(object, "_meta", withMember(meta, mcp.MetaRelatedTask, append(related, '}')))
}

// RelatedTask returns the value of mcp.MetaRelatedTask in the _meta of params or a result. It
// returns nil if there is none.
func RelatedTask(object []byte) []byte {
	meta, _ := jsonrpc.Get(object, "_meta")
	related, _ := jsonrpc.Get(meta, mcp.MetaRelatedTask)
	return related
}
