package endpoint

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/devissuer"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/demo"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/serve/dirwatch"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/internal/httpurl"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// LoginPath is the path of the page on which users see and end their logins. The other pages of logins are below it.
const LoginPath = "/login"

// AllowFlags are the flags for the hosts and origins of requests that a server accepts, in addition to those of this
// machine. They are for all commands that serve clients; the page of parley inspect has none, because it is for one
// browser on this machine.
type AllowFlags struct {
	Hosts   []string
	Origins []string
}

func (f *AllowFlags) Add(cmd *cobra.Command) {
	cmd.Flags().Var((*program.Repeated)(&f.Hosts), "allow-host",
		"serve requests with this `host` in their Host header, such as mcp.example.com (repeatable)")
	cmd.Flags().Var((*program.Repeated)(&f.Origins), "allow-origin",
		"let web pages of this `origin` use the endpoint, such as https://app.example.com (repeatable)")
}

// Check rejects wildcards, too: web pages of any host could use the endpoint.
func (f *AllowFlags) Check() error {
	for _, host := range f.Hosts {
		if !httpurl.IsHost(host) {
			return fmt.Errorf("--allow-host %q must be a host name or an IP address without wildcards, such as "+
				"mcp.example.com; repeat the flag for each host", host)
		}
	}
	for _, origin := range f.Origins {
		if !httpurl.IsOrigin(origin) {
			return fmt.Errorf("--allow-origin %q must be an origin as browsers send it, such as "+
				"https://app.example.com: "+
				"lower case, without wildcards, path and default port; repeat the flag for each origin", origin)
		}
	}
	return nil
}

// WithLocal adds the names of this machine to hosts that requests to a listener may name; no hosts mean the default.
func WithLocal(hosts []string, listener net.Listener) []string {
	if len(hosts) == 0 {
		return nil
	}
	hosts = append(slices.Clone(hosts), "localhost", "127.0.0.1", "::1") // no web page controls these names
	if a, ok := listener.Addr().(*net.TCPAddr); ok && !a.IP.IsUnspecified() {
		hosts = append(hosts, a.IP.String())
	}
	return hosts
}

// Help is the help of commands that serve an endpoint.
const Help = "parley help authorization, deploy, operations and scale describe the flags for HTTP."

// publicFlags are the flags that say how clients reach the endpoint of a command, for every command that serves HTTP.
type publicFlags struct {
	AllowFlags
	publicURL string // without a slash at the end; empty means the address that parley listens on
	cert, key string // the files of --tls-cert and --tls-key
}

func (f *publicFlags) add(cmd *cobra.Command) {
	f.AllowFlags.Add(cmd)
	cmd.Flags().StringVar(&f.publicURL, "public-url", "", "`URL` of the endpoint for clients, if a proxy is in front")
	cmd.Flags().StringVar(&f.cert, "tls-cert", "", "serve HTTPS with the certificate and its chain in this PEM `file`")
	cmd.Flags().StringVar(&f.key, "tls-key", "", "PEM `file` with the private key of --tls-cert")
}

// check validates the flags together with --auth, and completes both: the public URL is the resource of tokens, and the
// other way round, unless the user sets both.
func (f *publicFlags) check(a *AuthFlag) error {
	if err := f.AllowFlags.Check(); err != nil {
		return err
	}
	if (f.cert == "") != (f.key == "") {
		return errors.New("--tls-cert and --tls-key must be used together; add the other one")
	}
	flag, given := "--public-url ", f.publicURL
	if given == "" {
		flag, given = "--auth resource=", a.resource
	}
	f.publicURL = strings.TrimRight(given, "/")
	a.resource = cmp.Or(a.resource, f.publicURL)
	public, err := url.Parse(f.publicURL)
	switch {
	case f.publicURL == "":
	case err != nil || public.Scheme != "http" && public.Scheme != "https" || !httpurl.IsHost(public.Host) ||
		public.User != nil || strings.ContainsAny(f.publicURL, "?#"):
		fix := ""
		if given == a.resource {
			fix = "; if tokens have another audience, add --auth audience=NAME"
		}
		return fmt.Errorf("%s%s must be a URL without query, such as https://mcp.example.com/mcp%s", flag,
			client.URL(f.publicURL), fix)
	case below(public.Path, LoginPath) || below(public.Path, auth.MetadataPath):
		return fmt.Errorf("%s%s must not be below %s or %s, which parley serves itself; choose another path",
			flag, f.publicURL, LoginPath, auth.MetadataPath)
	}
	if resource, err := url.Parse(a.resource); err == nil && !httpurl.SameOrigin(public, resource) {
		return fmt.Errorf("--auth resource=%s must have the scheme and host of --public-url %s, because clients "+
			"compare them; remove resource=", a.resource, f.publicURL)
	}
	switch {
	case a.Dev && f.exposed():
		return errors.New("--auth dev logs in any user and is for clients on this machine only; " +
			"name an issuer with --auth issuer=URL, or remove the other hosts")
	case a.issued() && f.publicURL == "" && f.exposed():
		return errors.New("--auth requires the URL of the endpoint, for which tokens are issued; add --public-url " +
			"https://…")
	}
	return nil
}

// exposed reports whether the flags name a host that is not this machine, so that clients of other machines reach the
// endpoint whatever it listens on.
func (f *publicFlags) exposed() bool {
	return slices.ContainsFunc(f.named(), func(host string) bool {
		u := url.URL{Host: host}
		return !httpurl.IsLoopback(u.Hostname()) && !httpurl.IsLoopback(host)
	})
}

// named returns the hosts that the flags name.
func (f *publicFlags) named() []string {
	if u, err := url.Parse(f.publicURL); err == nil && f.publicURL != "" {
		return append([]string{u.Hostname()}, f.Hosts...) // proxies add and remove the port
	}
	return f.Hosts
}

// Apply sets the hosts and origins that s accepts.
func (f *publicFlags) Apply(s *server.Server, listener net.Listener) {
	s.AllowedHosts, s.AllowedOrigins = WithLocal(f.named(), listener), f.Origins
}

// LocalURL returns the URL of the endpoint for programs on this machine.
func (f *publicFlags) LocalURL(listener net.Listener) string {
	if f.cert != "" {
		return "https" + strings.TrimPrefix(URLOf(listener), "http")
	}
	return URLOf(listener)
}

// URL returns the URL of the endpoint for clients.
func (f *publicFlags) URL(listener net.Listener) string {
	return cmp.Or(f.publicURL, f.LocalURL(listener))
}

// handler returns a handler that serves the path of the public URL as the endpoint, and paths with a slash at the end
// as those without it. It does not redirect, because many clients repeat a redirected POST request as GET.
func (f *publicFlags) handler(next http.Handler) http.Handler {
	public := Path
	if u, err := url.Parse(f.publicURL); err == nil && f.publicURL != "" {
		public = u.Path
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimRight(r.URL.Path, "/")
		own := below(path, Path) || below(path, LoginPath) || below(path, auth.MetadataPath)
		if rest, found := strings.CutPrefix(path, public); found && (rest == "" || rest[0] == '/') &&
			(public != "" || !own) {
			path = Path + rest
		}
		if path == LoginPath { // whose page is the one with a slash, for which the mux would redirect to it
			path += "/"
		}
		if path = cmp.Or(path, "/"); path != r.URL.Path {
			served, at := *r, *r.URL
			at.Path, at.RawPath, served.URL = path, "", &at
			r = &served
		}
		next.ServeHTTP(w, r)
	})
}

// below reports whether a path is parent or below it.
func below(path, parent string) bool {
	rest, found := strings.CutPrefix(path, parent)
	return found && (rest == "" || rest[0] == '/')
}

// certificate is the certificate of an HTTPS server, which is read again when its files change. Connections that are
// open keep the certificate that they began with. It is safe for concurrent use.
type certificate struct {
	cert, key string                           // files
	printf    func(format string, args ...any) // prints a line for the user

	now     atomic.Pointer[tls.Certificate]
	reading sync.Mutex
	seen    dirwatch.State // of the files when they were read
}

// load reads the files for the first time.
func (c *certificate) load() error {
	c.seen = dirwatch.StateOf(c.cert, c.key)
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
		return fmt.Errorf("cannot use %s with the key %s: %w; --tls-cert must be the certificate and --tls-key its "+
			"private key, both as PEM", c.cert, c.key, err)
	}
	c.now.Store(&pair)
	return nil
}

// get implements tls.Config.GetCertificate. While one connection reads the files, others get the certificate so far.
// If the files have become invalid, all do.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c.reading.TryLock() {
		defer c.reading.Unlock()
		if state := dirwatch.StateOf(c.cert, c.key); !state.Equal(c.seen) {
			c.seen = state
			if err := c.read(); err != nil {
				c.printf("parley: warning: the previous certificate stays in use: %s\n", terminal.Line(err.Error()))
			} else {
				c.printf("parley: loaded the renewed certificate, which is valid until %v\n",
					c.now.Load().Leaf.NotAfter)
			}
		}
	}
	return c.now.Load(), nil
}

// config returns the configuration of a server. HTTP/2 requires TLS 1.2 (RFC 9113, section 9.2).
func (c *certificate) config() *tls.Config {
	return &tls.Config{GetCertificate: c.get, MinVersion: tls.VersionTLS12}
}

// AuthFlag is the --auth flag: the authorization that an endpoint requires.
type AuthFlag struct {
	words    []string // the values of the flag
	Dev      bool
	dpop     bool
	issuers  []string
	resource string
	Scopes   []string
	tokens   tokenFlags
	callers

	ClientID, ClientSecret string
	config.LoginSettings   // of the logins at the issuers
}

func (f *AuthFlag) add(cmd *cobra.Command) {
	cmd.Flags().Var(f, "auth", "require tokens: issuer=URL, profile=NAME …, keys=FILE or dev (repeatable)")
}

// String implements pflag.Value.
func (f *AuthFlag) String() string { return strings.Join(f.words, " ") }

// Type implements pflag.Value.
func (f *AuthFlag) Type() string { return "setting" }

// Set implements pflag.Value.
func (f *AuthFlag) Set(word string) error {
	name, value, has := strings.Cut(word, "=")
	toggle := map[string]*bool{"dev": &f.Dev, "dpop": &f.dpop, "no-resource": &f.NoResource,
		"assume-pkce": &f.AssumePKCE}[name]
	list := map[string]*[]string{"issuer": &f.issuers, "audience": &f.tokens.audiences, "type": &f.tokens.types,
		"allow-client": &f.tokens.clients}[name]
	text := map[string]*string{"resource": &f.resource, "client": &f.ClientID, "keys": &f.keys, "proxy": &f.header,
		"profile": &f.tokens.profile, "scopes-from": &f.tokens.scopesFrom, "introspect": &f.tokens.introspect}[name]
	var err error
	switch {
	case !has && toggle != nil:
		*toggle = true
	case has && value == "":
		return fmt.Errorf("%s requires a value", name)
	case has && list != nil:
		*list = append(*list, value)
	case has && text != nil && *text != "":
		return fmt.Errorf("%s is given twice", name)
	case has && text != nil:
		*text = value
		if name == "proxy" {
			*text, err = headerName(value)
		}
	case has && name == "scope":
		f.Scopes = append(f.Scopes, strings.Fields(value)...)
	case has && name == "client-secret-file":
		var secret []byte
		secret, err = os.ReadFile(value)
		if f.ClientSecret = strings.TrimSpace(string(secret)); err == nil && f.ClientSecret == "" {
			err = fmt.Errorf("file %s is empty", value)
		}
	case has && name == "dev":
		f.Dev, f.users = true, append(f.users, strings.Split(value, ",")...)
		for _, user := range f.users {
			if _, err := principal.New("dev", user, ""); err != nil {
				return fmt.Errorf("users must be names separated by commas, such as ada,bob: %w", err)
			}
		}
	case has && name == "proxy-groups":
		f.groups, err = headerName(value)
	case has && name == "proxy-from":
		var from netip.Prefix
		from, err = networkOf(value)
		f.from = append(f.from, from)
	default:
		return errors.New("must be issuer=URL, profile=NAME, audience=NAME, type=NAME, scopes-from=CLAIM, " +
			"introspect=URL, allow-client=ID, resource=URL, scope=NAME, client=ID, client-secret-file=FILE, " +
			"no-resource, assume-pkce, dpop, dev, dev=USERS, keys=FILE, proxy=HEADER, proxy-groups=HEADER or " +
			"proxy-from=ADDRESS")
	}
	f.words = append(f.words, word)
	return err
}

// required reports whether the endpoint requires authorization.
func (f *AuthFlag) required() bool { return len(f.words) > 0 }

// issued reports whether the endpoint accepts tokens of an issuer, which are for the URL of the endpoint.
func (f *AuthFlag) issued() bool { return f.Dev || len(f.issuers) > 0 }

// check validates the combination of settings.
func (f *AuthFlag) check() error {
	switch {
	case !f.required():
		return nil
	case f.Dev && len(f.issuers) > 0:
		return errors.New("cannot use --auth dev with --auth issuer; remove one of them")
	case f.Dev && f.dpop:
		return errors.New("--auth dev starts an issuer that does not bind tokens to keys; remove --auth dpop, or " +
			"name an issuer with --auth issuer=URL")
	case f.ClientSecret != "" && f.ClientID == "":
		return errors.New("--auth client-secret-file requires --auth client=ID")
	case !f.issued() && f.callers.none():
		return errors.New("--auth requires an issuer or API keys; add --auth issuer=URL, --auth keys=FILE or --auth " +
			"dev")
	case !f.issued() && (f.dpop || f.tokens.given()):
		return errors.New("--auth dpop and the settings for tokens require an issuer; add --auth issuer=URL")
	case len(f.issuers) == 0 && f.LoginSettings != (config.LoginSettings{}):
		return errors.New("--auth no-resource and assume-pkce are for logins at an issuer that deviates from the " +
			"specification; add --auth issuer=URL, or remove them")
	}
	return errors.Join(f.tokens.check(f), f.callers.check(f))
}

// authorization is the result of AuthFlag.Apply.
type authorization struct {
	Resource *auth.ProtectedResource // the endpoint; nil without --auth
	Dev      *devissuer.Issuer       // nil without --auth dev
	flag     *AuthFlag
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
	case f.resource == "" && !local && f.issued():
		return nil,
			errors.New("--auth requires the URL of the endpoint, for which tokens are issued; add --public-url " +
				"https://…")
	}
	a := &authorization{}
	resource := &auth.ProtectedResource{URI: f.resource, Issuers: f.issuers, Scopes: f.Scopes, Name: s.Info.Title,
		RequireDPoP: f.dpop}
	if s.Store != nil && f.issued() { // replicas share the proofs that were used
		resource.DPoP = &jwt.ProofVerifier{KV: s.Store}
	}
	if f.Dev {
		var err error
		a.Dev, err = devissuer.Start(devissuer.Config{Users: f.users, Logger: logger,
			Scopes: challenge.Union(challenge.Union(demo.Scopes(), f.Scopes), scopes)})
		if err != nil {
			return nil, err
		}
		resource.Issuers = []string{a.Dev.URL()}
	}
	if f.issued() {
		f.tokens.apply(resource, f)
		jwt.Protect(resource)
	}
	resource.Verifier = f.verifier(resource.Verifier, logger)
	if err := resource.Check(); err != nil {
		return nil, errors.Join(fmt.Errorf("--auth: %w", err), a.Close())
	}
	s.Auth, a.Resource, a.flag = resource, resource, f
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
