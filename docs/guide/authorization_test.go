package guide_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

var errNotFound = errors.New("not found")

type account struct {
	User   string
	Scopes []string
}

// accounts is a database of accounts by the digests of their keys.
type accounts interface {
	find(ctx context.Context, digest string) (account, error)
}

// verifier accepts the keys of the accounts of a database.
func verifier(db accounts) auth.VerifierFunc {
	return func(ctx context.Context, token string) (*auth.Info, error) {
		a, err := db.find(ctx, auth.HashKey(token))
		if errors.Is(err, errNotFound) {
			return nil, &auth.InvalidTokenError{Reason: "unknown key"} // status 401
		} else if err != nil {
			return nil, fmt.Errorf("%w: %w", auth.ErrUnavailable, err) // status 503
		}
		who, err := principal.New("accounts", a.User, "")
		return &auth.Info{Principal: who, Scopes: a.Scopes}, err
	}
}

type found struct {
	account
	err error
}

func (f found) find(context.Context, string) (account, error) { return f.account, f.err }

func TestVerifierDecidesStatus(t *testing.T) {
	for status, db := range map[int]found{
		http.StatusUnauthorized:       {err: errNotFound},
		http.StatusServiceUnavailable: {err: errors.New("no route to the database")},
		http.StatusBadRequest:         {account: account{User: "ada"}}, // the token is accepted, the empty body is not
	} {
		s := &server.Server{Auth: &auth.ProtectedResource{URI: "http://127.0.0.1/mcp", Verifier: verifier(db)}}
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "http://127.0.0.1/mcp", nil)
		r.Header.Set("Authorization", "Bearer key")
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		s.ServeHTTP(w, r)
		must.CheckEqual(t, w.Code, status, w.Body)
	}
}

// mounted returns a server of notes at /mcp.
func mounted() http.Handler {
	s := &server.Server{Name: "notes"}
	s.Auth = jwt.Protect(&auth.ProtectedResource{
		URI:     "https://notes.example.com/mcp", // the URL that clients use
		Issuers: []string{"https://login.example.com"},
		Scopes:  []string{"notes:read"}, // every request needs them
	})
	mux := http.NewServeMux()
	mux.Handle("/mcp", s)
	mux.Handle(auth.MetadataPath, s.Auth.MetadataHandler())
	mux.Handle(auth.MetadataPath+"/", s.Auth.MetadataHandler())
	return mux
}

func TestClientsFindTheMetadata(t *testing.T) {
	w := httptest.NewRecorder()
	mounted().ServeHTTP(w, httptest.NewRequest(http.MethodGet,
		"https://notes.example.com/.well-known/oauth-protected-resource/mcp", nil))
	must.CheckEqual(t, w.Code, http.StatusOK)
	must.CheckContains(t, w.Body.String(), "https://login.example.com")
}
