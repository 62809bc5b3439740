package server

import (
	"context"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/internal/serve/legacy"
)

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

// ActiveSessions returns the number of sessions over Streamable HTTP that have a request or an open event
// stream in this process now. Sessions in a shared store that other replicas serve do not count. It is for
// metrics, and safe for concurrent use.
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
		r.server.logger().ErrorContext(ctx, "cannot announce a change of a session to the other replicas", "error", err)
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
			if err := r.sendMessage(ctx, forwardedMessage{Session: m.Session, Notify: m.Origin}, notification); err != nil && ctx.Err() == nil {
				r.server.logger().ErrorContext(ctx, "a notification is lost: cannot send it to the replica with the client's stream", "error", err)
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
