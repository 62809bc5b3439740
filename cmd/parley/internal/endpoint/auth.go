package endpoint

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/devissuer"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/cmd/parley/demo"
	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/internal/httpurl"
	"github.com/parley-mcp/parley/server"
)

// AuthFlag is the --auth flag: the authorization that an endpoint requires.
type AuthFlag struct {
	words    []string // the values of the flag
	Dev      bool
	dpop     bool
	issuers  []string
	resource string
	Scopes   []string

	ClientID, ClientSecret string
}

func (f *AuthFlag) add(cmd *cobra.Command) {
	cmd.Flags().Var(f, "auth", "require tokens: issuer=URL, or dev (repeatable)")
}

// String implements pflag.Value.
func (f *AuthFlag) String() string { return strings.Join(f.words, " ") }

// Type implements pflag.Value.
func (f *AuthFlag) Type() string { return "setting" }

// Set implements pflag.Value.
func (f *AuthFlag) Set(word string) error {
	name, value, has := strings.Cut(word, "=")
	switch {
	case word == "dev":
		f.Dev = true
	case word == "dpop":
		f.dpop = true
	case has && value == "":
		return fmt.Errorf("%s requires a value", name)
	case has && name == "issuer":
		f.issuers = append(f.issuers, value)
	case has && name == "resource" && f.resource == "":
		f.resource = value
	case has && name == "resource":
		return errors.New("duplicate resource")
	case has && name == "scope":
		f.Scopes = append(f.Scopes, strings.Fields(value)...)
	case has && name == "client":
		f.ClientID = value
	case has && name == "client-secret-file":
		secret, err := os.ReadFile(value)
		if err != nil {
			return err
		}
		if f.ClientSecret = strings.TrimSpace(string(secret)); f.ClientSecret == "" {
			return fmt.Errorf("file %s is empty", value)
		}
	default:
		return errors.New("must be issuer=URL, resource=URL, scope=NAME, client=ID, client-secret-file=FILE, dpop or " +
			"dev")
	}
	f.words = append(f.words, word)
	return nil
}

// required reports whether the endpoint requires authorization.
func (f *AuthFlag) required() bool { return len(f.words) > 0 }

// check validates the combination of settings.
func (f *AuthFlag) check() error {
	switch {
	case !f.required():
		return nil
	case f.Dev && len(f.issuers) > 0:
		return errors.New("cannot use --auth dev with --auth issuer; remove one of them")
	case f.ClientSecret != "" && f.ClientID == "":
		return errors.New("--auth client-secret-file requires --auth client=ID")
	case !f.Dev && len(f.issuers) == 0:
		return errors.New("--auth requires an issuer; add --auth issuer=URL or --auth dev")
	}
	return nil
}

// authorization is the result of AuthFlag.Apply.
type authorization struct {
	Resource *auth.ProtectedResource // the endpoint; nil without --auth
	Dev      *devissuer.Issuer       // nil without --auth dev
}

// Apply sets s.Auth before the server starts, and after s.Store. A development issuer grants the scopes too. The
// caller closes the result after the server is shut down.
func (f *AuthFlag) Apply(s *server.Server, listener net.Listener, logger *slog.Logger,
	scopes ...string) (*authorization, error) {
	if !f.required() {
		return &authorization{}, nil
	}
	local := IsLoopback(listener)
	switch {
	case f.Dev && !local:
		return nil, errors.New("--auth dev requires a loopback address, such as 127.0.0.1:7777")
	case f.resource == "" && !local:
		return nil,
			errors.New("--auth requires the URL of the endpoint, for which tokens are issued; add --public-url " +
				"https://…")
	}
	a := &authorization{}
	resource := &auth.ProtectedResource{URI: f.resource, Issuers: f.issuers, Scopes: f.Scopes, Name: s.Title,
		RequireDPoP: f.dpop}
	if s.Store != nil { // replicas share the proofs that were used
		resource.DPoP = &jwt.ProofVerifier{KV: s.Store}
	}
	if f.Dev {
		var err error
		a.Dev, err = devissuer.Start(devissuer.Config{Scopes: challenge.Union(challenge.Union(demo.Scopes(), f.Scopes),
			scopes), Logger: logger})
		if err != nil {
			return nil, err
		}
		resource.Issuers = []string{a.Dev.URL()}
	}
	if err := jwt.Protect(resource).Check(); err != nil {
		return nil, errors.Join(fmt.Errorf("--auth: %w", err), a.Close())
	}
	s.Auth, a.Resource = resource, resource
	return a, nil
}

// Close stops the development issuer, if there is one.
func (a *authorization) Close() error {
	if a.Dev == nil {
		return nil
	}
	return a.Dev.Close()
}

func IsLoopback(listener net.Listener) bool {
	host, _, err := net.SplitHostPort(listener.Addr().String())
	return err == nil && httpurl.IsLoopback(host)
}
