package jsonrpc_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/jsonrpc"
)

// excesses are values that exceed a limit.
func excesses() map[string]string {
	return map[string]string{
		"MaxMembers": members(10_001),
		"MaxDepth":   `{"a":` + nested(130) + `}`,
		"MaxTokens":  `{"a":` + elements(1_000_001, "0") + `}`,
	}
}

// A request that waits for a response over a limit would otherwise wait until its time-out.
func TestMessageOverALimitIsIdentified(t *testing.T) {
	for name, value := range excesses() {
		for format, want := range map[string]jsonrpc.Message{
			`{"jsonrpc":"2.0","id":7,"result":%s}`:                                  {Kind: jsonrpc.Response, ID: jsonrpc.IntID(7)},
			`{"result":%s,"id":"a","jsonrpc":"2.0"}`:                                {Kind: jsonrpc.Response, ID: jsonrpc.StringID("a")},
			`{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"m","data":%s}}`:   {Kind: jsonrpc.Response, ID: jsonrpc.IntID(7)},
			`{"jsonrpc":"2.0","id":7,"method":"m","params":%s}`:                     {Kind: jsonrpc.Request, ID: jsonrpc.IntID(7)},
			`{"params":%s,"method":"m","id":7,"jsonrpc":"2.0"}`:                     {Kind: jsonrpc.Request, ID: jsonrpc.IntID(7)},
			`{"jsonrpc":"2.0","method":"m","params":%s}`:                            {Kind: jsonrpc.Notification},
			`{"jsonrpc":"2.0","id":7,"result":%s,"id":8}`:                           {},
			`{"jsonrpc":"2.0","result":%s,"id":7.5}`:                                {},
			`{"jsonrpc":"2.0","result":%s,"id":"` + "\xff" + `"}`:                   {},
			`{"jsonrpc":"2.0","result":%s,"id":"` + strings.Repeat("x", 300) + `"}`: {},
			`{"jsonrpc":"1.0","id":7,"result":%s}`:                                  {},
			`{"id":7,"result":%s}`:                                                  {},
			`%s`:                                                                    {},
		} {
			m, err := jsonrpc.Parse(fmt.Appendf(nil, format, value), jsonrpc.Limits{})
			var limit *jsonrpc.LimitError
			if !errors.As(err, &limit) || limit.Name != name || limit.Limit == 0 {
				t.Errorf("%s in %s: %v", name, format, err)
			}
			if m.Kind != want.Kind || m.ID != want.ID {
				t.Errorf("%s in %s: kind %d, id %s, want %d, %s", name, format, m.Kind, m.ID, want.Kind, want.ID)
			}
		}
	}
}

// A response with another fault is identified too. A request is not: its id may be read in
// two ways.
func TestOnlyResponsesAreIdentifiedIfTheyAreNotStrictJSON(t *testing.T) {
	for _, fault := range []string{`{"a":1,"a":2}`, `{"a":NaN}`, "{\"a\":\"\xff\"}", `{"\ud800":1}`, "{\"a\":\"\t\"}", `{"a":01}`, `{"a":[1}`} {
		for format, want := range map[string]jsonrpc.Kind{
			`{"jsonrpc":"2.0","id":7,"result":%s}`:              jsonrpc.Response,
			`{"jsonrpc":"2.0","id":7,"method":"m","params":%s}`: jsonrpc.Invalid,
			`{"jsonrpc":"2.0","method":"m","params":%s}`:        jsonrpc.Invalid,
		} {
			m, err := jsonrpc.Parse(fmt.Appendf(nil, format, fault), jsonrpc.Limits{})
			var limit *jsonrpc.LimitError
			if err == nil || errors.As(err, &limit) {
				t.Errorf("%s in %s: %v", fault, format, err)
			}
			if m.Kind != want || (m.ID == jsonrpc.IntID(7)) != (want == jsonrpc.Response) {
				t.Errorf("%s in %s: kind %d, id %s, want %d", fault, format, m.Kind, m.ID, want)
			}
		}
	}
}

func TestResponsesOfARejectedBatchAreIdentified(t *testing.T) {
	response := func(id any, result string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":%s}`, id, result)
	}
	var long []string
	var all []jsonrpc.ID
	for i := range 101 {
		long = append(long, response(i, "{}"))
		all = append(all, jsonrpc.IntID(int64(i)))
	}
	for name, c := range map[string]struct {
		batch string
		want  []jsonrpc.ID
		limit string
	}{
		"too long":     {"[" + strings.Join(long, ",") + "]", all, "MaxBatch"},
		"too wide":     {"[" + response(1, members(10_001)) + " , " + response(2, "{}") + "]", []jsonrpc.ID{jsonrpc.IntID(1), jsonrpc.IntID(2)}, "MaxMembers"},
		"requests too": {`[{"jsonrpc":"2.0","id":1,"method":"m"},` + response(`"a"`, members(10_001)) + "]", []jsonrpc.ID{jsonrpc.StringID("a")}, "MaxMembers"},
		"incomplete":   {"[" + response(1, "{}") + "," + `{"jsonrpc":"2.0","id":2`, []jsonrpc.ID{jsonrpc.IntID(1)}, ""},
		"empty":        {"[]", nil, ""},
		"numbers":      {"[1,2", nil, ""},
		"no batch":     {response(1, "{}"), nil, ""},
	} {
		_, err := jsonrpc.SplitBatch([]byte(c.batch), jsonrpc.Limits{})
		var limit *jsonrpc.LimitError
		if err == nil || errors.As(err, &limit) != (c.limit != "") || limit != nil && limit.Name != c.limit {
			t.Errorf("%s: %v", name, err)
		}
		if got := slices.Collect(jsonrpc.Responses([]byte(c.batch))); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
