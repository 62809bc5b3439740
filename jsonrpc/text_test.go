package jsonrpc_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/parley-mcp/parley/jsonrpc"
)

func TestUnquoteReturnsTheTextOfAString(t *testing.T) {
	for _, tc := range []struct{ raw, want string }{
		{`""`, ""}, {`"a"`, "a"}, {`"é😀"`, "é😀"}, {`" "`, " "}, {"\"\x7f\"", "\x7f"},
		{`"\"\\\/\b\f\n\r\t"`, "\"\\/\b\f\n\r\t"},
		{`"\u0000\u0041\u00e9\u20AC\uFFFD"`, "\x00Aé€\ufffd"},
		{`"\ud83d\ude00"`, "😀"}, {`"\uD83D\uDE00\ud83d\ude00"`, "😀😀"}, {`"\udbff\udfff"`, "\U0010ffff"}, {`"\ud800\udc00"`, "\U00010000"},
		{`"a\nb\nc"`, "a\nb\nc"}, {`"\\n"`, `\n`}, {`"\\\\"`, `\\`}, {`"a\\"`, `a\`}, {`"\u005cn"`, `\n`}, {`"\\u0041"`, `\u0041`},
		{`"` + strings.Repeat("x", 100) + `\t` + strings.Repeat("é", 100) + `"`, strings.Repeat("x", 100) + "\t" + strings.Repeat("é", 100)},
	} {
		if got := jsonrpc.Unquote([]byte(tc.raw)); got != tc.want {
			t.Errorf("Unquote(%s) = %q, want %q", tc.raw, got, tc.want)
		}
		var std string
		if err := json.Unmarshal([]byte(tc.raw), &std); err != nil || std != tc.want {
			t.Errorf("encoding/json reads %s as %q, %v", tc.raw, std, err)
		}
	}
	for _, raw := range []string{"", `"`, "1", "null", "true", "{}", `{"a":"b"}`, `["a"]`} {
		if got := jsonrpc.Unquote([]byte(raw)); got != "" {
			t.Errorf("Unquote(%s) = %q, but it is not a string", raw, got)
		}
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
		if got := jsonrpc.Unquote(raw); got != string(r) {
			t.Fatalf("U+%04X was written as %s and read as %q", r, raw, got)
		}
	}
}

func TestAppendStringUsesFewEscapes(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"", `""`}, {"a", `"a"`}, {"/", `"/"`}, {"<>&'", `"<>&'"`}, {"é€😀", `"é€😀"`}, {"\x7f", "\"\x7f\""}, {"\u2028\u2029", "\"\u2028\u2029\""},
		{"\"\\\b\f\n\r\t", `"\"\\\b\f\n\r\t"`}, {"\x00\x01\x0b\x0e\x1f", `"\u0000\u0001\u000b\u000e\u001f"`},
		{"\xff", "\"\ufffd\""}, {"a\xe2\x82z", "\"a\ufffd\ufffdz\""}, {"\xed\xa0\x80", "\"\ufffd\ufffd\ufffd\""}, {"é\xa9é", "\"é\ufffdé\""}, {"\ufffd", "\"\ufffd\""},
		{"12345678\n12345678\x80\"1234567é", "\"12345678\\n12345678\ufffd\\\"1234567é\""},
	} {
		if got := string(jsonrpc.AppendString([]byte("before"), tc.text)); got != "before"+tc.want {
			t.Errorf("%q was written as %s, want %s", tc.text, got, tc.want)
		}
	}
}
