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

// Attributes of the conventions, and our own.
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
	networkOverHTTP = attribute.Key("network.protocol.name")
	transport       = attribute.Key("network.transport")
	errorType       = attribute.Key("error.type")
	statusCode      = attribute.Key("rpc.response.status_code")
	outcome         = attribute.Key("parley.outcome")
)

const (
	// maxOperations bounds the operations that are told apart, and so the time series:
	// tools and prompts in each revision. What comes later is counted by its method.
	maxOperations = 1000
	// maxName bounds the name of a tool or prompt on a span, in bytes.
	maxName = 128
)

// key tells operations apart.
type key struct {
	method, name string
	revision     mcp.Revision
	http         bool
}

// operation is a kind of request, with what its spans and measurements have in common
// made ready.
type operation struct {
	name       string // of spans
	start      []trace.SpanStartOption
	attributes []attribute.KeyValue
	measure    []metric.RecordOption
}

// operations are those that are told apart. Safe for concurrent use.
type operations struct {
	constant []attribute.KeyValue
	kind     trace.SpanKind

	mu    sync.RWMutex
	known map[key]*operation
}

// asked is what a request is for.
type asked struct {
	*operation
	key   key
	known bool // operation has the name in it, if there is one
}

// of returns the operation that c is. As long as none of its name has succeeded, it is
// that of the method; of a method that is not the protocol's, that of all others.
func (o *operations) of(ctx context.Context, c *call.Call) asked {
	k := key{method: c.Method(), revision: c.Revision(), name: nameOf(c)}
	if o.kind == trace.SpanKindServer {
		k.http = ctx.Value(http.ServerContextKey) != nil
	}
	o.mu.RLock()
	found := o.known[k]
	o.mu.RUnlock()
	if found != nil {
		return asked{found, k, true}
	}
	plain := key{method: k.method, revision: k.revision, http: k.http}
	if !ofProtocol(k.method) {
		plain.method = "_OTHER"
	}
	if !plain.revision.Known() {
		plain.revision = ""
	}
	return asked{o.learned(plain, true), k, plain == k}
}

// learn is told that there is what was asked for.
func (o *operations) learn(a asked) *operation {
	if !a.key.revision.Known() || len(a.key.name) > maxName {
		return a.operation
	}
	if learned := o.learned(a.key, false); learned != nil {
		return learned
	}
	return a.operation
}

// learned returns the operation of k, which is remembered if there is room for it, or
// it is needed: those are methods of the protocol only, or those that have succeeded.
func (o *operations) learned(k key, needed bool) *operation {
	o.mu.RLock()
	found, full := o.known[k], len(o.known) >= maxOperations
	o.mu.RUnlock()
	if found != nil || full && !needed {
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
		made.attributes = append(made.attributes, transport.String("tcp"), networkOverHTTP.String("http"))
	}
	switch {
	case k.method == mcp.MethodCallTool:
		made.attributes = append(made.attributes, operationName.String("execute_tool"))
	}
	if k.name != "" {
		made.attributes = append(made.attributes, named(k.method, k.name))
	}
	made.start = []trace.SpanStartOption{trace.WithSpanKind(o.kind), trace.WithAttributes(made.attributes...)}
	made.measure = []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(made.attributes...))}
	return made
}

func named(method, name string) attribute.KeyValue {
	if method == mcp.MethodCallTool {
		return toolName.String(name)
	}
	return promptName.String(name)
}

// nameOf is the tool or prompt that a call names; empty if it names none.
func nameOf(c *call.Call) string {
	switch c.Method() {
	case mcp.MethodCallTool, mcp.MethodGetPrompt:
		if raw, ok := c.Params().Get("name"); ok {
			return jsonrpc.Unquote(raw)
		}
	}
	return ""
}

// ofProtocol reports whether a method is one of the protocol's, and so one of few.
func ofProtocol(method string) bool {
	switch method {
	case mcp.MethodInitialize, mcp.MethodDiscover, mcp.MethodPing,
		mcp.MethodListTools, mcp.MethodCallTool,
		mcp.MethodListResources, mcp.MethodListResourceTemplates, mcp.MethodReadResource, mcp.MethodSubscribe, mcp.MethodUnsubscribe,
		mcp.MethodListPrompts, mcp.MethodGetPrompt, mcp.MethodComplete, mcp.MethodSetLevel, mcp.MethodListen,
		mcp.MethodGetTask, mcp.MethodCancelTask, mcp.MethodTaskResult, mcp.MethodListTasks, mcp.MethodUpdateTask:
		return true
	}
	return false
}
