package server_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

func TestTheMostSpecificTemplateServesAURI(t *testing.T) {
	type add func(s *server.Server)
	named := func(text string) add {
		return func(s *server.Server) {
			server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: text, Name: text}, func(context.Context, map[string]string) (string, error) { return text, nil })
		}
	}
	adds := []add{
		func(s *server.Server) {
			server.AddStatic(s, mcp.Resource{URI: "repo://docs/index", Name: "index"}, "exactly")
		},
		named("repo://docs/{page}"), named("repo://docs/{+path}"), named("repo://{owner}/{name}"), named("repo://{+all}"), named("repo://{owner}/index"),
		func(s *server.Server) {
			server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: "repo://docs/{number}", Name: "number"}, func(_ context.Context, in struct {
				Number int `json:"number"`
			}) (string, error) {
				return fmt.Sprint("number ", in.Number), nil
			})
		},
	}
	for range 10 { // in any order of registration
		rand.Shuffle(len(adds), func(i, j int) { adds[i], adds[j] = adds[j], adds[i] })
		s := quiet()
		for _, add := range adds {
			add(s)
		}
		c := mcptest.Dial(t, s)
		for uri, want := range map[string]string{
			"repo://docs/index": "exactly",
			"repo://docs/7":     "number 7", // sorts before {page}
			"repo://docs/intro": "repo://docs/{page}",
			"repo://docs/a/b":   "repo://docs/{+path}",
			"repo://acme/index": "repo://{owner}/index",
			"repo://acme/tools": "repo://{owner}/{name}",
			"repo://acme/a/b":   "repo://{+all}",
		} {
			if got := textAt(t, c, uri); got != want {
				t.Errorf("%s is read by %s, want %s", uri, got, want)
			}
		}
	}
}

func TestVariablesAreDecodedIntoTheirTypes(t *testing.T) {
	type variables struct {
		Text   string         `json:"text"`
		Int    int64          `json:"int"`
		Float  float64        `json:"float"`
		Bool   bool           `json:"bool"`
		Ints   []int          `json:"ints,omitzero"`
		Path   []string       `json:"path,omitzero"`
		Preset string         `json:"preset" default:"set"`
		When   time.Time      `json:"when,omitzero"`
		For    *time.Duration `json:"for"`
	}
	s := quiet()
	server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: "all://{text}/{int}/{float}/{bool}{/path*}{?ints*,preset,when,for}", Name: "all"},
		func(_ context.Context, in variables) (string, error) {
			duration := "none"
			if in.For != nil {
				duration = in.For.String()
			}
			return fmt.Sprintf("%q %d %v %v %v %q %s %d %s", in.Text, in.Int, in.Float, in.Bool, in.Ints, in.Path, in.Preset, in.When.Year(), duration), nil
		})
	c := mcptest.Dial(t, s)
	for uri, want := range map[string]string{
		"all://a%20b/9007199254740993/-1.5e3/true":                 `"a b" 9007199254740993 -1500 true [] [] set 1 none`,
		"all://%2E%2E/0/0/false/x/%2E%2E/y":                        `".." 0 0 false [] ["x" ".." "y"] set 1 none`,
		"all://t/1/1/true?ints=1&ints=2&preset=":                   `"t" 1 1 true [1 2] []  1 none`,
		"all://t/1/1/true?when=2026-01-02T03%3A04%3A05Z&for=1h30m": `"t" 1 1 true [] [] set 2026 1h30m0s`,
	} {
		if got := textAt(t, c, uri); got != want {
			t.Errorf("%s: %s, want %s", uri, got, want)
		}
	}
	for _, uri := range []string{
		"all:///1/1/true", "all://t/1.5/1/true", "all://t/0x1/1/true", "all://t/+1/1/true", "all://t/01/1/true", "all://t/1/NaN/true", "all://t/1/1/TRUE",
		"all://t/9223372036854775808/1/true", "all://t/1/1/true?ints=a", "all://t/1/1/true?for=long", "all://t/1/1/true?when=now", "all://t/1/1/%22true%22",
	} {
		if result, err := c.ReadResource(t.Context(), uri); !errors.Is(err, client.ErrResourceNotFound) {
			t.Errorf("%s: %+v, %v", uri, result, err)
		}
	}
}

func TestTemplatesMustMatchTheirHandlers(t *testing.T) {
	type id struct {
		ID string `json:"id"`
	}
	add := func(text string) string {
		return panicOf(func() {
			server.AddTemplate(quiet(), mcp.ResourceTemplate{URITemplate: text, Name: "a"}, func(context.Context, id) (string, error) { return "", nil })
		})
	}
	for text, want := range map[string]string{
		"x://{id}":        "nil",
		"x://{id}/{page}": "has no variable page",
		"x://all":         "requires the variable id",
		"x://{id*}":       "make the field id a slice",
		"x://{id:3}":      "prefix",
		"x://{id":         "missing }",
	} {
		if got := add(text); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %q", text, got, want)
		}
	}
	nameless := panicOf(func() {
		server.AddTemplate(quiet(), mcp.ResourceTemplate{URITemplate: "x://{id}"}, func(context.Context, id) (string, error) { return "", nil })
	})
	number := panicOf(func() {
		server.AddTemplate(quiet(), mcp.ResourceTemplate{URITemplate: "x://{id}", Name: "a"}, func(context.Context, int) (string, error) { return "", nil })
	})
	nested := panicOf(func() {
		server.AddTemplate(quiet(), mcp.ResourceTemplate{URITemplate: "x://{id}", Name: "a"}, func(context.Context, struct{ ID struct{} }) (string, error) { return "", nil })
	})
	if !strings.Contains(nameless, "name must not be empty") || !strings.Contains(number, "a struct or a map") || !strings.Contains(nested, "must be a string, a number or a boolean") {
		t.Errorf("%s; %s; %s", nameless, number, nested)
	}
}

func TestAnUntypedTemplateIsReadByURI(t *testing.T) {
	s := quiet()
	echo := func(_ context.Context, uri string) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{{Text: "read " + uri}}}, nil
	}
	const text = "x://{host}/{ids}{/path*}"
	if err := s.RegisterTemplate(mcp.ResourceTemplate{URITemplate: text, Name: "a"}, echo); err != nil {
		t.Fatal(err)
	}
	c := mcptest.Dial(t, s)
	if got := textAt(t, c, "x://h/1,2/a/%62"); got != "read x://h/1,2/a/%62" {
		t.Error(got)
	}
	for want, err := range map[string]error{
		"in use":    s.RegisterTemplate(mcp.ResourceTemplate{URITemplate: text, Name: "b"}, echo),
		"handler":   s.RegisterTemplate(mcp.ResourceTemplate{URITemplate: "y://{a}", Name: "b"}, nil),
		"missing }": s.RegisterTemplate(mcp.ResourceTemplate{URITemplate: "y://{a", Name: "b"}, echo),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if !s.RemoveTemplate(text) || s.RemoveTemplate(text) {
		t.Error("one template was there to be removed")
	}
	if _, err := c.ReadResource(t.Context(), "x://h/1"); !errors.Is(err, client.ErrResourceNotFound) {
		t.Errorf("%v", err)
	}
}

// A value that does not match its schema is an unknown resource, without details.
func TestInvalidURIsAreRejected(t *testing.T) {
	s := quiet()
	server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: "{+any}", Name: "any"}, func(_ context.Context, in map[string]string) (string, error) {
		return in["any"], nil
	})
	c := mcptest.Dial(t, s)
	for _, uri := range []string{" ", "a b", "x:\n", "x:<>", "x:\u00e9", "x:%", "x:%0g", "x:\\"} {
		if _, err := c.ReadResource(t.Context(), uri); !errors.Is(err, client.ErrResourceNotFound) {
			t.Errorf("%q: %v", uri, err)
		}
	}
}
