package principal

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxPart is the maximum length of an issuer, a subject or a client, in bytes.
const maxPart = 1024

var (
	// Anonymous is the principal of all callers who are not authenticated, and the zero value. Only
	// the secrecy of its id protects data of Anonymous, so such data must never be listed.
	Anonymous = Principal{}

	// Local is the principal of the caller at the other end of this process's standard streams or in
	// its memory. New never returns it, so no token can identify it.
	Local = Principal{key: localKey}
)

const (
	anonymousKey = "anonymous/"
	localKey     = "local/"
	userPrefix   = "user/"
)

// Principal identifies a caller. The zero value is [Anonymous]. It is immutable, comparable with ==
// and safe for concurrent use.
type Principal struct {
	// key is the canonical key, or empty for Anonymous. It is the only field, so that two principals
	// are equal if and only if their keys are.
	key string
}

// New returns the principal of a subject of an issuer that acts through a client. An empty client means that the client
// is unknown. Issuer and subject are compared byte for byte, without case folding or normalization, as in RFC 8414 and
// OpenID Connect. For callers without an issuer, such as users of API keys, choose any text as the issuer, and always
// use the same.
//
// Each part must be valid UTF-8 without control characters, at most 1,024 bytes long. Errors do not
// contain the rejected value.
func New(issuer, subject, client string) (Principal, error) {
	if issuer == "" {
		return Principal{}, errors.New("principal: issuer is empty")
	}
	if subject == "" {
		return Principal{}, errors.New("principal: subject is empty")
	}
	for _, part := range [...]struct{ name, value string }{
		{"issuer", issuer}, {"subject", subject}, {"client", client},
	} {
		if err := checkPart(part.name, part.value); err != nil {
			return Principal{}, err
		}
	}
	key := make([]byte, 0, len(userPrefix)+len(issuer)+len(subject)+len(client)+16)
	key = append(key, userPrefix...)
	key = append(appendEscaped(key, issuer), '/')
	key = append(appendEscaped(key, subject), '/')
	key = append(appendEscaped(key, client), '/')
	return Principal{key: string(key)}, nil
}

func checkPart(name, value string) error {
	if len(value) > maxPart {
		return fmt.Errorf("principal: %s is too long: %d bytes, the limit is %d", name, len(value), maxPart)
	}
	if !utf8.ValidString(value) {
		return fmt.Errorf("principal: %s must be valid UTF-8", name)
	}
	if strings.IndexFunc(value, unicode.IsControl) >= 0 {
		return fmt.Errorf("principal: %s must not contain control characters", name)
	}
	return nil
}

// Issuer returns the issuer. It is empty for [Anonymous] and [Local].
func (p Principal) Issuer() string { return p.part(0) }

// Subject returns the subject. It is empty for [Anonymous] and [Local].
func (p Principal) Subject() string { return p.part(1) }

// Client returns the client that acts for the subject. It is empty if the client is unknown.
func (p Principal) Client() string { return p.part(2) }

func (p Principal) part(n int) string {
	rest, ok := strings.CutPrefix(p.key, userPrefix)
	if !ok {
		return ""
	}
	for ; n > 0; n-- {
		_, rest, _ = strings.Cut(rest, "/")
	}
	escaped, _, _ := strings.Cut(rest, "/")
	part, _ := unescape(escaped)
	return part
}

// Key returns the canonical key of the principal, the prefix of its keys in stores. Different principals
// have different keys, and no key is a prefix of another. So p.Key()+s cannot be a key of another
// principal for any s. A key ends with a slash and consists of ASCII letters, digits and "-._~%/". No
// segment is "." or "..". Key does not allocate.
func (p Principal) Key() string {
	if p.key == "" {
		return anonymousKey
	}
	return p.key
}

// String returns a description for logs and display, such as "ada at https://as.example through editor".
// It quotes parts that could be misread. It is not canonical; use [Principal.Key] to identify a
// principal.
func (p Principal) String() string {
	switch p.key {
	case "":
		return "anonymous"
	case localKey:
		return "local"
	}
	s := plain(p.Subject()) + " at " + plain(p.Issuer())
	if client := p.Client(); client != "" {
		s += " through " + plain(client)
	}
	return s
}

// plain quotes s if it contains spaces, quotes, unprintable or non-ASCII characters.
func plain(s string) string {
	for _, r := range s {
		if r >= utf8.RuneSelf || r == '"' || r == '`' || !unicode.IsPrint(r) || unicode.IsSpace(r) {
			return strconv.QuoteToASCII(s)
		}
	}
	return s
}
