package modern

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
)

// Seals makes and opens the state that a server hands to its clients to keep, and
// that comes back from them: unreadable, and of no use once a bit of it has changed
// (2026-07-28, basic/patterns/mrtr, Server Requirements). Safe for concurrent use.
type Seals struct {
	aeads []cipher.AEAD // the first seals, all open
}

// KeySize is the least length of a key, in bytes.
const KeySize = 32

// NewSeals makes seals of keys, the newest first: one that is being retired still
// opens what it has sealed. Without keys a random one is made, which no other
// process has.
func NewSeals(keys ...[]byte) (*Seals, error) {
	if len(keys) == 0 {
		random := make([]byte, KeySize)
		rand.Read(random)
		keys = [][]byte{random}
	}
	s := &Seals{}
	for i, key := range keys {
		if len(key) < KeySize {
			return nil, fmt.Errorf("key %d has %d bytes: at least %d random bytes are needed", i, len(key), KeySize)
		}
		derived := sha256.Sum256(append([]byte("parley requestState\x00"), key...))
		block, err := aes.NewCipher(derived[:])
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, err
		}
		s.aeads = append(s.aeads, aead)
	}
	return s, nil
}

// seal returns text as a sealed string that goes anywhere in JSON.
func (s *Seals) seal(text []byte) string {
	return base64.RawURLEncoding.EncodeToString(s.aeads[0].Seal(nil, nil, text, nil))
}

var errSealBroken = errors.New("it was not made by this server, or has been changed")

// open undoes seal.
func (s *Seals) open(sealed string) ([]byte, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	if err != nil {
		return nil, errSealBroken
	}
	for _, aead := range s.aeads {
		if text, err := aead.Open(nil, nil, raw, nil); err == nil {
			return text, nil
		}
	}
	return nil, errSealBroken
}
