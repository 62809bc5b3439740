package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"
)

// nonces are what proofs have to carry where the server wants them fresh (RFC 9449,
// section 9). A nonce is its time of issue and a code that only who has the key can
// make, so that nothing is kept of those that are issued.
type nonces struct {
	keys [][]byte // the newest first
	life time.Duration
}

const (
	nonceLife = 5 * time.Minute
	nonceMAC  = 16 // bytes
)

func newNonces(keys [][]byte) *nonces {
	if len(keys) == 0 {
		key := make([]byte, 32)
		rand.Read(key)
		keys = [][]byte{key}
	}
	return &nonces{keys, nonceLife}
}

func (n *nonces) issue(now time.Time) string {
	at := binary.BigEndian.AppendUint64(nil, uint64(now.Unix()))
	return base64.RawURLEncoding.EncodeToString(append(at, mac(n.keys[0], at)...))
}

// age returns how old a nonce is that is one of ours and not too old.
func (n *nonces) age(nonce string, now time.Time) (time.Duration, bool) {
	data, ok := decodeBase64(nonce)
	if !ok || len(data) != 8+nonceMAC {
		return 0, false
	}
	genuine := false
	for _, key := range n.keys {
		genuine = genuine || hmac.Equal(mac(key, data[:8]), data[8:])
	}
	age := now.Sub(time.Unix(int64(binary.BigEndian.Uint64(data)), 0))
	return age, genuine && age < n.life && age > -n.life // of a replica whose clock is ahead
}

func mac(key, at []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte("parley dpop nonce\x00"))
	h.Write(at)
	return h.Sum(nil)[:nonceMAC]
}
