package httpserver

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/principal"
)

// authenticate finds the caller of a request before its body is read: the one that the program has put into the context
// of the request, or that of its token. It returns the request with the auth.Info in its context, if there is a caller.
// If the caller must not be served, or the request is for metadata, authenticate answers it and reports false.
func (s *Server) authenticate(w http.ResponseWriter, r *http.Request) (*http.Request, bool) {
	if s.Auth != nil && isMetadata(r) { // public: clients without a token need it
		s.Auth.ServeMetadata(w, r)
		return nil, false
	}
	info := auth.FromContext(r.Context())
	var err error
	switch {
	case info != nil:
		info, err = s.authenticated(info)
	case s.Auth != nil:
		info, err = s.Auth.Authenticate(w.Header(), r)
	default:
		return r, true
	}
	if no, rejected := errors.AsType[*auth.Rejection](err); rejected {
		s.rejectUnauthorized(w, r, jsonrpc.ID{}, no)
		return nil, false
	}
	// A context of its own for each request: that of the program may be the context of a connection.
	return r.WithContext(auth.NewContext(r.Context(), info)), true
}

// errNoPrincipal is a fault of the program. The request is not served as one of an anonymous caller, because all users
// would then be the same.
var errNoPrincipal = errors.New("the caller in the context of the request has no principal: set auth.Info.Principal " +
	"to a principal.New, and check its error")

// authenticated returns a copy of a caller that the program has authenticated, for one request.
func (s *Server) authenticated(by *auth.Info) (*auth.Info, error) {
	switch {
	case by.Principal == principal.Anonymous:
		return nil, &auth.Rejection{Status: http.StatusInternalServerError, Reason: "authentication is misconfigured",
			Err: errNoPrincipal}
	case !by.Expiry.IsZero() && !time.Now().Before(by.Expiry):
		return nil, &auth.Rejection{Status: http.StatusUnauthorized,
			Reason: "the authentication of the caller has expired: log in again"}
	}
	info := *by
	if info.Implies == nil && s.Auth != nil {
		info.Implies = s.Auth.Implies
	}
	return &info, nil
}

// isMetadata reports whether r asks for the metadata of the protected resource.
func isMetadata(r *http.Request) bool {
	rest, ok := strings.CutPrefix(r.URL.Path, auth.MetadataPath)
	return ok && (rest == "" || rest[0] == '/')
}

// rejectUnauthorized rejects a request that its token does not allow.
func (s *Server) rejectUnauthorized(w http.ResponseWriter, r *http.Request, request jsonrpc.ID, no *auth.Rejection) {
	level := slog.LevelDebug // clients send a first request without a token to get the challenge
	attrs := []slog.Attr{slog.Int("status", no.Status), slog.String("reason", no.Reason)}
	switch {
	case no.Err != nil:
		level, attrs = slog.LevelError, append(attrs, slog.Any("error", no.Err))
	case no.Remedy != "":
		level, attrs = slog.LevelWarn, append(attrs, slog.String("remedy", no.Remedy))
	}
	s.rejections.Log(r.Context(), s.Logger, level, "request not authorized", attrs...)
	code := int64(jsonrpc.CodeInvalidRequest)
	if no.Status >= http.StatusInternalServerError {
		code = jsonrpc.CodeInternalError
	}
	reject(w, no.Status, request, &jsonrpc.Error{Code: code, Message: no.Reason})
}

// authorize checks that the token of a request grants the scopes that every request needs, and those of its calls, all
// together: a batch that was served in part would be served again with the next token. If scopes are missing, authorize
// answers the request and reports false; the middleware sees the failed calls. The engine authorizes the call of a
// request whose response has the status of the challenge, so authorize is for other requests.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request, request jsonrpc.ID, calls ...*rpc.Call) bool {
	if s.Auth == nil {
		return true
	}
	err := s.Legacy.Engine.Authorize(r.Context(), calls...)
	if err == nil {
		return true
	}
	for _, c := range calls {
		_, _ = s.Legacy.Engine.Serve(r.Context(), c)
	}
	var missing *auth.ScopeError
	errors.As(err, &missing)
	s.rejectUnauthorized(w, r, request, s.Auth.Challenge(w.Header(), r, auth.FromContext(r.Context()), missing.Needed))
	return false
}

// challenge sets the challenge for the scopes that the token of r does not grant, and returns the status of the
// response. Nothing of the response has been sent.
func (s *Server) challenge(w http.ResponseWriter, r *http.Request) int {
	rejection := s.Auth.Challenge(w.Header(), r, auth.FromContext(r.Context()), challenge.MissingScopes(r.Context()))
	s.rejections.Log(r.Context(), s.Logger, slog.LevelDebug, "request not authorized",
		slog.Int("status", rejection.Status), slog.String("reason", rejection.Reason))
	return rejection.Status
}

// withoutChallenge returns a context for the calls of a batch, in which missing scopes do
// not change the status of the response: other calls of the batch have been served.
func withoutChallenge(ctx context.Context) context.Context {
	if info := auth.FromContext(ctx); info != nil {
		return auth.NewContext(ctx, info)
	}
	return ctx
}

// withCaller returns ctx with the auth.Info of r, if it has one, and with its headers.
func withCaller(ctx context.Context, r *http.Request) context.Context {
	if header := HeaderOf(r.Context()); header != nil {
		ctx = WithHeader(ctx, header)
	}
	if info := auth.FromContext(r.Context()); info != nil {
		return auth.NewContext(ctx, info)
	}
	return ctx
}

// principalOf returns the principal of a request.
func principalOf(r *http.Request) principal.Principal {
	if info := auth.FromContext(r.Context()); info != nil {
		return info.Principal
	}
	return principal.Anonymous
}

// maxStreamLife is how long a stream may last without a new check of its token, which may have been revoked.
const maxStreamLife = time.Hour

// expiry is the time at which a long-lived stream must end, because its token expires or must be checked again. It
// does not apply to responses to calls. A nil expiry never expires.
type expiry struct {
	timer *time.Timer

	mu sync.Mutex
	at time.Time
}

// expiryOf returns the expiry of the caller of r; nil for anonymous ones. The caller must call stop.
func expiryOf(r *http.Request) *expiry {
	info := auth.FromContext(r.Context())
	if info == nil {
		return nil
	}
	at := expiryAt(info.Expiry)
	return &expiry{timer: time.NewTimer(time.Until(at)), at: at}
}

// expiryAt returns when streams end whose token expires at a time, which may be zero.
func expiryAt(token time.Time) time.Time {
	latest := time.Now().Add(maxStreamLife)
	if !token.IsZero() && token.Before(latest) {
		return token
	}
	return latest
}

// expired returns a channel that receives a value at the expiry.
func (e *expiry) expired() <-chan time.Time {
	if e == nil {
		return nil
	}
	return e.timer.C
}

// extend moves the expiry to where a stream that begins with the request r would end, if that is later. r must have the
// principal of the stream.
func (e *expiry) extend(r *http.Request) {
	if e == nil {
		return
	}
	at := expiryAt(auth.FromContext(r.Context()).Expiry)
	e.mu.Lock()
	defer e.mu.Unlock()
	if at.After(e.at) {
		e.timer.Reset(time.Until(at))
		e.at = at
	}
}

func (e *expiry) stop() {
	if e != nil {
		e.timer.Stop()
	}
}
