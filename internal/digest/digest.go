// Package digest computes SHA-256 digests, which stand for secrets and long values in caches, keys and protocol
// messages, and the canonical form of JSON values for digests.
package digest

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Len is the length of the digests that this package returns.
const Len = (sha256.Size*8 + 5) / 6

// Of returns the SHA-256 digest of text in base64url without padding, as RFC 7636
// (code_challenge) and RFC 9449 (ath) encode it.
func Of(text string) string {
	sum := sha256.Sum256([]byte(text))
	var encoded [Len]byte
	base64.RawURLEncoding.Encode(encoded[:], sum[:])
	return string(encoded[:])
}

// Join returns a digest of parts, in the encoding of [Of]. Different lists of parts have different
// digests, even if their concatenations are equal.
func Join(parts ...[]byte) string {
	h := sha256.New()
	var length []byte
	for _, p := range parts {
		length = append(strconv.AppendInt(length[:0], int64(len(p)), 10), ':')
		h.Write(length)
		h.Write(p)
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// Canonical returns a JSON value in a canonical form: values that differ only in white space, the order of keys or the
// escapes in strings have the same form. It keeps the digits of numbers: 9007199254740993 is not 9007199254740992. The
// result does not share memory with raw.
func Canonical(raw []byte) ([]byte, error) {
	if raw == nil {
		return nil, nil
	}
	value := jsontext.Value(bytes.Clone(raw))
	err := value.Format(jsontext.ReorderRawObjects(true), jsontext.PreserveRawStrings(false),
		jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	return value, err
}
