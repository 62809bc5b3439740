package seal_test

import (
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/seal"
)

func key(c string) []byte { return []byte(strings.Repeat(c, seal.KeySize)) }

func keys(t testing.TB, all ...[]byte) *seal.Keys {
	t.Helper()
	k := must.Get(seal.New(all...))(t)
	return k
}

// Rules M1, J18.
func TestOpenRejectsEveryChangedBit(t *testing.T) {
	k := keys(t, key("k"))
	sealed := k.Seal("p", []byte("the text"))
	for i := range sealed {
		for bit := range 8 {
			changed := []byte(sealed)
			changed[i] ^= 1 << bit
			must.Is(t, must.Err(k.Open("p", string(changed))), seal.ErrInvalid, i, bit)
		}
		for _, inserted := range []string{"\n", "\r", " ", "A", "="} {
			must.Is(t, must.Err(k.Open("p", sealed[:i]+inserted+sealed[i:])), seal.ErrInvalid, inserted, i)
		}
		must.Is(t, must.Err(k.Open("p", sealed[:i])), seal.ErrInvalid, i)
	}
}

func TestOpenRejectsAnotherPurpose(t *testing.T) {
	k := keys(t)
	must.CheckIs(t, must.Err(k.Open("tools/list", k.Seal("prompts/list", []byte("x")))), seal.ErrInvalid)
}

func TestOpenAcceptsOlderKeys(t *testing.T) {
	old := keys(t, key("o"))
	sealed := old.Seal("p", []byte("text"))
	must.CheckEqual(t, string(must.Get(keys(t, key("n"), key("o")).Open("p", sealed))(t)), "text")
	must.CheckIs(t, must.Err(keys(t, key("n")).Open("p", sealed)), seal.ErrInvalid, "without the key")
}

func TestNewRejectsShortKeys(t *testing.T) {
	must.CheckFails(t, must.Err(seal.New(key("k"), []byte("short"))), "key 1 has 5 bytes")
}

// Open must return the sealed text, and reject every other text.
func FuzzSeal(f *testing.F) {
	f.Add([]byte("text"), "p", "q", []byte{0})
	f.Fuzz(func(t *testing.T, text []byte, purpose, other string, flip []byte) {
		k := keys(t, key("k"))
		sealed := k.Seal(purpose, text)
		must.Equal(t, string(must.Get(k.Open(purpose, sealed))(t)), string(text))
		if other != purpose {
			_, err := k.Open(other, sealed)
			must.That(t, err != nil, "opened for another purpose")
		}
		changed := []byte(sealed)
		for i, b := range flip {
			changed[i%len(changed)] ^= b
		}
		if string(changed) == sealed {
			return
		}
		_, err := k.Open(purpose, string(changed))
		must.That(t, err != nil, "Open accepts %q, a changed form of %q", changed, sealed)
	})
}
