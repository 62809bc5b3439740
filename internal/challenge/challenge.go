// Package challenge reads and writes the challenges of WWW-Authenticate headers, and
// collects the scopes that they name.
package challenge

import (
	"maps"
	"slices"
	"strings"
)

// The authentication schemes of access tokens. Schemes are compared without regard to
// case.
const (
	Bearer = "Bearer" // RFC 6750
	DPoP   = "DPoP"   // RFC 9449
)

// Challenge is one element of a WWW-Authenticate header (RFC 9110, section 11.6.1).
type Challenge struct {
	// Scheme is spelled as the server wrote it. See [Challenge.Is].
	Scheme string
	// Params contains the parameters by name in lower case; nil if there are none.
	Params map[string]string
	// Token68 is the value that some schemes use instead of parameters.
	Token68 string
}

// Is reports whether c uses the given scheme, in any case.
func (c Challenge) Is(scheme string) bool { return strings.EqualFold(c.Scheme, scheme) }

// String returns c as an element of a WWW-Authenticate header. It quotes every value,
// sorts the parameters by name, and drops control characters, which a header cannot
// carry.
func (c Challenge) String() string {
	var b strings.Builder
	b.WriteString(c.Scheme)
	if c.Token68 != "" {
		return b.String() + " " + c.Token68
	}
	for i, name := range slices.Sorted(maps.Keys(c.Params)) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte(' ')
		b.WriteString(name)
		b.WriteString(`="`)
		for _, r := range []byte(c.Params[name]) {
			if r < ' ' && r != '\t' || r == 0x7F {
				continue
			}
			if r == '"' || r == '\\' {
				b.WriteByte('\\')
			}
			b.WriteByte(r)
		}
		b.WriteByte('"')
	}
	return b.String()
}
