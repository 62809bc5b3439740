package oauth

import (
	"net/url"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/internal/challenge"
)

func setScope(form url.Values, scopes []string) {
	if len(scopes) > 0 {
		form.Set("scope", strings.Join(scopes, " "))
	}
}

// splitScopes splits a space-separated list of scopes, and drops invalid ones.
func splitScopes(s string) []string {
	if len(s) > 16<<10 {
		return nil
	}
	return slices.DeleteFunc(strings.Fields(s), func(scope string) bool { return !validScopes([]string{scope}) })
}

// covers reports whether have contains all of the scopes.
func covers(have, scopes []string) bool {
	for _, s := range scopes {
		if !slices.Contains(have, s) {
			return false
		}
	}
	return true
}

// scopesToRequest returns the scopes to request (2026-07-28, basic/authorization, Scope Selection Strategy): the
// challenge decides or, without one, the metadata of the server. It adds the scopes of the previous request, because
// a challenge names only the scopes of one operation. The session asks for more when the server answers
// insufficient_scope; see session.reauthorize.
func scopesToRequest(challenged, previous []string, d *discovery) []string {
	scopes := challenged
	if len(scopes) == 0 && len(previous) == 0 && d.resource != nil {
		scopes = d.resource.ScopesSupported
	}
	scopes = challenge.Union(previous, scopes)
	supported := d.server.ScopesSupported
	if len(supported) == 0 {
		return scopes
	}
	// The authorization server, not the resource, decides about refresh tokens (2026-07-28,
	// basic/authorization, Refresh Tokens). If it were the only scope, offline_access would
	// replace the default scopes.
	scopes = slices.DeleteFunc(scopes, func(s string) bool { return s == offlineAccess })
	if len(scopes) > 0 && slices.Contains(supported, offlineAccess) && d.server.supportsGrant("refresh_token") {
		scopes = append(scopes, offlineAccess)
	}
	return scopes
}

const offlineAccess = "offline_access"
