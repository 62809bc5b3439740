// Package digest has the SHA-256 digests that name secrets and long values in caches,
// keys and protocol messages.
package digest

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
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
// digests, even if the concatenations of their parts are equal.
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
