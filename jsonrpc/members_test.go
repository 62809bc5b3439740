package jsonrpc_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/jsonrpc"
)

type member struct{ name, value string }

// objects lists objects with their members in order.
var objects = []struct {
	data    string
	members []member
}{
	{`{}`, nil},
	{" { \t\r\n } ", nil},
	{`{"a":1}`, []member{{"a", "1"}}},
	{`{"":""}`, []member{{"", `""`}}},
	{`{"b":-1.5e+3,"a":true,"c":false,"d":null}`, []member{{"b", "-1.5e+3"}, {"a", "true"}, {"c", "false"}, {"d", "null"}}},
	{`{"a":{"b":{"c":[{"d":"}"}]}},"e":[[],{},"]"]}`, []member{{"a", `{"b":{"c":[{"d":"}"}]}}`}, {"e", `[[],{},"]"]`}}},
	{"\t{ \"a\" :\n1 ,\r\"b\"\t: [ 1 , { } ] , \"c\" : \" : , } \" }\n", []member{{"a", "1"}, {"b", "[ 1 , { } ]"}, {"c", `" : , } "`}}},
	{`{"a":"\"","b":"\\","c":"\\\"","d":"{\"x\":[","e":"é😀\u00e9"}`, []member{{"a", `"\""`}, {"b", `"\\"`}, {"c", `"\\\""`}, {"d", `"{\"x\":["`}, {"e", `"é😀\u00e9"`}}},
	{`{"m\u0065thod":1,"\"\\\/\b\f\n\r\t":2,"\ud83d\ude00":3,"é":4}`, []member{{"method", "1"}, {"\"\\/\b\f\n\r\t", "2"}, {"😀", "3"}, {"é", "4"}}},
	{`{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","progressToken":7}}`, []member{{"_meta", `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","progressToken":7}`}}},
	// More members than the scan records.
	{`{"0":0,"1":1,"2":2,"3":3,"4":4,"5":5,"6":6,"7":7}`, []member{{"0", "0"}, {"1", "1"}, {"2", "2"}, {"3", "3"}, {"4", "4"}, {"5", "5"}, {"6", "6"}, {"7", "7"}}},
	{`{"0":0,"1":1,"2":2,"3":3,"4":4,"5":5,"6":6,"7":7,"\u0038":8}`, []member{{"0", "0"}, {"1", "1"}, {"2", "2"}, {"3", "3"}, {"4", "4"}, {"5", "5"}, {"6", "6"}, {"7", "7"}, {"8", "8"}}},
	{`{ "0":0,"1":{"1":1},"2":[2] , "3":"3","4":4,"5":5,"6":6,"7":7, "8" : 8,"9":{ } , "10":"" }`, []member{{"0", "0"}, {"1", `{"1":1}`}, {"2", "[2]"}, {"3", `"3"`}, {"4", "4"}, {"5", "5"}, {"6", "6"}, {"7", "7"}, {"8", "8"}, {"9", "{ }"}, {"10", `""`}}},
}

// collect returns the members of an iteration, and checks that appending to a value
// cannot change the input.
func collect(t *testing.T, all func(func(string, []byte) bool)) (got []member) {
	t.Helper()
	for name, value := range all {
		if len(value) != cap(value) {
			t.Errorf("appending to the value of %q would write into the input", name)
		}
		got = append(got, member{name, string(value)})
	}
	return got
}

func TestAllAndGetFindEachMemberOfAnObject(t *testing.T) {
	for _, o := range objects {
		obj := []byte(o.data)
		if err := jsonrpc.Check(obj, jsonrpc.Limits{}); err != nil {
			t.Fatalf("%s: %v", o.data, err)
		}
		if got := collect(t, jsonrpc.All(obj)); !slices.Equal(got, o.members) {
			t.Errorf("%s: All yields %q, want %q", o.data, got, o.members)
		}
		for _, m := range o.members {
			if value, ok := jsonrpc.Get(obj, m.name); !ok || string(value) != m.value {
				t.Errorf("%s: Get of %q gives %q, %t", o.data, m.name, value, ok)
			}
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
		for _, envelope := range []string{`{"jsonrpc":"2.0","method":"m","params":%s}`, `{"params":%s,"jsonrpc":"2.0","id":1,"method":"m","x":{"a":1}}`} {
			data := fmt.Sprintf(envelope, o.data)
			m, err := jsonrpc.Parse([]byte(data), jsonrpc.Limits{})
			if err != nil {
				t.Fatalf("%s: %v", data, err)
			}
			if string(m.Raw) != strings.TrimSpace(o.data) {
				t.Errorf("%s: raw params are %s", data, m.Raw)
			}
			if m.Params.Len() != len(o.members) {
				t.Errorf("%s: params have %d members, want %d", data, m.Params.Len(), len(o.members))
			}
			if got := collect(t, m.Params.All()); !slices.Equal(got, o.members) {
				t.Errorf("%s: All yields %q, want %q", data, got, o.members)
			}
			for _, want := range o.members {
				if value, ok := m.Params.Get(want.name); !ok || string(value) != want.value || len(value) != cap(value) {
					t.Errorf("%s: Get of %q gives %q, %t", data, want.name, value, ok)
				}
			}
			if value, ok := m.Params.Get("missing"); ok || value != nil {
				t.Errorf("%s: Get of a missing name gives %q, %t", data, value, ok)
			}
		}
	}
}

func TestIterationOverMembersCanStopEarly(t *testing.T) {
	for _, n := range []int{8, 20} {
		m, err := jsonrpc.Parse([]byte(notification(members(n))), jsonrpc.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		for _, all := range []func(func(string, []byte) bool){m.Params.All(), jsonrpc.All(m.Raw)} {
			seen := 0
			for name := range all {
				if seen++; name == "3" {
					break
				}
			}
			if seen != 4 {
				t.Errorf("of %d members %d were seen up to the fourth", n, seen)
			}
		}
	}
}

func TestZeroMembersIsEmpty(t *testing.T) {
	var none jsonrpc.Members
	if _, ok := none.Get(""); ok || none.Len() != 0 || len(collect(t, none.All())) != 0 {
		t.Error("the zero Members has a member")
	}
	if name, ok := none.CaseVariant("a"); ok {
		t.Errorf("the zero Members has a variant %q", name)
	}
}

func TestCaseVariantFindsNamesThatDifferInCase(t *testing.T) {
	known := []string{"name", "arguments", "_meta", "task", "k"}
	for _, n := range []int{0, 7, 8, 30} { // members before the variant
		for _, tc := range []struct{ name, text string }{
			{`Name`, "Name"}, {`NAME`, "NAME"}, {`nAme`, "nAme"}, {`_Meta`, "_Meta"}, {`argumentſ`, "argumentſ"}, {`\u004eame`, "Name"},
			{"tas\u212a", "tas\u212a"}, {"ta\u017f\u212a", "ta\u017f\u212a"}, {"\u212a", "\u212a"}, {`\u212a`, "\u212a"}, {"K", "K"}, // KELVIN SIGN folds to k
			{`name`, ""}, {`names`, ""}, {`nam`, ""}, {``, ""}, {`meta`, ""}, {`ñame`, ""}, {`n\u0061me`, ""},
		} {
			params := strings.TrimSuffix(members(n), "}")
			if n > 0 {
				params += ","
			}
			params += `"` + tc.name + `":1}`
			m, err := jsonrpc.Parse([]byte(notification(params)), jsonrpc.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if got, ok := m.Params.CaseVariant(known...); got != tc.text || ok != (tc.text != "") {
				t.Errorf("%s: got %q, %t, want %q", params, got, ok, tc.text)
			}
			if got, ok := m.Params.CaseVariant(); ok {
				t.Errorf("%s: %q is a variant, though no name is known", params, got)
			}
		}
	}
}

// A known name is not a variant of another known name.
func TestCaseVariantIgnoresKnownNames(t *testing.T) {
	m, err := jsonrpc.Parse([]byte(notification(`{"uri":1,"URI":2,"Uri":3}`)), jsonrpc.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := m.Params.CaseVariant("URI", "uri"); got != "Uri" {
		t.Errorf("got %q, want Uri", got)
	}
}

// encoding/json decodes into a field the members with its name or a variant of it.
func TestCaseVariantFoldsAsEncodingJSONDoes(t *testing.T) {
	for _, spelling := range append(cases("tasks"), "ta\u017f\u212as", "\u212aeys", "tasksx") {
		var lenient struct {
			V *int `json:"tasks"`
		}
		obj := `{"` + spelling + `":1}`
		if err := json.Unmarshal([]byte(obj), &lenient); err != nil {
			t.Fatal(err)
		}
		m, err := jsonrpc.Parse([]byte(notification(obj)), jsonrpc.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if _, variant := m.Params.CaseVariant("tasks"); variant != (lenient.V != nil && spelling != "tasks") {
			t.Errorf("%q: variant %t, decoded by encoding/json %t", spelling, variant, lenient.V != nil)
		}
	}
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
