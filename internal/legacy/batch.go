package legacy

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Batch is what came in one batch.
type Batch struct {
	session  *Session
	messages []batchItem
}

type batchItem struct {
	jsonrpc.Message
	fault *jsonrpc.Error // the message is none, and this is the answer to it
}

// Batch takes a batch apart, of which data, a JSON array, keeps being used. It is
// refused whole unless the session is of 2025-03-26, the one revision that has
// batches (basic, Batching), if two of its requests have one id, and if it holds
// the handshake (basic/lifecycle, Initialization). A message that is none is only
// answered as one.
func (s *Session) Batch(data []byte, lim jsonrpc.Limits) (*Batch, *jsonrpc.Error) {
	if !s.initialized || !revision.Batches.In(s.Revision) {
		if err := jsonrpc.Check(data, lim); err != nil { // it is not even JSON
			return nil, faultOf(err)
		}
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "a message is a JSON object: there are batches in sessions of 2025-03-26 only"}
	}
	parts, err := jsonrpc.SplitBatch(data, lim)
	if err != nil {
		return nil, faultOf(err)
	}
	b := &Batch{session: s, messages: make([]batchItem, len(parts))}
	ids := make(map[jsonrpc.ID]struct{}, len(parts))
	for i, part := range parts {
		m := &b.messages[i]
		if err := m.Parse(part, lim); err != nil {
			m.fault = faultOf(err)
		}
		if m.Kind != jsonrpc.Request {
			continue
		}
		if _, dup := ids[m.ID]; dup {
			return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "two requests of the batch have the id %s", m.ID)
		}
		ids[m.ID] = struct{}{}
		switch {
		case m.Method == mcp.MethodInitialize:
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "initialize is not part of a batch"}
		case m.fault == nil && revision.Classify(revision.Input{Message: &m.Message, Agreed: s.Revision}).Era == revision.Modern:
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "requests of 2026-07-28, which has no batches, are not part of one"}
		}
	}
	return b, nil
}

func faultOf(err error) *jsonrpc.Error {
	var invalid *jsonrpc.InvalidMessageError
	if errors.As(err, &invalid) {
		return invalid.Wire()
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: err.Error()}
}

// HasRequests reports whether anything in the batch is to be answered.
func (b *Batch) HasRequests() bool {
	for i := range b.messages {
		if b.messages[i].needsResponse() {
			return true
		}
	}
	return false
}

// Requests returns how many requests of the batch will be served.
func (b *Batch) Requests() int {
	n := 0
	for i := range b.messages {
		if m := &b.messages[i]; m.Kind == jsonrpc.Request && m.fault == nil {
			n++
		}
	}
	return n
}

// Messages returns the messages of the batch that are ones.
func (b *Batch) Messages() []*jsonrpc.Message {
	var all []*jsonrpc.Message
	for i := range b.messages {
		if m := &b.messages[i]; m.fault == nil {
			all = append(all, &m.Message)
		}
	}
	return all
}

// Has reports whether a notification or request of the batch has this method.
func (b *Batch) Has(method string) bool {
	return slices.ContainsFunc(b.messages, func(m batchItem) bool { return m.fault == nil && m.Method == method })
}

// answered reports whether the message has an answer: a request, or what could not
// be told to be anything else.
func (m *batchItem) needsResponse() bool {
	return m.Kind == jsonrpc.Request || m.Kind == jsonrpc.Invalid
}

// Refuse has every request of the batch answered with e when it is served. What else it
// holds, answers perhaps that somebody waits for, is taken all the same.
func (b *Batch) Reject(e *jsonrpc.Error) {
	for i := range b.messages {
		if m := &b.messages[i]; m.Kind == jsonrpc.Request && m.fault == nil {
			m.fault = e
		}
	}
}

// Serve serves the batch, its requests at the same time, and appends the batch of
// responses to dst, in the order of the requests; nothing if there are none.
// Stream is as for [Session.Serve].
func (b *Batch) Serve(ctx context.Context, dst []byte, stream rpc.Stream) []byte {
	replies := make([][]byte, len(b.messages))
	var serving sync.WaitGroup
	for i := range b.messages {
		m := &b.messages[i]
		switch {
		case m.fault != nil && m.needsResponse():
			replies[i] = jsonrpc.AppendError(nil, m.ID, m.fault, true)
		case m.fault != nil:
			b.session.Unusable(&m.Message, m.fault)
		case m.Kind == jsonrpc.Request:
			serving.Go(func() { b.serve(ctx, &replies[i], &m.Message, stream) })
		case m.Kind == jsonrpc.Notification:
			b.session.ReceiveNotification(&m.Message)
			b.session.ServeNotification(ctx, &m.Message)
		case m.Kind == jsonrpc.Response:
			b.session.ReceiveResponse(&m.Message)
		}
	}
	serving.Wait()
	start := len(dst)
	for _, reply := range replies {
		if len(reply) == 0 { // a notification, or cancelled
			continue
		}
		if len(dst) == start {
			dst = append(dst, '[')
		} else {
			dst = append(dst, ',')
		}
		dst = append(dst, reply...)
	}
	if len(dst) == start {
		return dst
	}
	return append(dst, ']')
}

// serve serves one request, whatever its handler does to its goroutine.
func (b *Batch) serve(ctx context.Context, reply *[]byte, m *jsonrpc.Message, stream rpc.Stream) {
	served := false
	defer func() {
		if served {
			return
		}
		if v := recover(); v != nil {
			b.session.server.Logger.Error("panic while serving a request", "method", m.Method, "panic", v, "stack", string(debug.Stack()))
		}
		*reply = appendError(nil, m.ID, jsonrpc.CodeInternalError, "internal error")
	}()
	*reply = b.session.Serve(ctx, nil, m, stream)
	served = true
}
