package endpoint

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/introspection"
	"github.com/parley-mcp/parley/auth/jwt"
)

// tokenFlags are the settings of --auth for the tokens that authorization servers issue.
type tokenFlags struct {
	profile    string
	audiences  []string
	types      []string
	clients    []string
	scopesFrom string
	introspect string
}

// Profiles with rules that are not those of a token alone.
const (
	profileEntra  = "entra"
	profileGoogle = "google"
)

// given reports whether there is a setting.
func (f *tokenFlags) given() bool {
	return f.profile != "" || f.audiences != nil || f.types != nil || f.clients != nil || f.scopesFrom != "" ||
		f.introspect != ""
}

// check validates the combination of settings.
func (f *tokenFlags) check(a *AuthFlag) error {
	asks := f.introspect != "" || f.profile == profileGoogle
	switch {
	case a.Dev && (f.profile != "" || f.types != nil || f.audiences != nil || f.scopesFrom != "" || f.introspect != ""):
		return errors.New("--auth dev starts an issuer whose tokens need no other setting; remove profile, audience, " +
			"type, scopes-from and introspect, or name an issuer with --auth issuer=URL")
	case asks && len(a.issuers) > 1:
		return errors.New("--auth introspect works with one issuer only; remove the other --auth issuer=URL")
	case asks && f.types != nil:
		return errors.New("--auth type is for JSON Web Tokens, which the server verifies itself; remove it, or " +
			"introspect")
	case f.profile == profileGoogle && f.audiences == nil:
		return errors.New("access tokens of Google have the ID of their client as the audience; add " +
			"--auth audience=ID with each client that may use this server")
	case f.introspect != "" && f.profile != "" && f.profile != profileGoogle:
		return fmt.Errorf("with --auth introspect, the issuer decides which tokens are access tokens; remove "+
			"--auth profile=%s", f.profile)
	}
	return nil
}

// apply sets how r verifies tokens. The tokens of a development issuer need no setting.
func (f *tokenFlags) apply(r *auth.ProtectedResource, a *AuthFlag) {
	r.Audiences, r.Clients = f.audiences, f.clients
	switch {
	case f.introspect != "" || f.profile == profileGoogle:
		r.Verifier = &introspection.Verifier{
			Endpoint: f.introspect, Issuer: r.Issuers[0], ClientID: a.ClientID, ClientSecret: a.ClientSecret,
			ScopesFrom: f.scopesFrom, TokenInfo: f.profile == profileGoogle,
		}
	case !a.Dev:
		types := f.types
		if types != nil { // in addition to the type that every profile accepts
			types = append(slices.Clone(types), "at+jwt")
		}
		r.Verifier = &jwt.Verifier{Issuers: r.Issuers, Profile: f.profile, Types: types, ScopesFrom: f.scopesFrom}
	}
	if f.profile == profileEntra {
		r.Implies = impliesEntra
	}
}

// impliesEntra reports whether a scope of a token of Microsoft Entra ID is the needed one. Clients request scopes with
// an application ID URI of the server, such as api://mcp/tools or https://mcp.example.com/mcp/tools. The token has only
// the last part: its audience is the rest.
func impliesEntra(granted, needed string) bool {
	return (strings.HasPrefix(needed, "api://") || strings.HasPrefix(needed, "https://")) &&
		needed[strings.LastIndexByte(needed, '/')+1:] == granted
}
