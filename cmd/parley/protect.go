package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/devissuer"
	"github.com/parley-mcp/parley/cmd/parley/demo"
	"github.com/parley-mcp/parley/server"
)

const authHelp = `With --auth, whoever calls needs an access token. --auth issuer=https://… names who issues it,
by JSON Web Tokens for the endpoint's URL; more than one may. Beside it may stand, each with
an --auth of its own: resource=https://… for the endpoint's URL as clients write it, which is
needed where it is not on this machine; scope=NAME for a scope that every call needs; and dpop
for tokens that are bound to a key.
--auth dev starts an issuer for development beside the server, on this machine only. It lets
anybody be anybody.`

// authFlag is how an endpoint is protected.
type authFlag struct {
	words    []string // as they are written
	dev      bool
	dpop     bool
	issuers  []string
	resource string
	scopes   []string
}

func (f *authFlag) add(cmd *cobra.Command) {
	cmd.Flags().Var(f, "auth", "who may call: issuer=URL, resource=URL, scope=NAME, dpop, or dev (repeatable)")
}

// String implements pflag.Value.
func (f *authFlag) String() string { return strings.Join(f.words, " ") }

// Type implements pflag.Value.
func (f *authFlag) Type() string { return "rule" }

// Set implements pflag.Value.
func (f *authFlag) Set(word string) error {
	name, value, has := strings.Cut(word, "=")
	switch {
	case word == "dev":
		f.dev = true
	case word == "dpop":
		f.dpop = true
	case has && value == "":
		return fmt.Errorf("%s= needs a value", name)
	case has && name == "issuer":
		f.issuers = append(f.issuers, value)
	case has && name == "resource" && f.resource == "":
		f.resource = value
	case has && name == "resource":
		return errors.New("an endpoint has one URL")
	case has && name == "scope":
		f.scopes = append(f.scopes, strings.Fields(value)...)
	default:
		return errors.New("use issuer=URL, resource=URL, scope=NAME, dpop or dev")
	}
	f.words = append(f.words, word)
	return nil
}

// wanted reports whether callers are to be authorized.
func (f *authFlag) wanted() bool { return len(f.words) > 0 }

func (f *authFlag) check() error {
	switch {
	case !f.wanted():
		return nil
	case f.dev && len(f.issuers) > 0:
		return errors.New("--auth dev and --auth issuer=… exclude each other: leave one out")
	case !f.dev && len(f.issuers) == 0:
		return errors.New("--auth: name an issuer by --auth issuer=URL, or start one by --auth dev")
	}
	return nil
}

// protection is what keeps strangers from an endpoint.
type protection struct{ dev *devissuer.Issuer }

// protect has a server, which does not serve yet, ask callers for tokens. Close what it
// returns when the server is shut down.
func (f *authFlag) protect(s *server.Server, listener net.Listener, logger *slog.Logger) (*protection, error) {
	if !f.wanted() {
		return &protection{}, nil
	}
	local := isLoopback(listener)
	switch {
	case f.dev && !local:
		return nil, errors.New("--auth dev is for this machine only: listen on 127.0.0.1")
	case f.resource == "" && !local:
		return nil, errors.New("--auth: name the endpoint as clients write it, by --auth resource=https://…: tokens are issued for that")
	}
	p := &protection{}
	resource := &auth.ProtectedResource{
		URI: f.resource, Issuers: f.issuers, Scopes: f.scopes, Name: s.Title,
		DPoP: auth.DPoP{Required: f.dpop},
	}
	if f.dev {
		var err error
		p.dev, err = devissuer.Start(devissuer.Config{Scopes: auth.Union(demo.Scopes(), f.scopes), Logger: logger})
		if err != nil {
			return nil, err
		}
		resource.Issuers = []string{p.dev.URL()}
	}
	if err := resource.Check(); err != nil {
		return nil, errors.Join(fmt.Errorf("--auth: %w", err), p.Close())
	}
	s.Auth = resource
	return p, nil
}

// Close ends the issuer for development, if there is one.
func (p *protection) Close() error {
	if p.dev == nil {
		return nil
	}
	return p.dev.Close()
}

func isLoopback(listener net.Listener) bool {
	addr, err := netip.ParseAddrPort(listener.Addr().String())
	return err == nil && addr.Addr().IsLoopback()
}
