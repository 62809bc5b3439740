// Package seal encrypts and authenticates texts that a server gives to its clients and
// receives back later, such as the requestState of a call (2026-07-28,
// basic/patterns/mrtr, Server Requirements) and the cursor of a list
// (server/utilities/pagination). It does the same with entries that a server stores.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// KeySize is the minimum length of a key, in bytes.
const KeySize = 32

// Keys seals and opens texts with AES-256-GCM. It is safe for concurrent use.
type Keys struct {
	aeads []cipher.AEAD // Seal uses the first, Open tries all
}

// New returns Keys with the given keys, newest first. Older keys remain valid for
// opening, so that keys can be rotated. Without keys, New generates a random key for this
// process. New does not retain the slices.
func New(keys ...[]byte) (*Keys, error) {
	if len(keys) == 0 {
		random := make([]byte, KeySize)
		rand.Read(random)
		keys = [][]byte{random}
	}
	k := &Keys{}
	for i, key := range keys {
		if len(key) < KeySize {
			return nil, fmt.Errorf("key %d has %d bytes: a key must have at least %d random bytes", i, len(key),
				KeySize)
		}
		derived := sha256.Sum256(append([]byte("parley seal\x00"), key...))
		block, err := aes.NewCipher(derived[:])
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, err
		}
		k.aeads = append(k.aeads, aead)
	}
	return k, nil
}

// Seal encrypts text and returns it in unpadded base64url. Open returns the text only
// for the same purpose.
func (k *Keys) Seal(purpose string, text []byte) string {
	return base64.RawURLEncoding.EncodeToString(k.aeads[0].Seal(nil, nil, text, []byte(purpose)))
}

// ErrInvalid is the error for every sealed text that cannot be opened. It is also the error for a text
// that belongs to another caller, so that nobody learns that the text is valid.
var ErrInvalid = errors.New("sealed by another server, for another caller or for another purpose, or modified")

// Open returns the text that Seal sealed for purpose. The error is ErrInvalid.
func (k *Keys) Open(purpose, sealed string) ([]byte, error) {
	if strings.ContainsAny(sealed, "\r\n") { // the decoder would skip them
		return nil, ErrInvalid
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	if err != nil {
		return nil, ErrInvalid
	}
	text, _, err := k.OpenBytes(purpose, raw)
	return text, err
}

// SealBytes encrypts text as Seal does, without base64url. The result is 28 bytes longer than text.
func (k *Keys) SealBytes(purpose string, text []byte) []byte {
	return k.aeads[0].Seal(nil, nil, text, []byte(purpose))
}

// OpenBytes returns the text that SealBytes sealed for purpose. newest reports whether the first
// key sealed it, rather than an older one. The error is ErrInvalid.
func (k *Keys) OpenBytes(purpose string, sealed []byte) (text []byte, newest bool, err error) {
	for i, aead := range k.aeads {
		if text, err := aead.Open(nil, nil, sealed, []byte(purpose)); err == nil {
			return text, i == 0, nil
		}
	}
	return nil, false, ErrInvalid
}
