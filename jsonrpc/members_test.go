package jsonrpc_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
)

type member struct{ name, value string }

// objects lists objects with their keys and values in order.
var objects = []struct {
	data    string
	members []member
}{
	{`{}`, nil},
	{" { \t\r\n } ", nil},
	{`{"a":1}`, []member{{"a", "1"}}},
	{`{"":""}`, []member{{"", `""`}}},
	{`{"b":-1.5e+3,"a":true,"c":false,"d":null}`, []member{{"b", "-1.5e+3"}, {"a", "true"}, {"c", "false"},
		{"d", "null"}}},
	{`{"a":{"b":{"c":[{"d":"}"}]}},"e":[[],{},"]"]}`, []member{{"a", `{"b":{"c":[{"d":"}"}]}}`}, {"e", `[[],{},"]"]`}}},
	{"\t{ \"a\" :\n1 ,\r\"b\"\t: [ 1 , { } ] , \"c\" : \" : , } \" }\n",
		[]member{{"a", "1"}, {"b", "[ 1 , { } ]"}, {"c", `" : , } "`}}},
	{`{"a":"\"","b":"\\","c":"\\\"","d":"{\"x\":[","e":"é😀\u00e9"}`,
		[]member{{"a", `"\""`}, {"b", `"\\"`}, {"c", `"\\\""`}, {"d", `"{\"x\":["`}, {"e", `"é😀\u00e9"`}}},
	{`{"m\u0065thod":1,"\"\\\/\b\f\n\r\t":2,"\ud83d\ude00":3,"é":4}`,
		[]member{{"method", "1"}, {"\"\\/\b\f\n\r\t", "2"}, {"😀", "3"}, {"é", "4"}}},
	{`{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","progressToken":7}}`,
		[]member{{"_meta", `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","progressToken":7}`}}},
	// More keys than the scan records.
	{`{"0":0,"1":1,"2":2,"3":3,"4":4,"5":5,"6":6,"7":7}`,
		[]member{{"0", "0"}, {"1", "1"}, {"2", "2"}, {"3", "3"}, {"4", "4"}, {"5", "5"}, {"6", "6"}, {"7", "7"}}},
	{`{"0":0,"1":1,"2":2,"3":3,"4":4,"5":5,"6":6,"7":7,"\u0038":8}`,
		[]member{{"0", "0"}, {"1", "1"}, {"2", "2"}, {"3", "3"}, {"4", "4"}, {"5", "5"}, {"6", "6"}, {"7", "7"},
			{"8", "8"}}},
	{`{ "0":0,"1":{"1":1},"2":[2] , "3":"3","4":4,"5":5,"6":6,"7":7, "8" : 8,"9":{ } , "10":"" }`,
		[]member{{"0", "0"}, {"1", `{"1":1}`}, {"2", "[2]"}, {"3", `"3"`}, {"4", "4"}, {"5", "5"}, {"6", "6"},
			{"7", "7"}, {"8", "8"}, {"9", "{ }"}, {"10", `""`}}},
}

// collect returns the pairs of an iteration, and checks that appending to a value
// cannot change the input.
func collect(t *testing.T, all func(func(string, []byte) bool)) (got []member) {
	t.Helper()
	for name, value := range all {
		must.CheckEqual(t, len(value), cap(value), name)
		got = append(got, member{name, string(value)})
	}
	return got
}

func TestAllAndGetFindEachMemberOfAnObject(t *testing.T) {
	for _, o := range objects {
		obj := []byte(o.data)
		must.Do(t, jsonrpc.Check(obj, jsonrpc.Limits{}), o.data)
		got := collect(t, jsonrpc.All(obj))
		must.CheckThat(t, slices.Equal(got, o.members), "%s: All yields %q, want %q", o.data, got, o.members)
		for _, m := range o.members {
			value, ok := jsonrpc.Get(obj, m.name)
			must.CheckThat(t, ok && string(value) == m.value, "%s: Get of %q gives %q, %t", o.data, m.name, value, ok)
		}
		for _, name := range []string{"missing", "b ", "B", "c", "x", `m\u0065thod`} {
			want := slices.ContainsFunc(o.members, func(m member) bool { return m.name == name })
			if value, ok := jsonrpc.Get(obj, name); ok != want || (value != nil) != want {
				t.Errorf("%s: Get of %q gives %q, %t", o.data, name, value, ok)
			}
		}
	}
}

func TestParamsAreTheMembersOfTheirObject(t *testing.T) {
	for _, o := range objects {
		for _, envelope := range []string{`{"jsonrpc":"2.0","method":"m","params":%s}`,
			`{"params":%s,"jsonrpc":"2.0","id":1,"method":"m","x":{"a":1}}`} {
			data := fmt.Sprintf(envelope, o.data)
			m, err := jsonrpc.Parse([]byte(data), jsonrpc.Limits{})
			must.Do(t, err, data)
			must.CheckEqual(t, string(m.Raw), strings.TrimSpace(o.data), data)
			must.CheckEqual(t, m.Params.Len(), len(o.members), data)
			got := collect(t, m.Params.All())
			must.CheckThat(t, slices.Equal(got, o.members), "%s: All yields %q, want %q", data, got, o.members)
			for _, want := range o.members {
				value, ok := m.Params.Get(want.name)
				if present := want.value != "null"; ok != present ||
					present && (string(value) != want.value || len(value) != cap(value)) {
					t.Errorf("%s: Get of %q gives %q, %t", data, want.name, value, ok)
				}
			}
			value, ok := m.Params.Get("missing")
			must.CheckThat(t, !ok && value == nil, "%s: Get of a missing name gives %q, %t", data, value, ok)
		}
	}
}

func TestIterationOverMembersCanStopEarly(t *testing.T) {
	for _, n := range []int{8, 20} {
		m := must.Get(jsonrpc.Parse([]byte(notification(members(n))), jsonrpc.Limits{}))(t)
		for _, all := range []func(func(string, []byte) bool){m.Params.All(), jsonrpc.All(m.Raw)} {
			seen := 0
			for name := range all {
				if seen++; name == "3" {
					break
				}
			}
			must.CheckEqual(t, seen, 4, n)
		}
	}
}

func TestZeroMembersIsEmpty(t *testing.T) {
	var none jsonrpc.Members
	_, ok := none.Get("")
	must.CheckThat(t, !ok && none.Len() == 0 && len(collect(t, none.All())) == 0, "the zero Members has a member")
}

func TestAllAndGetDoNotPanicOnAnyInput(t *testing.T) {
	var pieces = []string{`{`, `}`, `[`, `]`, `"`, `\`, `:`, `,`, ` `, `1`, `a`, `\u`, `\ud800\u`, "\x80"}
	var try func(prefix string, more int)
	try = func(prefix string, more int) {
		for range jsonrpc.All([]byte(prefix)) {
		}
		jsonrpc.Get([]byte(prefix), "a")
		jsonrpc.Unquote([]byte(prefix))
		if more > 0 {
			for _, p := range pieces {
				try(prefix+p, more-1)
			}
		}
	}
	try("", 3)
	try(`{"`, 4)
	try(`{"a":`, 4)
	try(`"`, 4)
}

// excesses returns values that exceed a limit.
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
			`{"jsonrpc":"2.0","id":7,"result":%s}`: {Kind: jsonrpc.Response,
				ID: jsonrpc.IntID(7)},
			`{"result":%s,"id":"a","jsonrpc":"2.0"}`: {Kind: jsonrpc.Response,
				ID: jsonrpc.StringID("a")},
			`{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"m","data":%s}}`: {Kind: jsonrpc.Response,
				ID: jsonrpc.IntID(7)},
			`{"jsonrpc":"2.0","id":7,"method":"m","params":%s}`: {Kind: jsonrpc.Request,
				ID: jsonrpc.IntID(7)},
			`{"params":%s,"method":"m","id":7,"jsonrpc":"2.0"}`: {Kind: jsonrpc.Request,
				ID: jsonrpc.IntID(7)},
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
			must.CheckThat(t, errors.As(err, &limit) && limit.Name == name && limit.Limit != 0,
				"%s in %s: %v", name, format, err)
			must.CheckEqual(t, m.Kind, want.Kind, name, format)
			must.CheckEqual(t, m.ID, want.ID, name, format)
		}
	}
}

// A response with another fault is identified, too. A request is not: its id may be read
// in two ways.
func TestOnlyResponsesAreIdentifiedIfTheyAreNotStrictJSON(t *testing.T) {
	for _, fault := range []string{`{"a":1,"a":2}`, `{"a":NaN}`, "{\"a\":\"\xff\"}", `{"\ud800":1}`, "{\"a\":\"\t\"}",
		`{"a":01}`, `{"a":[1}`} {
		for format, want := range map[string]jsonrpc.Kind{
			`{"jsonrpc":"2.0","id":7,"result":%s}`:              jsonrpc.Response,
			`{"jsonrpc":"2.0","id":7,"method":"m","params":%s}`: jsonrpc.Invalid,
			`{"jsonrpc":"2.0","method":"m","params":%s}`:        jsonrpc.Invalid,
		} {
			m, err := jsonrpc.Parse(fmt.Appendf(nil, format, fault), jsonrpc.Limits{})
			var limit *jsonrpc.LimitError
			must.CheckThat(t, err != nil && !errors.As(err, &limit), "%s in %s: %v", fault, format, err)
			must.CheckThat(t, m.Kind == want && (m.ID == jsonrpc.IntID(7)) == (want == jsonrpc.Response),
				"%s in %s: kind %d, id %s, want %d", fault, format, m.Kind, m.ID, want)
		}
	}
}

func TestUnquoteReturnsTheTextOfAString(t *testing.T) {
	for _, tc := range []struct{ raw, want string }{
		{`""`, ""}, {`"a"`, "a"}, {`"é😀"`, "é😀"}, {`" "`, " "}, {"\"\x7f\"", "\x7f"},
		{`"\"\\\/\b\f\n\r\t"`, "\"\\/\b\f\n\r\t"},
		{`"\u0000\u0041\u00e9\u20AC\uFFFD"`, "\x00Aé€\ufffd"},
		{`"\ud83d\ude00"`, "😀"}, {`"\uD83D\uDE00\ud83d\ude00"`, "😀😀"}, {`"\udbff\udfff"`, "\U0010ffff"},
		{`"\ud800\udc00"`, "\U00010000"},
		{`"a\nb\nc"`, "a\nb\nc"}, {`"\\n"`, `\n`}, {`"\\\\"`, `\\`}, {`"a\\"`, `a\`}, {`"\u005cn"`, `\n`},
		{`"\\u0041"`, `\u0041`},
		{`"` + strings.Repeat("x", 100) + `\t` + strings.Repeat("é", 100) + `"`,
			strings.Repeat("x", 100) + "\t" + strings.Repeat("é", 100)},
	} {
		must.CheckEqual(t, jsonrpc.Unquote([]byte(tc.raw)), tc.want, tc.raw)
		var std string
		err := json.Unmarshal([]byte(tc.raw), &std)
		must.CheckThat(t, err == nil && std == tc.want, "encoding/json reads %s as %q, %v", tc.raw, std, err)
	}
	for _, raw := range []string{"", `"`, "1", "null", "true", "{}", `{"a":"b"}`, `["a"]`} {
		must.CheckEqual(t, jsonrpc.Unquote([]byte(raw)), "", raw)
	}
}

func TestUnquoteInvertsAppendString(t *testing.T) {
	for r := rune(0); r <= utf8.MaxRune; r++ {
		if r == 0xD800 {
			r = 0xE000 // surrogates are not characters
		}
		if r > 0xFFFF {
			r = min(r+250, utf8.MaxRune)
		}
		raw := jsonrpc.AppendString(nil, string(r))
		must.Equal(t, jsonrpc.Unquote(raw), string(r), raw)
	}
}

func TestAppendStringUsesFewEscapes(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"", `""`}, {"a", `"a"`}, {"/", `"/"`}, {"<>&'", `"<>&'"`}, {"é€😀", `"é€😀"`}, {"\x7f", "\"\x7f\""},
		{"\u2028\u2029", "\"\u2028\u2029\""},
		{"\"\\\b\f\n\r\t", `"\"\\\b\f\n\r\t"`}, {"\x00\x01\x0b\x0e\x1f", `"\u0000\u0001\u000b\u000e\u001f"`},
		{"\xff", "\"\ufffd\""}, {"a\xe2\x82z", "\"a\ufffd\ufffdz\""}, {"\xed\xa0\x80", "\"\ufffd\ufffd\ufffd\""},
		{"é\xa9é", "\"é\ufffdé\""}, {"\ufffd", "\"\ufffd\""},
		{"12345678\n12345678\x80\"1234567é", "\"12345678\\n12345678\ufffd\\\"1234567é\""},
	} {
		must.CheckEqual(t, string(jsonrpc.AppendString([]byte("before"), tc.text)), "before"+tc.want, tc.text, tc.want)
	}
}

func TestMembersAreRemovedFromACopyOfAnObject(t *testing.T) {
	for _, test := range []struct{ object, want string }{
		{`{"a":1,"b":[2],"c":{}}`, `{"b":[2]}`},
		{`{ "b" : "\"" , "c":1 }`, `{"b":"\""}`},
		{`{"c":1}`, `{}`},
		{`{"b": 1}`, `{"b": 1}`},
		{`{}`, `{}`},
		{``, ``},
	} {
		object := json.RawMessage(test.object)
		if got := jsonrpc.Without(object, "a", "c"); string(got) != test.want || string(object) != test.object {
			t.Errorf("%s: %s, want %s", test.object, got, test.want)
		}
	}
}
