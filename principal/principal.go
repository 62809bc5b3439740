package principal

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxPart bounds each of issuer, subject and client, in bytes.
const MaxPart = 1024

var (
	// ErrInvalid is what every error of [New] and [Parse] wraps.
	ErrInvalid = errors.New("principal: invalid")

	// Anonymous is nobody in particular, the zero value. All anonymous callers share it: state kept
	// for Anonymous is guarded by the secrecy of its id alone and must never be listed.
	Anonymous = Principal{}

	// Local is who speaks over this process's standard streams or in its memory. No token names it:
	// New cannot make it.
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
	// key is the canonical key, or empty for Anonymous. It is the whole identity, so that == on
	// principals and equality of keys are one and the same, and Key costs nothing.
	key string
}

// New returns the principal for a subject that an issuer vouches for, acting through client. The
// client may be empty when it is not known. Issuer and subject are compared byte for byte, as
// RFC 8414 and OpenID Connect compare them: no case folding, no normalization.
//
// Each part is at most [MaxPart] bytes of valid UTF-8 without control characters. Errors wrap
// [ErrInvalid] and do not repeat the rejected value.
func New(issuer, subject, client string) (Principal, error) {
	if issuer == "" {
		return Principal{}, fmt.Errorf("%w: issuer is empty", ErrInvalid)
	}
	if subject == "" {
		return Principal{}, fmt.Errorf("%w: subject is empty", ErrInvalid)
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
	if len(value) > MaxPart {
		return fmt.Errorf("%w: %s is longer than %d bytes", ErrInvalid, name, MaxPart)
	}
	if !utf8.ValidString(value) {
		return fmt.Errorf("%w: %s is not valid UTF-8", ErrInvalid, name)
	}
	if strings.IndexFunc(value, unicode.IsControl) >= 0 {
		return fmt.Errorf("%w: %s contains a control character", ErrInvalid, name)
	}
	return nil
}

// IsAnonymous reports whether nobody has been authenticated.
func (p Principal) IsAnonymous() bool { return p.key == "" }

// Issuer returns who vouches for the subject, empty for [Anonymous] and [Local].
func (p Principal) Issuer() string { return p.part(0) }

// Subject returns the caller's name within its issuer, empty for [Anonymous] and [Local].
func (p Principal) Subject() string { return p.part(1) }

// Client returns the client that acts for the subject, empty if it is not known.
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

// Key returns the canonical name of the principal, to be put in front of store keys. It never
// allocates. Different principals have different keys and no key is a prefix of another's, so that
// p.Key()+rest names nothing of anybody else, whatever rest is. A key ends in a slash and consists of
// letters, digits and "-._~%/"; none of its segments is "." or "..".
func (p Principal) Key() string {
	if p.key == "" {
		return anonymousKey
	}
	return p.key
}

// String describes the principal for people and logs, with everything quoted that is not plain. It
// holds no secret. It is not canonical; see [Principal.Key] for that.
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

// plain quotes s unless it can be mistaken for nothing else.
func plain(s string) string {
	for _, r := range s {
		if r >= utf8.RuneSelf || r == '"' || r == '`' || !unicode.IsPrint(r) || unicode.IsSpace(r) {
			return strconv.QuoteToASCII(s)
		}
	}
	return s
}
