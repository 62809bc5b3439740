package server

import (
	"context"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/store"
)

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
		r.server.logger().ErrorContext(ctx, "cannot announce events to the other replicas: they read them later", "error", err)
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
