package oauth

import (
	"slices"
	"strings"
)

const offlineAccess = "offline_access"

// split reads a list of scopes as the wire has it. Scopes that are none are left out.
func splitScopes(s string) []string {
	if len(s) > 16<<10 {
		return nil
	}
	return slices.DeleteFunc(strings.Fields(s), func(one string) bool { return !validScopes([]string{one}) })
}

// union is a, and what b has beside.
func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// covers reports whether all of some are in have.
func covers(have, some []string) bool {
	for _, s := range some {
		if !slices.Contains(have, s) {
			return false
		}
	}
	return true
}

// wanted chooses what to ask for (2026-07-28, basic/authorization, Scope Selection
// Strategy): what the challenge names, else what the server lists, else nothing. What
// was asked for before is kept: a server names what the one operation needs, and not
// what others need.
func wanted(challenged, before []string, f *found) []string {
	scopes := challenged
	if len(scopes) == 0 && len(before) == 0 && f.resource != nil {
		scopes = f.resource.ScopesSupported
	}
	scopes = union(before, scopes)
	supported := f.server.ScopesSupported
	if len(supported) == 0 {
		return scopes
	}
	// Refresh tokens are for the authorization server to offer, and not for the
	// resource to want (Refresh Tokens). Alone, the scope would take the place of the
	// server's default ones.
	scopes = slices.DeleteFunc(scopes, func(s string) bool { return s == offlineAccess })
	if len(scopes) > 0 && slices.Contains(supported, offlineAccess) && f.server.grants("refresh_token") {
		scopes = append(scopes, offlineAccess)
	}
	return scopes
}

// grants reports whether a server supports a grant; one that does not say may.
func (m *serverMetadata) grants(grant string) bool {
	return len(m.GrantTypes) == 0 || slices.Contains(m.GrantTypes, grant)
}
