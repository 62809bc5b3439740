package schema

import (
	"bytes"
	"errors"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	json2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxUnquotings bounds how deeply strings of JSON may be nested in strings of JSON.
const maxUnquotings = 4

// Unquote replaces strings that contain the JSON of an array or object by that array or object, where the schema allows
// one but no string: some models write arguments like that. It returns raw itself if there are no such strings. It does
// not validate the result.
func (s *Schema) Unquote(raw []byte) []byte {
	for range maxUnquotings {
		r := newRun(s.limits.MaxTime)
		var text []byte
		if r.scan(raw) == nil {
			r.report = &report{collects: true}
			r.check(s.program, 0)
			text = r.unquote(r.report.quoted)
		}
		r.release()
		if text == nil {
			break
		}
		raw = text
	}
	return raw
}

// unquote returns the document with strings replaced by their contents, where the contents are arrays or objects,
// or nil if there are none.
func (r *run) unquote(tokens []uint32) (out []byte) {
	slices.Sort(tokens)
	done := uint32(0)
	for _, at := range slices.Compact(tokens) {
		text := strings.Trim(r.Text(at), " \t\r\n")
		if text == "" || text[0] != '[' && text[0] != '{' || new(document).scan([]byte(text)) != nil {
			continue
		}
		t := &r.Tokens[at]
		out = append(append(out, r.Raw[done:t.Start-1]...), text...)
		done = t.End + 1
	}
	if out == nil {
		return nil
	}
	return append(out, r.Raw[done:]...)
}

// quotes records a string where one of the types is an array or an object, but none is a string.
func (r *run) quotes(types kind, at uint32) {
	if r.report.collects && r.Tokens[at].Kind == kindString && types&kindString == 0 &&
		types&(kindArray|kindObject) != 0 {
		r.report.quoted = append(r.report.quoted, at)
	}
}

// An interface holds numbers as float64, which is exact for integers up to 2^53. readExactly makes larger ones an int64
// or a uint64.
var readExactly = sync.OnceValue(func() json2.Options {
	return json2.WithUnmarshalers(json2.JoinUnmarshalers(
		json2.UnmarshalFromFunc(readDuration), json2.UnmarshalFromFunc(readNumber),
	))
})

// largeDigits is the number of digits of 2^53.
const largeDigits = 16

// hasLargeInteger reports whether raw may contain an integer beyond 2^53.
func hasLargeInteger(raw []byte) bool {
	digits := 0
	for _, b := range raw {
		if b < '0' || b > '9' {
			digits = 0
		} else if digits++; digits == largeDigits {
			return true
		}
	}
	return false
}

var errLargeInteger = errors.New("an integer must fit into 64 bits")

// readNumber reads a number into an interface.
func readNumber(d *jsontext.Decoder, into any) error {
	v := reflect.ValueOf(into).Elem()
	if v.Kind() != reflect.Interface || v.NumMethod() > 0 || d.PeekKind() != '0' {
		return errors.ErrUnsupported
	}
	literal, err := d.ReadValue()
	if err != nil {
		return err
	}
	n, ok := numberOf(literal)
	if !ok {
		return errLargeInteger
	}
	v.Set(reflect.ValueOf(n))
	return nil
}

// numberOf returns the value of a number in an interface. It fails for an integer that does not fit into 64 bits.
func numberOf(literal []byte) (any, bool) {
	text := string(literal)
	f, err := strconv.ParseFloat(text, 64)
	if err == nil && bytes.ContainsAny(literal, ".eE") {
		return f, true
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		if -1<<53 <= n && n <= 1<<53 {
			return f, true
		}
		return n, true
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return n, true
	}
	const maxDigits = 400 // about the digits of the greatest float64
	if err != nil || len(literal) > maxDigits {
		return nil, false
	}
	n, ok := new(big.Int).SetString(text, 10)
	if !ok {
		return nil, false
	}
	_, accuracy := new(big.Float).SetInt(n).Float64()
	return f, accuracy == big.Exact
}
