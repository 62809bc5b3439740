package spec_test

import (
	"path"
	"testing"

	"github.com/parley-mcp/parley/internal/spec"
	"github.com/parley-mcp/parley/mcp"
)

func TestEverySchemaHasDefinitions(t *testing.T) {
	for rev, want := range map[mcp.Revision]int{
		mcp.V20241105: 79, mcp.V20250326: 83, mcp.V20250618: 91, mcp.V20251125: 145, mcp.V20260728: 155, spec.Tasks: 76,
	} {
		if n := len(spec.Definitions(rev)); n != want {
			t.Errorf("%s has %d definitions, want %d", rev, n, want)
		}
	}
}

func TestPublishedExamplesAreValid(t *testing.T) {
	n := 0
	for name, raw := range spec.Examples(mcp.V20260728) {
		n++
		if err := spec.Validate(mcp.V20260728, path.Dir(name), raw); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n < 100 {
		t.Errorf("found %d examples, want more than 100", n)
	}
}

func TestRevisionsWithoutExamplesYieldNone(t *testing.T) {
	for name := range spec.Examples(mcp.V20241105) {
		t.Errorf("unexpected example %s", name)
	}
}

func TestValidateRejects(t *testing.T) {
	for _, c := range []struct {
		why        string
		rev        mcp.Revision
		definition string
		raw        string
	}{
		{"an unknown definition", mcp.V20241105, "AudioContent", `{"type":"audio","data":"","mimeType":"audio/wav"}`},
		{"a missing member", mcp.V20260728, "TextContent", `{"type":"text"}`},
		{"a member of the wrong type", mcp.V20260728, "TextContent", `{"type":"text","text":1}`},
		{"a duplicate name", mcp.V20260728, "TextContent", `{"type":"text","text":"a","text":"b"}`},
		{"a duplicate name in different escapes", mcp.V20260728, "TextContent", `{"type":"text","text":"a","t\u0065xt":"b"}`},
		{"invalid UTF-8", mcp.V20260728, "TextContent", "{\"type\":\"text\",\"text\":\"\xff\"}"},
		{"data after the value", mcp.V20260728, "TextContent", `{"type":"text","text":"a"}{}`},
		{"base64 without padding", mcp.V20241105, "ImageContent", `{"type":"image","data":"YQ","mimeType":"image/png"}`},
		{"a relative URI", mcp.V20250618, "Resource", `{"uri":"a b","name":"a"}`},
	} {
		if err := spec.Validate(c.rev, c.definition, []byte(c.raw)); err == nil {
			t.Errorf("%s: %s of %s accepted %s", c.why, c.definition, c.rev, c.raw)
		}
	}
}

func TestFractionsAreValidWhereTheGeneratorWroteInteger(t *testing.T) {
	for _, rev := range []mcp.Revision{mcp.V20250618, mcp.V20251125, mcp.V20260728, spec.Tasks} {
		if err := spec.Validate(rev, "ElicitResult", []byte(`{"action":"accept","content":{"height":1.72}}`)); err != nil {
			t.Error(err)
		}
		if err := spec.Validate(rev, "ElicitResult", []byte(`{"action":"accept","content":{"height":null}}`)); err == nil {
			t.Errorf("%s: form content accepted null", rev)
		}
	}
	if err := spec.Validate(mcp.V20260728, "JSONValue", []byte(`{"a":[1.5,null,true,"b"]}`)); err != nil {
		t.Error(err)
	}
}
