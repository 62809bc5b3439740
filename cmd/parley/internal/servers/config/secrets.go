package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/cmd/parley/internal/program/secretname"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/quoting"
)

// Secret is a value of a server that looks like a secret, and is not a reference.
type Secret struct {
	Name  string // of the variable, header field, parameter or flag
	Where string // in words, such as "header Authorization"

	value      *string // of the server
	start, end int     // of the secret in value
}

// Replace replaces the secret by another text, and returns it. The secrets of a server must be replaced from the last
// to the first.
func (s *Secret) Replace(by string) (secret string) {
	value := *s.value
	*s.value = value[:s.start] + by + value[s.end:]
	return value[s.start:s.end]
}

var (
	// userInfo matches the user and the password of a URL, such as the URL of a database.
	userInfo = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*)://([^/?#\s@:]*)(?::([^/?#\s]*))?@`)
	// scheme matches the beginning of the credentials of a header field.
	scheme = regexp.MustCompile(`^(?i:bearer|basic|token)\s+`)
	// named matches an argument that begins with the name of a header field, a variable or a flag.
	named = regexp.MustCompile(`^(?:-H\s*|-+)?([A-Za-z][A-Za-z0-9_.-]*)(?:=|:\s*)`)
)

// PlainSecrets returns the values of a server that look like secrets by their names or are in a URL, and are stored as
// plain text.
func PlainSecrets(s *Server) (secrets []Secret) {
	f := &secretFinder{}
	for i := range s.Env {
		f.check(s.Env[i].Name, "env", &s.Env[i].Value, 0)
	}
	for i := range s.Headers {
		f.check(s.Headers[i].Name, "header", &s.Headers[i].Value, 0)
	}
	flag := ""
	for i := range s.Args {
		arg := &s.Args[i]
		isFlag := strings.HasPrefix(*arg, "-")
		switch name := named.FindString(*arg); {
		case !isFlag && secretname.IsSetting(flag):
			f.check(flag, "argument", arg, 0)
		case isFlag && name == "":
			flag = strings.TrimLeft(*arg, "-")
			continue
		default:
			f.argument(arg)
		}
		flag = ""
	}
	f.url("the url", &s.URL)
	return f.found
}

// Masked returns the arguments of a command with … instead of what looks like a secret by its name, by its place in a
// URL or by its form: long or random, such as a token. A short secret without a name is not found.
func Masked(args []string) []string {
	s := &Server{Args: slices.Clone(args)}
	for _, secret := range slices.Backward(PlainSecrets(s)) {
		secret.Replace("…")
	}
	for i, arg := range s.Args {
		s.Args[i] = partOfArgument.ReplaceAllStringFunc(arg, func(part string) string {
			if random := randomPart.FindString(part); strings.ContainsAny(random, "0123456789") &&
				strings.ContainsAny(random, letters) {
				return "…"
			}
			return part
		})
	}
	return s.Args
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

var (
	// partOfArgument matches what is between the separators of paths, URLs, lists and values with names.
	partOfArgument = regexp.MustCompile(`[^/:=@,?&\s]+`)
	// randomPart matches a part that is too long for a word, and a UUID. It is random if it has letters and digits.
	randomPart = regexp.MustCompile(`[A-Za-z0-9]{20,}|[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}`)
)

// secretFinder collects secrets.
type secretFinder struct{ found []Secret }

// add adds a part of a value unless it is a reference, or empty.
func (f *secretFinder) add(name, where string, value *string, start, end int) {
	if text := (*value)[start:end]; strings.TrimSpace(text) != "" && !strings.Contains(text, "${") {
		f.found = append(f.found, Secret{name, where, value, start, end})
	}
}

// check checks a value with a name, which begins at start of a text.
func (f *secretFinder) check(name, where string, value *string, start int) {
	if !secretname.IsSetting(name) {
		f.urls(where+" "+name, value, 0, len(*value))
		return
	}
	start += len(scheme.FindString((*value)[start:]))
	f.add(name, where+" "+name, value, start, len(*value))
}

// argument checks an argument, which can have several names, as in --header=X-Auth:value.
func (f *secretFinder) argument(arg *string) {
	for start := 0; ; {
		m := named.FindStringSubmatch((*arg)[start:])
		if m == nil || strings.HasPrefix((*arg)[start+len(m[0]):], "//") { // the name is the scheme of a URL
			f.url("an argument", arg)
			return
		}
		if start += len(m[0]); secretname.IsSetting(m[1]) {
			f.check(m[1], "argument", arg, start)
			return
		}
	}
}

// urls checks the URLs in a part of a value.
func (f *secretFinder) urls(where string, value *string, start, end int) {
	part := (*value)[start:end]
	for _, m := range userInfo.FindAllStringSubmatchIndex(part, -1) {
		if m[6] >= 0 {
			f.add("password", "the password of "+where, value, start+m[6], start+m[7])
		} else if strings.HasPrefix(part[m[2]:m[3]], "http") { // the user of another scheme, such as ssh, is not secret
			f.add("token", "the user of "+where, value, start+m[4], start+m[5])
		}
	}
}

// url checks a URL, and then each of its parameters, so that the secrets are in order and do not overlap.
func (f *secretFinder) url(where string, value *string) {
	before, query, _ := strings.Cut(*value, "?")
	f.urls(where, value, 0, len(before))
	start := len(before) + 1
	for pair := range strings.SplitSeq(query, "&") {
		escaped, text, _ := strings.Cut(pair, "=")
		if name, err := url.QueryUnescape(escaped); err == nil && text != "" && secretname.IsSetting(name) {
			f.add(name, "parameter "+name+" of "+where, value, start+len(escaped)+1, start+len(pair))
		} else if text != "" {
			f.urls(where, value, start, start+len(pair))
		}
		start += len(pair) + 1
	}
}

// WithoutSecrets returns a URL without the parts that may have secrets. References remain.
func WithoutSecrets(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" { // such as a reference
		before, _, _ := strings.Cut(text, "?")
		if _, after, found := strings.Cut(before, "@"); found {
			before = "…@" + after
		}
		return before
	}
	before, _, _ := strings.Cut(text, "?")
	before, _, _ = strings.Cut(before, "#")
	if u.User != nil {
		scheme, after, _ := strings.Cut(before, "://")
		_, after, _ = strings.Cut(after, "@")
		before = scheme + "://" + after
	}
	return before
}

// CommandText returns a command as the user would type it.
func CommandText(name string, args []string) string {
	words := append([]string{name}, args...)
	for i, word := range words {
		if word != "…" {
			words[i] = quoting.OfUser().Quote(word)
		}
	}
	return strings.Join(words, " ")
}

// MaskedCommand is CommandText with … instead of what looks like a secret.
func MaskedCommand(name string, args []string) string { return CommandText(name, Masked(args)) }

// LoginSettings are the settings of logins to a server, for an authorization server that deviates from the
// specification; see oauth.Client.
type LoginSettings struct{ NoResource, AssumePKCE bool }

// Flags returns the flags of parley login for the settings.
func (s LoginSettings) Flags() (flags []string) {
	if s.NoResource {
		flags = append(flags, "--no-resource")
	}
	if s.AssumePKCE {
		flags = append(flags, "--assume-pkce")
	}
	return flags
}

// Types of [Credentials].
const (
	CallerLogin   = "callerLogin"
	TokenExchange = "tokenExchange"
	Enterprise    = "enterprise"
)

// Credentials say how the requests on behalf of each caller are authorized at a server with a URL.
type Credentials struct {
	// Type is CallerLogin: each caller logs in; TokenExchange: the caller's token is exchanged (RFC 8693); or
	// Enterprise: it is exchanged at an identity provider for a grant (ID-JAG).
	Type string

	Issuer, TokenEndpoint  string // of the authorization server that exchanges tokens
	ClientID, ClientSecret string // there or, for CallerLogin, at the authorization server of the server
	SubjectTokenType       string
	Audience               string   // for TokenExchange
	Scopes                 []string // for TokenExchange

	// Networks are private networks that the authorization server of the server may be in.
	Networks []netip.Prefix

	// For Enterprise: the client at the authorization server of the server.
	ServerIssuer, ServerClientID, ServerClientSecret string

	LoginSettings // of the server
}

var credentialFields = fields[Credentials]{
	{"type", func(c *Credentials) any { return &c.Type }},
	{"issuer", func(c *Credentials) any { return &c.Issuer }},
	{"tokenEndpoint", func(c *Credentials) any { return &c.TokenEndpoint }},
	{"clientId", func(c *Credentials) any { return &c.ClientID }},
	{"clientSecret", func(c *Credentials) any { return &c.ClientSecret }},
	{"subjectTokenType", func(c *Credentials) any { return &c.SubjectTokenType }},
	{"audience", func(c *Credentials) any { return &c.Audience }},
	{"scopes", func(c *Credentials) any { return &c.Scopes }},
	{"networks", func(c *Credentials) any { return &c.Networks }},
	{"serverIssuer", func(c *Credentials) any { return &c.ServerIssuer }},
	{"serverClientId", func(c *Credentials) any { return &c.ServerClientID }},
	{"serverClientSecret", func(c *Credentials) any { return &c.ServerClientSecret }},
}

// check validates the combination of members.
func (c *Credentials) check() error {
	unused := func(names string, values ...string) error {
		for _, value := range values {
			if value != "" {
				return fmt.Errorf("credentials of type %q must not have %s", c.Type, names)
			}
		}
		return nil
	}
	switch c.Type {
	case CallerLogin:
		if c.Scopes != nil {
			return unused("scopes: the server names them", "scopes")
		}
		if c.ClientSecret != "" && c.ClientID == "" {
			return errors.New("credentials with a clientSecret must have a clientId")
		}
		return unused("fields other than clientId, clientSecret and networks",
			c.Issuer, c.TokenEndpoint, c.SubjectTokenType, c.Audience, c.ServerIssuer, c.ServerClientID,
			c.ServerClientSecret)
	case TokenExchange:
		if c.Networks != nil {
			return unused("networks: the issuer may have any address", "networks")
		}
		if c.Issuer == "" && c.TokenEndpoint == "" {
			return errors.New("credentials of type \"tokenExchange\" must have an issuer or a tokenEndpoint")
		}
		return unused("serverIssuer, serverClientId or serverClientSecret", c.ServerIssuer, c.ServerClientID,
			c.ServerClientSecret)
	case Enterprise:
		if c.Scopes != nil {
			return unused("scopes: the server names them", "scopes")
		}
		if c.Issuer == "" || c.ServerClientID == "" || c.ServerClientSecret == "" {
			return errors.New("credentials of type \"enterprise\" must have issuer, serverClientId and " +
				"serverClientSecret")
		}
		return unused("audience", c.Audience)
	}
	return fmt.Errorf("credentials must have the type %q, %q or %q", CallerLogin, TokenExchange, Enterprise)
}

// CallerCredentials returns Credentials with the values of references; nil if there are none. An error names the
// member, and contains no values.
func (s *Server) CallerCredentials(values *Values) (*Credentials, error) {
	if s.Credentials == nil {
		return nil, nil
	}
	e := &expansion{server: s, values: values}
	c := *s.Credentials
	c.LoginSettings = s.LoginSettings
	for name, field := range map[string]*string{
		"issuer": &c.Issuer, "tokenEndpoint": &c.TokenEndpoint, "clientId": &c.ClientID,
		"clientSecret": &c.ClientSecret,
		"audience":     &c.Audience,
		"serverIssuer": &c.ServerIssuer, "serverClientId": &c.ServerClientID,
		"serverClientSecret": &c.ServerClientSecret,
	} {
		*field = e.text("credentials "+name, *field)
	}
	return &c, e.err
}

// CallerHeaders returns the names of the headers that have keys of callers, as clients send them and as servers receive
// them.
func (c *Config) CallerHeaders() (names []string) {
	for i := range c.Servers {
		for from, to := range c.Servers[i].CallerHeaders {
			to, _, _ = strings.Cut(to, ":")
			names = append(names, from, strings.TrimSpace(to))
		}
	}
	return names
}
