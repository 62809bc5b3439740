package gateway

import (
	"log/slog"
	"slices"
	"testing"
)

func TestUpdateChangesOnlyWhatDiffers(t *testing.T) {
	var got []string
	r := registrations[string]{
		kind: "thing",
		key:  func(e *string) string { return (*e)[:1] },
		register: func(server string, e *string) string {
			got = append(got, "+"+*e)
			if *e == "z1" {
				return "" // cannot be registered
			}
			return server + *e
		},
		unregister: func(name string) { got = append(got, "-"+name) },
	}
	quiet := slog.New(slog.DiscardHandler)
	for _, step := range []struct {
		list, want []string
	}{
		{[]string{"a1", "b1", "a2"}, []string{"+a1", "+b1"}}, // a twice
		{[]string{"b1", "a1"}, nil},
		{[]string{"b2", "c1"}, []string{"-xa1", "-xb1", "+b2", "+c1"}},
		{[]string{"b2", "z1"}, []string{"-xc1", "+z1"}},
		{[]string{"b2", "z1"}, nil},
		{[]string{"b2", "z2"}, []string{"+z2"}},
		{nil, []string{"-xb2", "-xz2"}},
	} {
		got = nil
		r.update(quiet, "x", step.list)
		slices.Sort(got)
		want := slices.Sorted(slices.Values(step.want))
		if !slices.Equal(got, want) {
			t.Errorf("update to %v: %v, want %v", step.list, got, want)
		}
	}
}

func TestVariablesReturnsNamesOfTemplate(t *testing.T) {
	for template, want := range map[string][]string{
		"a:{b}/{+c}{?d,e*}{/f:3}": {"b", "c", "d", "e", "f"},
		"a:b":                     nil,
		"a:{b":                    nil,
	} {
		if got := variables(template); !slices.Equal(got, want) {
			t.Errorf("variables(%q) = %v, want %v", template, got, want)
		}
	}
}
