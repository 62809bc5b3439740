package jwt

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"
)

// nonces issues and verifies the nonces of proofs (RFC 9449, section 9). A nonce is its
// time of issue with a message authentication code, so nonces need not be stored.
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

// age returns the age of a nonce, and whether it is authentic and valid.
func (n *nonces) age(nonce string, now time.Time) (time.Duration, bool) {
	data, ok := decodeBase64(nonce)
	if !ok || len(data) != 8+nonceMAC {
		return 0, false
	}
	authentic := false
	for _, key := range n.keys {
		authentic = authentic || hmac.Equal(mac(key, data[:8]), data[8:])
	}
	age := now.Sub(time.Unix(int64(binary.BigEndian.Uint64(data)), 0))
	return age, authentic && age < n.life && age > -n.life // the clock of another replica can be ahead
}

func mac(key, at []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte("parley dpop nonce\x00"))
	h.Write(at)
	return h.Sum(nil)[:nonceMAC]
}
