package outbound_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/jsonrpc"
)

func TestResponsesOfARejectedBatchAreIdentified(t *testing.T) {
	response := func(id any, result string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":%s}`, id, result)
	}
	var members []string
	for i := range 10_001 {
		members = append(members, fmt.Sprintf(`"%d":0`, i))
	}
	wide := "{" + strings.Join(members, ",") + "}"
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
		"too long": {"[" + strings.Join(long, ",") + "]", all, "MaxBatch"},
		"too wide": {"[" + response(1, wide) + " , " + response(2, "{}") + "]",
			[]jsonrpc.ID{jsonrpc.IntID(1), jsonrpc.IntID(2)}, "MaxMembers"},
		"requests too": {`[{"jsonrpc":"2.0","id":1,"method":"m"},` + response(`"a"`, wide) + "]",
			[]jsonrpc.ID{jsonrpc.StringID("a")}, "MaxMembers"},
		"incomplete": {"[" + response(1, "{}") + "," + `{"jsonrpc":"2.0","id":2`, []jsonrpc.ID{jsonrpc.IntID(1)}, ""},
		"empty":      {"[]", nil, ""},
		"numbers":    {"[1,2", nil, ""},
		"no batch":   {response(1, "{}"), nil, ""},
	} {
		_, err := jsonrpc.SplitBatch([]byte(c.batch), jsonrpc.Limits{})
		var limit *jsonrpc.LimitError
		must.CheckThat(t, err != nil && errors.As(err, &limit) == (c.limit != "") &&
			(limit == nil || limit.Name == c.limit), "%s: %v", name, err)
		got := slices.Collect(outbound.Responses([]byte(c.batch)))
		must.CheckThat(t, slices.Equal(got, c.want), "%s: got %v, want %v", name, got, c.want)
	}
}
