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
		register: func(_, name string, e *string) string {
			got = append(got, "+"+name)
			if *e == "z1" {
				return "" // cannot be registered
			}
			return name
		},
		unregister: func(name string) { got = append(got, "-"+name) },
	}
	quiet := slog.New(slog.DiscardHandler)
	for _, step := range []struct {
		list, want []string
	}{
		{[]string{"a1", "b1", "a2"}, []string{"+xa1", "+xb1"}}, // a twice
		{[]string{"b1", "a1"}, nil},
		{[]string{"b2", "c1"}, []string{"-xa1", "-xb1", "+xb2", "+xc1"}},
		{[]string{"b2", "z1"}, []string{"-xc1", "+xz1"}},
		{[]string{"b2", "z1"}, nil},
		{[]string{"b2", "z2"}, []string{"+xz2"}},
		{nil, []string{"-xb2", "-xz2"}},
	} {
		got = nil
		r.set(quiet, "x", step.list)
		for _, e := range r.byServer["x"] {
			e.want = "x" + e.entry
		}
		r.apply([]string{"x"})
		slices.Sort(got)
		want := slices.Sorted(slices.Values(step.want))
		if !slices.Equal(got, want) {
			t.Errorf("update to %v: %v, want %v", step.list, got, want)
		}
	}
}

func TestEntriesThatAreToHaveAnotherNameMove(t *testing.T) {
	var got []string
	r := registrations[string]{
		kind: "thing",
		key:  func(e *string) string { return *e },
		register: func(_, name string, _ *string) string {
			got = append(got, "+"+name)
			return name
		},
		unregister: func(name string) { got = append(got, "-"+name) },
	}
	r.set(slog.New(slog.DiscardHandler), "x", []string{"a"})
	for _, want := range []string{"a", "b", "b"} {
		r.byServer["x"][0].want = want
		r.apply([]string{"x"})
	}
	if want := []string{"+a", "-a", "+b"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestEntryWaitsForTheNameOfAnotherEntry(t *testing.T) {
	registered := make(map[string]string)
	r := registrations[string]{
		kind: "thing",
		key:  func(e *string) string { return *e },
		register: func(server, name string, _ *string) string {
			registered[name] = server
			return name
		},
		unregister: func(name string) { delete(registered, name) },
	}
	servers := []string{"x", "y"}
	for _, step := range []struct{ server, entry, owner string }{
		{"x", "a", "x"}, {"y", "b", "x"}, // b of y has the name of a of x
		{"x", "", "y"},
	} {
		var list []string
		if step.entry != "" {
			list = []string{step.entry}
		}
		r.set(slog.New(slog.DiscardHandler), step.server, list)
		for _, e := range r.byServer[step.server] {
			e.want = "name"
		}
		r.apply(servers)
		if registered["name"] != step.owner {
			t.Errorf("after %+v: %v", step, registered)
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
