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
// session. That replica forwards it to all others on the Bus; the one that serves the call takes it. It also forwards
// changes of roots; each replica that has served the session lately takes them.

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
	// Notify is the replica with the standalone stream of the client, if the message is a notification for the client.
	Notify string `json:"n,omitempty"`
}

// forward is httpserver.Server.Forward.
func (r *replicas) forward(ctx context.Context, session string, message []byte) error {
	return r.sendMessage(ctx, forwardedMessage{Session: session}, message)
}

// sendMessage sends m with a message to the other replicas, even if its client leaves meanwhile.
func (r *replicas) sendMessage(ctx context.Context, m forwardedMessage, message []byte) error {
	ctx = context.WithoutCancel(ctx) // the store has a time-out of its own
	m.Origin, m.Message = r.origin, message
	if len(m.Message) > maxPublished {
		m.Entry = m.Session + "/message/" + rand.Text()
		if _, err := r.server.core.engine.Store.Put(ctx, m.Entry, message,
			store.PutOptions{TTL: messageTTL}); err != nil {
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
	if m.Notify != "" && m.Notify != r.origin {
		return
	}
	if m.Notify == "" {
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
		r.server.logger().ErrorContext(ctx, "cannot read a message forwarded by another replica", "error", err)
		return
	}
	if m.Notify != "" {
		wire.Sessions.Notify(m.Session, message)
		return
	}
	r.deliver(ctx, session, message)
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
	r.server.logger().Warn("too many messages from other replicas: answers and cancellations may be lost, " +
		"and calls that wait for them may time out")
}

// messageOf returns the message that a client has sent.
func (r *replicas) messageOf(ctx context.Context, m *forwardedMessage) ([]byte, error) {
	if m.Entry == "" {
		return m.Message, nil
	}
	item, err := r.server.core.engine.Store.Get(ctx, m.Entry)
	return item.Value, err
}

// Each request of a session may reach another replica. The replicas tell each other on the Bus when the
// record of a session has changed, and which of them has the session's standalone stream.

const (
	sessionsTopic = "server/sessions"
	// maxSessionMessages limits the messages that wait. Above it, they become one of all sessions.
	maxSessionMessages = 1024
)

// Kinds of messages about a session; see legacy.Replicas.
const (
	sessionChanged   = ""
	sessionEnded     = "e"
	sessionListening = "l"
	sessionWaiting   = "w"
)

// ActiveSessions returns the number of Streamable HTTP sessions that currently have a request in flight or an open
// event stream in this process. It counts no idle sessions, and none that another replica serves. It is meant for
// metrics, and safe for concurrent use. No method counts all sessions; Limits.Sessions bounds them.
func (s *Server) ActiveSessions() int {
	c, err := s.ready()
	if err != nil {
		return 0
	}
	return c.http.Sessions.Active()
}

// sessionMessage is news about a session, or about all sessions.
type sessionMessage struct {
	Session string `json:"s,omitzero"` // its key; empty: all sessions may have changed
	Kind    string `json:"k,omitzero"`
}

type sessionEnvelope struct {
	Origin string `json:"o"`
	sessionMessage
}

var _ legacy.Replicas = (*replicas)(nil)

// ID implements legacy.Replicas.
func (r *replicas) ID() string { return r.server.core.lease.ID() }

// Serves implements legacy.Replicas.
func (r *replicas) Serves(ctx context.Context, replica string) (bool, error) {
	return r.server.core.lease.Serves(ctx, replica)
}

// Changed implements legacy.Replicas.
func (r *replicas) Changed(session string) { r.sessions.add(sessionMessage{session, sessionChanged}) }

// Ended implements legacy.Replicas.
func (r *replicas) Ended(session string) { r.sessions.add(sessionMessage{session, sessionEnded}) }

// Listening implements legacy.Replicas.
func (r *replicas) Listening(session string) {
	r.sessions.add(sessionMessage{session, sessionListening})
}

// Waiting implements legacy.Replicas.
func (r *replicas) Waiting(session string) { r.sessions.add(sessionMessage{session, sessionWaiting}) }

// publishSessions publishes messages about sessions until ctx ends. It repeats those that fail.
func (r *replicas) publishSessions(ctx context.Context) {
	r.sessions.publish(ctx, func(ctx context.Context, m sessionMessage) error {
		return r.publish(ctx, sessionsTopic, sessionEnvelope{r.origin, m})
	}, func(m sessionMessage, err error) (sessionMessage, bool) {
		r.server.logger().ErrorContext(ctx, "cannot tell the other replicas about a changed session; trying again",
			"error", err)
		return m, true
	})
}

// receiveSession processes a message of another replica about a session.
func (r *replicas) receiveSession(ctx context.Context, data []byte) {
	var m sessionEnvelope
	if jsonv2.Unmarshal(data, &m) != nil || m.Origin == r.origin {
		return
	}
	wire := &r.server.core.http
	switch {
	case m.Session == "":
		r.refreshAll(ctx)
	case m.Kind == sessionWaiting:
		wire.Sessions.AnswerWaiting(m.Session)
	case m.Kind == sessionListening:
		wire.RefreshSession(ctx, m.Session)
		wire.Sessions.HandOver(m.Session, func(notification []byte) {
			if err := r.sendMessage(ctx, forwardedMessage{Session: m.Session, Notify: m.Origin},
				notification); err != nil &&
				ctx.Err() == nil {
				r.server.logger().ErrorContext(ctx,
					"a notification is lost: cannot send it to the replica with the client's stream", "error", err)
			}
		})
	case m.Kind == sessionEnded:
		wire.Sessions.Forget(m.Session)
		wire.RefreshSession(ctx, m.Session)
	default:
		wire.RefreshSession(ctx, m.Session)
	}
}

// refreshAll adopts the changes of other replicas to all sessions in use.
func (r *replicas) refreshAll(ctx context.Context) {
	wire := &r.server.core.http
	wire.Sessions.RefreshAll(ctx, func(session string) { wire.RefreshSession(ctx, session) })
}

// A client may resume the event stream of a call at another replica than that of the call. The replicas
// tell each other on the Bus when to read the log of the stream.

const (
	streamsTopic = "server/streams"
	// maxStreamMessages limits the messages that wait. Above it, they become one of all streams.
	maxStreamMessages = 1024
)

// streamMessage says that a stream has new events, or asks for such messages.
type streamMessage struct {
	Session string `json:"s,omitzero"` // the key of the session; empty: all streams may have new events
	Stream  string `json:"n,omitzero"`
	Follow  bool   `json:"f,omitzero"` // the sender follows the stream
}

type streamEnvelope struct {
	Origin string `json:"o"`
	streamMessage
}

// notifyStream is httpserver.Streams.Notify.
func (r *replicas) notifyStream(key store.StreamKey, follow bool) {
	r.streams.add(streamMessage{key.Group, key.Stream, follow})
}

// publishStreams publishes messages about streams until ctx ends. It does not repeat those that fail,
// because followers read the log at intervals.
func (r *replicas) publishStreams(ctx context.Context) {
	r.streams.publish(ctx, func(ctx context.Context, m streamMessage) error {
		return r.publish(ctx, streamsTopic, streamEnvelope{r.origin, m})
	}, func(m streamMessage, err error) (streamMessage, bool) {
		r.server.logger().ErrorContext(ctx, "cannot tell the other replicas about new events: they will read them "+
			"later", "error", err)
		return m, false
	})
}

// receiveStream processes a message of another replica about a stream.
func (r *replicas) receiveStream(_ context.Context, data []byte) {
	var m streamEnvelope
	if jsonv2.Unmarshal(data, &m) != nil || m.Origin == r.origin {
		return
	}
	streams, key := r.server.core.http.Streams, store.StreamKey{Group: m.Session, Stream: m.Stream}
	switch {
	case m.Session == "":
		streams.WakeAll()
	case m.Follow:
		streams.Follow(key)
	default:
		streams.Wake(key)
	}
}
