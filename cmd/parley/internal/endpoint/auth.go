package endpoint

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/devissuer"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/cmd/parley/demo"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
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
		return errors.New("must be issuer=URL, resource=URL, scope=NAME, client=ID, client-secret-file=FILE, dpop or dev")
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

// Apply sets s.Auth before the server starts, and after s.KV. A development issuer grants the scopes too. The
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
		return nil, errors.New("--auth requires the URL of the endpoint, for which tokens are issued; add --public-url " +
			"https://…")
	}
	a := &authorization{}
	resource := &auth.ProtectedResource{URI: f.resource, Issuers: f.issuers, Scopes: f.Scopes, Name: s.Title,
		RequireDPoP: f.dpop}
	if s.KV != nil { // replicas share the proofs that were used
		resource.DPoP = &jwt.ProofVerifier{KV: s.KV}
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

// certificate is the certificate of an HTTPS server, which is read again when its files change. Connections that are
// open keep the certificate that they began with. It is safe for concurrent use.
type certificate struct {
	cert, key string                           // files
	printf    func(format string, args ...any) // prints a line for the user

	now     atomic.Pointer[tls.Certificate]
	reading sync.Mutex
	seen    string // the state of the files when they were read
}

// load reads the files for the first time.
func (c *certificate) load() error {
	c.seen = stateOfFiles(c.cert, c.key)
	return c.read()
}

func (c *certificate) read() error {
	chain, err := os.ReadFile(c.cert)
	if err != nil {
		return fmt.Errorf("cannot read the certificate: %w; choose its file with --tls-cert", err)
	}
	key, err := os.ReadFile(c.key)
	if err != nil {
		return fmt.Errorf("cannot read the key of the certificate: %w; choose its file with --tls-key", err)
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return fmt.Errorf("cannot use %s with the key %s: %w; --tls-cert must be the certificate and --tls-key its private "+
			"key, "+
			"both as PEM", c.cert, c.key, err)
	}
	c.now.Store(&pair)
	return nil
}

// get implements tls.Config.GetCertificate. While one connection reads the files, others get the certificate so far.
// If the files have become invalid, all do.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c.reading.TryLock() {
		defer c.reading.Unlock()
		if state := stateOfFiles(c.cert, c.key); state != c.seen {
			c.seen = state
			if err := c.read(); err != nil {
				c.printf("parley: warning: the previous certificate stays in use: %s\n", terminal.Line(err.Error()))
			} else {
				c.printf("parley: loaded the renewed certificate, which is valid until %v\n", c.now.Load().Leaf.NotAfter)
			}
		}
	}
	return c.now.Load(), nil
}

// config returns the configuration of a server. HTTP/2 requires TLS 1.2 (RFC 9113, section 9.2).
func (c *certificate) config() *tls.Config {
	return &tls.Config{GetCertificate: c.get, MinVersion: tls.VersionTLS12}
}

// stateOfFiles describes files, differently after each of them has been replaced.
func stateOfFiles(paths ...string) (state string) {
	for _, path := range paths {
		if info, err := os.Stat(path); err != nil {
			state += err.Error() + "\n"
		} else {
			state += fmt.Sprintln(info.ModTime().UnixNano(), info.Size())
		}
	}
	return state
}
