package oauth_test

import (
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"testing"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/internal/must"
)

// Rule O12: the address that a name resolves to is checked when it is dialed. Networks can be allowed.
func TestResolvedAddressesAreChecked(t *testing.T) {
	for _, networks := range [][]netip.Prefix{nil, {netip.MustParsePrefix("127.0.0.0/8"),
		netip.MustParsePrefix("::1/128")}} {
		w := newEnvironment(t)
		c := w.Client()
		c.Networks = networks
		// The address of the MCP server is public; it is not contacted.
		req, _ := http.NewRequest(http.MethodPost, "https://mcp.example/mcp", nil)
		u, _ := url.Parse(w.AS.URL)
		resp := &http.Response{StatusCode: http.StatusUnauthorized, Header: http.Header{
			"Www-Authenticate": {`Bearer resource_metadata="https://localhost:` + u.Port() + `/x"`},
		}}
		_, err := c.Reauthorize(req, "https://mcp.example/mcp", resp)
		must.CheckThat(t, err != nil && errors.Is(err, oauth.ErrForbiddenAddress) == (networks == nil),
			"with networks %v: %v", networks, err)
		must.CheckEqual(t, len(w.Dialed) > 0, networks != nil, networks, "the client dialed", w.Dialed)
		w.Dialed = nil
	}
}

func FuzzSSRFAddr(f *testing.F) {
	for _, seed := range []string{"127.0.0.1", "::ffff:10.1.2.3", "64:ff9b::7f00:1", "2002:a00::", "fe80::1%x",
		"8.8.8.8"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := netip.ParseAddr(text)
		if err != nil || !oauth.IsPublic(a) {
			return
		}
		plain := a.Unmap().WithZone("")
		must.That(t, plain.IsGlobalUnicast() && !plain.IsPrivate() && !plain.IsLoopback() &&
			!plain.IsLinkLocalUnicast(), "%s is public", text)
		// The result for an IPv4 address is the same in all notations.
		if plain.Is4() {
			b := plain.As4()
			for _, wrapped := range []netip.Addr{netip.AddrFrom16(plain.As16()), nat64(b)} {
				must.That(t, oauth.IsPublic(wrapped), "%s is public, and %s is not", plain, wrapped)
			}
		}
	})
}

func nat64(b [4]byte) netip.Addr {
	var a [16]byte
	copy(a[:], []byte{0, 0x64, 0xff, 0x9b})
	copy(a[12:], b[:])
	return netip.AddrFrom16(a)
}
