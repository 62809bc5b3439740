package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// withCaller returns the context of a request to the server, which has the caller of the request that a
// handler serves, and counts the requests of the server.
func (s *supervisor) withCaller(ctx context.Context) context.Context {
	input := s.local
	if c := rpc.From(ctx); s.host.forwards && c != nil {
		caller := rpc.CallerOf(ctx)
		if caller.Key == nil {
			caller = c.Caller()
		}
		input |= c.InputKinds()
		caller.User = rpc.UserOf(ctx, c)
		caller.Input, caller.Declared, caller.Limited = input, c.DeclaredInput()|s.local, true
		if caller.Returns && !caller.Session {
			// A session with the server declares capabilities once. Programs of one principal can have several.
			caller.Key = capable{caller.Key, caller.Declared}
		}
		ctx = rpc.WithCaller(ctx, caller)
	}
	if input != 0 {
		ctx = withInputs(ctx)
	}
	return ctx
}

// capable is the key of a principal whose requests declare the same kinds of input requests.
type capable struct {
	principal any
	declared  rpc.InputKinds
}

// ErrAnonymousCaller is the error of requests without an authenticated caller to a server with
// [ServerConfig.CallerAuth].
var ErrAnonymousCaller = errors.New("host: the server requires the credentials of the caller, and the caller is not " +
	"authenticated")

// CallerAuth authorizes the requests to a server on behalf of each caller with credentials of that caller; see
// [ServerConfig.CallerAuth].
type CallerAuth struct {
	authorizer func(caller principal.Principal) (client.Authorizer, error)
	// withoutAuthorization is a field, so that a host without logins of callers links no HTTP client.
	withoutAuthorization func(client.Target) client.Target
}

// NewCallerAuth returns a CallerAuth. Authorizer returns the authorizer of the requests on behalf of a caller,
// such as the method Authorizer of a callers.Clients of auth/oauth, or what that method of a callers.Broker returns. It
// is called for each client that the Host dials for a caller, and may be called concurrently.
func NewCallerAuth[A client.Authorizer](authorizer func(caller principal.Principal) (A, error)) *CallerAuth {
	return &CallerAuth{func(caller principal.Principal) (client.Authorizer, error) {
		a, err := authorizer(caller)
		if err != nil {
			return nil, err
		}
		return a, nil
	}, withoutAuthorization}
}

// withoutAuthorization returns a target with a URL, which does not send the credentials of the host.
func withoutAuthorization(target client.Target) client.Target {
	of := *target.(*client.HTTPTarget) // see Host.check
	of.Header = of.Header.Clone()
	of.Header.Del("Authorization")
	return &of
}

// authenticated returns the caller of ctx with its principal, for a server with CallerAuth. Requests of another
// principal never use the client of the caller.
func authenticated(ctx context.Context, caller rpc.Caller) (rpc.Caller, error) {
	who := callerOf(ctx).Principal
	if who == principal.Anonymous {
		return rpc.Caller{}, ErrAnonymousCaller
	}
	key := ownedKey{owner: who}
	if caller.Returns {
		key.caller = caller.Key
	}
	caller.Key, caller.Owner, caller.Returns = key, who, true
	return caller, nil
}

// ownedKey is the key of the client of a caller with a principal.
type ownedKey struct {
	caller any
	owner  principal.Principal
}

// authorize makes a client send the credentials of its caller instead of those of the host.
func (a *CallerAuth) authorize(d *client.Dialer, target client.Target,
	caller principal.Principal) (client.Target, error) {
	authorizer, err := a.authorizer(caller)
	if err != nil {
		return nil, fmt.Errorf("cannot get the credentials of the caller: %w", err)
	}
	d.Auth = authorizer
	return a.withoutAuthorization(target), nil
}

// checkCallerAuth returns an error if the other settings of a server do not fit its CallerAuth.
func (config *ServerConfig) checkCallerAuth() error {
	if config.CallerAuth == nil {
		return nil
	}
	if _, isHTTP := config.Target.(*client.HTTPTarget); !isHTTP {
		return errors.New("CallerAuth requires a Target with a URL")
	}
	if config.PerCaller != nil && !*config.PerCaller {
		return errors.New("CallerAuth requires that PerCaller is not false")
	}
	return nil
}

// maxLateLogs is the maximum number of log messages without a call in one second. Others are dropped.
const maxLateLogs = 256

// session is a session of a client whose handler uses the Host. It receives what a server sends when none of its
// calls is in flight. It is safe for concurrent use.
type session struct {
	mu       sync.Mutex
	notifier rpc.SessionNotifier // nil before belongTo
	level    mcp.LoggingLevel
	declared rpc.InputKinds
	peer     *mcp.ClientCapabilities // what the client declares
	caller   *auth.Info              // of the last request; nil before belongTo
	second   int64
	sent     int // log messages in second
}

// belongTo sets the session to that of the call with the context ctx.
func (n *session) belongTo(ctx context.Context) {
	c := rpc.From(ctx)
	if c == nil || c.SessionNotifier == nil {
		return
	}
	declared, caller := c.DeclaredInput(), auth.FromContext(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.notifier, n.level, n.declared, n.peer = c.SessionNotifier, c.LogLevel, declared, c.Peer().Capabilities
	switch {
	case caller != nil:
		n.caller = caller
	case n.caller == nil:
		n.caller = &auth.Info{Principal: c.Principal()}
	}
}

// receive makes a client of the server pass messages without a call to n.
func (n *session) receive(s *supervisor, d *client.Dialer) {
	if next := d.Roots; next != nil {
		d.Roots = func(ctx context.Context) ([]mcp.Root, error) { return next(withSession(ctx, n)) }
	}
	d.Extensions = withNotifications(d.Extensions, func(f notificationFunc) notificationFunc {
		return func(ctx context.Context, params json.RawMessage) { f(withSession(ctx, n), params) }
	})
	if !s.sendsLogs {
		return
	}
	next := d.OnLog
	d.OnLog = func(ctx context.Context, message mcp.LoggingMessageParams) {
		if rpc.From(ctx) != nil {
			next(ctx, message)
			return
		}
		if to := n.receiver(message.Level); to != nil {
			name, data := forwardedLog(s.name, &message)
			to.Notify(rpc.AppendLog(nil, message.Level, name, data))
		}
	}
}

// receiver returns the session if it wants a log message of level.
func (n *session) receiver(level mcp.LoggingLevel) rpc.SessionNotifier {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.notifier == nil || !n.level.Enables(level) {
		return nil
	}
	if now := time.Now().Unix(); now != n.second {
		n.second, n.sent = now, 0
	}
	if n.sent == maxLateLogs {
		return nil
	}
	n.sent++
	return n.notifier
}

// listens reports whether the client may receive messages now.
func (n *session) listens() bool {
	n.mu.Lock()
	notifier := n.notifier
	n.mu.Unlock()
	return notifier != nil && notifier.Listens()
}

func (n *session) declaredInput() rpc.InputKinds {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.declared
}

// requestInput sends an input request that belongs to no call.
func (n *session) requestInput(ctx context.Context, q rpc.InputRequest) (json.RawMessage, error) {
	n.mu.Lock()
	notifier := n.notifier
	n.mu.Unlock()
	return notifier.RequestInput(ctx, q)
}

type sessionKey struct{}

// withSession returns the context of a request of a server that belongs to a session, unless it belongs to a call. It
// has the caller of the session.
func withSession(ctx context.Context, n *session) context.Context {
	if rpc.From(ctx) != nil {
		return ctx
	}
	n.mu.Lock()
	caller := n.caller
	n.mu.Unlock()
	if caller != nil {
		ctx = auth.NewContext(ctx, caller)
	}
	return context.WithValue(ctx, sessionKey{}, n)
}

func sessionOf(ctx context.Context) *session {
	n, _ := ctx.Value(sessionKey{}).(*session)
	return n
}

// common is the state of a client that several sessions use.
type common struct {
	sessions sessions
	roots    rootsNotifier
	rootless atomic.Bool // the server has requested roots while no session used the client
}

type commonKey struct{}

// receive makes a client of the server pass messages without a call to the session that uses the client, if it is the
// only one.
func (all *common) receive(d *client.Dialer) {
	if next := d.Roots; next != nil {
		d.Roots = func(ctx context.Context) ([]mcp.Root, error) {
			return next(context.WithValue(ctx, commonKey{}, all))
		}
	}
	d.Extensions = withNotifications(d.Extensions, func(f notificationFunc) notificationFunc {
		return func(ctx context.Context, params json.RawMessage) { f(context.WithValue(ctx, commonKey{}, all), params) }
	})
}

// commonOf returns the state of the client that has received a message, unless the client is that of one session.
func (s *supervisor) commonOf(ctx context.Context) *common {
	if all, ok := ctx.Value(commonKey{}).(*common); ok {
		return all
	}
	return &s.common
}

// maxSessions limits the sessions that use one client of a server, for requests without a call.
const maxSessions = 1024

// sessions are the sessions that have used one client of a server. It is safe for concurrent use.
type sessions struct {
	mu    sync.Mutex
	byKey map[any]*session
}

// add adds the session of the caller of ctx. It reports whether the session is new.
func (all *sessions) add(ctx context.Context, caller rpc.Caller) (added bool) {
	all.mu.Lock()
	defer all.mu.Unlock()
	n := all.byKey[caller.Key]
	if n == nil {
		if len(all.byKey) >= maxSessions {
			all.removeClosed()
		}
		if len(all.byKey) >= maxSessions {
			return false // the requests are rejected: there are several sessions
		}
		if all.byKey == nil {
			all.byKey = make(map[any]*session)
		}
		n, added = new(session), true
		all.byKey[caller.Key] = n
	}
	n.belongTo(ctx)
	return added
}

// removeClosed removes the sessions whose clients receive nothing. It requires that mu is held.
func (all *sessions) removeClosed() {
	for key, n := range all.byKey {
		if !n.listens() {
			delete(all.byKey, key)
		}
	}
}

// only returns the session whose client can receive messages if there is one, and the number of such sessions.
func (all *sessions) only() (key any, only *session, count int) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for k, n := range all.byKey {
		if n.listens() {
			key, only = k, n
			count++
		}
	}
	if count != 1 {
		return nil, nil, count
	}
	return key, only, 1
}
