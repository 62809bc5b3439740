package legacy

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/parley-mcp/parley/mcp"
)

func TestStateSurvivesTheStore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		object := func(name string) []byte {
			raw, err := json.Marshal(rapid.MapOfN(rapid.String(), rapid.String(), 0, 3).Draw(t, name))
			if err != nil {
				t.Fatal(err)
			}
			return raw
		}
		want := State{
			Revision:     rapid.SampledFrom(mcp.Revisions()).Draw(t, "revision"),
			Info:         object("info"),
			Capabilities: object("capabilities"),
			Ready:        rapid.Bool().Draw(t, "ready"),
			Subscribed:   rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "subscribed"),
		}
		for _, number := range rapid.SliceOfNDistinct(rapid.IntRange(0, maxBuckets-1), 0, maxBuckets, rapid.ID).Draw(t, "buckets") {
			uris := rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "uris")
			b := bucket{number: number, change: rapid.IntRange(1, 1<<40).Draw(t, "change"), uris: uris}
			want.Index.set(b)
			got, err := decodeBucket(b.encode())
			if err != nil || got.change != b.change || !slices.Equal(got.uris, b.uris) {
				t.Fatalf("%s decodes as %+v, %v", b.encode(), got, err)
			}
		}
		got, err := DecodeState(want.Encode())
		if err != nil || got.Revision != want.Revision || got.Ready != want.Ready || !bytes.Equal(got.Info, want.Info) || !bytes.Equal(got.Capabilities, want.Capabilities) ||
			!slices.Equal(got.Subscribed, want.Subscribed) || !reflect.DeepEqual(got.Index, want.Index) {
			t.Fatalf("%s decodes as %+v, %v", want.Encode(), got, err)
		}
	})
}
