package gateway

import (
	"log/slog"
	"slices"
	"testing"
)

func TestAShelfChangesOnlyWhatHasChanged(t *testing.T) {
	var did []string
	s := shelf[string]{
		kind: "thing",
		key:  func(e *string) string { return (*e)[:1] },
		offer: func(server string, e *string) string {
			did = append(did, "+"+*e)
			if *e == "z1" {
				return "" // it cannot be offered
			}
			return server + *e
		},
		withdraw: func(name string) { did = append(did, "-"+name) },
	}
	quiet := slog.New(slog.DiscardHandler)
	for _, step := range []struct {
		has, want []string
	}{
		{[]string{"a1", "b1", "a2"}, []string{"+a1", "+b1"}}, // a twice
		{[]string{"b1", "a1"}, nil},
		{[]string{"b2", "c1"}, []string{"-xa1", "-xb1", "+b2", "+c1"}},
		{[]string{"b2", "z1"}, []string{"-xc1", "+z1"}},
		{[]string{"b2", "z1"}, nil},
		{[]string{"b2", "z2"}, []string{"+z2"}},
		{nil, []string{"-xb2", "-xz2"}},
	} {
		did = nil
		s.update(quiet, "x", step.has)
		slices.Sort(did)
		want := slices.Sorted(slices.Values(step.want))
		if !slices.Equal(did, want) {
			t.Errorf("for %v it did %v, want %v", step.has, did, want)
		}
	}
}

func TestVariablesOfTemplatesAreFound(t *testing.T) {
	for template, want := range map[string][]string{
		"a:{b}/{+c}{?d,e*}{/f:3}": {"b", "c", "d", "e", "f"},
		"a:b":                     nil,
		"a:{b":                    nil,
	} {
		if got := variables(template); !slices.Equal(got, want) {
			t.Errorf("of %s they are %v, want %v", template, got, want)
		}
	}
}
