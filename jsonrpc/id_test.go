package jsonrpc_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/jsonrpc"
)

func TestStringAndIntegerIDsDiffer(t *testing.T) {
	one, text := jsonrpc.IntID(1), jsonrpc.StringID("1")
	if one == text || one.String() != "1" || text.String() != `"1"` {
		t.Errorf("the integer is written %s, the string %s", one, text)
	}
	if n, ok := one.Int(); n != 1 || !ok {
		t.Errorf("the integer is %d, %t", n, ok)
	}
	if n, ok := text.Int(); n != 0 || ok {
		t.Errorf("the string is the integer %d, %t", n, ok)
	}
	if (jsonrpc.ID{}).String() != "" || !(jsonrpc.ID{}).IsZero() || one.IsZero() || jsonrpc.StringID("").IsZero() || jsonrpc.IntID(0).IsZero() {
		t.Error("IsZero must be true for the zero ID only")
	}
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
		if err := json.Unmarshal([]byte(tc.raw), &id); err != nil {
			t.Fatal(err)
		}
		if n, ok := id.Int(); ok != tc.ok || ok && n != tc.n {
			t.Errorf("%s is %d, %t", tc.raw, n, ok)
		}
		if tc.ok && tc.raw != "-0" && jsonrpc.IntID(tc.n) != id {
			t.Errorf("IntID(%d) is %s", tc.n, jsonrpc.IntID(tc.n))
		}
	}
	if _, ok := (jsonrpc.ID{}).Int(); ok {
		t.Error("the zero ID is an integer")
	}
}

func TestIDsSurviveBothJSONPackages(t *testing.T) {
	type holder struct {
		ID jsonrpc.ID `json:"requestId,omitzero"`
	}
	for _, raw := range []string{`1`, `-0`, `9007199254740993`, `"a"`, `"é\n"`, `""`} {
		data := `{"requestId":` + raw + `}`
		var v1, v2 holder
		if err := json.Unmarshal([]byte(data), &v1); err != nil || v1.ID.String() != raw {
			t.Errorf("%s: encoding/json gives %s, %v", data, v1.ID, err)
		}
		if err := jsonv2.Unmarshal([]byte(data), &v2); err != nil || v2 != v1 {
			t.Errorf("%s: json/v2 gives %s, %v", data, v2.ID, err)
		}
		if out, err := jsonv2.Marshal(v1); err != nil || string(out) != data {
			t.Errorf("%s: json/v2 writes %s, %v", data, out, err)
		}
	}
	if out, err := json.Marshal(struct {
		holder
		Bare jsonrpc.ID
	}{}); err != nil || string(out) != `{"Bare":null}` {
		t.Errorf("no id is written as %s, %v", out, err)
	}
	for _, raw := range []string{`null`, `1.5`, `1e3`, `true`, `{}`, `[]`, `"\ud800"`, "\"\xff\""} {
		var v1, v2 holder
		if err := json.Unmarshal([]byte(`{"requestId":`+raw+`}`), &v1); err == nil || !v1.ID.IsZero() {
			t.Errorf("encoding/json reads %q as the id %s", raw, v1.ID)
		}
		if err := jsonv2.Unmarshal([]byte(`{"requestId":`+raw+`}`), &v2); err == nil || !v2.ID.IsZero() {
			t.Errorf("json/v2 reads %q as the id %s", raw, v2.ID)
		}
	}
	for _, raw := range []string{``, `"`, `"a`, `"a"b"`, `01`, `-`, `--1`, `1 `, ` 1`, "\"\n\""} {
		if id := new(jsonrpc.ID); id.UnmarshalJSON([]byte(raw)) == nil {
			t.Errorf("%q is not JSON, but decodes as the id %s", raw, id)
		}
	}
}

func TestDecodedIDIsACopy(t *testing.T) {
	data := []byte(`"abc"`)
	var id jsonrpc.ID
	if err := id.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	copy(data, `"xyz"`)
	if id.String() != `"abc"` {
		t.Errorf("the id became %s when its input changed", id)
	}
}

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

func TestAppendWritesEachKindOfMessage(t *testing.T) {
	seven, text := jsonrpc.IntID(7), jsonrpc.StringID("a\"b")
	failure := &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no\nsuch"}
	detailed := &jsonrpc.Error{Code: 5, Message: "", Data: []byte(`[1]`)}
	for _, tc := range []struct{ got, want string }{
		{string(jsonrpc.AppendRequest(nil, seven, "ping", nil)), `{"jsonrpc":"2.0","id":7,"method":"ping"}`},
		{string(jsonrpc.AppendRequest(nil, text, "a\"b", []byte(`{"x":1}`))), `{"jsonrpc":"2.0","id":"a\"b","method":"a\"b","params":{"x":1}}`},
		{string(jsonrpc.AppendRequest(nil, seven, "ping", []byte{})), `{"jsonrpc":"2.0","id":7,"method":"ping"}`},
		{string(jsonrpc.AppendNotification(nil, "n", nil)), `{"jsonrpc":"2.0","method":"n"}`},
		{string(jsonrpc.AppendNotification(nil, "n", []byte(`{}`))), `{"jsonrpc":"2.0","method":"n","params":{}}`},
		{string(jsonrpc.AppendResult(nil, text, []byte(`{}`))), `{"jsonrpc":"2.0","id":"a\"b","result":{}}`},
		{string(append(jsonrpc.AppendResultHead(nil, seven), `{}}`...)), `{"jsonrpc":"2.0","id":7,"result":{}}`},
		{string(jsonrpc.AppendError(nil, seven, failure, false)), `{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"no\nsuch"}}`},
		{string(jsonrpc.AppendError(nil, seven, detailed, true)), `{"jsonrpc":"2.0","id":7,"error":{"code":5,"message":"","data":[1]}}`},
		{string(jsonrpc.AppendError(nil, jsonrpc.ID{}, failure, true)), `{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no\nsuch"}}`},
		{string(jsonrpc.AppendError(nil, jsonrpc.ID{}, failure, false)), `{"jsonrpc":"2.0","error":{"code":-32601,"message":"no\nsuch"}}`},
		{string(jsonrpc.AppendRequest([]byte("before"), seven, "m", nil)), `before{"jsonrpc":"2.0","id":7,"method":"m"}`},
		{string(jsonrpc.AppendError([]byte("before"), seven, detailed, false)), `before{"jsonrpc":"2.0","id":7,"error":{"code":5,"message":"","data":[1]}}`},
	} {
		if tc.got != tc.want {
			t.Errorf("wrote %s, want %s", tc.got, tc.want)
		}
	}
}
