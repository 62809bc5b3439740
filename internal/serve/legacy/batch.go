package legacy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Batch is a parsed batch of messages.
type Batch struct {
	session  *Session
	messages []batchItem
}

type batchItem struct {
	jsonrpc.Message
	invalid error          // nil if the message is valid
	fault   *jsonrpc.Error // the response to a message that is invalid or rejected
	call    *rpc.Call      // of a request; nil until Calls or Accept
}

// Batch parses a batch. It retains data, a JSON array. It rejects the whole batch unless the session's revision is
// 2025-03-26, the only one with batches (basic, Batching), and if two requests have the same id or one is initialize
// (basic/lifecycle, Initialization). An element that is not a valid message only receives an error of its own. The
// responses in a rejected batch are invalid: the input requests that wait for them end.
func (s *Session) Batch(data []byte, lim jsonrpc.Limits) (*Batch, *jsonrpc.Error) {
	b, err := s.parseBatch(data, lim)
	if err != nil {
		s.endInputRequests(data, err)
		return nil, faultOf(err)
	}
	return b, nil
}

// RejectBatch returns the error for a batch on a wire that has no batches. The input requests that
// wait for the responses in the batch end.
func (s *Session) RejectBatch(data []byte, lim jsonrpc.Limits) *jsonrpc.Error {
	err := noBatch(data, lim)
	s.endInputRequests(data, err)
	return faultOf(err)
}

// endInputRequests ends the input requests that wait for the responses in a rejected batch.
func (s *Session) endInputRequests(data []byte, err error) {
	for id := range outbound.Responses(data) {
		s.ReceiveInvalid(&jsonrpc.Message{Kind: jsonrpc.Response, ID: id}, err)
	}
}

func (s *Session) parseBatch(data []byte, lim jsonrpc.Limits) (*Batch, error) {
	if !s.initialized || !revision.Batches.In(s.Revision) {
		return nil, noBatch(data, lim)
	}
	parts, err := jsonrpc.SplitBatch(data, lim)
	if err != nil {
		return nil, err
	}
	b := &Batch{session: s, messages: make([]batchItem, len(parts))}
	ids := make(map[jsonrpc.ID]struct{}, len(parts))
	for i, part := range parts {
		m := &b.messages[i]
		if m.invalid = m.Parse(part, lim); m.invalid != nil {
			m.fault = faultOf(m.invalid)
		}
		if m.Kind != jsonrpc.Request {
			continue
		}
		id := rpc.CanonicalID(m.ID)
		if _, dup := ids[id]; dup {
			return nil, fmt.Errorf("request ids of a batch must be unique: %s is used twice", m.ID)
		}
		ids[id] = struct{}{}
		switch {
		case m.Method == mcp.MethodInitialize:
			return nil, errors.New("initialize must not be part of a batch")
		case m.fault == nil && revision.Classify(revision.Input{Message: &m.Message,
			Agreed: s.Revision}).Era == revision.Modern:
			return nil, errors.New("a request of revision 2026-07-28 must not be part of a batch: send it alone")
		}
	}
	return b, nil
}

// NoBatch returns the error for a batch outside of sessions that have batches. Invalid JSON is a
// parse error, as in any other message.
func NoBatch(data []byte, lim jsonrpc.Limits) *jsonrpc.Error { return faultOf(noBatch(data, lim)) }

func noBatch(data []byte, lim jsonrpc.Limits) error {
	if err := jsonrpc.Check(data, lim); err != nil {
		return err
	}
	return errors.New("message must be a JSON object: only sessions of revision 2025-03-26 have batches")
}

func faultOf(err error) *jsonrpc.Error {
	var invalid *jsonrpc.InvalidMessageError
	if errors.As(err, &invalid) {
		return invalid.Wire()
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: err.Error()}
}

// HasRequests reports whether the batch needs a response.
func (b *Batch) HasRequests() bool {
	for i := range b.messages {
		if b.messages[i].needsResponse() {
			return true
		}
	}
	return false
}

// Requests returns the number of valid requests in the batch.
func (b *Batch) Requests() int {
	n := 0
	for i := range b.messages {
		if m := &b.messages[i]; m.Kind == jsonrpc.Request && m.fault == nil {
			n++
		}
	}
	return n
}

// IDs returns the ids of the valid requests in the batch.
func (b *Batch) IDs() []jsonrpc.ID {
	ids := make([]jsonrpc.ID, 0, len(b.messages))
	for i := range b.messages {
		if m := &b.messages[i]; m.Kind == jsonrpc.Request && m.fault == nil {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// Calls returns the calls of the valid requests, which Accept puts in flight later.
func (b *Batch) Calls() []*rpc.Call {
	var all []*rpc.Call
	for i := range b.messages {
		m := &b.messages[i]
		if m.Kind == jsonrpc.Request && m.fault == nil && m.call == nil {
			m.call, m.fault = b.session.NewCall(rpc.Sender{}, &m.Message, revision.Class{})
		}
		if m.call != nil {
			all = append(all, m.call)
		}
	}
	return all
}

// Notifies reports whether the batch has a notification with this method.
func (b *Batch) Notifies(method string) bool {
	return slices.ContainsFunc(b.messages, func(m batchItem) bool {
		return m.fault == nil && m.Kind == jsonrpc.Notification && m.Method == method
	})
}

// needsResponse reports whether m is a request, or cannot be recognized as any kind of message.
func (m *batchItem) needsResponse() bool {
	return m.Kind == jsonrpc.Request || m.Kind == jsonrpc.Invalid
}

// Reject sets the response of every request after the first n to e. Accept still processes the
// notifications and the responses of the batch.
func (b *Batch) Reject(n int, e *jsonrpc.Error) {
	for i := range b.messages {
		if m := &b.messages[i]; m.Kind != jsonrpc.Request || m.fault != nil {
			continue
		} else if n--; n < 0 {
			m.fault = e
		}
	}
}

// Serve serves the messages of the batch and appends the batch of responses to dst: it calls Accept and AppendReply.
func (b *Batch) Serve(ctx context.Context, dst []byte, stream rpc.Stream) []byte {
	b.Accept(ctx, stream)
	return b.AppendReply(ctx, dst)
}

// Accept processes the responses and cancellations of the batch and puts its requests in flight, in their order; see
// [rpc.Inflight.Accept]. It returns the messages for other replicas: responses and cancellations of requests that are
// not in flight here, and changes of roots. AppendReply must follow. Stream is as for [Session.Begin].
func (b *Batch) Accept(ctx context.Context, stream rpc.Stream) (unknown []*jsonrpc.Message) {
	b.Calls()
	for i := range b.messages {
		m := &b.messages[i]
		switch {
		case m.fault != nil && m.needsResponse():
		case m.fault != nil:
			b.session.ReceiveInvalid(&m.Message, m.invalid)
		case m.Kind == jsonrpc.Notification:
			if !b.session.ReceiveNotification(&m.Message) {
				unknown = append(unknown, &m.Message)
			}
		case m.Kind == jsonrpc.Response:
			if !b.session.ReceiveResponse(&m.Message) {
				unknown = append(unknown, &m.Message)
			}
		default:
			m.fault = b.session.Begin(ctx, m.call, stream)
		}
	}
	return unknown
}

// AppendReply serves the requests of an accepted batch concurrently, and calls the handlers of its notifications. It
// appends the batch of responses to dst in the order of the requests. It appends nothing if there are no responses. Ctx
// is the context of Accept.
func (b *Batch) AppendReply(ctx context.Context, dst []byte) []byte {
	replies := make([][]byte, len(b.messages))
	var serving sync.WaitGroup
	for i := range b.messages {
		m := &b.messages[i]
		switch {
		case m.fault != nil && m.needsResponse():
			replies[i] = jsonrpc.AppendError(nil, m.ID, m.fault, true)
		case m.fault != nil:
		case m.Kind == jsonrpc.Request:
			serving.Go(func() { b.session.AppendReply(&replies[i], m.call) })
		case m.Kind == jsonrpc.Notification:
			b.session.ServeNotification(ctx, rpc.Sender{}, &m.Message, revision.Class{})
		}
	}
	serving.Wait()
	start := len(dst)
	for _, reply := range replies {
		if len(reply) == 0 { // a notification or a cancelled request
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
