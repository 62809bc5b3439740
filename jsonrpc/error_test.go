package jsonrpc_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/jsonrpc"
)

// bound is one limit, with input of any size in the quantity that it limits.
type bound struct {
	name    string
	def     int            // the default
	own     int            // another value, as set in ownLim
	ownLim  jsonrpc.Limits // everything else by default
	code    int64          // the code of the error for one more
	sized   func(n int) string
	accepts func(data []byte, lim jsonrpc.Limits) error
}

func parse(data []byte, lim jsonrpc.Limits) error {
	_, err := jsonrpc.Parse(data, lim)
	return err
}

func splitBatch(data []byte, lim jsonrpc.Limits) error {
	_, err := jsonrpc.SplitBatch(data, lim)
	return err
}

func notification(params string) string {
	return `{"jsonrpc":"2.0","method":"m","params":` + params + `}`
}

// members returns an object of n members.
func members(n int) string {
	var b strings.Builder
	b.WriteByte('{')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"%d":0`, i)
	}
	b.WriteByte('}')
	return b.String()
}

func elements(n int, element string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
}

// nested returns n arrays and objects, alternating, one inside the other.
func nested(n int) string {
	var open, shut string
	for i := range n {
		if i%2 == 0 {
			open, shut = open+"[", "]"+shut
		} else {
			open, shut = open+`{"a":0,"b":`, "}"+shut
		}
	}
	if n%2 == 0 {
		open += "0" // the value of b
	}
	return open + shut
}

func bounds() []bound {
	const invalidRequest, invalidJSON = jsonrpc.CodeInvalidRequest, jsonrpc.CodeParseError
	depth, wide, tokens := jsonrpc.Limits{MaxDepth: 5}, jsonrpc.Limits{MaxMembers: 4}, jsonrpc.Limits{MaxTokens: 12}
	id, method, batch := jsonrpc.Limits{MaxID: 6}, jsonrpc.Limits{MaxMethod: 6}, jsonrpc.Limits{MaxBatch: 6}
	return []bound{
		{"depth of arrays", 128, 5, depth, invalidJSON, func(n int) string {
			return strings.Repeat("[", n) + strings.Repeat("]", n)
		}, jsonrpc.Check},
		{"depth of objects", 128, 5, depth, invalidJSON, func(n int) string {
			return strings.Repeat(`{"a":`, n-1) + "{}" + strings.Repeat("}", n-1)
		}, jsonrpc.Check},
		{"depth of both", 128, 5, depth, invalidJSON, nested, jsonrpc.Check},
		{"depth of params", 128, 5, depth, invalidJSON, func(n int) string {
			return notification(`{"a":` + nested(n-2) + "}")
		}, parse},
		{"depth of a batch", 128, 5, depth, invalidJSON, nested, splitBatch},

		{"members", 10_000, 4, wide, invalidJSON, members, jsonrpc.Check},
		{"members of params", 10_000, 4, wide, invalidJSON, func(n int) string { return notification(members(n)) }, parse},
		{"members below params", 10_000, 4, wide, invalidJSON, func(n int) string { return notification(`{"a":[` + members(n) + `]}`) }, parse},
		{"members of the envelope", 10_000, 4, wide, invalidJSON, func(n int) string {
			return strings.TrimSuffix(members(n-2), "}") + `,"jsonrpc":"2.0","method":"m"}`
		}, parse},

		{"tokens", 1_000_000, 12, tokens, invalidJSON, func(n int) string { return elements(n-1, "0") }, jsonrpc.Check},
		// The envelope is a token, its names and values are seven, "a" and its array two.
		{"tokens in params", 1_000_000, 12, tokens, invalidJSON, func(n int) string {
			return notification(`{"a":` + elements(n-9, "0") + "}")
		}, parse},
		{"tokens, the last of them empty params", 1_000_000, 12, tokens, invalidJSON, func(n int) string {
			return `{"jsonrpc":"2.0","method":"m","x":` + elements(n-9, "0") + `,"params":{}}`
		}, parse},

		{"id of digits", 256, 6, id, invalidRequest, func(n int) string {
			return `{"jsonrpc":"2.0","method":"m","id":` + strings.Repeat("1", n) + `}`
		}, parse},
		{"id in quotes", 256, 6, id, invalidRequest, func(n int) string {
			return `{"jsonrpc":"2.0","method":"m","id":"` + strings.Repeat("1", n-2) + `"}`
		}, parse},
		{"id of a response", 256, 6, id, invalidRequest, func(n int) string {
			return `{"jsonrpc":"2.0","result":{},"id":` + strings.Repeat("1", n) + `}`
		}, parse},
		{"method", 128, 6, method, invalidRequest, func(n int) string {
			return `{"jsonrpc":"2.0","method":"` + strings.Repeat("m", n) + `"}`
		}, parse},
		{"batch", 100, 6, batch, invalidRequest, func(n int) string {
			return elements(n, `{"jsonrpc":"2.0","method":"m"}`)
		}, splitBatch},
	}
}

func TestInputAtEachLimitPassesAndOneMoreFails(t *testing.T) {
	for _, b := range bounds() {
		t.Run(b.name, func(t *testing.T) {
			for _, at := range []struct {
				limit int
				lim   jsonrpc.Limits
			}{{b.def, jsonrpc.Limits{}}, {b.own, b.ownLim}} {
				if err := b.accepts([]byte(b.sized(at.limit)), at.lim); err != nil {
					t.Errorf("%d, the limit: %v", at.limit, err)
				}
				err := b.accepts([]byte(b.sized(at.limit+1)), at.lim)
				if err == nil {
					t.Errorf("%d, one above the limit: accepted", at.limit+1)
				} else if code := rejection(t, err).Code; code != b.code {
					t.Errorf("%d, one above the limit: rejected with code %d, want %d", at.limit+1, code, b.code)
				}
			}
		})
	}
}

// Parse scans params that are an object in a different way than other values.
func TestParseAndCheckCountTheSameTokens(t *testing.T) {
	for _, data := range []string{
		`{"jsonrpc":"2.0","method":"m","params":{}}`,
		`{"params":{},"jsonrpc":"2.0","method":"m"}`,
		notification(`{"a":[{},"b"],"c":{"d":1}}`),
	} {
		fits := func(tokens int, accepts func([]byte, jsonrpc.Limits) error) bool {
			return accepts([]byte(data), jsonrpc.Limits{MaxTokens: tokens}) == nil
		}
		least := 1
		for !fits(least, jsonrpc.Check) {
			least++
		}
		if !fits(least, parse) || fits(least-1, parse) {
			t.Errorf("%s: Check counts %d tokens, and Parse another number", data, least)
		}
	}
}

func TestNegativeLimitsMeanTheDefaults(t *testing.T) {
	none := jsonrpc.Limits{MaxDepth: -1, MaxMembers: -1, MaxTokens: -1, MaxID: -1, MaxMethod: -1, MaxBatch: -1}
	for _, b := range bounds() {
		if b.def > 10_000 && b.name != "tokens" {
			continue // one such limit is enough, because each takes long
		}
		if err := b.accepts([]byte(b.sized(b.def)), none); err != nil {
			t.Errorf("%s of %d: %v", b.name, b.def, err)
		}
		if b.accepts([]byte(b.sized(b.def+1)), none) == nil {
			t.Errorf("%s of %d accepted", b.name, b.def+1)
		}
	}
}

func TestMaxDepthBoundsNestingOnly(t *testing.T) {
	lim := jsonrpc.Limits{MaxDepth: 4}
	for _, value := range []string{"[]", "{}", "[1]", `{"a":1}`, "[[]]", `{"a":{}}`, `[{"a":1},{}]`, `{"a":[1],"b":[]}`} {
		for _, data := range []string{elements(20, value), elements(20, "["+value+"]"), `{"a":` + value + `,"b":` + value + `,"c":` + value + `,"d":` + value + `}`} {
			if err := jsonrpc.Check([]byte(data), lim); err != nil {
				t.Errorf("%s: %v", data, err)
			}
		}
	}
}

func TestErrorsMatchByCode(t *testing.T) {
	err := fmt.Errorf("calling: %w", jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "no tool %q", "x"))
	if !errors.Is(err, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams}) {
		t.Error("the error does not match its code")
	}
	if !errors.Is(err, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: `no tool "x"`}) {
		t.Error("the error does not match its code and message")
	}
	for _, other := range []error{
		&jsonrpc.Error{Code: jsonrpc.CodeInternalError}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "other"}, errors.New(`no tool "x" (code -32602)`),
	} {
		if errors.Is(err, other) {
			t.Errorf("the error matches %v", other)
		}
	}
	var found *jsonrpc.Error
	if !errors.As(err, &found) || found.Error() != `no tool "x" (code -32602)` {
		t.Errorf("errors.As found %v", found)
	}
}

func TestAppendErrorWritesTheSameAsEncodingJSON(t *testing.T) {
	for _, e := range []*jsonrpc.Error{
		{Code: 1, Message: "m"}, {Code: -32700, Message: "é\n\"", Data: json.RawMessage(`{"a":[1]}`)}, {Data: json.RawMessage(`null`)},
	} {
		std, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := string(jsonrpc.AppendError(nil, jsonrpc.IntID(1), e, false)), `{"jsonrpc":"2.0","id":1,"error":`+string(std)+`}`; got != want {
			t.Errorf("AppendError writes %s, encoding/json %s", got, want)
		}
	}
}
