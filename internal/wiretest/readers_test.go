package wiretest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
)

// By the HTML standard, each stream contains the two messages.
func TestReadersRejectWhatOtherSDKsReject(t *testing.T) {
	const first, second = "event: message\ndata: {\"n\":1}\n\n", "event: message\ndata: {\"n\":2}\n\n"
	for name, tc := range map[string]struct {
		stream  string
		rejects []string // prefixes of the names of readers
	}{
		"names":          {first + second, nil},
		"without a name": {"data: {\"n\":1}\n\n" + second, []string{"Java SDK, HTTP", "Java SDK, GET", "Spring"}},
		"after an endpoint": {"event: endpoint\ndata: /m\n\ndata: {\"n\":1}\n\n" + second,
			[]string{"Java SDK, HTTP", "Java SDK, GET", "Spring"}},
		"retry":            {"id: 1\nretry: 5\ndata:\n\n" + first + second, []string{"Java", "Python SDK 1.22", "Go SDK, HTTP"}},
		"priming":          {"id: 1\ndata:\n\n" + first + second, []string{"Python SDK 1.22", "Go SDK, HTTP"}},
		"priming, space":   {"id: 1\ndata: \n\n" + first + second, []string{"Java SDK, HTTP", "Java SDK 0.17", "Python SDK 1.22", "Go SDK, HTTP"}},
		"comment":          {":\n" + first + ": x\n:\n" + second, nil},
		"comments, spaced": {first + strings.Repeat(":\n\n", 300) + second, []string{"Java"}},
		"comment after id": {"id: 1\n" + first + ":\n\n" + second, []string{"Python SDK 1.22"}},
		"separators":       {"event: message\ndata: {\"n\":1}\n\nevent: message\ndata: {\"n\":\"\u2028\"}\n\n", []string{"Java", "Python"}},
		"without colon":    {first + "event: message\ndata\ndata: {\"n\":2}\n\n", []string{"Java", "Rust", "Go", "Kotlin"}},
		"unknown field":    {first + "x: 1\n" + second, []string{"Java", "Rust"}},
		"name twice":       {first + "event: message\n" + second, []string{"Rust"}},
		"several lines":    {first + "event: message\ndata: {\ndata: \"n\":2}\n\n", []string{"Kotlin"}},
	} {
		for _, r := range wiretest.Readers {
			want := []string{`{"n":1}`, `{"n":2}`}
			switch name {
			case "separators":
				want[1] = "{\"n\":\"\u2028\"}"
			case "without colon":
				want[1] = "\n{\"n\":2}"
			case "several lines":
				want[1] = "{\n\"n\":2}"
			}
			got, err := r.Messages(tc.stream)
			rejects := slices.ContainsFunc(tc.rejects, func(p string) bool { return strings.HasPrefix(r.Name, p) })
			reads := err == nil && slices.Equal(got, want)
			must.CheckThat(t, reads != rejects, "%s: %s reads %q, %v", name, r.Name, got, err)
		}
	}
}
