package jsonrpc_test

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
)

// maxDepth is the greatest depth that jsontext accepts.
const maxDepth = 10_000

// unbounded accepts all input that jsontext accepts.
var unbounded = jsonrpc.Limits{MaxDepth: maxDepth, MaxMembers: math.MaxInt, MaxTokens: math.MaxInt, MaxID: math.MaxInt,
	MaxMethod: math.MaxInt / 2, MaxBatch: math.MaxInt}

func addJSON(f *testing.F) {
	for _, o := range objects {
		f.Add([]byte(o.data))
	}
	for _, s := range samples {
		f.Add([]byte(s))
	}
	for _, s := range []string{
		``, ` `, `[1,]`, `{"a":1,"\u0061":2}`, `"\ud800"`, `"\ud83d\ude00"`, "\"\xff\"", "\"\xed\xa0\x80\"", "\ufeff{}",
		`{} {}`, `-0.5e+10`, `01`, `1.`, `.1`, `1e`, `-`, `+1`, `NaN`, `nul`, `truee`,
		"\"\x00\"", "\"\x7f\"", `"\u00zz"`, `"\x"`, `{"a"}`, `{"a":}`, `[`, `]`, `/**/1`, `[1//`,
		`"12345678\"12345678é12345678"`,
		wide(30, "x"), wide(30, "7"), wide(40, "39"),
	} {
		f.Add([]byte(s))
	}
}

func TestCheckHoldsItsDepthLimitExactly(t *testing.T) {
	for _, pair := range [][2]string{{"[", "]"}, {`{"a":`, "}"}, {`[{"a":[`, "]}]"}} {
		for n := range 5 {
			repeat := (maxDepth-2)/len(pair[1]) + n
			data := []byte(strings.Repeat(pair[0], repeat) + "0" + strings.Repeat(pair[1], repeat))
			if err, strict := jsonrpc.Check(data, unbounded), jsontext.Value(data).IsValid(); (err == nil) != strict {
				t.Errorf("%d times %s: %v, another parser says valid is %t", repeat, pair[0], err, strict)
			}
		}
	}
}

// FuzzScanStrict compares Check with another strict parser of JSON.
func FuzzScanStrict(f *testing.F) {
	addJSON(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		err, strict := jsonrpc.Check(data, unbounded), jsontext.Value(data).IsValid()
		must.Equal(t, err == nil, strict, data, err)
		if err != nil {
			if invalid := rejection(t, err); invalid.Offset < 0 || invalid.Offset > len(data) || invalid.Reason == "" {
				t.Fatalf("%q: rejected with %+v", data, invalid)
			}
		}
		must.Equal(t, string(data), string(before))
	})
}

// wireMessage is a message as encoding/json and json/v2 read it.
type wireMessage struct {
	ID     json.RawMessage            `json:"id"`
	Method string                     `json:"method"`
	Params map[string]json.RawMessage `json:"params"`
	Result json.RawMessage            `json:"result"`
	Error  *struct {
		Code    int64           `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

// FuzzEnvelope checks that other parsers find the same in each message that Parse
// accepts, and that the message survives being written and parsed again.
func FuzzEnvelope(f *testing.F) {
	addJSON(f)
	for _, o := range objects {
		f.Add([]byte(notification(o.data)))
	}
	for _, s := range []string{
		`{"jsonrpc":"2.0","method":"m","Method":"n"}`, `{"jsonrpc":"2.0","method":"m","re\u017fult":{}}`,
		`{"jsonrpc":"2.0","m\u0065thod":"\u006d\b\f\u0001"}`,
		`{"jsonrpc":"2.0","id":1,"result":{},"params":{"a":1}}`,
		`{"jsonrpc":"2.0","error":{"code":-0,"message":"\u0000","data":null,"x":1}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"a":["\ud83d","\ude00\ud83dx"]}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"\ud83d","data":"\ud83d"}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"Code":2,"code":1,"message":""}}`,
		`{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat(`\b`, 64) + `"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := jsonrpc.Parse(data, jsonrpc.Limits{})
		if err != nil {
			if invalid := rejection(t, err); invalid.Offset > len(data) || invalid.Reason == "" || invalid.Code == 0 {
				t.Fatalf("%q: rejected with %+v", data, invalid)
			}
			must.That(t, m.ID.IsZero() || jsonrpc.Check([]byte(m.ID.String()), jsonrpc.Limits{}) == nil,
				"%q: rejected, but parsed as %+v", data, m)
			return
		}
		must.That(t, m.Kind != jsonrpc.Invalid, "%q: an invalid message without error", data)
		checkNames(t, data)
		if !jsontext.Value(data).IsValid() { // lone surrogates in the outcome of a request have been replaced
			must.That(t, m.Kind == jsonrpc.Response && utf8.Valid(data), "%q accepted", data)
			data = encode(&m)
			m, err = jsonrpc.Parse(data, jsonrpc.Limits{})
			must.Do(t, err, data)
		}
		var v1, v2 wireMessage
		must.Do(t, json.Unmarshal(data, &v1), data, "encoding/json rejects it")
		must.Do(t, jsonv2.Unmarshal(data, &v2), data, "json/v2 rejects it")
		checkAgreement(t, data, &m, &v1)
		checkAgreement(t, data, &m, &v2)

		again := encode(&m)
		m2, err := jsonrpc.Parse(again, jsonrpc.Limits{})
		must.Do(t, err, data, "was written again", again)
		must.Equal(t, difference(m2, m), "", data, again)
		if got, want := collect(t, m2.Params.All()), collect(t, m.Params.All()); !slices.Equal(got, want) {
			t.Fatalf("%q was written again as %q: params are %q, want %q", data, again, got, want)
		}
		for _, name := range []string{"jsonrpc", "id", "method", "params", "result", "error"} {
			for at := range len(name) {
				variant := `{"` + name[:at] + strings.ToUpper(name[at:at+1]) + name[at+1:] + `":1,` + string(again[1:])
				_, err := jsonrpc.Parse([]byte(variant), jsonrpc.Limits{})
				must.That(t, err != nil, "%q accepted", variant)
			}
		}
	})
}

// checkNames checks that no key of an accepted envelope is a case variant of a known key.
func checkNames(t *testing.T, data []byte) {
	t.Helper()
	var all map[string]jsontext.Value
	must.Do(t, jsonv2.Unmarshal(data, &all, jsontext.AllowInvalidUTF8(true)), data, "json/v2 rejects it")
	for name := range all {
		for _, known := range []string{"jsonrpc", "id", "method", "params", "result", "error"} {
			must.That(t, name == known || !strings.EqualFold(name, known), "%q accepted, with a member %q", data, name)
		}
	}
}

func checkAgreement(t *testing.T, data []byte, m *jsonrpc.Message, other *wireMessage) {
	t.Helper()
	id := string(other.ID)
	if id == "null" {
		id = ""
	}
	must.Equal(t, m.ID.String(), id, data, m.ID, "another parser")
	must.Equal(t, m.Method, other.Method, data)
	if m.Kind == jsonrpc.Response {
		if m.Err == nil && string(m.Raw) != string(other.Result) {
			t.Fatalf("%q: result is %q, another parser says %q", data, m.Raw, other.Result)
		}
		must.Equal(t, m.Err != nil, other.Error != nil, data, m.Err, "another parser", other.Error)
		if e := m.Err; e != nil && (e.Code != other.Error.Code || e.Message != other.Error.Message ||
			string(e.Data) != string(other.Error.Data)) {
			t.Fatalf("%q: error is %+v, another parser says %+v", data, e, other.Error)
		}
		return
	}
	must.Equal(t, m.Params.Len(), len(other.Params), data)
	for name, value := range m.Params.All() {
		if theirs, ok := other.Params[name]; !ok || !bytes.Equal(value, theirs) {
			t.Fatalf("%q: %q in params is %q, another parser says %q", data, name, value, theirs)
		}
		if got, ok := m.Params.Get(name); string(value) == "null" {
			must.Equal(t, ok, false, name)
		} else if !ok || !bytes.Equal(value, got) {
			t.Fatalf("%q: Get of %q gives %q, All %q", data, name, got, value)
		}
	}
}

// encode writes a parsed message.
func encode(m *jsonrpc.Message) []byte {
	switch {
	case m.Kind == jsonrpc.Request:
		return jsonrpc.AppendRequest(nil, m.ID, m.Method, m.Raw)
	case m.Kind == jsonrpc.Notification:
		return jsonrpc.AppendNotification(nil, m.Method, m.Raw)
	case m.Err != nil:
		return jsonrpc.AppendError(nil, m.ID, m.Err, len(m.Err.Message)%2 == 0)
	default:
		return jsonrpc.AppendResult(nil, m.ID, m.Raw)
	}
}

// FuzzIDRoundTrip checks that an id is echoed byte for byte or, if it is an integer with a fraction or an exponent, as
// the same number, or rejected.
func FuzzIDRoundTrip(f *testing.F) {
	for _, id := range []string{
		`1`, `-0`, `0`, `9007199254740993`, `18446744073709551616`, `"str"`, `""`, `"\u0061"`, `"a"`, `"😀\ud83d\ude00"`,
		`"\/"`, "\"\x7f\"",
		`1.5`, `1.0`, `1e3`, `null`, `{}`, `[]`, `true`, `01`, `-`, `"`, `"\ud800"`, ` 1 `, `1,"x":2`, `1}`,
		strings.Repeat("1", 256), strings.Repeat("1", 257),
	} {
		f.Add([]byte(id))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		value := jsontext.Value(bytes.Trim(raw, " \t\r\n"))
		isID := value.IsValid() && len(value) <= 256 &&
			(value.Kind() == '"' || value.Kind() == '0' && !bytes.ContainsAny(value, ".eE"))
		data := slices.Concat([]byte(`{"jsonrpc":"2.0","method":"m","id":`), raw, []byte(`}`))
		m, err := jsonrpc.Parse(data, jsonrpc.Limits{})
		if err != nil {
			must.That(t, !isID && (m.ID.IsZero() || jsontext.Value(data).IsValid()), "%q: %v", data, err)
			return
		}
		var theirs struct {
			ID jsontext.Value `json:"id"`
		}
		must.Do(t, jsonv2.Unmarshal(data, &theirs), data)
		if n, err := strconv.ParseFloat(string(theirs.ID), 64); err == nil && bytes.ContainsAny(theirs.ID, ".eE") {
			must.Equal(t, must.Get(strconv.ParseFloat(m.ID.String(), 64))(t), n, data, m.ID)
			return
		}
		must.That(t, m.Kind == jsonrpc.Request && m.ID.String() == string(theirs.ID),
			"%q: kind %d, id %q, want %q", data, m.Kind, m.ID, theirs.ID)
		must.That(t, isID || !bytes.Equal(theirs.ID, value), "%q accepted, but %q is not an id", data, value)
		reply := jsonrpc.AppendResult(nil, m.ID, []byte(`{}`))
		must.Equal(t, string(reply), `{"jsonrpc":"2.0","id":`+string(theirs.ID)+`,"result":{}}`)
		must.Equal(t, must.Get(jsonrpc.Parse(reply, jsonrpc.Limits{}))(t).ID, m.ID, reply)
		var decoded jsonrpc.ID
		if err := json.Unmarshal(theirs.ID, &decoded); err != nil || decoded != m.ID {
			t.Fatalf("%q: decoded as %q, %v", theirs.ID, decoded, err)
		}
		n, ok := m.ID.Int()
		must.That(t, !ok || jsonrpc.IntID(n) == m.ID || m.ID.String() == "-0", "%q as an integer is %d", m.ID, n)
	})
}

// FuzzSplitBatch checks that a batch has the elements that another parser finds.
func FuzzSplitBatch(f *testing.F) {
	addJSON(f)
	for _, s := range []string{`[]`, ` [ ] `, `[1]`, `[[1],{"a":[2]}]`, `["],[",1 , true,false,null , -1.5e3]`, `[1,2`,
		`[1]2`, `["\ud83d",{"\ud83d":1}]`, `["\ud83d"]`, "[" + samples[0] + "," + samples[9] + "]"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		parts, err := jsonrpc.SplitBatch(data, unbounded)
		var theirs []jsontext.Value
		strict := jsontext.Value(data).IsValid() && jsontext.Value(data).Kind() == '['
		lenient := jsontext.AllowInvalidUTF8(true)
		if err == nil && !strict { // Parse decides what happens to lone surrogates
			strict = utf8.Valid(data) && jsontext.Value(data).IsValid(lenient)
		}
		if strict {
			must.Do(t, jsonv2.Unmarshal(data, &theirs, lenient), data)
		}
		must.Equal(t, err == nil, (len(theirs) > 0), data, err, len(theirs))
		if err != nil {
			rejection(t, err)
			return
		}
		must.That(t, jsonrpc.IsBatch(data), "%q was split but is not a batch", data)
		must.Equal(t, len(parts), len(theirs), data)
		for i, part := range parts {
			must.Equal(t, string(part), string(theirs[i]), data, i, "another parser")
		}
	})
}

// FuzzAppendString checks that a text survives being written and read. Each byte that
// is not UTF-8 becomes U+FFFD.
func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "a", "\"\\/\b\f\n\r\t\x00\x1f\x7f", "é€😀\u2028", "\xff", "12345678\xe2\x82",
		"é\xa9é", "\xed\xa0\x80", "12345678\n12345678\"1234567é"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		raw := jsonrpc.AppendString(nil, s)
		must.That(t, jsontext.Value(raw).IsValid(), "%q was written as %q, which is not strict JSON", s, raw)
		must.Do(t, jsonrpc.Check(raw, unbounded), s, "was written", raw)
		want := string([]rune(s)) // each byte that is not UTF-8 is a rune U+FFFD
		var v1 string
		if err := json.Unmarshal(raw, &v1); err != nil || v1 != want {
			t.Fatalf("%q was written as %q, which encoding/json reads as %q, %v", s, raw, v1, err)
		}
		must.Equal(t, jsonrpc.Unquote(raw), want, s, raw)
		must.That(t, !bytes.ContainsAny(raw, "\r\n"), "%q was written on more than one line", s)
		// Another encoder may use other escapes for the same text.
		v1Raw := must.Get(json.Marshal(s))(t)
		if got := jsonrpc.Unquote(v1Raw); got != want || jsonrpc.Check(v1Raw, unbounded) != nil {
			t.Fatalf("encoding/json wrote %q, which was read as %q, want %q", v1Raw, got, want)
		}
		must.That(t, len(raw) <= len(v1Raw), "%q was written as %q, encoding/json needs less: %q", s, raw, v1Raw)
	})
}
