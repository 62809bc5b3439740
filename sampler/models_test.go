package sampler_test

import (
	"errors"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/sampler"
)

func TestModelFitsHintsBeforePriorities(t *testing.T) {
	models := sampler.Models{
		{Name: "claude-haiku-4-5", Cheap: 1, Fast: 1, Smart: 0.3},
		{Name: "claude-sonnet-4-5", Aliases: []string{"gpt-5"}, Cheap: 0.5, Fast: 0.5, Smart: 0.8},
		{Name: "claude-opus-4-5", Aliases: []string{"gpt-5-pro"}, Smart: 1},
	}
	hints := func(names ...string) (hints []mcp.ModelHint) {
		for _, name := range names {
			hints = append(hints, mcp.ModelHint{Name: name})
		}
		return hints
	}
	for _, c := range []struct {
		name        string
		preferences *mcp.ModelPreferences
		want        string
	}{
		{"no preferences", nil, "claude-haiku-4-5"},
		{"empty preferences", &mcp.ModelPreferences{}, "claude-haiku-4-5"},
		{"hint", &mcp.ModelPreferences{Hints: hints("sonnet")}, "claude-sonnet-4-5"},
		{"letter case", &mcp.ModelPreferences{Hints: hints("Claude-Opus")}, "claude-opus-4-5"},
		{"first hint that fits", &mcp.ModelPreferences{Hints: hints("", "llama", "opus", "haiku")}, "claude-opus-4-5"},
		{"alias", &mcp.ModelPreferences{Hints: hints("gpt-5-pro")}, "claude-opus-4-5"},
		{"priority of models that fit a hint", &mcp.ModelPreferences{Hints: hints("gpt-5"),
			IntelligencePriority: new(1.0), CostPriority: new(0.1)}, "claude-opus-4-5"},
		{"cost", &mcp.ModelPreferences{Hints: hints("llama"), CostPriority: new(0.9), IntelligencePriority: new(0.2)},
			"claude-haiku-4-5"},
		{"intelligence", &mcp.ModelPreferences{IntelligencePriority: new(0.9), SpeedPriority: new(0.0)},
			"claude-opus-4-5"},
		{"balance", &mcp.ModelPreferences{IntelligencePriority: new(1.0), SpeedPriority: new(0.6)},
			"claude-sonnet-4-5"},
	} {
		must.CheckEqual(t, must.Get(models.Choose(c.preferences))(t), c.want, c.name)
	}
	must.CheckIs(t, must.Err((sampler.Models)(nil).Choose(nil)), sampler.ErrNoModels)
}

// A server learns what its request must not contain.
func TestUnsupportedErrorIsForTheServer(t *testing.T) {
	var err error = &sampler.UnsupportedError{API: "the API", What: "audio"}
	var reported *jsonrpc.Error
	must.CheckThat(t, errors.As(err, &reported) && reported.Code == jsonrpc.CodeInvalidParams &&
		reported.Message == "cannot sample: the API does not support audio", "%v", err)
}
