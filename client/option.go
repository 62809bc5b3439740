package client

import (
	"context"
	"fmt"
	"time"

	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// CallOption is a setting of one request: a tool call, a read, a list or a watch. Settings of all requests are fields
// of [Dialer]. If an option is given twice, the last one counts. A request with an option that does not apply to it
// fails, and is not sent. A list applies its options to the request of each page.
type CallOption func(*callOptions) error

// requestKind is a set of kinds of requests, which have different options.
type requestKind uint8

const (
	toolRequest requestKind = 1 << iota // including calls that run as tasks
	readRequest
	promptRequest
	listRequest
	watchRequest
	otherRequest             // completions and extension methods
	anyRequest   requestKind = 1<<iota - 1
)

type callOptions struct {
	kind        requestKind
	onProgress  func(done, total float64, message string)
	timeout     time.Duration
	meta        mcp.Meta
	logLevel    mcp.LoggingLevel
	refresh     bool
	noReconnect bool
	keepSource  bool

	undecodedText bool // see WithUndecodedText
	taskCreated   func()
	capabilities  *mcp.ClientCapabilities
}

// optionOf returns an option for requests of the given kinds.
func optionOf(name string, kinds requestKind, set func(*callOptions)) CallOption {
	return func(o *callOptions) error {
		if o.kind&kinds == 0 {
			return fmt.Errorf("the option %s does not apply to this request", name)
		}
		set(o)
		return nil
	}
}

// WithProgress asks the server for progress notifications and calls f with each of them: done of total, which is 0 if
// the server does not know it, and a message for people, which may be empty. f runs in the goroutine that makes the
// call, and never after the call has returned. If f panics, the client logs it and continues.
//
// For a task, f runs in [Client.CallTool] and [Task.Wait]. 2026-07-28 does not allow progress notifications for a task,
// only a status message: f receives each new one that the client sees, and not the numbers of the server. Total is then
// 0, and done increases by 1 with each message. In 2025-11-25 a task sends notifications in the session that created
// it. Without them, and in another session, f receives the status messages.
func WithProgress(f func(done, total float64, message string)) CallOption {
	return optionOf("WithProgress", anyRequest&^watchRequest, func(o *callOptions) { o.onProgress = f })
}

// WithTimeout limits the wait for the result to d, instead of Timeouts.Tool for a call and Timeouts.Read for other
// requests. Each progress notification starts the time again; Timeouts.Max limits the whole wait. A negative d means no
// limit except Timeouts.Max. For a call that the server runs as a task, d limits how long requests about the task may
// keep failing.
func WithTimeout(d time.Duration) CallOption {
	return optionOf("WithTimeout", anyRequest, func(o *callOptions) { o.timeout = d })
}

// WithMeta adds entries to _meta of the request. Their keys must satisfy mcp.CheckMetaKey. Keys that the protocol
// reserves are an error, except for the ones of trace context.
func WithMeta(meta mcp.Meta) CallOption {
	return optionOf("WithMeta", anyRequest, func(o *callOptions) { o.meta = meta })
}

// WithLogLevel asks for the log messages of a call, read or prompt of level and above; see
// Dialer.OnLog. In 2026-07-28 the request carries the level. In a session, whose level applies to all
// requests, the client first sends logging/setLevel if the session has no level or a less detailed one.
//
// Deprecated: 2026-07-28 deprecates logging by protocol (SEP-2577). The earliest removal is the first
// revision from 2027-07-28 on. Log to standard error or with OpenTelemetry instead.
// See transport.CommandOptions.
func WithLogLevel(level mcp.LoggingLevel) CallOption {
	return optionOf("WithLogLevel", toolRequest|readRequest|promptRequest,
		func(o *callOptions) { o.logLevel = level })
}

// WithRefresh sends the request even if the client has cached a fresh result, for as long as the
// server allows (2026-07-28, server/utilities/caching). The new result replaces the cached one.
func WithRefresh() CallOption {
	return optionOf("WithRefresh", readRequest|listRequest, func(o *callOptions) { o.refresh = true })
}

// WithSource keeps the JSON of results and listed definitions in their field Source, so that a program can forward them
// unchanged. A server that returns such a result from a handler sends it without what belongs to the first connection:
// the resultType, and entries of _meta that mcp.IsForwardable rejects.
func WithSource() CallOption {
	return optionOf("WithSource", toolRequest|readRequest|promptRequest|listRequest,
		func(o *callOptions) { o.keepSource = true })
}

// WithUndecodedText is like [WithSource]. In addition, CallTool does not decode content that consists only of texts and
// images without annotations, because decoding long content takes time, and does not check the base64 of the images.
// Then Content and ResultType are not set, Meta contains the entries that mcp.IsForwardable accepts, and
// StructuredContent must not be modified because it is part of Source.
//
// It is meant for handlers that forward tool calls. The server sends the Source of the result, with the entries of
// Meta, even to clients of other revisions. After the handler has returned the result, it must not use it any more,
// because the memory of Source is reused.
func WithUndecodedText() CallOption {
	return optionOf("WithUndecodedText", toolRequest,
		func(o *callOptions) { o.keepSource, o.undecodedText = true, true })
}

// WithTask asks the server to run a tool call as a task if it can. CallTool still waits for the task; it calls created
// when the server has created it.
func WithTask(created func()) CallOption {
	return optionOf("WithTask", toolRequest, func(o *callOptions) { o.taskCreated = created })
}

// WithCapabilities limits the capabilities for elicitation, sampling and roots that one request declares in 2026-07-28:
// those that c lacks are left out. It has no effect in sessions, whose capabilities are declared once.
func WithCapabilities(c mcp.ClientCapabilities) CallOption {
	return optionOf("WithCapabilities", anyRequest, func(o *callOptions) { o.capabilities = &c })
}

// WithoutReconnect ends a [Client.Watch] when the connection is lost, instead of connecting again. The last error is
// then call.ErrConnectionLost, or the error with which the server ended the subscription.
func WithoutReconnect() CallOption {
	return optionOf("WithoutReconnect", watchRequest, func(o *callOptions) { o.noReconnect = true })
}

// RejectedError is returned by a function of [Dialer] that refuses a request from a server. The server receives Wire.
// In 2026-07-28, where the question arrives in the result of a call, the call fails with Err.
type RejectedError = rpc.RejectedInputError

// OnElicitationComplete calls f when the server announces that the user has finished at the URL of an elicitation
// (2025-11-25, client/elicitation, Completion Notifications). Pass the context that Dialer.ElicitURL received as
// ctx. A second call replaces f. It is called at most once, possibly after the call has ended, and must not
// block.
func OnElicitationComplete(ctx context.Context, f func()) {
	if completion := outbound.CompletionOf(ctx); completion != nil {
		completion.Then(f)
	}
}

// optionsOf applies the options of a request. The time-out is def if no option sets one.
func optionsOf(options []CallOption, kind requestKind, def time.Duration) (callOptions, error) {
	o := callOptions{kind: kind}
	for _, set := range options {
		if err := set(&o); err != nil {
			return o, err
		}
	}
	if o.timeout == 0 {
		o.timeout = def
	}
	o.timeout = max(o.timeout, 0)
	if o.logLevel != "" && !o.logLevel.Known() {
		return o, fmt.Errorf("the log level must be one of %q, not %.32q", mcp.LoggingLevels(), string(o.logLevel))
	}
	return o, checkMeta(o.meta)
}

// checkMeta returns an error for the first key of _meta that a caller must not set.
func checkMeta(meta mcp.Meta) error {
	for key, value := range meta {
		if err := mcp.CheckMeta(key, value); err != nil {
			return err
		}
	}
	return nil
}

// traced returns a connection that reports its messages to trace, or conn if trace is nil.
func traced(conn transport.Conn, trace func(bool, []byte)) transport.Conn {
	if trace == nil {
		return conn
	}
	return &tracedConn{conn, trace}
}

type tracedConn struct {
	transport.Conn
	trace func(sent bool, message []byte)
}

func (t *tracedConn) Read(ctx context.Context) ([]byte, error) {
	msg, err := t.Conn.Read(ctx)
	if err == nil {
		t.trace(false, msg)
	}
	return msg, err
}

func (t *tracedConn) Write(ctx context.Context, msg []byte) error {
	t.trace(true, msg)
	return t.Conn.Write(ctx, msg)
}
