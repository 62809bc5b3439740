package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

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
	if !errors.As(err, &rejected) || rejected.Code != jsonrpc.CodeInvalidParams || !strings.Contains(rejected.Message, "shorten the URI") {
		t.Errorf("read: %v, want invalid params", err)
	}
	if _, err := s.completionTarget(mcp.CompleteReference{Type: mcp.RefResource, URI: uri}, func(entry) bool { return true }); !errors.As(err, &rejected) || !strings.Contains(rejected.Message, "shorten the URI") {
		t.Errorf("completion: %v, want invalid params", err)
	}
	if readers := s.readersOf(uri); readers == nil || readers(principal.Anonymous) {
		t.Error("an update of a URI that cannot be compared goes to every caller")
	}
}

func TestHostileTemplatesDoNotHideThoseWithOtherPrefixes(t *testing.T) {
	s := withTemplates(t, append(hostileTemplates(3), "y://{a}")...)
	if from, err := s.resourceAt("y://"+strings.Repeat("a", maxURI-4), principal.Anonymous); err != nil || from == nil {
		t.Errorf("%v", err)
	}
}

func TestTheLongestURIMatchesTheLargestTemplate(t *testing.T) {
	text := "x:"
	for v := range maxVariables {
		text += fmt.Sprintf("{v%d}", v)
	}
	s := withTemplates(t, text)
	if _, err := s.resourceAt("x:"+strings.Repeat("a", maxURI-2), principal.Anonymous); err != nil {
		t.Error(err)
	}
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
		if !slices.Equal(got, want) {
			t.Fatalf("%s in %q: %q, want %q", uri, templates, got, want)
		}
	})
}
