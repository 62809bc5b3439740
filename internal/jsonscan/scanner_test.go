package jsonscan_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/internal/jsonscan"
	"github.com/parley-mcp/parley/internal/must"
)

func bounds() jsonscan.Scanner {
	return jsonscan.Scanner{MaxDepth: 10_000, MaxMembers: 1 << 20, MaxTokens: 1 << 20}
}

// check scans a text without recording it.
func check(text []byte) *jsonscan.Error {
	s := bounds()
	s.Data = text
	var names jsonscan.Names
	if !s.Whole(&names) {
		return s.Err()
	}
	return nil
}

// record scans a text into a document.
func record(d *jsonscan.Document, text []byte) *jsonscan.Error {
	d.Reset()
	d.Raw = text
	s := bounds()
	if !d.Scan(&s, 0) {
		return s.Err()
	}
	return nil
}

func TestScannerReportsFaultAndOffset(t *testing.T) {
	for _, test := range []struct {
		text   string
		fault  jsonscan.Fault
		offset int
	}{
		{``, jsonscan.UnexpectedEnd, 0},
		{`[1,`, jsonscan.UnexpectedEnd, 3},
		{`{"a"`, jsonscan.UnexpectedEnd, 4},
		{`x`, jsonscan.UnexpectedCharacter, 0},
		{`nul`, jsonscan.UnknownLiteral, 0},
		{`[01]`, jsonscan.ExpectedElementEnd, 2},
		{`-`, jsonscan.MalformedNumber, 1},
		{`1.x`, jsonscan.MalformedNumber, 2},
		{`"a`, jsonscan.UnterminatedString, 2},
		{"\"a\n\"", jsonscan.ControlCharacter, 2},
		{`"\x"`, jsonscan.MalformedEscape, 1},
		{`"\ud800"`, jsonscan.LoneSurrogate, 1},
		{"\"\xff\"", jsonscan.InvalidUTF8, 1},
		{`{1:2}`, jsonscan.ExpectedName, 1},
		{`{"a" 1}`, jsonscan.ExpectedColon, 5},
		{`{"a":1 "b"}`, jsonscan.ExpectedMemberEnd, 7},
		{`[1 2]`, jsonscan.ExpectedElementEnd, 3},
		{`{"a":1, "\u0061":2}`, jsonscan.DuplicateName, 8},
		{`1 2`, jsonscan.TrailingData, 2},
	} {
		for name, got := range map[string]*jsonscan.Error{
			"check": check([]byte(test.text)), "record": record(&jsonscan.Document{}, []byte(test.text)),
		} {
			must.CheckThat(t, got != nil && got.Fault == test.fault && got.Offset == test.offset,
				"%s %q: %v, want %v at byte %d", name, test.text, got, test.fault, test.offset)
		}
	}
}

func TestScannerHoldsItsBounds(t *testing.T) {
	for _, test := range []struct {
		bounds         jsonscan.Scanner
		within, beyond string
		fault          jsonscan.Fault
	}{
		{jsonscan.Scanner{MaxDepth: 2, MaxMembers: 9, MaxTokens: 9}, `[{}]`, `[{"a":[]}]`, jsonscan.TooDeep},
		{jsonscan.Scanner{MaxDepth: 9, MaxMembers: 2, MaxTokens: 9}, `{"a":1,"b":2}`, `{"a":1,"b":2,"c":3}`,
			jsonscan.TooManyMembers},
		{jsonscan.Scanner{MaxDepth: 9, MaxMembers: 9, MaxTokens: 5}, `{"a":1,"b":2}`, `{"a":1,"b":[2]}`,
			jsonscan.TooManyTokens},
		{jsonscan.Scanner{MaxDepth: 9, MaxMembers: 9, MaxTokens: 9, MaxExponent: 2}, `[1e0099,1e-99]`, `1e+100`,
			jsonscan.TooLargeExponent},
	} {
		for _, text := range []string{test.within, test.beyond} {
			s, names := test.bounds, jsonscan.Names{}
			s.Data = []byte(text)
			switch ok := s.Whole(&names); {
			case text == test.within && !ok:
				t.Errorf("%s: %v", text, s.Err())
			case text == test.beyond && (ok || s.Err().Fault != test.fault):
				t.Errorf("%s: %v, want %v", text, s.Err(), test.fault)
			}
		}
	}
}

// wide returns the content of an object: n keys, and one more called last,
// all with the same value.
func wide(n int, last, value string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"%d":%s,`, i, value)
	}
	fmt.Fprintf(&b, `%q:0`, last)
	return b.String()
}

// The hash tables of open objects lie one after the other, and grow while
// inner objects begin and end.
func TestDuplicateNamesAreFoundInNestedWideObjects(t *testing.T) {
	for _, n := range []int{1, 2, 23, 24, 25, 63, 64, 65, 200} {
		for _, inner := range []int{1, 24, 25, 100} {
			unique, twice := `{`+wide(inner, "x", "[]")+`}`, `{`+wide(inner, "0", "[]")+`}`
			for _, test := range []struct {
				text string
				ok   bool
			}{
				{`{` + wide(n, "x", unique) + `}`, true},
				{`{` + wide(n, "0", unique) + `}`, false},
				{`{"first":` + twice + `,` + wide(n, "x", unique) + `}`, false},
				{`{` + wide(n, "x", unique) + `,"last":` + twice + `}`, false},
			} {
				got := check([]byte(test.text))
				must.CheckEqual(t, got == nil, test.ok, n, inner, got)
			}
		}
	}
}

func TestDocumentRecordsTokensInOrder(t *testing.T) {
	text := `{"a":[1,2.0],"\u0062":{"c":"\n"},"d":[]}`
	var d jsonscan.Document
	for range 2 { // again, in the same memory
		err := record(&d, []byte(text))
		must.That(t, err == nil, "%v", err)
		var got strings.Builder
		for _, token := range d.Tokens {
			fmt.Fprintf(&got, "%s %s next %d count %d plain %v\n", text[token.Start:token.End], token.Kind, token.Next,
				token.Count, token.Plain)
		}
		want := text + ` object next 11 count 3 plain false
a string next 2 count 0 plain true
[1,2.0] array next 5 count 2 plain false
1 number next 4 count 0 plain true
2.0 number next 5 count 0 plain false
\u0062 string next 6 count 0 plain false
{"c":"\n"} object next 9 count 1 plain false
c string next 8 count 0 plain true
\n string next 9 count 0 plain false
d string next 10 count 0 plain true
[] array next 11 count 0 plain false
`
		must.CheckEqual(t, got.String(), want)
	}
}

func TestDocumentTakesSeveralValues(t *testing.T) {
	d := jsonscan.Document{Raw: []byte(`[1]`)}
	s := bounds()
	if !d.Scan(&s, 0) {
		t.Fatal(s.Err())
	}
	d.Raw = append(d.Raw, ` {"a":2}`...)
	s = bounds()
	if !d.Scan(&s, len(`[1]`)) {
		t.Fatal(s.Err())
	}
	n := len(d.Tokens)
	must.CheckThat(t, n == 5 && d.Tokens[2].Kind == jsonscan.KindObject && d.Tokens[2].Next == 5, "%+v", d.Tokens)
}

// Each byte is put at each position of a string, alone and after a backslash. jsontext decides which strings are
// valid.
func TestStringsAreValidIfAnotherReaderAcceptsThem(t *testing.T) {
	const size = 80
	for at := range size {
		for c := range 256 {
			for _, escape := range []string{"", `\`} {
				plain := strings.Repeat("~", at) + escape + string([]byte{byte(c)}) + strings.Repeat("~", size-at)
				text := []byte(`["` + plain + `"]`)
				if err, valid := check(text), jsontext.Value(text).IsValid(); (err == nil) != valid {
					t.Fatalf("%q: %v, jsontext says valid: %v", text, err, valid)
				}
			}
		}
	}
}

// FuzzScan compares the scanner with another strict reader of JSON, and scanning
// with and without recording.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{`{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `"\ud800"`, `"\ud83d\udca9"`, "\"\xff\"",
		`[1,]`, `01`, `-`, `1.`, `1e`, `{"a"}`, `nul`,
		`{"a":{"b":[1,2,{"c":"d"}]}}`, "\"\x01\"", `"\x"`, ` [ ] `, `1 2`, ``, `{"a":1,}`, `"aaaaaaaaaaaaaaa\n"`,
		`"éééééééé"`, `{` + wide(70, "7", "{}") + `}`} {
		f.Add([]byte(seed))
	}
	var d jsonscan.Document
	f.Fuzz(func(t *testing.T, text []byte) {
		checked, recorded := check(text), record(&d, text)
		must.Equal(t, jsontext.Value(text).IsValid(), checked == nil, text, checked, "jsontext says valid")
		must.That(t, (checked == nil) == (recorded == nil) && (checked == nil || *checked == *recorded),
			"%q: %v without recording, %v with it", text, checked, recorded)
	})
}

func TestErrorNamesFaultAndOffset(t *testing.T) {
	err := check([]byte(`{"a":1,"a":2}`))
	must.CheckThat(t, err != nil && err.Error() == "duplicate key at byte 7", "got %v", err)
}

func TestSkipStringFindsTheClosingQuote(t *testing.T) {
	for text, want := range map[string]int{
		`""`: 2, `"a",`: 3, `"\"",`: 4, `"\\","`: 4, `"\\\"",`: 6, `"a\\\\" "`: 7, `"é\u0022":"`: 10,
		`"open`: 5, `"open\"`: 7, `"`: 1, ``: 0,
	} {
		must.CheckEqual(t, jsonscan.SkipString([]byte(text), 0), want, text)
	}
}

func TestElementsYieldsTheValuesOfAnArray(t *testing.T) {
	for text, want := range map[string][]string{
		`[]`: nil, ` [ ] `[1:]: nil, `[1,"a]",{"b":[2,3]} , [ ],null]`: {`1`, `"a]"`, `{"b":[2,3]}`, `[ ]`, `null`},
		`[`: nil, `[1,`: {`1`}, `[}`: nil,
	} {
		var got []string
		for value := range jsonscan.Elements([]byte(text)) {
			got = append(got, string(value))
		}
		must.CheckThat(t, slices.Equal(got, want), "%s: %q, want %q", text, got, want)
	}
}

func TestReplaceLineBreaksKeepsTheRest(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "",
		`{"a":"b\n"}`:                    `{"a":"b\n"}`,
		"\r\n[\n\n1,\r\n\"\\r\\n\"]\n\r": "  [  1,  \"\\r\\n\"]  ",
	} {
		got := []byte(text)
		if jsonscan.ReplaceLineBreaks(got); string(got) != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestSkipPlainSkipsPlainBytesOnly(t *testing.T) {
	for c := range 256 {
		d := bytes.Repeat([]byte{byte(c)}, 41)
		want := len(d)
		if c < ' ' || c >= 0x80 || c == '"' || c == '\\' {
			want = 0
		}
		if got := jsonscan.SkipPlain(d, 0); got != want {
			t.Errorf("%q: %d, want %d", d[:1], got, want)
		}
	}
}

func TestSkipPlainFindsTheFirstByteThatIsNotPlain(t *testing.T) {
	for size := range 120 {
		for from := range size {
			for at := from; at <= size; at++ {
				for _, c := range []byte{'"', '\\', 0, 0x1f, 0x80, 0xff} {
					d := bytes.Repeat([]byte{'~'}, size)
					if from > 0 {
						d[from-1] = c // before the first byte
					}
					if at < size {
						d[at] = c
						d[size-1] = c // a later one
					}
					must.Equal(t, jsonscan.SkipPlain(d, from), at, size, from)
				}
			}
		}
	}
}

func TestMarshalReplacesBytesThatAreNotUTF8(t *testing.T) {
	for want, v := range map[string]any{
		`{"a":"caf` + "\uFFFD" + `"}`:                          map[string]string{"a": "caf\xe9"},
		`["` + "\uFFFD\uFFFD" + `"]`:                           jsontext.Value("[\"\xe9\xe8\"]"),
		`{"` + "\uFFFD" + `":[1],"` + "\uFFFD" + ` (2)":1.50}`: jsontext.Value("{\"\xe9\":[1],\"\xe8\":1.50}"),
	} {
		for _, options := range []jsontext.Options{nil, jsontext.PreserveRawStrings(true)} {
			got, err := jsonscan.Marshal(v, options)
			must.CheckThat(t, string(got) == want && err == nil, "%s, %v, want %s", got, err, want)
		}
	}
	for _, v := range []any{make(chan int), jsontext.Value(`{`), jsontext.Value(`{"a":1,"a":2}`),
		jsontext.Value("{\"\xe9\":1,\"a\":1,\"a\":2}")} {
		got, err := jsonscan.Marshal(v)
		must.CheckThat(t, err != nil, "%v is encoded as %s", v, got)
	}
}

// The id of a message is found wherever it is, in pieces of any size.
func TestEnvelopeFindsTheID(t *testing.T) {
	for message, want := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"method":"m","params":{"s":"x"}}`:        "7 request",
		`{"method":"m","params":{"id":8,"a":[{"id":9}]},"id":7}`:          "7 request", // as several SDKs write it
		" {\n\"params\" : {} ,\t\"id\" : \"a}\\\"b\" , \"method\":\"m\"}": `"a}\"b" request`,
		`{"id":"7","result":{"id":1}}`:                                    `"7" response`,
		`{"error":{"code":1,"message":"\\"},"id":-7}`:                     "-7 response",
		`{"id":7,"result":{"s":"cut`:                                      "7 response",
		`{"method":"m","params":{"id":1}}`:                                " notification",
		`{"id":null,"method":"m"}`:                                        "null request",
		`{"id":1.0,"method":"m"}`:                                         "1.0 request",
		`{"id":{"a":1},"method":"m"}`:                                     " request",
		`{"id":1,"id":2,"method":"m"}`:                                    " none",
		`{"id":1,"method":"m","result":{}}`:                               " none",
		`{"id":` + strings.Repeat("1", 2000) + `,"method":"m"}`:           " none",
		`{"x` + strings.Repeat("y", 2000) + `":0,"id":1,"method":"m"}`:    "1 request",
		`[{"id":1,"method":"m"}]`:                                         " none",
		`"id":1,"method":"m"`:                                             " none",
		`{"ID":1,"method":"m"}`:                                           " notification",
		"":                                                                " none",
	} {
		for _, size := range []int{1, 3, len(message) + 1} {
			var e jsonscan.Envelope
			for i := 0; i < len(message); i += size {
				e.Write([]byte(message[i:min(i+size, len(message))]))
			}
			id, request, response := e.ID()
			must.CheckEqual(t, e.IsNotification(), want == " notification", message)
			want := strings.Replace(want, "notification", "none", 1)
			kind := map[[2]bool]string{{false, false}: "none", {true, false}: "request", {false, true}: "response"}[[2]bool{
				request, response}]
			must.CheckEqual(t, fmt.Sprintf("%s %s", id, kind), want, message, size)
		}
	}
}

// encoding/json decodes a key into a field whose name equals the key or a
// variant of it.
func TestVariantsAreThoseOfEncodingJSON(t *testing.T) {
	for _, spelling := range []string{"tasks", "Tasks", "TASKS", "tasKs", "ta\u017fks", "ta\u017f\u212as", "tas\u212a\u017f",
		"\u212aeys", "tasksx", "task", ""} {
		var lenient struct {
			V *int `json:"tasks"`
		}
		must.Do(t, json.Unmarshal([]byte(`{"`+spelling+`":1}`), &lenient))
		must.CheckEqual(t, jsonscan.IsVariant(spelling, []string{"id", "tasks"}), lenient.V != nil && spelling != "tasks",
			spelling)
	}
}
