package jsonrpc_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
)

// samples contains messages of different shapes.
var samples = []string{
	`{"jsonrpc":"2.0","id":1,"method":"ping"}`,
	`{"jsonrpc":"2.0","id":"a\"\\\u00e9\ud83d\ude00","method":"tools/list","params":{}}`,
	toolCall,
	`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
	`{"method":"notifications/progress","params":{"progressToken":"t","progress":1.5e1,"total":-0.25},"jsonrpc":"2.0"}`,
	`{"jsonrpc":"2.0","id":9007199254740993,"result":{}}`,
	`{"result":{"content":[{"type":"text","text":"a\nb"}],"isError":false},"id":"x","jsonrpc":"2.0"}`,
	`{"jsonrpc":"2.0","id":-3,"error":{"code":-32601,"message":"no such method","data":{"names":["x",null,true]}}}`,
	`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":""}}`,
	" {\n\t\"jsonrpc\" : \"2.0\" ,\r\n \"id\" : 7 , \"method\" : \"m\" , \"params\" : { \"a\" : [ 1 , { \"b\" : null " +
		"} ] } , \"trace\" : \"extra\" }",
}

func TestParseRecognisesEachKindOfMessage(t *testing.T) {
	for _, tc := range []struct {
		data string
		want jsonrpc.Message
	}{
		{samples[0], jsonrpc.Message{Kind: jsonrpc.Request, ID: jsonrpc.IntID(1), Method: "ping"}},
		{samples[1], jsonrpc.Message{Kind: jsonrpc.Request, Method: "tools/list", Raw: []byte(`{}`)}},
		{samples[3], jsonrpc.Message{Kind: jsonrpc.Notification, Method: "notifications/initialized"}},
		{samples[4], jsonrpc.Message{Kind: jsonrpc.Notification, Method: "notifications/progress",
			Raw: []byte(`{"progressToken":"t","progress":1.5e1,"total":-0.25}`)}},
		{samples[5], jsonrpc.Message{Kind: jsonrpc.Response, ID: jsonrpc.IntID(9007199254740993), Raw: []byte(`{}`)}},
		{samples[6], jsonrpc.Message{Kind: jsonrpc.Response, ID: jsonrpc.StringID("x"),
			Raw: []byte(`{"content":[{"type":"text","text":"a\nb"}],"isError":false}`)}},
		{samples[7], jsonrpc.Message{Kind: jsonrpc.Response, ID: jsonrpc.IntID(-3),
			Err: &jsonrpc.Error{Code: -32601, Message: "no such method", Data: []byte(`{"names":["x",null,true]}`)}}},
		{samples[8], jsonrpc.Message{Kind: jsonrpc.Response, Err: &jsonrpc.Error{Code: -32700}}},
		{samples[9], jsonrpc.Message{Kind: jsonrpc.Request, ID: jsonrpc.IntID(7), Method: "m",
			Raw: []byte(`{ "a" : [ 1 , { "b" : null } ] }`)}},
		{`{"jsonrpc":"2.0","error":{"code":1,"message":"m","data":null}}`,
			jsonrpc.Message{Kind: jsonrpc.Response, Err: &jsonrpc.Error{Code: 1, Message: "m", Data: []byte(`null`)}}},
		{`{"jsonrpc":"2.0","id":1,"error":{"message":"a\tb","extra":{"code":2},"code":-9223372036854775808}}`,
			jsonrpc.Message{Kind: jsonrpc.Response, ID: jsonrpc.IntID(1),
				Err: &jsonrpc.Error{Code: -1 << 63, Message: "a\tb"}}},
		// A response has no params: a key of that name is unknown.
		{`{"jsonrpc":"2.0","id":1,"result":{},"params":{"a":1}}`,
			jsonrpc.Message{Kind: jsonrpc.Response, ID: jsonrpc.IntID(1), Raw: []byte(`{}`)}},
		{`{"params":[1],"jsonrpc":"2.0","id":1,"result":{}}`,
			jsonrpc.Message{Kind: jsonrpc.Response, ID: jsonrpc.IntID(1), Raw: []byte(`{}`)}},
		// Names and texts with escapes.
		{`{"json\u0072pc":"2\u002e0","\u0069d":1,"m\u0065thod":"pin\u0067","p\u0061rams":{}}`,
			jsonrpc.Message{Kind: jsonrpc.Request, ID: jsonrpc.IntID(1), Method: "ping", Raw: []byte(`{}`)}},
		{`{"jsonrpc":"2.0","id":1,"\u0072esult":{}}`, jsonrpc.Message{Kind: jsonrpc.Response, ID: jsonrpc.IntID(1),
			Raw: []byte(`{}`)}},
		{`{"jsonrpc":"2.0","id":1,"err\u006fr":{"\u0063ode":1,"messag\u0065":"\u006d","\u0064ata":1}}`,
			jsonrpc.Message{Kind: jsonrpc.Response, ID: jsonrpc.IntID(1),
				Err: &jsonrpc.Error{Code: 1, Message: "m", Data: []byte(`1`)}}},
	} {
		if tc.data == samples[1] {
			must.Do(t, json.Unmarshal([]byte(`"a\"\\\u00e9\ud83d\ude00"`), &tc.want.ID))
		}
		got, err := jsonrpc.Parse([]byte(tc.data), jsonrpc.Limits{})
		if err != nil {
			t.Errorf("%s: %v", tc.data, err)
		} else if diff := difference(got, tc.want); diff != "" {
			t.Errorf("%s: %s", tc.data, diff)
		} else if len(got.Raw) != cap(got.Raw) || got.Err != nil && len(got.Err.Data) != cap(got.Err.Data) {
			t.Errorf("%s: appending to what was parsed would write into the input", tc.data)
		}
	}
}

// difference compares two messages, except for Params, which are views of Raw.
func difference(got, want jsonrpc.Message) string {
	switch {
	case got.Kind != want.Kind:
		return fmt.Sprintf("kind is %d, want %d", got.Kind, want.Kind)
	case got.ID != want.ID:
		return fmt.Sprintf("id is %q, want %q", got.ID, want.ID)
	case got.Method != want.Method:
		return fmt.Sprintf("method is %q, want %q", got.Method, want.Method)
	case string(got.Raw) != string(want.Raw) || (got.Raw == nil) != (want.Raw == nil):
		return fmt.Sprintf("raw is %q, want %q", got.Raw, want.Raw)
	case got.Kind == jsonrpc.Response && got.Params.Len() != 0:
		return "a response has params"
	case (got.Err == nil) != (want.Err == nil):
		return fmt.Sprintf("error is %v, want %v", got.Err, want.Err)
	case got.Err == nil:
		return ""
	case got.Err.Code != want.Err.Code || got.Err.Message != want.Err.Message ||
		string(got.Err.Data) != string(want.Err.Data) || (got.Err.Data == nil) != (want.Err.Data == nil):
		return fmt.Sprintf("error is %+v, want %+v", got.Err, want.Err)
	}
	return ""
}

func TestParseRejectsEachPrefixOfAMessage(t *testing.T) {
	for _, message := range samples {
		for n := range len(message) {
			m, err := jsonrpc.Parse([]byte(message[:n]), jsonrpc.Limits{})
			if err == nil {
				t.Fatalf("%q accepted, a prefix of %q", message[:n], message)
			}
			if invalid := rejection(t, err); invalid.Code != jsonrpc.CodeParseError || invalid.Offset > n {
				t.Errorf("%q rejected with %+v, want a parse error", message[:n], invalid)
			}
			if identified := m.Kind != jsonrpc.Invalid || !m.ID.IsZero(); identified && m.Kind != jsonrpc.Response ||
				m.Params.Len() != 0 {
				t.Errorf("%q: Parse returned the message %+v", message[:n], m)
			}
		}
	}
}

func TestParseRejectsDataAfterAMessage(t *testing.T) {
	for _, message := range samples {
		for _, more := range []string{"{}", message, ",", "}", "]", "0", "null", "\x00", "\n\x00", "\ufeff",
			" // comment", "\u00a0"} {
			err := parse([]byte(message+more), jsonrpc.Limits{})
			must.CheckThat(t, err != nil && rejection(t, err).Code == jsonrpc.CodeParseError,
				"%q: %v, want a parse error", message+more, err)
		}
		err := parse([]byte("\ufeff"+message), jsonrpc.Limits{})
		must.CheckThat(t, err != nil, "%q accepted after a byte order mark", message)
		must.Check(t, parse([]byte(" \r\n\t"+message+" \r\n\t"), jsonrpc.Limits{}), message)
	}
}

func TestParseRejectsDuplicateNamesEverywhere(t *testing.T) {
	for _, data := range []string{
		`{"jsonrpc":"2.0","id":1,"id":1,"method":"m"}`,
		`{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}`,
		`{"jsonrpc":"2.0","id":1,"method":"a","\u006dethod":"b"}`,
		`{"jsonrpc":"2.0","jsonrpc":"2.0","method":"m"}`,
		`{"jsonrpc":"2.0","method":"m","params":{},"params":{}}`,
		`{"jsonrpc":"2.0","method":"m","params":{},"params":1}`,
		`{"jsonrpc":"2.0","method":"m","x":1,"x":2}`,
		`{"jsonrpc":"2.0","method":"m","params":{"name":"a","name":"b"}}`,
		`{"jsonrpc":"2.0","method":"m","params":{"name":"a","\u006eame":"b"}}`,
		`{"jsonrpc":"2.0","method":"m","params":{"arguments":{"x":{"y":1,"y":2}}}}`,
		`{"jsonrpc":"2.0","id":1,"result":{},"result":{}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"code":2,"message":"m"}}`,
		notification(wide(30, "3")),
		notification(`{"a":` + wide(30, "29") + `}`),
		strings.Replace(wide(30, "30"), "{", `{"jsonrpc":"2.0","method":"m","params":{},"30":0,`, 1),
		strings.Replace(wide(30, "params"), "{", `{"jsonrpc":"2.0","method":"m","params":{},`, 1),
	} {
		m, err := jsonrpc.Parse([]byte(data), jsonrpc.Limits{})
		if err == nil {
			t.Errorf("%s accepted", data)
			continue
		}
		invalid := rejection(t, err)
		must.CheckThat(t, invalid.Code == jsonrpc.CodeParseError && strings.Contains(invalid.Reason, "duplicate"),
			"%s: %v", data, err)
		if m.Kind != jsonrpc.Invalid && m.Kind != jsonrpc.Response || !m.ID.IsZero() && m.Kind != jsonrpc.Response {
			t.Errorf("%s: kind %d, id %q: the scan must reach the end before the message is used", data, m.Kind, m.ID)
		}
	}
}

// cases returns every spelling of name in lower and upper case, and with the letters
// beyond ASCII that fold to letters of name.
func cases(name string) []string {
	spellings := []string{""}
	for _, c := range name {
		forms := []string{string(c), strings.ToUpper(string(c))}
		if c == 's' {
			forms = append(forms, "ſ")
		}
		var longer []string
		for _, s := range spellings {
			for _, form := range forms {
				longer = append(longer, s+form)
			}
		}
		spellings = longer
	}
	return spellings
}

func TestParseRejectsCaseVariantsOfEnvelopeNames(t *testing.T) {
	for _, name := range []string{"jsonrpc", "id", "method", "params", "result", "error"} {
		for _, spelling := range cases(name) {
			if spelling == name {
				continue
			}
			for _, message := range samples {
				// As an additional key, and instead of the known one.
				for _, data := range []string{
					strings.Replace(message, "{", `{"`+spelling+`":1,`, 1),
					strings.Replace(message, `"`+name+`"`, `"`+spelling+`"`, 1),
				} {
					if data == message {
						continue
					}
					err := parse([]byte(data), jsonrpc.Limits{})
					must.That(t, err != nil, "%s accepted", data)
				}
			}
		}
	}
	for _, name := range []string{`\u004dethod`, `METH\u004fD`, `re\u017fult`} {
		err := parse([]byte(`{"jsonrpc":"2.0","method":"m","`+name+`":1}`), jsonrpc.Limits{})
		must.CheckThat(t, err != nil, "a member named %s accepted", name)
	}
	for _, name := range []string{"ids", "i", "id ", "methods", "_meta", "json-rpc", "json_rpc", "Result2", "", "ıd",
		"İd"} {
		must.Check(t, parse([]byte(`{"jsonrpc":"2.0","method":"m","`+name+`":1}`), jsonrpc.Limits{}), name)
	}
}

func TestParseRejectsCaseVariantsOfErrorNames(t *testing.T) {
	for _, name := range []string{"code", "message", "data"} {
		for _, spelling := range cases(name) {
			data := `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","` + spelling + `":1}}`
			err := parse([]byte(data), jsonrpc.Limits{})
			must.CheckThat(t, (err == nil) == (spelling == "data"), "%s: %v", data, err)
		}
	}
}

func TestParseAcceptsAnyNamesInParamsAndResults(t *testing.T) {
	for _, data := range []string{
		notification(`{"Method":1,"ID":2,"jsonrpc":"3","a":{"Params":1,"params":2}}`),
		`{"jsonrpc":"2.0","id":1,"result":{"Result":1,"error":2,"ERROR":3}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":{"Code":1,"code":2}}}`,
	} {
		must.Check(t, parse([]byte(data), jsonrpc.Limits{}), data)
	}
}

func TestParseRejectsInconsistentEnvelopes(t *testing.T) {
	const noID = ""
	for _, tc := range []struct {
		data string
		code int64
		kind jsonrpc.Kind // the intended kind
		id   string
	}{
		{`{}`, jsonrpc.CodeInvalidRequest, jsonrpc.Invalid, noID},
		{`{"jsonrpc":"2.0"}`, jsonrpc.CodeInvalidRequest, jsonrpc.Invalid, noID},
		{`{"jsonrpc":"2.0","id":1}`, jsonrpc.CodeInvalidRequest, jsonrpc.Invalid, "1"},
		{`{"jsonrpc":"2.0","id":1,"params":{}}`, jsonrpc.CodeInvalidRequest, jsonrpc.Invalid, "1"},
		{`{"id":1,"method":"m"}`, jsonrpc.CodeInvalidRequest, jsonrpc.Invalid, "1"},
		{`{"jsonrpc":"1.0","id":1,"method":"m"}`, jsonrpc.CodeInvalidRequest, jsonrpc.Invalid, "1"},
		{`{"jsonrpc":"2.00","id":1,"method":"m"}`, jsonrpc.CodeInvalidRequest, jsonrpc.Invalid, "1"},
		{`{"jsonrpc":2.0,"id":1,"method":"m"}`, jsonrpc.CodeInvalidRequest, jsonrpc.Invalid, "1"},
		{`{"jsonrpc":2,"id":1,"result":{}}`, jsonrpc.CodeInvalidRequest, jsonrpc.Response, "1"},
		{`{"jsonrpc":null,"id":1,"method":"m"}`, jsonrpc.CodeInvalidRequest, jsonrpc.Invalid, "1"},
		{`{"jsonrpc":["2.0"],"id":1,"method":"m"}`, jsonrpc.CodeInvalidRequest, jsonrpc.Invalid, "1"},

		{`{"jsonrpc":"2.0","id":1,"method":""}`, jsonrpc.CodeInvalidRequest, jsonrpc.Invalid, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":null}`, jsonrpc.CodeInvalidRequest, jsonrpc.Invalid, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":1}`, jsonrpc.CodeInvalidRequest, jsonrpc.Invalid, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":["m"]}`, jsonrpc.CodeInvalidRequest, jsonrpc.Invalid, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":{"m":1}}`, jsonrpc.CodeInvalidRequest, jsonrpc.Invalid, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"m","result":{}}`, jsonrpc.CodeInvalidRequest, jsonrpc.Invalid, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"m","result":null}`, jsonrpc.CodeInvalidRequest, jsonrpc.Invalid, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":null,"result":{}}`, jsonrpc.CodeInvalidRequest, jsonrpc.Invalid, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"m","error":{"code":1,"message":"m"}}`, jsonrpc.CodeInvalidRequest,
			jsonrpc.Invalid, "1"},

		{`{"jsonrpc":"2.0","id":1,"method":"m","params":true}`, jsonrpc.CodeInvalidParams, jsonrpc.Request, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"m","params":[]}`, jsonrpc.CodeInvalidParams, jsonrpc.Request, "1"},
		{`{"jsonrpc":"2.0","id":"a","method":"m","params":"{}"}`, jsonrpc.CodeInvalidParams, jsonrpc.Request, `"a"`},
		{`{"jsonrpc":"2.0","method":"m","params":[{}]}`, jsonrpc.CodeInvalidParams, jsonrpc.Notification, noID},
		{`{"jsonrpc":"2.0","method":"m","params":0}`, jsonrpc.CodeInvalidParams, jsonrpc.Notification, noID},

		{`{"jsonrpc":"2.0","id":1,"result":null}`, jsonrpc.CodeInvalidRequest, jsonrpc.Response, "1"},
		{`{"jsonrpc":"2.0","id":1,"result":[]}`, jsonrpc.CodeInvalidRequest, jsonrpc.Response, "1"},
		{`{"jsonrpc":"2.0","id":1,"result":"ok"}`, jsonrpc.CodeInvalidRequest, jsonrpc.Response, "1"},
		{`{"jsonrpc":"2.0","result":{}}`, jsonrpc.CodeInvalidRequest, jsonrpc.Response, noID},
		{`{"jsonrpc":"2.0","id":null,"result":{}}`, jsonrpc.CodeInvalidRequest, jsonrpc.Response, noID},
		{`{"jsonrpc":"2.0","id":1.5,"result":{}}`, jsonrpc.CodeInvalidRequest, jsonrpc.Response, noID},
		{`{"jsonrpc":"2.0","id":1.5,"error":{"code":1,"message":"m"}}`, jsonrpc.CodeInvalidRequest, jsonrpc.Response,
			noID},
		{`{"jsonrpc":"2.0","id":{},"error":{"code":1,"message":"m"}}`, jsonrpc.CodeInvalidRequest, jsonrpc.Response,
			noID},

		{`[]`, jsonrpc.CodeInvalidRequest, jsonrpc.Invalid, noID},
		{`"x"`, jsonrpc.CodeInvalidRequest, jsonrpc.Invalid, noID},
		{` 1 `, jsonrpc.CodeInvalidRequest, jsonrpc.Invalid, noID},
		{`null`, jsonrpc.CodeInvalidRequest, jsonrpc.Invalid, noID},
		{``, jsonrpc.CodeParseError, jsonrpc.Invalid, noID},
		{` `, jsonrpc.CodeParseError, jsonrpc.Invalid, noID},
		{`{}{}`, jsonrpc.CodeParseError, jsonrpc.Invalid, noID},
		{`[`, jsonrpc.CodeParseError, jsonrpc.Invalid, noID},
		{`hello`, jsonrpc.CodeParseError, jsonrpc.Invalid, noID},
	} {
		m, err := jsonrpc.Parse([]byte(tc.data), jsonrpc.Limits{})
		if err == nil {
			t.Errorf("%s accepted", tc.data)
			continue
		}
		if code := rejection(t, err).Code; code != tc.code || m.Kind != tc.kind || m.ID.String() != tc.id {
			t.Errorf("%s: %v, code %d, kind %d, id %s; want code %d, kind %d, id %s", tc.data, err, code, m.Kind, m.ID,
				tc.code, tc.kind, tc.id)
		}
	}
}

// Programs that have only floating-point numbers write integers like this, and compare IDs by
// value.
func TestIntegersInEverySpellingAreTheSameID(t *testing.T) {
	for spelling, want := range map[string]string{"1.0": "1", "1e0": "1", "-7.00": "-7", "1e3": "1000", "12E+1": "120",
		"-0.0": "0"} {
		for _, data := range []string{`{"jsonrpc":"2.0","id":%s,"result":{}}`,
			`{"jsonrpc":"2.0","id":%s,"error":{"code":1,"message":"m"}}`} {
			m := must.Get(jsonrpc.Parse(fmt.Appendf(nil, data, spelling), jsonrpc.Limits{}))(t)
			must.CheckEqual(t, m.ID.String(), want, data, m.ID)
		}
		var id jsonrpc.ID
		err := id.UnmarshalJSON([]byte(spelling))
		must.CheckThat(t, err == nil && id.String() == want, "%s is decoded as %s, %v", spelling, id, err)
	}
}

// Some encoders write null for params that a message does not have.
func TestParamsThatAreNullAreAbsent(t *testing.T) {
	m, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":null}`), jsonrpc.Limits{})
	must.CheckThat(t, err == nil && m.Kind == jsonrpc.Request && m.Raw == nil && m.Params.Len() == 0, "%+v, %v", m, err)
}

// Rule J1.
func TestRequestIDsAreStringsOrIntegers(t *testing.T) {
	for _, id := range []string{
		`0`, `1`, `-1`, `-0`, `1.0`, `1e0`, `-7.00`, `12E+1`, `9007199254740993`, `-9223372036854775808`, `18446744073709551616`,
		strings.Repeat("9", 256),
		`""`, `"str"`, `"1"`, `"null"`, `" "`, `"\u0000"`, `"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00é😀"`,
	} {
		data := `{"jsonrpc":"2.0","id":` + id + `,"method":"m"}`
		m, err := jsonrpc.Parse([]byte(data), jsonrpc.Limits{})
		must.CheckThat(t, err == nil && m.Kind == jsonrpc.Request && m.ID.String() == id,
			"%s: %v, kind %d, id %s", data, err, m.Kind, m.ID)
		if got, want := string(jsonrpc.AppendResult(nil, m.ID, []byte(`{}`))),
			`{"jsonrpc":"2.0","id":`+id+`,"result":{}}`; got != want {
			t.Errorf("answered with %s, want %s", got, want)
		}
	}
	for _, id := range []string{
		`null`, `1.5`, `1e400`, `1e19`, `10e-2`, `true`, `false`, `{}`, `{"id":1}`, `[]`, `[1]`,
	} {
		data := `{"jsonrpc":"2.0","id":` + id + `,"method":"m"}`
		m, err := jsonrpc.Parse([]byte(data), jsonrpc.Limits{})
		if err == nil {
			t.Errorf("%s accepted", data)
			continue
		}
		code := rejection(t, err).Code
		must.CheckThat(t, code == jsonrpc.CodeInvalidRequest && m.Kind == jsonrpc.Invalid && m.ID.IsZero(),
			"%s: code %d, kind %d, id %s", data, code, m.Kind, m.ID)
	}
}

func TestTheCodeOfAnErrorIsAnIntegerInAnySpelling(t *testing.T) {
	for code, want := range map[string]int64{"-32700": -32700, "-32700.0": -32700, "1e3": 1000, "-3.27E+4": -32700,
		"9007199254740993.0": 9007199254740993, "-0": 0} {
		data := `{"jsonrpc":"2.0","id":1,"error":{"code":` + code + `,"message":"m"}}`
		m := must.Get(jsonrpc.Parse([]byte(data), jsonrpc.Limits{}))(t)
		must.CheckThat(t, m.Err != nil && m.Err.Code == want, "%s: %+v, want the code %d", data, m.Err, want)
	}
}

// Rule J4.
func TestResponsesHaveEitherAResultOrAnError(t *testing.T) {
	for _, response := range []string{
		`"result":{},"error":{"code":1,"message":"m"}`, `"error":{"code":1,"message":"m"},"result":{}`,
		`"result":{},"error":null`, `"result":null,"error":{"code":1,"message":"m"}`,
		`"error":null`, `"error":"m"`, `"error":1`, `"error":[]`, `"error":{}`,
		`"error":{"code":1}`, `"error":{"message":"m"}`, `"error":{"code":1,"message":null}`,
		`"error":{"code":1,"message":1}`, `"error":{"code":1,"message":{}}`,
		`"error":{"code":"1","message":"m"}`, `"error":{"code":1.5,"message":"m"}`,
		`"error":{"code":1e400,"message":"m"}`,
		`"error":{"code":null,"message":"m"}`, `"error":{"code":true,"message":"m"}`,
		`"error":{"code":[],"message":"m"}`,
		`"error":{"code":9223372036854775808,"message":"m"}`, `"error":{"code":9223372036854775808.0,"message":"m"}`,
	} {
		for _, id := range []string{`1`, `"a"`} {
			data := `{"jsonrpc":"2.0","id":` + id + `,` + response + `}`
			m, err := jsonrpc.Parse([]byte(data), jsonrpc.Limits{})
			if err == nil {
				t.Errorf("%s accepted", data)
				continue
			}
			if code := rejection(t, err).Code; code != jsonrpc.CodeInvalidRequest || m.Kind != jsonrpc.Response ||
				m.ID.String() != id || m.Raw != nil || m.Err != nil {
				t.Errorf("%s: %v, %+v; want the id of the call, and nothing of the response", data, err, m)
			}
		}
	}
}

// Rule J5.
func TestNotificationsHaveNoID(t *testing.T) {
	m, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`), jsonrpc.Limits{})
	must.CheckThat(t, err == nil && m.Kind == jsonrpc.Notification && m.ID.IsZero(),
		"%v, kind %d, id %q", err, m.Kind, m.ID)
	for _, id := range []string{`1`, `"a"`, `null`, `1.5`, `{}`} {
		data := `{"jsonrpc":"2.0","method":"notifications/initialized","id":` + id + `}`
		m, _ := jsonrpc.Parse([]byte(data), jsonrpc.Limits{})
		must.CheckThat(t, m.Kind != jsonrpc.Notification, "%s is a notification", data)
	}
	data := jsonrpc.AppendNotification(nil, "m", []byte(`{"a":1}`))
	must.CheckThat(t, !strings.Contains(string(data), `"id"`), "sent %s", data)
}

// Rule J6.
func TestInvalidUTF8IsAParseErrorAndNeverReplaced(t *testing.T) {
	for _, bad := range []string{
		// continuation alone, overlong
		"\x80", "\xbf", "\xff", "\xfe", "\xc0\xaf", "\xc1\xbf", "\xe0\x80\xaf", "\xf0\x80\x80\xaf",
		"\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", // surrogate, beyond U+10FFFF, five bytes
		// truncated, Latin-1
		"\xc3", "\xe2\x82", "\xf0\x9f\x98", "\xc3(", "\xe2\x82(", "\xf0\x9f\x98(", "é\xa9", "\xe9",
	} {
		for _, place := range []string{
			`{"jsonrpc":"2.0","id":"%s","method":"m"}`, `{"jsonrpc":"2.0","id":1,"method":"m%s"}`,
			`{"jsonrpc":"2.0","id":1,"method":"m","%s":1}`,
			`{"jsonrpc":"2.0","id":1,"method":"m","params":{"%s":1}}`,
			`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":["12345678%s12345678"]}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"a":"%s"}}`,
			`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"%s"}}`,
			`%s{"jsonrpc":"2.0","id":1,"method":"m"}`, `{"jsonrpc":"2.0",%s"id":1,"method":"m"}`,
			`{"jsonrpc":"2.0","id":1,"method":"m"}%s`,
		} {
			data := fmt.Sprintf(place, bad)
			err := parse([]byte(data), jsonrpc.Limits{})
			must.CheckThat(t, err != nil && rejection(t, err).Code == jsonrpc.CodeParseError,
				"%q: %v, want a parse error", data, err)
		}
	}
	// The replacement character itself is valid.
	m := must.Get(jsonrpc.Parse([]byte("{\"jsonrpc\":\"2.0\",\"method\":\"\ufffd\"}"), jsonrpc.Limits{}))(t)
	must.CheckEqual(t, m.Method, "\ufffd")
}

// A program that cuts a text in the middle of a character sends one half of a surrogate pair.
func TestLoneSurrogatesAreReplacedInOutcomesOnly(t *testing.T) {
	const lone = `\ud83d`
	for _, text := range []string{lone, lone + lone, lone + `\u0041`, `\ude00` + lone, lone + "x",
		`\n` + lone + `\ud83d\ude00` + lone} {
		want := strings.NewReplacer(`\ud83d\ude00`, "😀", lone, "\ufffd", `\ude00`, "\ufffd", `\u0041`, "A", `\n`,
			"\n").Replace(text)
		data := []byte(`{"jsonrpc":"2.0","result":{"a":["` + text + `"],"b":"` + text + `"},"id":1}`)
		before := string(data)
		m, err := jsonrpc.Parse(data, jsonrpc.Limits{})
		a, _ := jsonrpc.Get(m.Raw, "a")
		b, _ := jsonrpc.Get(m.Raw, "b")
		must.CheckThat(t, err == nil && string(data) == before && jsonrpc.Check(m.Raw, jsonrpc.Limits{}) == nil &&
			jsonrpc.Unquote(a[1:len(a)-1]) == want && jsonrpc.Unquote(b) == want,
			"%s: %s, %v; data %s", text, m.Raw, err, data)
		m, err = jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"`+text+`","data":"`+text+
			`"}}`), jsonrpc.Limits{})
		must.CheckThat(t, err == nil && m.Err.Message == want && jsonrpc.Unquote(m.Err.Data) == want,
			"%s: %+v, %v", text, m.Err, err)
	}
	for _, data := range []string{
		`{"jsonrpc":"2.0","id":"` + lone + `","result":{"a":"` + lone + `"}}`,
		`{"jsonrpc":"2.0","result":{},"id":"` + lone + `"}`,
		`{"jsonrpc":"2.0","id":1,"result":{"` + lone + `":1}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"a":"` + lone + `","b` + lone + `":1}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"a":"` + lone + `"},"x":"` + lone + `"}`,
		`{"jsonrpc":"` + lone + `","id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":1,"method":"` + lone + `"}`,
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"` + lone + `"}}`,
		`{"jsonrpc":"2.0","method":"m","params":{"a":"` + lone + `"}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"a":"` + lone + `\u"}}`, `{"jsonrpc":"2.0","id":1,"result":{"a":"\ud8"}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"a":"` + lone + `","a":1}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"a":"` + "\xed\xa0\xbd" + `"}}`,
	} {
		err := parse([]byte(data), jsonrpc.Limits{})
		must.CheckThat(t, err != nil, "%s is accepted", data)
	}
	parts, err := jsonrpc.SplitBatch([]byte(`[{"jsonrpc":"2.0","id":1,"result":{"a":"`+lone+
		`"}},{"jsonrpc":"2.0","id":2,"method":"m","params":{"a":"`+lone+`"}}]`), jsonrpc.Limits{})
	must.CheckThat(t, err == nil && len(parts) == 2 && parse(parts[0], jsonrpc.Limits{}) == nil &&
		parse(parts[1], jsonrpc.Limits{}) != nil, "the messages of a batch: %q, %v", parts, err)
}

func TestInvalidMessageErrorHasAWireError(t *testing.T) {
	_, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"m",}`), jsonrpc.Limits{})
	wire := rejection(t, err).Wire()
	must.CheckEqual(t, wire.Code, jsonrpc.CodeParseError, wire)
	must.CheckEqual(t, wire.Message, "invalid message: expected a key at byte 37", wire)
	_, err = jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":1}`), jsonrpc.Limits{})
	wire = rejection(t, err).Wire()
	must.CheckEqual(t, wire.Code, jsonrpc.CodeInvalidRequest, wire)
	must.CheckEqual(t, wire.Message, "invalid message: message must have a method, a result or an error", wire)
	must.CheckIs(t, wire, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest})
}
