package revision

import (
	"bytes"
	"encoding/base64"
	"math/rand/v2"
	"testing"
)

func TestAppendBase64EqualsThePackage(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for size := range 32 {
		for _, n := range []int{size, smallBlob + size} {
			src := make([]byte, n)
			for i := range src {
				src[i] = byte(random.Uint32())
			}
			got, want := appendBase64([]byte("x"), src), base64.StdEncoding.AppendEncode([]byte("x"), src)
			if !bytes.Equal(got, want) {
				t.Errorf("%d bytes: got %s, want %s", n, got, want)
			}
		}
	}
}

func BenchmarkAppendBase64(b *testing.B) {
	src := bytes.Repeat([]byte("\x00\xff\x80"), 1<<20/3)
	for name, encode := range map[string]func(dst, src []byte) []byte{
		"ours": appendBase64, "package": base64.StdEncoding.AppendEncode,
	} {
		b.Run(name, func(b *testing.B) {
			var dst []byte
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				dst = encode(dst[:0], src)
			}
		})
	}
}
