package schema

import (
	"reflect"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/must"
)

type embedded struct {
	E string `json:"e"`
}

// planned contains every type that a plan supports.
type planned struct {
	embedded
	S string               `json:"s"`
	I int8                 `json:"i"`
	N int64                `json:"n"`
	U uint16               `json:"u"`
	F float32              `json:"f"`
	D float64              `json:"d"`
	B bool                 `json:"b"`
	L []string             `json:"l"`
	A []pair[int, bool]    `json:"a"`
	M map[string][]float64 `json:"m"`
	P *pair[string, *int]  `json:"p"`
}

var planCases = []string{
	`{}`, `null`, `[]`, `"s"`,
	`{"s":"a","e":"x","i":-128,"n":-9223372036854775808,"u":65535,"f":1e3,"d":-0.5e-3,"b":true}`,
	`{"s":"\u00e9\ud83d\ude00\n","unknown":{"s":1},"S":"upper"}`, `{"\u0073":"escaped name"}`,
	`{"i":128}`, `{"i":1.0}`, `{"i":1e2}`, `{"i":-0}`, `{"i":"1"}`, `{"u":-1}`, `{"n":9223372036854775807}`,
	`{"n":9223372036854775808}`,
	`{"f":1e39}`, `{"d":1e400}`, `{"d":9007199254740993}`, `{"b":1}`, `{"b":false}`, `{"s":1}`,
	`{"s":null,"l":null,"p":null,"m":null}`,
	`{"l":[]}`, `{"l":["a",null,"b"]}`, `{"l":[1]}`, `{"l":"a"}`, `{"a":[{"first":1,"second":true},{},null]}`,
	`{"a":[{"first":"x"}]}`,
	`{"m":{"k":[1,2],"\u006b2":[]}}`, `{"m":{"k":1}}`, `{"p":{"first":"a","second":5}}`, `{"p":{"second":5.5}}`,
	`{"p":{}}`,
	`{"b":true,"s":"not in order","e":"last"}`,
	`{"s":"a","s":"b"}`, `{"s":"a"} x`, `{"s":`, "{\"s\":\"\xff\"}", `{"s":"\ud800"}`, ``,
}

func checkPlan(t *testing.T, raw []byte) {
	t.Helper()
	s, err := shapeOf(reflect.TypeFor[planned]())
	must.That(t, err == nil && s.plan != nil, "no plan: %v", err)
	for name, start := range map[string]func() planned{
		"zero": func() planned { return planned{} },
		"filled": func() planned {
			return planned{S: "old", L: []string{"old"}, M: map[string][]float64{"old": {1}},
				P: &pair[string, *int]{First: "old"}}
		},
	} {
		got, want := start(), start()
		err, wantErr := Decode(raw, &got), s.decode(raw, &want)
		switch {
		case (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error():
			t.Errorf("%s, %q: error %v, want %v", name, raw, err, wantErr)
		case err == nil && !reflect.DeepEqual(got, want):
			t.Errorf("%s, %q:\n got %+v\nwant %+v", name, raw, got, want)
		}
	}
}

// A plan gives the same results and errors as the JSON library.
func TestPlansAgreeWithTheLibrary(t *testing.T) {
	for _, raw := range planCases {
		checkPlan(t, []byte(raw))
	}
}

func FuzzPlansAgreeWithTheLibrary(f *testing.F) {
	for _, raw := range planCases {
		f.Add([]byte(raw))
	}
	f.Fuzz(checkPlan)
}

// Types whose JSON follows special rules have no plan.
func TestOtherTypesHaveNoPlan(t *testing.T) {
	type recursive struct{ Next *recursive }
	type preset struct {
		N int `json:"n" default:"3"`
	}
	for _, v := range []any{
		recursive{}, preset{}, []byte{}, struct{ V any }{}, [2]int{}, map[int]string{},
		struct {
			N int `json:"n,string"`
		}{},
		struct{ *embedded }{}, time.Duration(0), time.Time{},
	} {
		s := must.Get(shapeOf(reflect.TypeOf(v)))(t)
		must.CheckThat(t, s.plan == nil, "%T has a plan", v)
	}
}

// Decode of a schema accepts values that both the schema and the type accept.
func TestSchemaDecodeValidates(t *testing.T) {
	s := compile(t, `{"type":"object","properties":{"first":{"maximum":5}}}`)
	var v pair[int, string]
	err := s.Decode([]byte(`{"first":5.0,"second":"x"}`), &v)
	must.CheckThat(t, err == nil && v.First == 5 && v.Second == "x", "%+v, %v", v, err)
	for _, raw := range []string{`{"first":6}`, `{"first":1.5}`, `{"second":1}`, `[]`, `{`, `{"first":1,"first":1}`} {
		err := s.Decode([]byte(raw), &v)
		must.CheckThat(t, err != nil, "%s: no error", raw)
	}
	if err := s.Decode([]byte(`{}`), v); err == nil {
		t.Error("decoded into a value that is no pointer")
	}
}
