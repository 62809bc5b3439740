package revision

import (
	"bytes"
	"encoding/base64"
	"math/rand/v2"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
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
			must.CheckEqual(t, string(got), string(want), n)
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

func TestRelatedTaskIsAddedToTheMetadata(t *testing.T) {
	const related = `"io.modelcontextprotocol/related-task":{"taskId":"t\"1"}`
	for object, want := range map[string]string{
		``:                            `{"_meta":{` + related + `}}`,
		`{}`:                          `{"_meta":{` + related + `}}`,
		`{"a":1e2,"b":[{}]}`:          `{"_meta":{` + related + `},"a":1e2,"b":[{}]}`,
		`{"_meta":{"x":{}},"a":null}`: `{"_meta":{` + related + `,"x":{}},"a":null}`,
		`{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"other"}}}`: `{"_meta":{` + related + `}}`,
		`{"_meta":7,"\u0061":1}`: `{"_meta":{` + related + `},"a":1}`,
	} {
		got := WithRelatedTask([]byte(object), `t"1`)
		must.CheckThat(t, string(got) == want && jsonrpc.Check(got, jsonrpc.Limits{}) == nil,
			"%s: %s, want %s", object, got, want)
		must.CheckEqual(t, string(RelatedTask(got)), `{"taskId":"t\"1"}`, object)
	}
	for _, object := range []string{``, `{}`, `{"_meta":{}}`, `{"_meta":[]}`} {
		r := RelatedTask([]byte(object))
		must.CheckThat(t, r == nil, "%s: related task %s, want none", object, r)
	}
}
