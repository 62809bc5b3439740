package httpcodec

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// The first five are the examples of the specification (Value Encoding).
// Rule U1.
func TestHeaderValuesAreEncodedIfNecessary(t *testing.T) {
	for text, want := range map[string]string{
		"us-west1":           "us-west1",
		"Hello, 世界":          "=?base64?SGVsbG8sIOS4lueVjA==?=",
		" padded ":           "=?base64?IHBhZGRlZCA=?=",
		"line1\nline2":       "=?base64?bGluZTEKbGluZTI=?=",
		"=?base64?literal?=": "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=",

		"":                     "",
		"a b\tc":               "a b\tc",
		"\ta":                  "=?base64?CWE=?=",
		"a\r\nSet-Cookie: b=c": "=?base64?YQ0KU2V0LUNvb2tpZTogYj1j?=",
		"a\x00b":               "=?base64?YQBi?=",
		"a\x7f":                "=?base64?YX8=?=",
		"=?base64?=":           "=?base64?PT9iYXNlNjQ/PQ==?=", // starts and ends as the sentinels do, though they overlap
		"=?base64?literal":     "=?base64?literal",
		"=?BASE64?literal?=":   "=?BASE64?literal?=",
		"literal?=":            "literal?=",
	} {
		if got := EncodeHeader(text); got != want {
			t.Errorf("%q is encoded as %q, want %q", text, got, want)
		}
		if got, ok := DecodeHeader(want); !ok || got != text {
			t.Errorf("%q is decoded as %q, %v; want %q", want, got, ok, text)
		}
	}
}

// Rule T17: the markers are case-sensitive, and base64 is strict.
func TestMalformedHeaderValuesAreRejected(t *testing.T) {
	for _, value := range []string{
		"=?base64?SGVsbG8?=",     // no padding
		"=?base64?SGVs!!!bG8=?=", // not base64
		"=?base64?SGVsbG9=?=",    // bits behind the end
		"=?base64?SGVs bG8=?=",
		"=?base64?SGVsbG8=\n?=",
		"=?base64?SGVsbG8_?=", // the URL alphabet
		" a", "a ", "\ta", "a\n", "a\x00", "é", "\x7f", "a\xff",
	} {
		if got, ok := DecodeHeader(value); ok {
			t.Errorf("%q is decoded as %q", value, got)
		}
	}
	for _, literal := range []string{"SGVsbG8=", "=?base64?SGVsbG8=", "=?Base64?SGVsbG8=?=", "SGVsbG8=?=", "=?base64?="} {
		if got, ok := DecodeHeader(literal); !ok || got != literal {
			t.Errorf("%q is decoded as %q, %v; want the literal", literal, got, ok)
		}
	}
	if got, ok := DecodeHeader("=?base64??="); !ok || got != "" {
		t.Errorf("the encoded empty text is decoded as %q, %v", got, ok)
	}
}

func FuzzHeaderValueCodec(f *testing.F) {
	for _, s := range []string{"", "a", " a", "a\n", "é", "=?base64?YQ==?=", "=?base64?=", "=?base64?", "?=", "\t", "a\xff\x00", "=?base64??="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		value := EncodeHeader(text)
		if got, ok := DecodeHeader(value); !ok || got != text {
			t.Errorf("%q becomes %q, and that %q, %v", text, value, got, ok)
		}
		// RFC 9110, 5.5: visible ASCII, with spaces and tabs inside only.
		for i := range len(value) {
			if c := value[i]; c > 0x7E || c < 0x20 && c != '\t' {
				t.Fatalf("%q contains the byte %#x", value, c)
			}
		}
		if strings.Trim(value, " \t") != value {
			t.Errorf("%q has white space at its ends", value)
		}
		if decoded, ok := DecodeHeader(text); ok && utf8.ValidString(decoded) {
			if again, ok := DecodeHeader(EncodeHeader(decoded)); !ok || again != decoded {
				t.Errorf("%q decodes to %q, which does not round-trip: %q, %v", text, decoded, again, ok)
			}
		}
	})
}
