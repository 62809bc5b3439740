package auth

import (
	"maps"
	"slices"
	"strings"
)

// Challenge says what a server wants to see before it answers: one element of a
// WWW-Authenticate header (RFC 9110, section 11.6.1).
type Challenge struct {
	// Scheme is as the server wrote it; schemes are compared without regard to case.
	Scheme string
	// Params are the parameters by name, in lower case; nil for none.
	Params map[string]string
	// Token68 is what some schemes have instead of parameters.
	Token68 string
}

// Bounds on what a server can have us parse.
const (
	maxChallengeBytes  = 16 << 10 // of all headers together
	maxChallenges      = 16
	maxChallengeParams = 32 // of one challenge
)

// ParseChallenges reads the values of a response's WWW-Authenticate headers. What
// follows a mistake in one header is dropped with the challenge that has it: a
// repeated parameter is one, and so is a string without its end. Values that hold
// what should have been quoted, as URLs do, are accepted.
func ParseChallenges(headers []string) []Challenge {
	var all []Challenge
	size := 0
	for _, h := range headers {
		if size += len(h); size > maxChallengeBytes {
			break
		}
		s := challengeScanner{rest: h}
		for len(all) < maxChallenges {
			c, ok := s.challenge()
			if !ok {
				break
			}
			all = append(all, c)
		}
	}
	return all
}

// Is reports whether a challenge is of a scheme, in any case.
func (c Challenge) Is(scheme string) bool { return strings.EqualFold(c.Scheme, scheme) }

// String writes a challenge as an element of a WWW-Authenticate header. Every value
// is quoted, and the parameters are in the order of their names. Control characters,
// which no header can carry, are left out.
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

// challengeScanner reads one header from its beginning to its end.
type challengeScanner struct{ rest string }

// challenge reads the next challenge; false at the end and at a mistake.
func (s *challengeScanner) challenge() (Challenge, bool) {
	s.skip(" \t,")
	scheme := s.token()
	if scheme == "" {
		return Challenge{}, false
	}
	c := Challenge{Scheme: scheme}
	if s.rest != "" && !strings.ContainsRune(" \t,", rune(s.rest[0])) {
		return Challenge{}, false
	}
	s.skip(" \t")
	if t, ok := s.token68(); ok {
		c.Token68 = t
		return c, true
	}
	for {
		before := s.rest
		s.skip(" \t,")
		name := s.token()
		s.skip(" \t")
		if name == "" || !strings.HasPrefix(s.rest, "=") { // the next challenge, or the end
			s.rest = before
			return c, name != "" || strings.Trim(s.rest, " \t,") == ""
		}
		s.rest = s.rest[1:]
		s.skip(" \t")
		value, ok := s.value()
		name = strings.ToLower(name)
		if _, repeated := c.Params[name]; !ok || repeated || len(c.Params) == maxChallengeParams {
			s.rest = ""
			return Challenge{}, false
		}
		if c.Params == nil {
			c.Params = make(map[string]string)
		}
		c.Params[name] = value
	}
}

func (s *challengeScanner) skip(set string) { s.rest = strings.TrimLeft(s.rest, set) }

func (s *challengeScanner) token() string {
	n := 0
	for n < len(s.rest) && isTokenChar(s.rest[n]) {
		n++
	}
	t := s.rest[:n]
	s.rest = s.rest[n:]
	return t
}

// token68 reads what stands alone between the scheme and the next comma. A word that
// is followed by an equals sign and something more is a parameter's name.
func (s *challengeScanner) token68() (string, bool) {
	n := 0
	for n < len(s.rest) && (isAlphanumeric(s.rest[n]) || strings.IndexByte("-._~+/", s.rest[n]) >= 0) {
		n++
	}
	if n == 0 {
		return "", false
	}
	for n < len(s.rest) && s.rest[n] == '=' {
		n++
	}
	after := strings.TrimLeft(s.rest[n:], " \t")
	if after != "" && after[0] != ',' {
		return "", false
	}
	t := s.rest[:n]
	s.rest = s.rest[n:]
	return t, true
}

func (s *challengeScanner) value() (string, bool) {
	if !strings.HasPrefix(s.rest, `"`) {
		n := strings.IndexAny(s.rest, " \t,\"")
		if n < 0 {
			n = len(s.rest)
		}
		v := s.rest[:n]
		s.rest = s.rest[n:]
		return v, v != ""
	}
	var b strings.Builder
	for i := 1; i < len(s.rest); i++ {
		switch c := s.rest[i]; c {
		case '"':
			s.rest = s.rest[i+1:]
			return b.String(), true
		case '\\':
			if i++; i == len(s.rest) {
				return "", false
			}
			b.WriteByte(s.rest[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func isTokenChar(c byte) bool {
	return isAlphanumeric(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}
