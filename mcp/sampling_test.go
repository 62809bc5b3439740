package mcp_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/mcp"
)

func TestSamplingMessageHasOneBlockOrSeveral(t *testing.T) {
	for _, c := range []struct {
		content []mcp.Content
		wire    string
	}{
		{[]mcp.Content{mcp.Text("a")}, `{"type":"text","text":"a"}`},
		{[]mcp.Content{mcp.Text("a"), mcp.Text("b")}, `[{"type":"text","text":"a"},{"type":"text","text":"b"}]`},
		{[]mcp.Content{}, `[]`},
	} {
		for _, codec := range codecs {
			message := mcp.SamplingMessage{Role: mcp.RoleUser, Content: c.content}
			raw, err := codec.marshal(message)
			if err != nil {
				t.Fatal(err)
			}
			if want := `{"role":"user","content":` + c.wire + `}`; string(raw) != want {
				t.Errorf("%s: got %s, want %s", codec.name, raw, want)
			}
			var back mcp.SamplingMessage
			if err := codec.unmarshal(raw, &back); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(message, back); diff != "" {
				t.Errorf("%s (-want +got):\n%s", codec.name, diff)
			}

			result := mcp.CreateMessageResult{Role: mcp.RoleAssistant, Content: c.content, Model: "m"}
			raw, err = codec.marshal(result)
			if err != nil {
				t.Fatal(err)
			}
			if want := `{"role":"assistant","content":` + c.wire + `,"model":"m"}`; string(raw) != want {
				t.Errorf("%s: got %s, want %s", codec.name, raw, want)
			}
			var resultBack mcp.CreateMessageResult
			if err := codec.unmarshal(raw, &resultBack); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(result, resultBack); diff != "" {
				t.Errorf("%s (-want +got):\n%s", codec.name, diff)
			}
		}
	}
}

func TestArrayOfOneBlockDecodes(t *testing.T) {
	for _, codec := range codecs {
		var m mcp.SamplingMessage
		if err := codec.unmarshal([]byte(`{"role":"user","content":[{"type":"text","text":"a"}]}`), &m); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]mcp.Content{mcp.Text("a")}, m.Content); diff != "" {
			t.Errorf("%s (-want +got):\n%s", codec.name, diff)
		}
	}
}

func TestSamplingMessageWithoutContentIsRejected(t *testing.T) {
	for _, raw := range []string{`{"role":"user"}`, `{"role":"user","content":null}`, `{"role":"user","content":"a"}`, `{"role":"user","content":[null]}`} {
		for _, codec := range codecs {
			if err := codec.unmarshal([]byte(raw), new(mcp.SamplingMessage)); err == nil {
				t.Errorf("%s: accepted the message %s", codec.name, raw)
			}
			if err := codec.unmarshal([]byte(raw), new(mcp.CreateMessageResult)); err == nil {
				t.Errorf("%s: accepted the result %s", codec.name, raw)
			}
		}
	}
}
