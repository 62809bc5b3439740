// Package seal makes texts that a server hands to its clients to keep and that come
// back from them: unreadable, and of no use once a bit of them has changed. It is what
// the state of calls that wait for input (2026-07-28, basic/patterns/mrtr, Server
// Requirements) and the cursors of lists (server/utilities/pagination) are made with.
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

// KeySize is the least length of a key, in bytes.
const KeySize = 32

// Keys seal and open. They are safe for concurrent use.
type Keys struct {
	aeads []cipher.AEAD // the first seals, all open
}

// New takes keys, the newest first: one that is being retired still opens what it has
// sealed. Without keys a random one is made, which no other process has. It keeps
// nothing of the slices.
func New(keys ...[]byte) (*Keys, error) {
	if len(keys) == 0 {
		random := make([]byte, KeySize)
		rand.Read(random)
		keys = [][]byte{random}
	}
	k := &Keys{}
	for i, key := range keys {
		if len(key) < KeySize {
			return nil, fmt.Errorf("key %d has %d bytes: at least %d random bytes are needed", i, len(key), KeySize)
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

// Seal returns text as a string that goes anywhere in JSON. What is sealed for one
// purpose opens for no other.
func (k *Keys) Seal(purpose string, text []byte) string {
	return base64.RawURLEncoding.EncodeToString(k.aeads[0].Seal(nil, nil, text, []byte(purpose)))
}

// ErrBroken is the error of everything that does not open, whatever the reason is.
var ErrBroken = errors.New("it was not made by this server for this purpose, or has been changed")

// Open undoes Seal.
func (k *Keys) Open(purpose, sealed string) ([]byte, error) {
	if strings.ContainsAny(sealed, "\r\n") { // which the decoder would pass over
		return nil, ErrBroken
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	if err != nil {
		return nil, ErrBroken
	}
	for _, aead := range k.aeads {
		if text, err := aead.Open(nil, nil, raw, []byte(purpose)); err == nil {
			return text, nil
		}
	}
	return nil, ErrBroken
}
