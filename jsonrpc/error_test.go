package jsonrpc_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
)

// bound is one limit, with a function that generates input of any size in the limited
// quantity.
type bound struct {
	name    string
	def     int            // the default
	own     int            // another value, as set in ownLim
	ownLim  jsonrpc.Limits // everything else by default
	code    int64          // error code for one more than the limit
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

// members returns an object with n keys.
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
		{"members of params", 10_000, 4, wide, invalidJSON, func(n int) string {
			return notification(members(n))
		}, parse},
		{"members below params", 10_000, 4, wide, invalidJSON,
			func(n int) string { return notification(`{"a":[` + members(n) + `]}`) }, parse},
		{"members of the envelope", 10_000, 4, wide, invalidJSON, func(n int) string {
			return strings.TrimSuffix(members(n-2), "}") + `,"jsonrpc":"2.0","method":"m"}`
		}, parse},

		{"tokens", 1_000_000, 12, tokens, invalidJSON, func(n int) string { return elements(n-1, "0") }, jsonrpc.Check},
		// The envelope counts as one token, its keys and values as seven, "a" and its
		// array as two.
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
	none := jsonrpc.Limits{MaxDepth: -1, MaxMembers: -1, MaxTokens: -1, MaxID: -1, MaxMethod: -1, MaxBatch: -1} // the defaults
	for _, b := range bounds() {
		t.Run(b.name, func(t *testing.T) {
			for _, at := range []struct {
				limit int
				lim   jsonrpc.Limits
			}{{b.def, none}, {b.own, b.ownLim}} {
				must.Check(t, b.accepts([]byte(b.sized(at.limit)), at.lim), at.limit, "the limit")
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

// Parse scans params that are an object differently from other values.
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
		must.CheckThat(t, fits(least, parse) && !fits(least-1, parse),
			"%s: Check counts %d tokens, and Parse another number", data, least)
	}
}

func TestMaxDepthBoundsNestingOnly(t *testing.T) {
	lim := jsonrpc.Limits{MaxDepth: 4}
	for _, value := range []string{"[]", "{}", "[1]", `{"a":1}`, "[[]]", `{"a":{}}`, `[{"a":1},{}]`,
		`{"a":[1],"b":[]}`} {
		for _, data := range []string{elements(20, value), elements(20, "["+value+"]"),
			`{"a":` + value + `,"b":` + value + `,"c":` + value + `,"d":` + value + `}`} {
			must.Check(t, jsonrpc.Check([]byte(data), lim), data)
		}
	}
}

func TestErrorsMatchByCode(t *testing.T) {
	err := fmt.Errorf("calling: %w", jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "no tool %q", "x"))
	must.CheckIs(t, err, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams})
	must.CheckIs(t, err, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: `no tool "x"`})
	for _, other := range []error{
		&jsonrpc.Error{Code: jsonrpc.CodeInternalError},
		&jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "other"}, errors.New(`no tool "x" (code -32602)`),
	} {
		must.CheckThat(t, !errors.Is(err, other), "the error matches %v", other)
	}
	var found *jsonrpc.Error
	must.CheckThat(t, errors.As(err, &found) && found.Error() == `no tool "x" (code -32602)`,
		"errors.As found %v", found)
}

func TestAppendErrorWritesTheSameAsEncodingJSON(t *testing.T) {
	for _, e := range []*jsonrpc.Error{
		{Code: 1, Message: "m"}, {Code: -32700, Message: "é\n\"", Data: json.RawMessage(`{"a":[1]}`)},
		{Data: json.RawMessage(`null`)},
	} {
		std := must.Get(json.Marshal(e))(t)
		if got, want := string(jsonrpc.AppendError(nil, jsonrpc.IntID(1), e, false)),
			`{"jsonrpc":"2.0","id":1,"error":`+string(std)+`}`; got != want {
			t.Errorf("AppendError writes %s, encoding/json %s", got, want)
		}
	}
}

func TestStringAndIntegerIDsDiffer(t *testing.T) {
	one, text := jsonrpc.IntID(1), jsonrpc.StringID("1")
	must.CheckThat(t, one != text && one.String() == "1" && text.String() == `"1"`,
		"the integer is written %s, the string %s", one, text)
	n, ok := one.Int()
	must.CheckThat(t, n == 1 && ok, "the integer is %d, %t", n, ok)
	n, ok = text.Int()
	must.CheckThat(t, n == 0 && !ok, "the string is the integer %d, %t", n, ok)
	must.CheckThat(t, (jsonrpc.ID{}).String() == "" && (jsonrpc.ID{}).IsZero() && !one.IsZero() &&
		!jsonrpc.StringID("").IsZero() && !jsonrpc.IntID(0).IsZero(), "IsZero must be true for the zero ID only")
}

func TestIntReturnsIntegersOf64Bits(t *testing.T) {
	for _, tc := range []struct {
		raw string
		n   int64
		ok  bool
	}{
		{"0", 0, true}, {"-0", 0, true}, {"9007199254740993", 9007199254740993, true},
		{"9223372036854775807", math.MaxInt64, true}, {"-9223372036854775808", math.MinInt64, true},
		{"9223372036854775808", 0, false}, {"-9223372036854775809", 0, false}, {`"7"`, 0, false}, {`""`, 0, false},
	} {
		var id jsonrpc.ID
		must.Do(t, json.Unmarshal([]byte(tc.raw), &id))
		n, ok := id.Int()
		must.CheckThat(t, ok == tc.ok && (!ok || n == tc.n), "%s is %d, %t", tc.raw, n, ok)
		if tc.ok && tc.raw != "-0" && jsonrpc.IntID(tc.n) != id {
			t.Errorf("IntID(%d) is %s", tc.n, jsonrpc.IntID(tc.n))
		}
	}
	_, ok := (jsonrpc.ID{}).Int()
	must.CheckThat(t, !ok, "the zero ID is an integer")
}

func TestIDsSurviveBothJSONPackages(t *testing.T) {
	type holder struct {
		ID jsonrpc.ID `json:"requestId,omitzero"`
	}
	for _, raw := range []string{`1`, `-0`, `9007199254740993`, `"a"`, `"é\n"`, `""`} {
		data := `{"requestId":` + raw + `}`
		var v1, v2 holder
		err := json.Unmarshal([]byte(data), &v1)
		must.CheckThat(t, err == nil && v1.ID.String() == raw, "%s: encoding/json gives %s, %v", data, v1.ID, err)
		if err := jsonv2.Unmarshal([]byte(data), &v2); err != nil || v2 != v1 {
			t.Errorf("%s: json/v2 gives %s, %v", data, v2.ID, err)
		}
		must.CheckEqual(t, string(must.Get(jsonv2.Marshal(v1))(t)), data)
	}
	out, err := json.Marshal(struct {
		holder
		Bare jsonrpc.ID
	}{})
	must.CheckThat(t, err == nil && string(out) == `{"Bare":null}`, "no id is written as %s, %v", out, err)
	for _, raw := range []string{`null`, `1.5`, `1e400`, `true`, `{}`, `[]`, `"\ud800"`, "\"\xff\""} {
		var v1, v2 holder
		err := json.Unmarshal([]byte(`{"requestId":`+raw+`}`), &v1)
		must.CheckThat(t, err != nil && v1.ID.IsZero(), "encoding/json reads %q as the id %s", raw, v1.ID)
		if err := jsonv2.Unmarshal([]byte(`{"requestId":`+raw+`}`), &v2); err == nil || !v2.ID.IsZero() {
			t.Errorf("json/v2 reads %q as the id %s", raw, v2.ID)
		}
	}
	for _, raw := range []string{``, `"`, `"a`, `"a"b"`, `01`, `-`, `--1`, `1 `, ` 1`, "\"\n\""} {
		id := new(jsonrpc.ID)
		must.CheckThat(t, id.UnmarshalJSON([]byte(raw)) != nil, "%q is not JSON, but decodes as the id %s", raw, id)
	}
}

func TestDecodedIDIsACopy(t *testing.T) {
	data := []byte(`"abc"`)
	var id jsonrpc.ID
	must.Do(t, id.UnmarshalJSON(data))
	copy(data, `"xyz"`)
	must.CheckEqual(t, id.String(), `"abc"`, id)
}

func TestSplitBatchReturnsEachElementUnchanged(t *testing.T) {
	for _, want := range [][]string{
		{samples[0]},
		samples[:9],
		// Parse rejects each of them
		{`1`, `"a,b]"`, `null`, `{}`, `[]`, `[1,[2,{"a":[3]}]]`, `-1.5e3`, `"\"]"`, `true`},
	} {
		for _, data := range []string{
			"[" + strings.Join(want, ",") + "]",
			" \t\r\n[ \t\r\n" + strings.Join(want, " \t\r\n, \t\r\n") + " \t\r\n] \t\r\n",
		} {
			must.CheckThat(t, jsonrpc.IsBatch([]byte(data)), "IsBatch(%s) is false", data)
			parts, err := jsonrpc.SplitBatch([]byte(data), jsonrpc.Limits{})
			if err != nil {
				t.Errorf("%s: %v", data, err)
				continue
			}
			var got []string
			for _, part := range parts {
				must.CheckEqual(t, len(part), cap(part), data)
				got = append(got, string(part))
			}
			must.CheckThat(t, slices.Equal(got, want), "%s: split into %q, want %q", data, got, want)
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
		must.CheckEqual(t, jsonrpc.IsBatch([]byte(tc.data)), tc.batch, tc.data)
		parts, err := jsonrpc.SplitBatch([]byte(tc.data), jsonrpc.Limits{})
		if err == nil || parts != nil {
			t.Errorf("%q was split into %q", tc.data, parts)
		} else if code := rejection(t, err).Code; code != tc.code {
			t.Errorf("%q: %v, code %d, want %d", tc.data, err, code, tc.code)
		}
	}
}

func TestAppendWritesEachKindOfMessage(t *testing.T) {
	seven, text := jsonrpc.IntID(7), jsonrpc.StringID("a\"b")
	failure := &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no\nsuch"}
	detailed := &jsonrpc.Error{Code: 5, Message: "", Data: []byte(`[1]`)}
	for _, tc := range []struct{ got, want string }{
		{string(jsonrpc.AppendRequest(nil, seven, "ping", nil)), `{"jsonrpc":"2.0","id":7,"method":"ping"}`},
		{string(jsonrpc.AppendRequest(nil, text, "a\"b", []byte(`{"x":1}`))),
			`{"jsonrpc":"2.0","id":"a\"b","method":"a\"b","params":{"x":1}}`},
		{string(jsonrpc.AppendRequest(nil, seven, "ping", []byte{})), `{"jsonrpc":"2.0","id":7,"method":"ping"}`},
		{string(jsonrpc.AppendNotification(nil, "n", nil)), `{"jsonrpc":"2.0","method":"n"}`},
		{string(jsonrpc.AppendNotification(nil, "n", []byte(`{}`))), `{"jsonrpc":"2.0","method":"n","params":{}}`},
		{string(jsonrpc.AppendResult(nil, text, []byte(`{}`))), `{"jsonrpc":"2.0","id":"a\"b","result":{}}`},
		{string(jsonrpc.AppendError(nil, seven, failure, false)),
			`{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"no\nsuch"}}`},
		{string(jsonrpc.AppendError(nil, seven, &jsonrpc.Error{Code: 5, Data: []byte{}}, false)),
			`{"jsonrpc":"2.0","id":7,"error":{"code":5,"message":""}}`},
		{string(jsonrpc.AppendError(nil, seven, detailed, true)),
			`{"jsonrpc":"2.0","id":7,"error":{"code":5,"message":"","data":[1]}}`},
		{string(jsonrpc.AppendError(nil, jsonrpc.ID{}, failure, true)),
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no\nsuch"}}`},
		{string(jsonrpc.AppendError(nil, jsonrpc.ID{}, failure, false)),
			`{"jsonrpc":"2.0","error":{"code":-32601,"message":"no\nsuch"}}`},
		{string(jsonrpc.AppendRequest([]byte("before"), seven, "m", nil)),
			`before{"jsonrpc":"2.0","id":7,"method":"m"}`},
		{string(jsonrpc.AppendError([]byte("before"), seven, detailed, false)),
			`before{"jsonrpc":"2.0","id":7,"error":{"code":5,"message":"","data":[1]}}`},
	} {
		must.CheckEqual(t, tc.got, tc.want)
	}
}
