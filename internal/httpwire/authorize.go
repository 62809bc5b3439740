package httpwire

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/principal"
)

// authenticate verifies the token of a request, of every kind and before its body is
// read, and returns the request with what is known of it. If it may not go on, it has
// answered.
func (s *Server) authenticate(w http.ResponseWriter, r *http.Request) (*http.Request, bool) {
	if isMetadata(r) { // public: clients without a token need it
		s.Auth.ServeMetadata(w, r)
		return nil, false
	}
	info, no := s.Auth.Authenticate(w.Header(), r)
	if no != nil {
		s.rejectUnauthorized(w, r, jsonrpc.ID{}, no)
		return nil, false
	}
	return r.WithContext(auth.NewContext(r.Context(), info)), true
}

// isMetadata reports whether r asks for the metadata of the protected resource.
func isMetadata(r *http.Request) bool {
	rest, ok := strings.CutPrefix(r.URL.Path, auth.MetadataPath)
	return ok && (rest == "" || rest[0] == '/')
}

// deny answers a request that may not be served.
func (s *Server) rejectUnauthorized(w http.ResponseWriter, r *http.Request, request jsonrpc.ID, no *auth.Rejection) {
	level := slog.LevelDebug // clients come without a token to be told where to get one
	if no.Err != nil {
		level = slog.LevelError
	}
	s.rejections.log(r.Context(), s.Logger, level, "request not authorized", slog.Int("status", no.Status), slog.String("reason", no.Reason), slog.Any("error", no.Err))
	code := int64(jsonrpc.CodeInvalidRequest)
	if no.Status >= http.StatusInternalServerError {
		code = jsonrpc.CodeInternalError
	}
	reject(w, no.Status, request, &jsonrpc.Error{Code: code, Message: no.Reason})
}

// checkScopes checks that the token of a request that carries no call grants the scopes that every request
// needs. If it does not, checkScopes answers the request and reports false. The engine checks the scopes of
// calls.
func (s *Server) checkScopes(w http.ResponseWriter, r *http.Request) bool {
	info := auth.FromContext(r.Context())
	if !slices.ContainsFunc(s.Auth.Scopes, func(scope string) bool { return !info.Grants(scope) }) {
		return true
	}
	s.rejectUnauthorized(w, r, jsonrpc.ID{}, s.Auth.Challenge(w.Header(), r, info, nil))
	return false
}

// requireScopes returns a handler that checks the scopes of each request before serve.
func (s *Server) requireScopes(serve http.HandlerFunc) http.HandlerFunc {
	if s.Auth == nil {
		return serve
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if s.checkScopes(w, r) {
			serve(w, r)
		}
	}
}

// rejectCalls answers a request whose calls were not served because err says that scopes are missing.
func (s *Server) rejectCalls(w http.ResponseWriter, r *http.Request, request jsonrpc.ID, err error) {
	var missing *auth.ScopeError
	errors.As(err, &missing)
	s.rejectUnauthorized(w, r, request, s.Auth.Challenge(w.Header(), r, auth.FromContext(r.Context()), missing.Needed))
}

// descriptionOf describes the call of a message for Engine.Authorize.
func descriptionOf(r *http.Request, m *jsonrpc.Message) *call.Call {
	return call.New(call.Description{Method: m.Method, ID: m.ID, Params: &m.Params, Principal: auth.FromContext(r.Context()).Principal})
}

// challenge sets the challenge for the scopes that the call of r lacks, and returns the status of the
// response. Nothing of the response has been sent.
func (s *Server) challenge(w http.ResponseWriter, r *http.Request) int {
	rejection := s.Auth.Challenge(w.Header(), r, auth.FromContext(r.Context()), challenge.MissingScopes(r.Context()))
	s.rejections.log(r.Context(), s.Logger, slog.LevelDebug, "request not authorized", slog.Int("status", rejection.Status), slog.String("reason", rejection.Reason))
	return rejection.Status
}

// unchallenged returns a context in which what handlers find lacking stays out of the
// response's status: other calls of the same batch have been served.
func (s *Server) withoutChallenge(ctx context.Context) context.Context {
	if info := auth.FromContext(ctx); info != nil {
		return auth.NewContext(ctx, info)
	}
	return ctx
}

// onBehalf returns ctx with what is known of the token that r came with.
func (s *Server) withToken(ctx context.Context, r *http.Request) context.Context {
	if s.Auth == nil {
		return ctx
	}
	return auth.NewContext(ctx, auth.FromContext(r.Context()))
}

func (s *Server) principalOf(r *http.Request) principal.Principal {
	if s.Auth == nil {
		return principal.Anonymous
	}
	return auth.FromContext(r.Context()).Principal
}

// maxUnexpiring is how long a stream may stay open whose token does not say when it
// expires.
const maxUnexpiring = time.Hour

// expiry ends a stream that stays open when the token expires that it was opened with.
// The response to a call is no such stream: what was begun with a valid token is
// answered. The nil expiry never comes.
type expiry struct {
	timer *time.Timer

	mu sync.Mutex
	at time.Time
}

func (s *Server) expiryOf(r *http.Request) *expiry {
	if s.Auth == nil {
		return nil
	}
	at := expiryAt(r)
	return &expiry{timer: time.NewTimer(time.Until(at)), at: at}
}

func expiryAt(r *http.Request) time.Time {
	if at := auth.FromContext(r.Context()).Expiry; !at.IsZero() {
		return at
	}
	return time.Now().Add(maxUnexpiring)
}

func (e *expiry) expired() <-chan time.Time {
	if e == nil {
		return nil
	}
	return e.timer.C
}

// extend puts the end off to that of the token that another request of the same
// principal has come with, if that is later.
func (e *expiry) extend(r *http.Request) {
	if e == nil {
		return
	}
	at := expiryAt(r)
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
