package mcp_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/mcp"
)

func TestEmptyCapabilityIsEncoded(t *testing.T) {
	for _, codec := range codecs {
		client := mcp.ClientCapabilities{
			Experimental: map[string]json.RawMessage{},
			Roots:        &mcp.RootsCapability{},
			Sampling:     &mcp.SamplingCapability{Tools: &mcp.Supported{}},
			Elicitation:  &mcp.ElicitationCapability{},
			Tasks:        &mcp.TasksCapability{Requests: &mcp.TaskRequestsCapability{Elicitation: &mcp.TaskElicitationCapability{Create: &mcp.Supported{}}}},
			Extensions:   map[string]json.RawMessage{mcp.ExtensionTasks: json.RawMessage(`{}`)},
		}
		const clientWire = `{"experimental":{},"roots":{},"sampling":{"tools":{}},"elicitation":{},` +
			`"tasks":{"requests":{"elicitation":{"create":{}}}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
		roundTrip(t, codec, client, clientWire)

		server := mcp.ServerCapabilities{
			Logging:     &mcp.Supported{},
			Completions: &mcp.Supported{},
			Prompts:     &mcp.PromptsCapability{},
			Resources:   &mcp.ResourcesCapability{Subscribe: true},
			Tools:       &mcp.ToolsCapability{ListChanged: true},
			Tasks:       &mcp.TasksCapability{List: &mcp.Supported{}},
		}
		const serverWire = `{"logging":{},"completions":{},"prompts":{},"resources":{"subscribe":true},` +
			`"tools":{"listChanged":true},"tasks":{"list":{}}}`
		roundTrip(t, codec, server, serverWire)

		roundTrip(t, codec, mcp.ClientCapabilities{}, `{}`)
		roundTrip(t, codec, mcp.ServerCapabilities{}, `{}`)
	}
}

func roundTrip[T any](t *testing.T, codec codec, v T, wire string) {
	t.Helper()
	raw, err := codec.marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if string(raw) != wire {
		t.Errorf("%s: got %s, want %s", codec.name, raw, wire)
	}
	var back T
	if err := codec.unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(v, back); diff != "" {
		t.Errorf("%s (-want +got):\n%s", codec.name, diff)
	}
}

func TestCapabilityMustBeObject(t *testing.T) {
	for _, codec := range codecs {
		for _, raw := range []string{`{"roots":true}`, `{"sampling":[]}`, `{"elicitation":"form"}`} {
			if err := codec.unmarshal([]byte(raw), new(mcp.ClientCapabilities)); err == nil {
				t.Errorf("%s: accepted %s", codec.name, raw)
			}
		}
	}
}

func TestElicitationCapabilityWithoutModesSupportsForms(t *testing.T) {
	for _, c := range []struct {
		capability *mcp.ElicitationCapability
		form, url  bool
	}{
		{nil, false, false},
		{&mcp.ElicitationCapability{}, true, false},
		{&mcp.ElicitationCapability{Form: &mcp.Supported{}}, true, false},
		{&mcp.ElicitationCapability{URL: &mcp.Supported{}}, false, true},
		{&mcp.ElicitationCapability{Form: &mcp.Supported{}, URL: &mcp.Supported{}}, true, true},
	} {
		if c.capability.SupportsForm() != c.form || c.capability.SupportsURL() != c.url {
			t.Errorf("%+v: form %t, URL %t", c.capability, c.capability.SupportsForm(), c.capability.SupportsURL())
		}
	}
}

func TestExtensionIDMustHavePrefix(t *testing.T) {
	for id, valid := range map[string]bool{
		mcp.ExtensionTasks: true,
		"com.example/a":    true,
		"tasks":            false,
		"com.example":      false,
		"com.example/a b":  false,
		"/a":               false,
		"":                 false,
	} {
		if err := mcp.CheckExtensionID(id); (err == nil) != valid {
			t.Errorf("%q: %v", id, err)
		}
	}
	if err := mcp.CheckExtensionID("com.example/a b"); !errors.Is(err, mcp.ErrMetaKey) {
		t.Errorf("got %v, want ErrMetaKey", err)
	}
}
