package sampler

import (
	"errors"
	"strings"

	"github.com/parley-mcp/parley/mcp"
)

// Model is a model that an adapter may use.
type Model struct {
	// Name is the provider's name of the model.
	Name string
	// Aliases are further names to compare with hints, such as the names of similar models of other providers.
	Aliases []string
	// Cheap, Fast and Smart say from 0 to 1 how well the model meets the priorities of cost, speed and intelligence.
	Cheap, Fast, Smart float64
}

// Models are the models that an adapter may use, at least one. They are not changed while an adapter uses them.
type Models []Model

// ErrNoModels is returned by adapters without Models.
var ErrNoModels = errors.New("sampler: Models must have at least one model")

// Choose returns the name of the model for a request (2026-07-28, client/sampling, Model Preferences). The first
// hint that is part of the name or of an alias of a model selects the models with it; letter case is ignored. Of
// the selected models, or of all if no hint fits, the one that meets the priorities best is chosen, and the
// first of equal ones. Preferences may be nil.
func (m Models) Choose(preferences *mcp.ModelPreferences) (string, error) {
	if len(m) == 0 {
		return "", ErrNoModels
	}
	if preferences == nil {
		return m[0].Name, nil
	}
	candidates := m
	for _, hint := range preferences.Hints {
		if fitting := m.fitting(hint.Name); len(fitting) > 0 {
			candidates = fitting
			break
		}
	}
	best, most := 0, candidates[0].score(preferences)
	for i := 1; i < len(candidates); i++ {
		if score := candidates[i].score(preferences); score > most {
			best, most = i, score
		}
	}
	return candidates[best].Name, nil
}

// fitting returns the models whose name or alias contains the hint.
func (m Models) fitting(hint string) (fitting Models) {
	hint = strings.ToLower(hint)
	if hint == "" {
		return nil
	}
	for i := range m {
		for _, name := range append([]string{m[i].Name}, m[i].Aliases...) {
			if strings.Contains(strings.ToLower(name), hint) {
				fitting = append(fitting, m[i])
				break
			}
		}
	}
	return fitting
}

func (m *Model) score(p *mcp.ModelPreferences) float64 {
	score := 0.0
	for _, of := range []struct {
		priority *float64
		value    float64
	}{{p.CostPriority, m.Cheap}, {p.SpeedPriority, m.Fast}, {p.IntelligencePriority, m.Smart}} {
		if of.priority != nil {
			score += *of.priority * of.value
		}
	}
	return score
}
