package main

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

// authFlag is the --auth flag: the authorization that an endpoint requires.
type authFlag struct {
	words    []string // the values of the flag
	dev      bool
	dpop     bool
	issuers  []string
	resource string
	scopes   []string

	clientID, clientSecret string
}

func (f *authFlag) add(cmd *cobra.Command) {
	cmd.Flags().Var(f, "auth", "require tokens: issuer=URL, or dev (repeatable)")
}

// String implements pflag.Value.
func (f *authFlag) String() string { return strings.Join(f.words, " ") }

// Type implements pflag.Value.
func (f *authFlag) Type() string { return "setting" }

// Set implements pflag.Value.
func (f *authFlag) Set(word string) error {
	name, value, has := strings.Cut(word, "=")
	switch {
	case word == "dev":
		f.dev = true
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
		f.scopes = append(f.scopes, strings.Fields(value)...)
	case has && name == "client":
		f.clientID = value
	case has && name == "client-secret-file":
		secret, err := os.ReadFile(value)
		if err != nil {
			return err
		}
		if f.clientSecret = strings.TrimSpace(string(secret)); f.clientSecret == "" {
			return fmt.Errorf("file %s is empty", value)
		}
	default:
		return errors.New("must be issuer=URL, resource=URL, scope=NAME, client=ID, client-secret-file=FILE, dpop or dev")
	}
	f.words = append(f.words, word)
	return nil
}

// required reports whether the endpoint requires authorization.
func (f *authFlag) required() bool { return len(f.words) > 0 }

// check validates the combination of settings.
func (f *authFlag) check() error {
	switch {
	case !f.required():
		return nil
	case f.dev && len(f.issuers) > 0:
		return errors.New("cannot use --auth dev with --auth issuer; remove one of them")
	case f.clientSecret != "" && f.clientID == "":
		return errors.New("--auth client-secret-file requires --auth client=ID")
	case !f.dev && len(f.issuers) == 0:
		return errors.New("--auth requires an issuer; add --auth issuer=URL or --auth dev")
	}
	return nil
}

// authorization is the result of authFlag.apply.
type authorization struct {
	resource *auth.ProtectedResource // the endpoint; nil without --auth
	dev      *devissuer.Issuer       // nil without --auth dev
	audit    *auditLog               // nil without an audit log; set by the caller of apply
}

// apply sets s.Auth before the server starts, and after s.KV. A development issuer grants the scopes too. The
// caller closes the result after the server is shut down.
func (f *authFlag) apply(s *server.Server, listener net.Listener, logger *slog.Logger, scopes ...string) (*authorization, error) {
	if !f.required() {
		return &authorization{}, nil
	}
	local := isLoopback(listener)
	switch {
	case f.dev && !local:
		return nil, errors.New("--auth dev requires a loopback address, such as 127.0.0.1:7777")
	case f.resource == "" && !local:
		return nil, errors.New("--auth requires the URL of the endpoint, for which tokens are issued; add --public-url https://…")
	}
	a := &authorization{}
	resource := &auth.ProtectedResource{URI: f.resource, Issuers: f.issuers, Scopes: f.scopes, Name: s.Title, RequireDPoP: f.dpop}
	if s.KV != nil { // replicas share the proofs that were used
		resource.DPoP = &jwt.ProofVerifier{KV: s.KV}
	}
	if f.dev {
		var err error
		a.dev, err = devissuer.Start(devissuer.Config{Scopes: challenge.Union(challenge.Union(demo.Scopes(), f.scopes), scopes), Logger: logger})
		if err != nil {
			return nil, err
		}
		resource.Issuers = []string{a.dev.URL()}
	}
	if err := jwt.Protect(resource).Check(); err != nil {
		return nil, errors.Join(fmt.Errorf("--auth: %w", err), a.Close())
	}
	s.Auth, a.resource = resource, resource
	return a, nil
}

// Close stops the development issuer, if there is one.
func (a *authorization) Close() error {
	if a.dev == nil {
		return nil
	}
	return a.dev.Close()
}

func isLoopback(listener net.Listener) bool {
	host, _, err := net.SplitHostPort(listener.Addr().String())
	return err == nil && httpurl.IsLoopback(host)
}
