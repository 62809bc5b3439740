package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/internal/serve/legacy"
	"github.com/parley-mcp/parley/store"
)

// A client may send the response to a question, or the cancellation of a call, to any replica of a
// session. That replica forwards it to all others on the Bus; the one that serves the call takes it. It also forwards changes of
// roots; each replica that has served the session lately takes them.

const (
	messagesTopic = "server/messages"
	// maxPublished is the length of a message above which the others read it from the KV.
	maxPublished = 32 << 10
	messageTTL   = time.Minute
	// maxDelivering is the number of messages of other replicas that are processed at a time. Further ones are dropped.
	maxDelivering = 256
)

// forwardedMessage is a message of a client for the replica that serves its session, or one for the client.
type forwardedMessage struct {
	Origin  string `json:"o"`           // the replica that has received it
	Session string `json:"s"`           // key of the session
	Message []byte `json:"m,omitempty"` // in base64, so that its length does not depend on characters to escape
	Entry   string `json:"e,omitempty"` // key of the entry of a long message
	Notify  string `json:"n,omitempty"` // if the message is a notification for the client: the replica with its standalone stream
	Pair    bool   `json:"p,omitempty"` // Session is the key of an HTTP+SSE pair
}

// forward is httpserver.Server.Forward.
func (r *replicas) forward(ctx context.Context, session string, message []byte) error {
	return r.sendMessage(ctx, forwardedMessage{Session: session}, message)
}

// forwardToPair is httpserver.PairRoutes.Send.
func (r *replicas) forwardToPair(ctx context.Context, pair string, message []byte) error {
	return r.sendMessage(ctx, forwardedMessage{Session: pair, Pair: true}, message)
}

// sendMessage sends m with a message to the other replicas.
func (r *replicas) sendMessage(ctx context.Context, m forwardedMessage, message []byte) error {
	m.Origin, m.Message = r.origin, message
	if len(m.Message) > maxPublished {
		m.Entry = m.Session + "/message/" + rand.Text()
		if _, err := r.server.core.engine.Store.Put(ctx, m.Entry, message, store.PutOptions{TTL: messageTTL}); err != nil {
			return fmt.Errorf("cannot store the message: %w", err)
		}
		m.Message = nil
	}
	return r.publish(ctx, messagesTopic, m)
}

// receiveForwarded takes a message that another replica has forwarded, if this one serves its session.
func (r *replicas) receiveForwarded(ctx context.Context, data []byte) {
	var m forwardedMessage
	if jsonv2.Unmarshal(data, &m) != nil || m.Origin == r.origin {
		return
	}
	wire := &r.server.core.http
	var session *legacy.StoredSession
	if m.Pair {
		if !wire.HasPair(m.Session) {
			return
		}
	} else if m.Notify != "" && m.Notify != r.origin {
		return
	} else if m.Notify == "" {
		if m.Entry != "" && wire.Sessions.InUse(m.Session) == nil { // an answer for another replica
			return
		}
		if session = wire.Sessions.UseLately(m.Session); session == nil {
			return
		}
	}
	message, err := r.messageOf(ctx, &m)
	if err != nil {
		if session != nil {
			session.Release()
		}
		r.server.logger().ErrorContext(ctx, "cannot read a message that another replica has received", "error", err)
		return
	}
	switch {
	case m.Pair:
		wire.DeliverToPair(m.Session, message)
	case m.Notify != "":
		wire.Sessions.Notify(m.Session, message)
	default:
		r.deliver(ctx, session, message)
	}
}

// deliver passes a message to its session in the background, because the handler of a notification may block.
func (r *replicas) deliver(ctx context.Context, session *legacy.StoredSession, message []byte) {
	select {
	case r.delivering <- struct{}{}:
	default:
		session.Release()
		r.lostMessages()
		return
	}
	r.running.Go(func() {
		defer func() {
			session.Release()
			<-r.delivering
		}()
		r.server.core.http.Deliver(ctx, session.Session, message)
	})
}

func (r *replicas) lostMessages() {
	r.server.logger().Warn("answers or cancellations that other replicas have received may be lost: their calls wait for their time-out")
}

// messageOf returns the message that a client has sent.
func (r *replicas) messageOf(ctx context.Context, m *forwardedMessage) ([]byte, error) {
	if m.Entry == "" {
		return m.Message, nil
	}
	item, err := r.server.core.engine.Store.Get(ctx, m.Entry)
	return item.Value, err
}
