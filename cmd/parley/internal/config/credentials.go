package config

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/tailscale/hujson"
)

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
}

var credentialMembers = readers[Credentials]{
	"type":               textMember(func(c *Credentials) *string { return &c.Type }),
	"issuer":             textMember(func(c *Credentials) *string { return &c.Issuer }),
	"tokenEndpoint":      textMember(func(c *Credentials) *string { return &c.TokenEndpoint }),
	"clientId":           textMember(func(c *Credentials) *string { return &c.ClientID }),
	"clientSecret":       textMember(func(c *Credentials) *string { return &c.ClientSecret }),
	"subjectTokenType":   textMember(func(c *Credentials) *string { return &c.SubjectTokenType }),
	"audience":           textMember(func(c *Credentials) *string { return &c.Audience }),
	"serverIssuer":       textMember(func(c *Credentials) *string { return &c.ServerIssuer }),
	"serverClientId":     textMember(func(c *Credentials) *string { return &c.ServerClientID }),
	"serverClientSecret": textMember(func(c *Credentials) *string { return &c.ServerClientSecret }),
	"scopes": func(d *document, c *Credentials, v *hujson.Value, name string) (err error) {
		c.Scopes, err = d.texts(v, name)
		return err
	},
	"networks": func(d *document, c *Credentials, v *hujson.Value, name string) error {
		texts, err := d.texts(v, name)
		if err != nil {
			return err
		}
		for _, text := range texts {
			network, err := netip.ParsePrefix(text)
			if err != nil {
				return d.errorf(v, "%s: %q must be a network, such as 10.0.0.0/8", name, text)
			}
			c.Networks = append(c.Networks, network)
		}
		return nil
	},
}

// textMember returns a reader for a string.
func textMember(field func(*Credentials) *string) func(*document, *Credentials, *hujson.Value, string) error {
	return func(d *document, c *Credentials, v *hujson.Value, name string) (err error) {
		*field(c), err = d.text(v, name)
		return err
	}
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
		return unused("members other than clientId, clientSecret and networks",
			c.Issuer, c.TokenEndpoint, c.SubjectTokenType, c.Audience, c.ServerIssuer, c.ServerClientID, c.ServerClientSecret)
	case TokenExchange:
		if c.Networks != nil {
			return unused("networks: the issuer may have any address", "networks")
		}
		if c.Issuer == "" && c.TokenEndpoint == "" {
			return errors.New("credentials of type \"tokenExchange\" must have an issuer or a tokenEndpoint")
		}
		return unused("serverIssuer, serverClientId or serverClientSecret", c.ServerIssuer, c.ServerClientID, c.ServerClientSecret)
	case Enterprise:
		if c.Scopes != nil {
			return unused("scopes: the server names them", "scopes")
		}
		if c.Issuer == "" || c.ServerClientID == "" || c.ServerClientSecret == "" {
			return errors.New("credentials of type \"enterprise\" must have issuer, serverClientId and serverClientSecret")
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
	for name, field := range map[string]*string{
		"issuer": &c.Issuer, "tokenEndpoint": &c.TokenEndpoint, "clientId": &c.ClientID, "clientSecret": &c.ClientSecret, "audience": &c.Audience,
		"serverIssuer": &c.ServerIssuer, "serverClientId": &c.ServerClientID, "serverClientSecret": &c.ServerClientSecret,
	} {
		*field = e.text("credentials "+name, *field)
	}
	return &c, e.err
}
