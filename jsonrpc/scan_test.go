package jsonrpc_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
)

// rejection returns err as an InvalidMessageError, which all errors of the package are.
func rejection(t *testing.T, err error) *jsonrpc.InvalidMessageError {
	t.Helper()
	var invalid *jsonrpc.InvalidMessageError
	must.That(t, errors.As(err, &invalid), "error is %#v, want an *InvalidMessageError", err)
	return invalid
}

// checkVerdict checks that Check accepts data, or rejects it with a parse error.
func checkVerdict(t *testing.T, data string, accept bool) {
	t.Helper()
	err := jsonrpc.Check([]byte(data), jsonrpc.Limits{})
	switch {
	case accept && err != nil:
		t.Errorf("%q rejected: %v", data, err)
	case !accept && err == nil:
		t.Errorf("%q accepted", data)
	case !accept:
		invalid := rejection(t, err)
		must.CheckThat(t, invalid.Code == jsonrpc.CodeParseError && invalid.Offset >= 0 &&
			invalid.Offset <= len(data) && invalid.Reason != "",
			"%q: rejected with %+v, want a parse error with a reason and an offset", data, invalid)
	}
}

func TestCheckAcceptsTheGrammarOnly(t *testing.T) {
	for _, tc := range []struct {
		accept bool
		data   []string
	}{
		{true, []string{
			`{}`, `[]`, `""`, `0`, `true`, `false`, `null`,
			" \t\r\n{ \t\r\n\"a\" \t\r\n: \t\r\n[ \t\r\n1 \t\r\n, \t\r\n2 \t\r\n] \t\r\n} \t\r\n",
			`[[],{},"",0,true,false,null]`, `{"":{"":{"":""}}}`,
		}},
		{false, []string{
			``, ` `, `{`, `}`, `[`, `]`, `"`, `,`, `:`, `{}}`, `[]]`, `{]`, `[}`,
			`[1,]`, `[,1]`, `[1 2]`, `[1;2]`, `[,]`, `[1,,2]`,
			`{"a":1,}`, `{,"a":1}`, `{"a" 1}`, `{"a"}`, `{"a":}`, `{"a"::1}`, `{"a":1 "b":2}`, `{1:2}`, `{a:1}`,
			`{'a':1}`, `{null:1}`,
			`tru`, `True`, `TRUE`, `truee`, `nul`, `nulll`, `fals`, `undefined`, `'a'`,
		}},
		{false, []string{ // extensions that some parsers accept
			`NaN`, `[NaN]`, `Infinity`, `-Infinity`, `+1`, `0x10`, `1_000`, `.5`, `5.`,
			`{} {}`, `{}{}`, `1 2`, "{}\n{}", `"a""b"`, `null,`, // concatenated
			"// c\n1", `/* c */1`, `1/* c */`, `[1/**/]`, `{"a":1 // c` + "\n}", "# c\n1",
			"\x00", "1\x00", "{}\x00", "\x00{}", "[\x00]", "{\"a\"\x00:1}", "\"\x00\"",
			"\v1", "\f1", "1\v", "\u00a01", "\u20281", "1\u2028", "\u200b1", // white space in other standards
			"\ufeff{}", "\ufeff", "{}\ufeff", "[\ufeff1]", // byte order marks
			"\xff\xfe{\x00}\x00", "\xfe\xff\x00{\x00}", "{\x00}\x00", "\x00\x00\x00{", // UTF-16, UTF-32
		}},
	} {
		for _, data := range tc.data {
			checkVerdict(t, data, tc.accept)
		}
	}
}

func TestCheckAcceptsNumbers(t *testing.T) {
	for _, number := range []string{
		"0", "-0", "1", "-1", "10", "1234567890", "9007199254740993", "-9223372036854775809",
		"0.0", "-0.0", "0.5", "1.25", "10.010", "0e0", "0E0", "1e5", "1E5", "1e+5", "1e-5", "1E+05", "-1.5e-300",
		"1e400", "0.0e-0",
		strings.Repeat("9", 10_000), "0." + strings.Repeat("0", 10_000) + "1",
	} {
		for _, around := range []string{"%s", " %s ", "[%s]", "[%s,%[1]s]", `{"a":%s}`, "[ %s ]"} {
			checkVerdict(t, fmt.Sprintf(around, number), true)
		}
	}
	for _, number := range []string{
		"-", "--1", "+1", "+", "00", "01", "-01", "-00", "1.", "1.e1", ".1", "-.1", "1.2.3", "1e", "1E", "1e+", "1e-",
		"1e+-1", "1e1.5", "1ee1",
		"0x1", "0b1", "0o7", "1f", "1_0", "1a", "e1", "-e1", "-a", "1,5e", "١", "１", "1\x00", "- 1", "1 .5",
	} {
		for _, around := range []string{"%s", "[%s]", `{"a":%s}`, "[0,%s,0]", `{"a":[%s],"b":0}`} {
			checkVerdict(t, fmt.Sprintf(around, number), false)
		}
	}
}

func TestCheckAcceptsTheRightBytesAtEachPositionOfAString(t *testing.T) {
	// 20 positions: the scan reads eight bytes at a time.
	const text = "abcdefghijklmnopqrst"
	for at := range len(text) {
		for b := range 256 {
			c := byte(b)
			s := []byte(text)
			s[at] = c
			accept := c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\'
			if c == '\\' && at+1 < len(s) {
				accept = strings.ContainsRune("bfnrt", rune(s[at+1]))
			}
			checkVerdict(t, `"`+string(s)+`"`, accept)
			checkVerdict(t, `{"`+string(s)+`":1}`, accept)
		}
	}
}

func TestCheckAcceptsEscapes(t *testing.T) {
	for b := range 256 {
		c := byte(b)
		checkVerdict(t, `"\`+string([]byte{c})+`"`, strings.IndexByte(`"\/bfnrt`, c) >= 0)
		isHex := '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
		for at := range 4 {
			code := []byte("0061")
			code[at] = c
			checkVerdict(t, `"\u`+string(code)+`"`, isHex)
		}
	}
	for _, s := range []string{`"\u"`, `"\u0"`, `"\u00"`, `"\u006"`, `"\u`, `"\u0061`, `"\`, `"\\`, `"\"`, `"\U0061"`,
		`"\x61"`, `"\u{61}"`, `"\u-061"`, `"\u+061"`, `"\u 061"`} {
		checkVerdict(t, s, false)
	}
}

func TestCheckRejectsLoneSurrogatesEverywhere(t *testing.T) {
	places := []string{
		`"%s"`, `"a%s"`, `"%sa"`, `"1234567%s"`, `"12345678%s12345678"`, `"é%s"`, `"\n%s\n"`,
		`["%s"]`, `{"%s":1}`, `{"a":"%s"}`, `{"a":{"b%s":[]}}`, `[[["%s"]]]`,
	}
	for _, place := range places {
		for _, lone := range []string{
			// one half, or both in the wrong order
			`\ud800`, `\uD800`, `\udbff`, `\udc00`, `\uDFFF`, `\udfff\ud800`, `\udc00\udc00`,
			`\ud800\ud800`, `\ud83d\u0041`, `\ud83d\udbff`, `\ud83d\ue000`, `\ud83d\uffff`, `\ud83dx`, `\ud83dxude00`,
			`\ud83d\xde00`, `\ud83d\n`, `\ud83d\`, `\ud83d\u`, `\ud83d\ude0g`, `\ud83d \ude00`, `\ud83du de00`,
			`\ude00\ud83d\ude00`, `\ud83d\ude00\ude00`,
			"\xed\xa0\x80", "\xed\xbf\xbf", "\xed\xa0\xbd\xed\xb8\x80", // as bytes
		} {
			checkVerdict(t, fmt.Sprintf(place, lone), false)
		}
		for _, whole := range []string{`\ud800\udc00`, `\uDBFF\uDFFF`, `\ud83d\uDE00`, `\ud7ff`, `\ue000`, `\uffff`,
			`\u0000`, "😀"} {
			checkVerdict(t, fmt.Sprintf(place, whole), true)
		}
	}
}

func TestCheckRejectsDuplicateNames(t *testing.T) {
	for _, data := range []string{
		`{"a":1,"a":1}`, `{"a":1,"b":2,"a":3}`, `{"":1,"":2}`,
		`{"x":{"a":1,"a":2}}`, `[{"a":1,"a":2}]`, `[[{"x":[{"a":1,"a":2}]}]]`, `{"x":{},"y":{"z":{"a":{},"a":{}}}}`,
		`{"a":{"b":1},"a":{"b":1}}`, `{"a":{"a":{}},"a":1}`,
		`{"a":1,"\u0061":2}`, `{"\u0061":1,"a":2}`, `{"\u0061":1,"\u0061":2}`, // with escapes
		`{"é":1,"\u00e9":2}`, `{"é":1,"\u00E9":2}`, `{"😀":1,"\ud83d\ude00":2}`, `{"/":1,"\/":2}`, `{"\n":1,"\u000a":2}`,
		`{"\"":1,"\u0022":2}`, `{"\\":1,"\u005c":2}`,
		`{"\u0000":1,"\u0000":2}`,
	} {
		checkVerdict(t, data, false)
		err := jsonrpc.Check([]byte(data), jsonrpc.Limits{})
		must.CheckThat(t, err == nil || strings.Contains(err.Error(), "duplicate"),
			"%q rejected with %q, want a reason that mentions duplicates", data, err)
	}
	for _, data := range []string{
		`{"a":{"a":{"a":1}}}`, `[{"a":1},{"a":1}]`, `{"x":{"a":1},"y":{"a":1},"a":1}`,
		`{"x":{"a":1,"b":1},"a":1,"b":1}`,
		`{"a":1,"A":2}`, "{\"\u00e9\":1,\"e\u0301\":2}", `{"a":1,"a ":2,"a\u0000":3}`, `{"a":"a","b":"a"}`,
	} {
		checkVerdict(t, data, true) // different names, some of which look the same
	}
}

// wide returns an object with n keys, 0 to n-1, and one more called last.
func wide(n int, last string) string {
	var b strings.Builder
	b.WriteByte('{')
	for i := range n {
		fmt.Fprintf(&b, `"%d":{"0":%d},`, i, i)
	}
	fmt.Fprintf(&b, `%s:0}`, strconv.Quote(last))
	return b.String()
}

func TestCheckRejectsDuplicateNamesInObjectsOfAnySize(t *testing.T) {
	// Sizes around those at which the hash table takes over and the first list of names is
	// full.
	for _, n := range []int{1, 2, 8, 22, 23, 24, 25, 26, 30, 31, 32, 33, 40, 64, 65} {
		checkVerdict(t, wide(n, "x"), true)
		checkVerdict(t, `[`+wide(n, "x")+`,`+wide(n, "x")+`]`, true)
		checkVerdict(t, `{"0":`+wide(n, "x")+`,"1":`+wide(n, "x")+`}`, true)
		for dup := range n {
			checkVerdict(t, wide(n, strconv.Itoa(dup)), false)
			checkVerdict(t, `{"0":`+wide(n, strconv.Itoa(dup))+`}`, false)
		}
	}
	checkVerdict(t, wide(9_999, "x"), true)
	for _, dup := range []int{0, 1, 23, 24, 25, 31, 32, 5_000, 9_998} {
		checkVerdict(t, wide(9_999, strconv.Itoa(dup)), false)
	}
}

// A nested object shares the list of open names with the objects around it. It must
// not allocate, however full that list is.
func TestNestedSiblingsDoNotAllocateEach(t *testing.T) {
	const siblings = 1_000
	message := func(names int) []byte {
		var b, end strings.Builder
		for left := names; left > 0; left -= 20 {
			b.WriteByte('{')
			for i := 1; i < min(left, 20); i++ {
				fmt.Fprintf(&b, `"%d":0,`, i)
			}
			b.WriteString(`"x":`)
			end.WriteByte('}')
		}
		b.WriteString(`[{"a":1}` + strings.Repeat(`,{"a":1}`, siblings) + `]` + end.String())
		return []byte(b.String())
	}
	check := func(names int) float64 {
		data := message(names)
		return testing.AllocsPerRun(1, func() { must.Do(t, jsonrpc.Check(data, jsonrpc.Limits{})) })
	}
	// Counts around those that fill the list: powers of two, and the sizes of append.
	for _, full := range []int{16, 24, 32, 64, 128, 256, 512, 848, 1024, 1280, 1792, 2048} {
		for names := full - 1; names <= full+1; names++ {
			if allocs := check(names); allocs > 50 {
				t.Errorf("%d open names, %d siblings: %v allocations", names, siblings, allocs)
			}
		}
	}
}
