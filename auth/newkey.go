package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"hash/crc32"
	"strings"
)

// The form of a key: the prefix, 32 random characters (190 bits), and the checksum.
const (
	keyPrefix   = "pk_"
	randomChars = 32
	sumChars    = 6 // 62⁶ exceeds 2³²
	keyChars    = len(keyPrefix) + randomChars + sumChars

	base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// NewKey returns a new random API key. Show it to its user once, and store its [HashKey].
//
// A key matches pk_[0-9A-Za-z]{38}. The last six characters are the CRC-32 (IEEE) of the ones before, in base 62 with
// the digits 0-9A-Za-z, the most significant first. Programs that look for leaked secrets can therefore recognize a key
// without asking a server.
func NewKey() string {
	key := make([]byte, len(keyPrefix), keyChars)
	copy(key, keyPrefix)
	for len(key) < keyChars-sumChars {
		var random [randomChars]byte
		rand.Read(random[:])
		for _, b := range random {
			// Larger bytes, beyond the last multiple of 62, would make some characters more likely.
			if int(b) < 4*len(base62) && len(key) < keyChars-sumChars {
				key = append(key, base62[int(b)%len(base62)])
			}
		}
	}
	return string(key) + checksum(string(key))
}

// checksum returns the last characters of a key.
func checksum(rest string) string {
	sum := crc32.ChecksumIEEE([]byte(rest))
	var digits [sumChars]byte
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = base62[sum%uint32(len(base62))]
		sum /= uint32(len(base62))
	}
	return string(digits[:])
}

// isMistyped reports whether a token begins like an API key but has the wrong length or checksum.
func isMistyped(token string) bool {
	if !strings.HasPrefix(token, keyPrefix) {
		return false
	}
	rest := len(token) - sumChars
	return len(token) != keyChars || checksum(token[:rest]) != token[rest:]
}

// HashKey returns the digest of an API key for [Key]: its SHA-256, in hex.
func HashKey(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}
