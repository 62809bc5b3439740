package legacy

import (
	"bytes"
	"encoding/json"
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
		}
		got, err := DecodeState(want.Encode())
		if err != nil || got.Revision != want.Revision || got.Ready != want.Ready || !bytes.Equal(got.Info, want.Info) || !bytes.Equal(got.Capabilities, want.Capabilities) {
			t.Fatalf("%s decodes as %+v, %v", want.Encode(), got, err)
		}
	})
}
