package seal_test

import (
	"bytes"
	"errors"
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
			if text, err := k.Open("p", string(changed)); !errors.Is(err, seal.ErrInvalid) {
				t.Fatalf("byte %d, bit %d: opened as %q, %v", i, bit, text, err)
			}
		}
		for _, inserted := range []string{"\n", "\r", " ", "A", "="} {
			if _, err := k.Open("p", sealed[:i]+inserted+sealed[i:]); !errors.Is(err, seal.ErrInvalid) {
				t.Fatalf("%q before byte %d: %v", inserted, i, err)
			}
		}
		if _, err := k.Open("p", sealed[:i]); !errors.Is(err, seal.ErrInvalid) {
			t.Fatalf("cut to %d bytes: %v", i, err)
		}
	}
}

func TestOpenRejectsAnotherPurpose(t *testing.T) {
	k := keys(t)
	if _, err := k.Open("tools/list", k.Seal("prompts/list", []byte("x"))); !errors.Is(err, seal.ErrInvalid) {
		t.Errorf("opened for another purpose: %v", err)
	}
}

func TestOpenAcceptsOlderKeys(t *testing.T) {
	old := keys(t, key("o"))
	sealed := old.Seal("p", []byte("text"))
	if text, err := keys(t, key("n"), key("o")).Open("p", sealed); err != nil || !bytes.Equal(text, []byte("text")) {
		t.Errorf("with a newer key first: %q, %v", text, err)
	}
	if _, err := keys(t, key("n")).Open("p", sealed); !errors.Is(err, seal.ErrInvalid) {
		t.Errorf("without the key: %v", err)
	}
}

func TestNewRejectsShortKeys(t *testing.T) {
	if _, err := seal.New(key("k"), []byte("short")); err == nil ||
		!strings.Contains(err.Error(), "key 1 has 5 bytes") {
		t.Errorf("error %v", err)
	}
}

// Open must return the sealed text, and reject every other text.
func FuzzSeal(f *testing.F) {
	f.Add([]byte("text"), "p", "q", []byte{0})
	f.Fuzz(func(t *testing.T, text []byte, purpose, other string, flip []byte) {
		k := keys(t, key("k"))
		sealed := k.Seal(purpose, text)
		if opened, err := k.Open(purpose, sealed); err != nil || !bytes.Equal(opened, text) {
			t.Fatalf("opened as %q, %v", opened, err)
		}
		if other != purpose {
			if _, err := k.Open(other, sealed); err == nil {
				t.Fatal("opened for another purpose")
			}
		}
		changed := []byte(sealed)
		for i, b := range flip {
			changed[i%len(changed)] ^= b
		}
		if string(changed) == sealed {
			return
		}
		if _, err := k.Open(purpose, string(changed)); err == nil {
			t.Fatalf("Open accepts %q, a changed form of %q", changed, sealed)
		}
	})
}
