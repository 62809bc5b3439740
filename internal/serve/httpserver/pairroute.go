package httpserver

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/httpcodec"
	"github.com/parley-mcp/parley/internal/lease"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// PairRoutes lets a message of an HTTP+SSE pair arrive at another replica than the one with the event stream.
// The session is in the memory of that replica, so the message is sent there.
type PairRoutes struct {
	KV    store.KV     // names the replica of each pair
	Lease *lease.Lease // of this replica
	// Send passes a message to the other replicas, which call DeliverToPair. Pair is the key of the pair.
	Send func(ctx context.Context, pair string, message []byte) error
}

// routeDelay is the time in which a replica receives the requests that others have accepted for its pairs before they
// learned of its shutdown.
const routeDelay = time.Second

// minRouteTTL is the minimum time to live of the entry of a pair. It is renewed with each keep-alive comment.
const minRouteTTL = time.Minute

// pairKey returns the key of a pair in the store. It begins with the principal, and has a digest of the id for
// the same reason as that of a session.
func pairKey(who principal.Principal, id string) string {
	sum := sha256.Sum256([]byte(id))
	return who.Key() + "pair/" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// register records that this replica has the event stream of a pair, until the returned function is called.
func (p *PairRoutes) register(ctx context.Context, key string, keepAlive time.Duration) (unregister func(), err error) {
	if err := p.Lease.Take(ctx); err != nil {
		return func() {}, err
	}
	return func() {
		_ = p.KV.Delete(context.WithoutCancel(ctx), key) // otherwise it expires
		p.Lease.Release()
	}, p.renew(ctx, key, keepAlive)
}

func (p *PairRoutes) renew(ctx context.Context, key string, keepAlive time.Duration) error {
	_, err := p.KV.Put(ctx, key, []byte(p.Lease.ID()), store.PutOptions{TTL: max(4*keepAlive, minRouteTTL)})
	return err
}

// delay returns how long a pair accepts requests after a shutdown has begun.
func (p *PairRoutes) delay() time.Duration {
	if p == nil {
		return 0
	}
	return routeDelay
}

// takes reports whether a replica with a pair takes a message that this one has received. A replica that shuts down
// takes no requests, so that the client repeats them on a new pair. It needs the other messages for its calls in
// flight.
func (p *PairRoutes) takes(ctx context.Context, replica string, m *jsonrpc.Message) (bool, error) {
	switch {
	case replica == p.Lease.ID(): // the stream is ending
		return false, nil
	case m.Kind == jsonrpc.Request:
		return p.Lease.Serves(ctx, replica)
	}
	return p.Lease.Alive(ctx, replica)
}

// routedMessage is a message for a pair of another replica.
type routedMessage struct {
	Message string       `json:"m"`
	Caller  *routedToken `json:"c,omitempty"` // nil if the caller is anonymous
}

// routedToken describes the token of the caller for the handlers. It does not contain the token.
type routedToken struct {
	Scopes        []string        `json:"s,omitempty"`
	Audience      []string        `json:"a,omitempty"`
	Expiry        time.Time       `json:"e,omitzero"`
	KeyThumbprint string          `json:"k,omitempty"`
	Claims        json.RawMessage `json:"c,omitempty"`
}

// info returns the description of the token. Handlers that exchange the token of the caller receive that of the event
// stream, which ctx has, unless it has expired or grants other scopes: tokens are not sent to other replicas.
func (t *routedToken) info(ctx context.Context, who principal.Principal) *auth.Info {
	stream := auth.FromContext(ctx)
	info := auth.Info{Implies: stream.Implies}
	if sameScopes(stream.Scopes, t.Scopes) && (stream.Expiry.IsZero() || time.Now().Before(stream.Expiry)) {
		info = *stream
	}
	info.Principal, info.Scopes, info.Audience, info.Expiry = who, t.Scopes, t.Audience, t.Expiry
	info.KeyThumbprint, info.Claims = t.KeyThumbprint, t.Claims
	return &info
}

func sameScopes(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// routeToPair sends a message to the replica with the event stream of its pair. It accepts the message if that
// replica has its lease and the Bus has taken the message.
func (s *Server) routeToPair(w http.ResponseWriter, r *http.Request, id string, m *jsonrpc.Message) {
	if s.PairRoutes == nil {
		rejectUnknownPair(w, m, unknownPair)
		return
	}
	if m.Kind != jsonrpc.Request { // a client that disconnects has sent the message all the same
		r = r.WithContext(context.WithoutCancel(r.Context()))
	}
	key := pairKey(principalOf(r), id)
	item, err := s.PairRoutes.KV.Get(r.Context(), key)
	taken := false
	if err == nil {
		taken, err = s.PairRoutes.takes(r.Context(), string(item.Value), m)
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		rejectUnknownPair(w, m, unknownPair)
		return
	case err == nil && !taken:
		rejectUnknownPair(w, m, unknownPair+": the server process with its event stream has ended")
		return
	case err == nil && m.Kind == jsonrpc.Request && s.Auth != nil:
		// The other replica makes a call of its own, and authorizes it.
		if !s.authorize(w, r, m.ID, callOnPair(principalOf(r), id, m)) {
			return
		}
	}
	var message []byte
	if err == nil {
		message, err = routed(r, m)
	}
	if err == nil {
		err = s.PairRoutes.Send(r.Context(), key, message)
	}
	if err != nil {
		s.Logger.ErrorContext(r.Context(), "cannot pass a message on to the replica of its event stream", "error", err)
		rejectUndelivered(w)
		return
	}
	respondEmpty(w, http.StatusAccepted)
}

// routed encodes a message for DeliverToPair. It fails if the program has authenticated the caller with claims that are
// not JSON.
func routed(r *http.Request, m *jsonrpc.Message) ([]byte, error) {
	routed := routedMessage{Message: string(encodeMessage(m))}
	if info := auth.FromContext(r.Context()); info != nil {
		routed.Caller = &routedToken{info.Scopes, info.Audience, info.Expiry, info.KeyThumbprint, info.Claims}
	}
	return json.Marshal(routed)
}

func encodeMessage(m *jsonrpc.Message) []byte {
	switch {
	case m.Kind == jsonrpc.Request:
		return jsonrpc.AppendRequest(nil, m.ID, m.Method, m.Raw)
	case m.Kind == jsonrpc.Notification:
		return jsonrpc.AppendNotification(nil, m.Method, m.Raw)
	case m.Err != nil:
		return jsonrpc.AppendError(nil, m.ID, m.Err, false)
	}
	return jsonrpc.AppendResult(nil, m.ID, m.Raw)
}

// HasPair reports whether this replica has the event stream of the pair with this key.
func (s *Server) HasPair(key string) bool { return s.pairs.byRoute(key) != nil }

// DeliverToPair passes a message that another replica has received to its pair, if this replica has the event
// stream. It does not block. Above the limit of messages that wait, it answers requests with an error, and drops
// notifications and responses.
func (s *Server) DeliverToPair(key string, message []byte) {
	x := s.pairs.byRoute(key)
	if x == nil {
		return
	}
	var routed routedMessage
	m := new(jsonrpc.Message)
	if jsonv2.Unmarshal(message, &routed) != nil || m.Parse([]byte(routed.Message), s.Limits) != nil {
		s.Logger.Error("cannot read a message that another replica has received")
		return
	}
	ctx := x.ctx
	if x.who != principal.Anonymous {
		if routed.Caller == nil {
			s.Logger.Error("cannot accept a message that another replica has received: the replicas must have the " +
				"same Auth")
			return
		}
		ctx = auth.NewContext(ctx, routed.Caller.info(ctx, x.who))
		x.expiry.extendTo(routed.Caller.Expiry)
	}
	select {
	case x.routed <- routedCall{ctx, m}:
	default:
		s.overloadPair(x, m)
	}
}

// logUnserved logs that a message is lost because its event stream has ended. The client receives no response to a
// request, but it knows that the stream has ended.
func (s *Server) logUnserved(m *jsonrpc.Message) {
	if m.Kind == jsonrpc.Request {
		s.Logger.Warn("a request that another replica has accepted is not served: its event stream has ended", "method",
			m.Method)
	}
}

// overloadPair answers a request that exceeds a limit, unless the client reads the stream too slowly.
func (s *Server) overloadPair(x *pair, m *jsonrpc.Message) {
	if m.Kind == jsonrpc.Request {
		x.stream.offer(func(dst []byte) []byte {
			rejection := rpc.Rejection(rpc.ErrTooManyInFlight)
			return httpcodec.AppendMessage(dst, jsonrpc.AppendError(nil, m.ID, rejection, false))
		})
	}
}

// routedCall is a message that another replica has received, with the context of its caller.
type routedCall struct {
	ctx     context.Context
	message *jsonrpc.Message
}

// serveRouted serves a message that another replica has received. It does not call the handler of a notification
// if too many handlers run.
func (s *Server) serveRouted(x *pair, c routedCall) {
	switch m := c.message; m.Kind {
	case jsonrpc.Notification:
		x.notify(m)
		if !x.ready.Load() || !x.begin() {
			return
		}
		select {
		case x.slots <- struct{}{}:
			go x.serve(func(*[]byte) { x.session.ServeNotification(c.ctx, rpc.Sender{}, m, revision.Class{}) })
		default:
			x.running.Done()
		}
	case jsonrpc.Response:
		x.session.ReceiveResponse(m)
	case jsonrpc.Request:
		switch ok, open := s.startOnPair(x, c.ctx, m, nil); {
		case !open:
			s.logUnserved(m)
		case !ok:
			s.overloadPair(x, m)
		}
	}
}
