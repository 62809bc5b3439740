package otel

import (
	"context"
	"net/http"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// The attributes of the conventions, and one of our own.
const (
	methodName      = attribute.Key("mcp.method.name")
	protocolVersion = attribute.Key("mcp.protocol.version")
	resourceURI     = attribute.Key("mcp.resource.uri")
	requestID       = attribute.Key("jsonrpc.request.id")
	operationName   = attribute.Key("gen_ai.operation.name")
	toolName        = attribute.Key("gen_ai.tool.name")
	promptName      = attribute.Key("gen_ai.prompt.name")
	callArguments   = attribute.Key("gen_ai.tool.call.arguments")
	callResult      = attribute.Key("gen_ai.tool.call.result")
	networkProtocol = attribute.Key("network.protocol.name")
	transport       = attribute.Key("network.transport")
	errorType       = attribute.Key("error.type")
	statusCode      = attribute.Key("rpc.response.status_code")
	parleyOutcome   = attribute.Key("parley.outcome")
)

const (
	// maxOperations limits the operations with names of tools and prompts, and thereby the number of time series.
	// Requests for further names are recorded under their method.
	maxOperations = 1000
	// maxName is the limit for the name of a tool or prompt, in bytes.
	maxName = 128
)

// key identifies an operation.
type key struct {
	method, name string
	revision     mcp.Revision
	http         bool
}

// operation is a kind of request, with the options that its spans and measurements have in common.
type operation struct {
	name       string // name of its spans
	start      []trace.SpanStartOption
	attributes []attribute.KeyValue
	measure    []metric.RecordOption
}

// operations caches operations. It is safe for concurrent use.
type operations struct {
	constant []attribute.KeyValue
	kind     trace.SpanKind

	mu    sync.RWMutex
	known map[key]*operation
}

// request is a request with its operation.
type request struct {
	*operation
	key     key
	hasName bool // the operation is for the name in key, if there is one
}

// request returns the operation of c. Until a request for its name has succeeded, that is the operation of its method.
// All methods that the protocol does not define share one operation.
func (o *operations) request(ctx context.Context, c *call.Call) request {
	k := key{method: c.Method(), revision: c.Revision(), name: nameOf(c)}
	if o.kind == trace.SpanKindServer {
		k.http = ctx.Value(http.ServerContextKey) != nil
	}
	o.mu.RLock()
	found := o.known[k]
	o.mu.RUnlock()
	if found != nil {
		return request{found, k, true}
	}
	plain := key{method: k.method, revision: k.revision, http: k.http}
	if !isDefined(k.method) {
		plain.method = "_OTHER"
	}
	if !plain.revision.Known() {
		plain.revision = ""
	}
	return request{o.cached(plain, true), k, plain == k}
}

// learn returns the operation for the name of a request that has succeeded.
func (o *operations) learn(r request) *operation {
	if !r.key.revision.Known() || len(r.key.name) > maxName {
		return r.operation
	}
	if found := o.cached(r.key, false); found != nil {
		return found
	}
	return r.operation
}

// cached returns the operation of k and adds it if it is missing. If the cache is full, it returns nil instead, unless
// the operation is required: the operations of methods are few.
func (o *operations) cached(k key, required bool) *operation {
	o.mu.RLock()
	found, full := o.known[k], len(o.known) >= maxOperations
	o.mu.RUnlock()
	if found != nil || full && !required {
		return found
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if found = o.known[k]; found == nil {
		if o.known == nil {
			o.known = make(map[key]*operation)
		}
		found = o.make(k)
		o.known[k] = found
	}
	return found
}

func (o *operations) make(k key) *operation {
	made := &operation{name: strings.TrimRight(k.method+" "+k.name, " ")}
	made.attributes = append(made.attributes, o.constant...)
	made.attributes = append(made.attributes, methodName.String(k.method))
	if k.revision != "" {
		made.attributes = append(made.attributes, protocolVersion.String(string(k.revision)))
	}
	if k.http {
		made.attributes = append(made.attributes, transport.String("tcp"), networkProtocol.String("http"))
	}
	switch {
	case k.method == mcp.MethodCallTool:
		made.attributes = append(made.attributes, operationName.String("execute_tool"))
	}
	if k.name != "" {
		made.attributes = append(made.attributes, nameAttribute(k.method, k.name))
	}
	made.start = []trace.SpanStartOption{trace.WithSpanKind(o.kind), trace.WithAttributes(made.attributes...)}
	made.measure = []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(made.attributes...))}
	return made
}

func nameAttribute(method, name string) attribute.KeyValue {
	if method == mcp.MethodCallTool {
		return toolName.String(name)
	}
	return promptName.String(name)
}

// nameOf returns the name of the tool or prompt in the params of a call, or an empty string.
func nameOf(c *call.Call) string {
	switch c.Method() {
	case mcp.MethodCallTool, mcp.MethodGetPrompt:
		if raw, ok := c.Params().Get("name"); ok {
			return jsonrpc.Unquote(raw)
		}
	}
	return ""
}

// isDefined reports whether the protocol defines a method.
func isDefined(method string) bool {
	switch method {
	case mcp.MethodInitialize, mcp.MethodDiscover, mcp.MethodPing,
		mcp.MethodListTools, mcp.MethodCallTool,
		mcp.MethodListResources, mcp.MethodListResourceTemplates, mcp.MethodReadResource, mcp.MethodSubscribe,
		mcp.MethodUnsubscribe,
		mcp.MethodListPrompts, mcp.MethodGetPrompt, mcp.MethodComplete, mcp.MethodSetLevel, mcp.MethodListen,
		mcp.MethodGetTask, mcp.MethodCancelTask, mcp.MethodTaskResult, mcp.MethodListTasks, mcp.MethodUpdateTask:
		return true
	}
	return false
}
