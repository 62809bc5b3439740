package endpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/principal"
)

// callers are the settings of --auth for callers who have no tokens of an issuer: API keys, and the users of a proxy.
type callers struct {
	keys   string // file; empty for none
	users  []string
	header string         // in which a proxy names its user; empty for none
	groups string         // header with the groups of the user; may be empty
	from   []netip.Prefix // addresses of the proxy
}

// none reports whether all settings are about tokens.
func (c *callers) none() bool {
	return c.keys == "" && c.header == "" && c.groups == "" && c.from == nil
}

// headerName returns a header in its canonical form. A header that has secrets is not one with a name.
func headerName(name string) (string, error) {
	canonical := http.CanonicalHeaderKey(name)
	if strings.ContainsFunc(name, func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) || slices.Contains([]string{"Authorization", "Cookie", "Host", "Forwarded", "X-Forwarded-For"}, canonical) {
		return "", fmt.Errorf("%q must be the name of the header that names the user, such as X-Forwarded-User", name)
	}
	return canonical, nil
}

// networkOf reads an address or a network.
func networkOf(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if address, only := netip.ParseAddr(text); only == nil && address.Zone() == "" {
		prefix, err = netip.PrefixFrom(address, address.BitLen()), nil
	}
	switch {
	case err != nil:
		return prefix, fmt.Errorf("%q must be an address or a network, such as 10.0.0.7 or 10.0.0.0/24", text)
	case prefix.Bits() == 0:
		return prefix, fmt.Errorf("%q contains every address, so any client could claim to be any user; name the "+
			"addresses of the proxy", text)
	}
	if address := prefix.Addr(); address.Is4In6() && prefix.Bits() >= 96 {
		prefix = netip.PrefixFrom(address.Unmap(), prefix.Bits()-96)
	}
	return prefix.Masked(), nil
}

// check validates the settings together with those for tokens.
func (c *callers) check(f *AuthFlag) error {
	switch {
	case f.dpop && c.keys != "":
		return errors.New("API keys cannot be bound to a key of the client; remove --auth dpop or --auth keys")
	case c.header == "" && (c.groups != "" || len(c.from) > 0):
		return errors.New("--auth proxy-groups and --auth proxy-from require --auth proxy=HEADER, the header in " +
			"which the proxy names its user")
	case c.header != "" && len(c.from) == 0:
		return fmt.Errorf("--auth proxy=%s requires --auth proxy-from=ADDRESS: any client could send the header "+
			"otherwise", c.header)
	case c.header != "" && c.header == c.groups:
		return errors.New("--auth proxy and --auth proxy-groups must name different headers")
	case c.header != "" && len(f.Scopes) > 0:
		return errors.New("the users of a proxy have no scopes, so all their requests would be rejected; remove " +
			"--auth scope, and limit them by their groups in the policy")
	}
	return nil
}

// verifier returns the verifier of API keys, and of other tokens. Without keys and other tokens it rejects all.
func (c *callers) verifier(next auth.Verifier, logger *slog.Logger) auth.Verifier {
	if c.keys == "" && next != nil {
		return next
	}
	return &auth.Keys{File: c.keys, Next: next, Logger: logger}
}

// handler puts the user of the proxy into the context of each request of the proxy. Other requests lose the header. If
// resource verifies no tokens, they are rejected.
func (c *callers) handler(next http.Handler, resource *auth.ProtectedResource, tokens bool) http.Handler {
	if c.header == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reject := func(status int, reason string) {
			if resource.OnReject != nil {
				resource.OnReject(r, nil, &auth.Rejection{Status: status, Reason: reason})
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = w.Write(jsonrpc.AppendError(nil, jsonrpc.ID{},
				&jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: reason}, false))
		}
		names := r.Header[c.header]
		switch trusted := c.isProxy(r.RemoteAddr); {
		case !trusted && !tokens:
			reject(http.StatusForbidden, "requests must come from the proxy, which logs users in: this address is not "+
				"one of --auth proxy-from")
			return
		case !trusted:
			r = r.Clone(r.Context())
			delete(r.Header, c.header)
			delete(r.Header, c.groups)
		case len(names) == 0 && !tokens && r.Method != http.MethodOptions: // a preflight request has no credentials
			reject(http.StatusForbidden, "the request of the proxy does not name its user in the header "+c.header)
			return
		case len(names) > 0:
			info, err := c.user(r.Header)
			if err != nil {
				reject(http.StatusBadRequest, "the header "+c.header+" of the proxy must have the name of one user")
				return
			}
			r = r.WithContext(auth.NewContext(r.Context(), info))
		}
		next.ServeHTTP(w, r)
	})
}

// isProxy reports whether a connection is one of the proxy.
func (c *callers) isProxy(remote string) bool {
	at, err := netip.ParseAddrPort(remote)
	return err == nil && slices.ContainsFunc(c.from, func(p netip.Prefix) bool {
		return p.Contains(at.Addr().Unmap().WithZone(""))
	})
}

// user returns the user whom the headers of a proxy name. A header that occurs twice may be the proxy's and one of its
// client.
func (c *callers) user(h http.Header) (*auth.Info, error) {
	if len(h[c.header]) != 1 || len(h[c.groups]) > 1 {
		return nil, errors.New("the header is repeated")
	}
	name := h[c.header][0]
	who, err := principal.New("proxy", name, "")
	if err != nil {
		return nil, err
	}
	groups := []string{}
	for group := range strings.SplitSeq(h.Get(c.groups), ",") {
		if group = strings.TrimSpace(group); group != "" {
			groups = append(groups, group)
		}
	}
	claims, err := json.Marshal(map[string]any{"sub": name, "groups": groups})
	return &auth.Info{Principal: who, Claims: claims}, err
}
