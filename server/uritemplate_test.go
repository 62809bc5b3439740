package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/yosida95/uritemplate/v3"
	"pgregory.net/rapid"

	"github.com/parley-mcp/parley/internal/corpus"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// compiled returns a template whose variables are lists if they are in lists.
func compiled(t interface{ Fatalf(string, ...any) }, text string, lists ...string) *uriTemplate {
	u, err := parseTemplate(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if err := u.compile(func(name string) bool { return slices.Contains(lists, name) }); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return u
}

func TestATemplateFindsTheValuesInAURI(t *testing.T) {
	type values = map[string][]string
	for _, tc := range []struct {
		template, lists, uri string
		want                 values // nil: no match
	}{
		// Simple expansion.
		{"user://{id}", "", "user://7", values{"id": {"7"}}},
		{"user://{id}", "", "user://a%20b%2Fc", values{"id": {"a b/c"}}},
		{"user://{id}", "", "user://%c3%a9", values{"id": {"é"}}},
		{"user://{id}", "", "user://", values{}},
		{"user://{id}", "", "user://a/b", nil},
		{"user://{id}", "", "user://a,b", nil},
		{"user://{id}", "", "user://a b", nil},
		{"user://{id}", "", "user://%zz", nil},
		{"user://{id}", "", "user://%2", nil},
		{"user://{id}", "", "user://%ff", nil}, // not UTF-8
		{"user://{id}", "", "user://a%00", nil},
		{"user://{id}", "", "users://7", nil},
		{"user://{id}", "", "user://7\n", nil},
		{"user://{id}/x", "", "user://7/x", values{"id": {"7"}}},
		{"user://{id}/x", "", "user://7/y", nil},
		{"x://{a,b}", "", "x://1,2", values{"a": {"1"}, "b": {"2"}}},
		{"x://{a,b}", "", "x://1", values{"a": {"1"}}},
		{"x://{a,b}", "", "x://1,2,3", nil},
		{"x://{ids}", "ids", "x://1,2,3", values{"ids": {"1", "2", "3"}}},
		{"x://{ids}", "ids", "x://a%2Cb", values{"ids": {"a,b"}}},
		{"x://{ids*}", "ids", "x://1,2", values{"ids": {"1", "2"}}},
		{"{a}-{b}", "", "1-2-3", values{"a": {"1-2"}, "b": {"3"}}}, // as many characters as possible

		// Reserved and fragment expansion.
		{"file:///{+path}", "", "file:///a/b.txt", values{"path": {"a/b.txt"}}},
		{"file:///{+path}", "", "file:///a,b", values{"path": {"a,b"}}},
		{"file:///{+path}", "", "file:///%2e%2e/x", values{"path": {"../x"}}},
		{"x:a{#f}", "", "x:a#b/c?d", values{"f": {"b/c?d"}}},
		{"x:a{#f}", "", "x:a", values{}},
		{"x:a{#f}", "", "x:a#", values{"f": {""}}},

		// Labels and segments.
		{"x:a{.ext}", "", "x:a.tar.gz", values{"ext": {"tar.gz"}}},
		{"x:a{.ext*}", "ext", "x:a.tar.gz", values{"ext": {"tar", "gz"}}},
		{"x:a{/p}", "", "x:a/b", values{"p": {"b"}}},
		{"x:a{/p}", "", "x:a/b/c", nil},
		{"x:a{/p*}", "p", "x:a/b/c%2Fd", values{"p": {"b", "c/d"}}},
		{"x:a{/p*}", "p", "x:a", values{}},
		{"x:a{/p*}", "p", "x:a/", values{"p": {""}}},
		{"x:a{/p,q}", "", "x:a/1/2", values{"p": {"1"}, "q": {"2"}}},
		{"x:a{/p,q*}", "q", "x:a/1/2/3", values{"p": {"1"}, "q": {"2", "3"}}},

		// Named expansion.
		{"x:a{?q,n}", "", "x:a?q=1&n=2", values{"q": {"1"}, "n": {"2"}}},
		{"x:a{?q,n}", "", "x:a?n=2&q=1", values{"q": {"1"}, "n": {"2"}}},
		{"x:a{?q,n}", "", "x:a?n=2", values{"n": {"2"}}},
		{"x:a{?q,n}", "", "x:a", values{}},
		{"x:a{?q,n}", "", "x:a?", nil},
		{"x:a{?q,n}", "", "x:a?q=", values{"q": {""}}},
		{"x:a{?q,n}", "", "x:a?q=1&q=2", nil},
		{"x:a{?q,n}", "", "x:a?q=1&m=2", nil},
		{"x:a{?q,n}", "", "x:a?q=1n=2", nil},
		{"x:a{?q,n}", "", "x:a?q=a%26b%3D", values{"q": {"a&b="}}},
		{"x:a{?tag*}", "tag", "x:a?tag=1&tag=2", values{"tag": {"1", "2"}}},
		{"x:a{?tag}", "tag", "x:a?tag=1,2", values{"tag": {"1", "2"}}},
		{"x:a?fixed=1{&q}", "", "x:a?fixed=1&q=2", values{"q": {"2"}}},
		{"x:a{;v,w}", "", "x:a;v=1;w", values{"v": {"1"}, "w": {""}}},

		// Literals.
		{"note://é/{id}", "", "note://%C3%A9/1", values{"id": {"1"}}},
		{"note://%c3%a9/{id}", "", "note://%C3%a9/1", values{"id": {"1"}}},
		{"a.b:{id}", "", "axb:1", nil},
		{"\u00a0\ud7ff\ue000\ufdf0\uffef\U00010000\U0001fffd\U000e1000\U0010fffd{id}", "",
			"%C2%A0%ED%9F%BF%EE%80%80%EF%B7%B0%EF%BF%AF%F0%90%80%80%F0%9F%BF%BD%F3%A1%80%80%F4%8F%BF%BD1",
			values{"id": {"1"}}},
	} {
		u := compiled(t, tc.template, strings.Fields(tc.lists)...)
		got, ok := u.match(tc.uri)
		must.CheckThat(t, ok == (tc.want != nil) && (!ok || cmp.Equal(got, tc.want)),
			"%s in %s: %v, %v; want %v", tc.template, tc.uri, got, ok, tc.want)
	}
}

func TestInvalidTemplatesAreRejected(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "1 to 2048 bytes",
		strings.Repeat("x", 2<<10+1): "1 to 2048 bytes",
		"x:{a":                       "missing }",
		"x:{}":                       "invalid variable name",
		"x:{a b}":                    "invalid variable name",
		"x:{.}":                      "invalid variable name",
		"x:{a..b}":                   "invalid variable name",
		"x:{=a}":                     "invalid variable name",
		"x:{a:3}":                    "prefix",
		"x:{a}{a}":                   "duplicate",
		"x:{a*}":                     "slice",
		"x:}":                        "percent-encoded",
		"x: ":                        "percent-encoded",
		"x:%2":                       "hexadecimal",
		"x:\xff":                     "UTF-8",
		"\u0080":                     "U+0080 must be percent-encoded",
		"x:é\u009f":                  "U+009F",
		"x:\ufdd0{a}":                "U+FDD0",
		"x:\ufdef":                   "U+FDEF",
		"x:\ufff9":                   "U+FFF9",
		"x:\ufffd":                   "U+FFFD",
		"x:\U0001fffe":               "U+1FFFE",
		"x:\U000e0001":               "U+E0001",
		"x:\U0010ffff":               "U+10FFFF",
		"x:{" + strings.Repeat("a", 2) + func() (more string) {
			for i := range maxVariables {
				more += fmt.Sprintf(",v%d", i)
			}
			return more
		}() + "}": "too many variables",
	} {
		u, err := parseTemplate(text)
		if err == nil {
			err = u.compile(func(string) bool { return false })
		}
		must.CheckFails(t, err, want, text)
	}
}

// An expansion by the library is matched with the same values. (The library does not encode characters
// beyond ASCII as the RFC requires.)
func TestATemplateMatchesExpansionsOfTheLibrary(t *testing.T) {
	name := rapid.StringMatching(`[a-z][a-z0-9_]{0,3}`)
	text := rapid.StringMatching(`[a-z0-9 /?&=,.;%~_-]{1,6}`)
	rapid.Check(t, func(t *rapid.T) {
		operator := rapid.SampledFrom([]string{"", "+", "#", ".", "/", ";", "?", "&"}).Draw(t, "operator")
		names := rapid.SliceOfNDistinct(name, 1, 3, rapid.ID).Draw(t, "names")
		// Ambiguous expansions are left out: dots after {.a,b}, commas in {+a,b}.
		plain := rapid.StringMatching(`[a-z0-9 ~_-]{1,6}`)
		list := len(names) == 1 && rapid.Bool().Draw(t, "list")
		explode := list && rapid.Bool().Draw(t, "explode")

		spec := strings.Join(names, ",")
		if explode {
			spec += "*"
		}
		template := "x://h/{" + operator + spec + "}"
		want := make(map[string][]string)
		vars := make(uritemplate.Values)
		for _, n := range names {
			from := text
			if len(names) > 1 || list {
				from = plain
			}
			if list {
				want[n] = rapid.SliceOfN(from, 1, 4).Draw(t, n)
				vars.Set(n, uritemplate.List(want[n]...))
			} else {
				value := from.Draw(t, n)
				if operator == "+" || operator == "#" {
					value = strings.ReplaceAll(value, "%", "") // not encoded there
				}
				if value == "" {
					value = "x"
				}
				want[n] = []string{value}
				vars.Set(n, uritemplate.String(value))
			}
		}
		var lists []string
		if list {
			lists = names
		}
		uri := must.Get(uritemplate.MustNew(template).Expand(vars))(t)
		got, ok := compiled(t, template, lists...).match(uri)
		must.That(t, ok && cmp.Equal(got, want), "%s in %s: %v, %v; want %v", template, uri, got, ok, want)
	})
}

// FuzzURITemplate checks that an accepted template is a template for the library, too, that a match has no variables
// but those of the template, and that an expansion by the library is matched. If the template has one variable, the
// match has the value that was expanded.
func FuzzURITemplate(f *testing.F) {
	for _, seed := range []string{"x:/a/b", "x:/a?q=1&n=2", "x:/%2e%2E/", "x:/a;b", "x:/a,b",
		"x:/" + strings.Repeat("/a", 40)} {
		f.Add("x:/{+p}", seed, "a/b")
		f.Add("x:{/p}", seed, "a b")
		f.Add("x:/{a}{?q,n}", seed, "é%2F")
	}
	for _, operator := range []string{"", "+", "#", ".", "/", ";", "?", "&"} {
		f.Add("x:/{"+operator+"p}!", "", "a-b")
		f.Add("x:/{"+operator+"p*}", "", "1")
	}
	f.Add("\u0080", "%C2%80", "")
	f.Fuzz(func(t *testing.T, template, uri, value string) {
		u, err := parseTemplate(template)
		if err != nil {
			return
		}
		if err := u.compile(func(string) bool { return false }); err != nil {
			return
		}
		library, err := uritemplate.New(template)
		must.Do(t, err, "the library does not take", template)
		values, ok := u.match(uri)
		for name := range maps.Keys(values) {
			must.That(t, !ok || u.variable(name) != nil, "%q in %q: there is no variable %q", template, uri, name)
		}
		matchExpansion(t, u, library, value)
	})
}

// matchExpansion expands a template with the same value for all variables, and matches the result.
func matchExpansion(t *testing.T, u *uriTemplate, library *uritemplate.Template, value string) {
	// The library does not encode characters beyond ASCII as the RFC requires. Dots and reserved characters make
	// expansions ambiguous. An empty value is no match of some operators.
	if strings.ContainsFunc(u.text, func(r rune) bool { return r > unicode.MaxASCII }) {
		return
	}
	if value == "" || strings.Trim(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_~ ") != "" {
		return
	}
	given := make(uritemplate.Values)
	for _, v := range u.variables {
		given.Set(v.name, uritemplate.String(value))
	}
	expanded, err := library.Expand(given)
	if err != nil || len(expanded) > maxURI {
		return
	}
	got, ok := u.match(expanded)
	must.That(t, ok, "%q expands to %q, which does not match", u.text, expanded)
	must.That(t, len(u.variables) != 1 || slices.Equal(got[u.variables[0].name], []string{value}),
		"%q expands with %q to %q, which is matched with %q", u.text, value, expanded, got)
}

// Rule Y2: no URI takes long to match. The bound allows for the race detector on a busy machine, and is still
// below quadratic time for 8 KiB; without the race detector a match takes a few milliseconds.
func TestAdversarialURIsAreMatchedInBoundedTime(t *testing.T) {
	fill := func(prefix, unit string) string { return prefix + strings.Repeat(unit, (maxURI-len(prefix))/len(unit)) }
	for _, tc := range []struct{ template, lists, uri string }{
		{"x:{/p*}", "p", fill("x:", "/a")},
		{"x:{p}", "p", fill("x:", "a,")},
		{"x:{?p*}", "p", fill("x:?", "p=&") + "p"},
		{"x:{+a}/{+b}/{+c}/{+d}/{+e}!", "", fill("x:", "/")},
		{"x:{a}{b}{c}{d}{e}{f}{g}{h}!", "", fill("x:", "a")},
		{"x:{a,b,c,d,e,f,g,h}{+i}{#j}{?k,l,m}!", "", fill("x:", "%41")},
	} {
		u := compiled(t, tc.template, strings.Fields(tc.lists)...)
		took := time.Hour
		for range 3 {
			began := time.Now()
			u.match(tc.uri)
			took = min(took, time.Since(began))
		}
		must.CheckThat(t, took <= 30*time.Second,
			"%s in %d bytes of %.20s…: %v", tc.template, len(tc.uri), tc.uri, took) // without the bound it takes hours
	}
	_, ok := compiled(t, "x:{+a}").match(fill("x:", "a") + strings.Repeat("a", 8))
	must.CheckThat(t, !ok, "a URI beyond the bound is matched")
}

func unread(context.Context, string) (*mcp.ReadResourceResult, error) { return nil, nil }

// withTemplates returns a server that has templates and no logs.
func withTemplates(t interface{ Fatalf(string, ...any) }, templates ...string) *Server {
	s := &Server{Logger: slog.New(slog.DiscardHandler)}
	for _, text := range templates {
		if err := s.RegisterTemplate(mcp.ResourceTemplate{URITemplate: text, Name: text}, unread); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	return s
}

// hostileTemplates returns templates that a URI matches almost, each in as many ways as possible.
func hostileTemplates(n int) []string {
	var templates []string
	for i := range n {
		text := "x:"
		for v := range maxVariables {
			text += fmt.Sprintf("{v%d_%d}", i, v)
		}
		templates = append(templates, text+"!")
	}
	return templates
}

func TestAURIIsComparedWithABoundedNumberOfHostileTemplates(t *testing.T) {
	s := withTemplates(t, hostileTemplates(3)...)
	uri := "x:" + strings.Repeat("a", maxURI-2)
	if complete := s.templates.match(uri, func(*templateEntry, map[string][]string) bool { return true }); complete {
		t.Errorf("a URI of %d bytes was compared with all templates of %d variables", len(uri), maxVariables)
	}
	_, err := s.resourceAt(uri, principal.Anonymous)
	var rejected *jsonrpc.Error
	must.CheckThat(t, errors.As(err, &rejected) && rejected.Code == jsonrpc.CodeInvalidParams &&
		strings.Contains(rejected.Message, "shorten the URI"), "read: %v, want invalid params", err)
	if _, err := s.completionTarget(mcp.CompleteReference{Type: mcp.RefResource, URI: uri},
		principal.Anonymous); !errors.As(err, &rejected) || !strings.Contains(rejected.Message, "shorten the URI") {
		t.Errorf("completion: %v, want invalid params", err)
	}
	if readers := s.readersOf(uri); readers == nil || readers(principal.Anonymous) {
		t.Error("an update of a URI that cannot be compared goes to every caller")
	}
}

func TestHostileTemplatesDoNotHideThoseWithOtherPrefixes(t *testing.T) {
	s := withTemplates(t, append(hostileTemplates(3), "y://{a}")...)
	from, err := s.resourceAt("y://"+strings.Repeat("a", maxURI-4), principal.Anonymous)
	must.CheckThat(t, err == nil && from != nil, "%v", err)
}

func TestTheLongestURIMatchesTheLargestTemplate(t *testing.T) {
	text := "x:"
	for v := range maxVariables {
		text += fmt.Sprintf("{v%d}", v)
	}
	s := withTemplates(t, text)
	must.Check(t, must.Err(s.resourceAt("x:"+strings.Repeat("a", maxURI-2), principal.Anonymous)))
}

func TestCandidatesAreTheTemplatesWhosePrefixBeginsTheURI(t *testing.T) {
	text := rapid.StringMatching(`[ab]{0,4}`)
	rapid.Check(t, func(t *rapid.T) {
		var templates []string
		for i, prefix := range rapid.SliceOfN(text, 0, 12).Draw(t, "prefixes") {
			templates = append(templates, prefix+fmt.Sprintf("{v%d}", i)+strings.Repeat("c", i%3))
		}
		s := withTemplates(t, templates...)
		for _, removed := range templates[:len(templates)/4] {
			s.RemoveTemplate(removed)
		}
		uri := text.Draw(t, "uri") + text.Draw(t, "rest")
		var want []string
		for _, e := range s.templates.all() {
			if strings.HasPrefix(uri, e.uris.prefix) {
				want = append(want, e.uris.text)
			}
		}
		var got []string
		for _, e := range s.templates.indexed().candidates(uri) {
			got = append(got, e.uris.text)
		}
		must.That(t, slices.Equal(got, want), "%s in %q: %q, want %q", uri, templates, got, want)
	})
}

func TestTemplatesOfTheCorpus(t *testing.T) {
	for _, c := range corpus.Cases(t, "rules/templates") {
		u, err := parseTemplate(c.Text(t))
		if err == nil {
			err = u.compile(func(string) bool { return false })
		}
		got := "valid"
		if err != nil {
			got = "invalid"
		}
		must.CheckEqual(t, got, c.Want(), c.Place, c.Name, err)
	}
}
