package jsonrpc_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/jsonrpc"
)

func TestSplitBatchReturnsEachElementUnchanged(t *testing.T) {
	for _, want := range [][]string{
		{samples[0]},
		samples[:9],
		{`1`, `"a,b]"`, `null`, `{}`, `[]`, `[1,[2,{"a":[3]}]]`, `-1.5e3`, `"\"]"`, `true`}, // Parse rejects each of them
	} {
		for _, data := range []string{
			"[" + strings.Join(want, ",") + "]",
			" \t\r\n[ \t\r\n" + strings.Join(want, " \t\r\n, \t\r\n") + " \t\r\n] \t\r\n",
		} {
			if !jsonrpc.IsBatch([]byte(data)) {
				t.Errorf("IsBatch(%s) is false", data)
			}
			parts, err := jsonrpc.SplitBatch([]byte(data), jsonrpc.Limits{})
			if err != nil {
				t.Errorf("%s: %v", data, err)
				continue
			}
			var got []string
			for _, part := range parts {
				if len(part) != cap(part) {
					t.Errorf("%s: appending to a part would write into the input", data)
				}
				got = append(got, string(part))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: split into %q, want %q", data, got, want)
			}
		}
	}
}

func TestSplitBatchRejectsInvalidBatches(t *testing.T) {
	for _, tc := range []struct {
		data  string
		batch bool // the result of IsBatch
		code  int64
	}{
		{`[]`, true, jsonrpc.CodeInvalidRequest},
		{` [ ] `, true, jsonrpc.CodeInvalidRequest},
		{samples[0], false, jsonrpc.CodeInvalidRequest},
		{`"["`, false, jsonrpc.CodeInvalidRequest},
		{`1`, false, jsonrpc.CodeInvalidRequest},
		{``, false, jsonrpc.CodeParseError},
		{` `, false, jsonrpc.CodeParseError},
		{`[`, true, jsonrpc.CodeParseError},
		{`[1`, true, jsonrpc.CodeParseError},
		{`[1,]`, true, jsonrpc.CodeParseError},
		{`[1]]`, true, jsonrpc.CodeParseError},
		{`[1][2]`, true, jsonrpc.CodeParseError},
		{`[{"a":1,"a":2}]`, true, jsonrpc.CodeParseError},
		{"[\"\xff\"]", true, jsonrpc.CodeParseError},
		{"\ufeff[1]", false, jsonrpc.CodeParseError},
		{"]", false, jsonrpc.CodeParseError},
	} {
		if got := jsonrpc.IsBatch([]byte(tc.data)); got != tc.batch {
			t.Errorf("IsBatch(%q) = %t", tc.data, got)
		}
		parts, err := jsonrpc.SplitBatch([]byte(tc.data), jsonrpc.Limits{})
		if err == nil || parts != nil {
			t.Errorf("%q was split into %q", tc.data, parts)
		} else if code := rejection(t, err).Code; code != tc.code {
			t.Errorf("%q: %v, code %d, want %d", tc.data, err, code, tc.code)
		}
	}
}
