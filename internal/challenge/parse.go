package challenge

import "strings"

// Limits of one response.
const (
	maxBytes      = 16 << 10 // of all headers together
	maxChallenges = 16
	maxParams     = 32 // of one challenge
)

// Parse parses the values of the WWW-Authenticate headers of a response. A syntax error,
// such as a repeated parameter or a string without its closing quote, ends the header:
// Parse drops the challenge with the error and all later ones in the same header. It
// accepts unquoted values that RFC 9110 requires to be quoted, such as URLs.
func Parse(headers []string) []Challenge {
	var all []Challenge
	size := 0
	for _, h := range headers {
		if size += len(h); size > maxBytes {
			break
		}
		p := parser{rest: h}
		for len(all) < maxChallenges {
			c, ok := p.challenge()
			if !ok {
				break
			}
			all = append(all, c)
		}
	}
	return all
}

// parser reads one header.
type parser struct{ rest string }

// challenge reads the next challenge. It returns false at the end and after an error.
func (p *parser) challenge() (Challenge, bool) {
	p.skip(" \t,")
	scheme := p.token()
	if scheme == "" {
		return Challenge{}, false
	}
	c := Challenge{Scheme: scheme}
	if p.rest != "" && !strings.ContainsRune(" \t,", rune(p.rest[0])) {
		return Challenge{}, false
	}
	p.skip(" \t")
	if t, ok := p.token68(); ok {
		c.Token68 = t
		return c, true
	}
	for {
		before := p.rest
		p.skip(" \t,")
		name := p.token()
		p.skip(" \t")
		if name == "" || !strings.HasPrefix(p.rest, "=") { // the next challenge, or the end
			p.rest = before
			return c, name != "" || strings.Trim(p.rest, " \t,") == ""
		}
		p.rest = p.rest[1:]
		p.skip(" \t")
		value, ok := p.value()
		name = strings.ToLower(name)
		if _, repeated := c.Params[name]; !ok || repeated || len(c.Params) == maxParams {
			p.rest = ""
			return Challenge{}, false
		}
		if c.Params == nil {
			c.Params = make(map[string]string)
		}
		c.Params[name] = value
	}
}

func (p *parser) skip(set string) { p.rest = strings.TrimLeft(p.rest, set) }

func (p *parser) token() string {
	n := 0
	for n < len(p.rest) && isTokenChar(p.rest[n]) {
		n++
	}
	t := p.rest[:n]
	p.rest = p.rest[n:]
	return t
}

// token68 reads a token68 that ends at a comma or at the end of the header. A word
// followed by "=" and a value is the name of a parameter.
func (p *parser) token68() (string, bool) {
	n := 0
	for n < len(p.rest) && isToken68Char(p.rest[n]) {
		n++
	}
	if n == 0 {
		return "", false
	}
	for n < len(p.rest) && p.rest[n] == '=' {
		n++
	}
	after := strings.TrimLeft(p.rest[n:], " \t")
	if after != "" && after[0] != ',' {
		return "", false
	}
	t := p.rest[:n]
	p.rest = p.rest[n:]
	return t, true
}

// value reads the value of a parameter: a quoted string, or the characters up to the
// next space or comma.
func (p *parser) value() (string, bool) {
	if !strings.HasPrefix(p.rest, `"`) {
		n := strings.IndexAny(p.rest, " \t,\"")
		if n < 0 {
			n = len(p.rest)
		}
		v := p.rest[:n]
		p.rest = p.rest[n:]
		return v, v != ""
	}
	var b strings.Builder
	for i := 1; i < len(p.rest); i++ {
		switch c := p.rest[i]; c {
		case '"':
			p.rest = p.rest[i+1:]
			return b.String(), true
		case '\\':
			if i++; i == len(p.rest) {
				return "", false
			}
			b.WriteByte(p.rest[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}

// IsToken68 reports whether text has the token68 syntax of credentials (RFC 9110,
// section 11.2).
func IsToken68(text string) bool {
	text = strings.TrimRight(text, "=")
	for i := range len(text) {
		if !isToken68Char(text[i]) {
			return false
		}
	}
	return text != ""
}

func isToken68Char(c byte) bool {
	return isAlphanumeric(c) || strings.IndexByte("-._~+/", c) >= 0
}

func isTokenChar(c byte) bool {
	return isAlphanumeric(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
