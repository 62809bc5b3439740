package principal

import (
	"errors"
	"fmt"
	"strings"
)

// parse returns the principal for a key. It is the inverse of Key and rejects all other strings.
func parse(key string) (Principal, error) {
	switch key {
	case anonymousKey:
		return Anonymous, nil
	case localKey:
		return Principal{key: localKey}, nil
	}
	rest, ok := strings.CutPrefix(key, userPrefix)
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 4 || parts[3] != "" {
		return Principal{}, fmt.Errorf("principal: key must be %q, %q or start with %q and have 4 segments",
			anonymousKey, localKey, userPrefix)
	}
	var decoded [3]string
	for i := range decoded {
		if decoded[i], ok = unescape(parts[i]); !ok {
			return Principal{}, errors.New("principal: key has an invalid escape")
		}
	}
	p, err := New(decoded[0], decoded[1], decoded[2])
	if err != nil {
		return Principal{}, err
	}
	if p.key != key {
		return Principal{}, errors.New("principal: key is not canonical")
	}
	return p, nil
}

// MarshalText returns the key, so that a principal can be a field of a JSON value. It never fails.
func (p Principal) MarshalText() ([]byte, error) { return []byte(p.Key()), nil }

// UnmarshalText sets p to the principal with a key, as Key returns it. After an error p is unchanged.
func (p *Principal) UnmarshalText(text []byte) error {
	parsed, err := parse(string(text))
	if err != nil {
		return err
	}
	*p = parsed
	return nil
}

const upperHex = "0123456789ABCDEF"

// appendEscaped percent-encodes all characters except the unreserved ones of RFC 3986. This removes
// characters with a special meaning in a store, such as slashes, the braces of Redis Cluster hash tags,
// and wildcards. Parts that consist of dots are escaped, too, for stores that use directories.
func appendEscaped(dst []byte, s string) []byte {
	dots := strings.Trim(s, ".") == ""
	for i := range len(s) {
		if c := s[i]; unreserved(c) && !(c == '.' && dots) {
			dst = append(dst, c)
		} else {
			dst = append(dst, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return dst
}

// unescape also decodes escapes that appendEscaped does not produce. parse compares the keys.
func unescape(s string) (string, bool) {
	if strings.IndexByte(s, '%') < 0 {
		return s, true
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			out = append(out, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		hi, lo := strings.IndexByte(upperHex, s[i+1]), strings.IndexByte(upperHex, s[i+2])
		if hi < 0 || lo < 0 {
			return "", false
		}
		out = append(out, byte(hi<<4|lo))
		i += 2
	}
	return string(out), true
}

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '-' || c == '.' || c == '_' || c == '~'
}
