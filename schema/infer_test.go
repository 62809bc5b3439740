package schema

import (
	"encoding/json"
	"errors"
	"math/big"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/internal/must"
)

type address struct {
	Street string `json:"street"`
	Zip    string `json:"zip,omitempty" pattern:"^[0-9]{5}$"`
}

type audited struct {
	ID      int64     `json:"id"`
	Created time.Time `json:"created,omitzero"`
}

type pair[A, B any] struct {
	First  A `json:"first"`
	Second B `json:"second"`
}

type tree struct {
	Name string  `json:"name"`
	Kids []*tree `json:"kids,omitempty"`
}

type forest struct {
	Trees map[string]tree             `json:"trees"`
	Link  *chainOf[pair[int, string]] `json:"link"`
}

type chainOf[T any] struct {
	Value T           `json:"value"`
	Next  *chainOf[T] `json:"next"`
}

type even struct{ Odd *odd }
type odd struct{ Even *even }

type matrix [][]matrix

type level string

type shadowed struct {
	audited
	*address
	ID string `json:"id"`
}

type named struct {
	Inner address `json:"inner"`
}

type loose struct {
	Known string         `json:"known"`
	Rest  map[string]int `json:",embed"`
}

func TestInferredSchemas(t *testing.T) {
	for _, test := range []struct {
		typ  reflect.Type
		want string
	}{
		{reflect.TypeFor[struct{}](), `{"type":"object","properties":{},"additionalProperties":false}`},
		{reflect.TypeFor[*struct {
			Text string `json:"text"`
		}](), `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],` +
			`"additionalProperties":false}`},
		{reflect.TypeFor[string](), `{"type":"string"}`},
		{reflect.TypeFor[[]string](), `{"type":"array","items":{"type":"string"}}`},
		{reflect.TypeFor[any](), `{}`},
		{reflect.TypeFor[struct {
			A string  `doc:"An a." title:"A" minLength:"1" maxLength:"5" pattern:"^a" format:"email" default:"ab"`
			B int     `json:"b" minimum:"-9007199254740993" maximum:"9007199254740993" enum:"1,2" default:"2"`
			C float64 `json:"c,omitempty" minimum:"0.5" maximum:"1e3"`
			D bool    `json:"d,omitzero" mcp-header:"Dry-Run"`
			E level   `json:"e" enum:"low,high"`
			F string  `json:"-"`
			G *string `json:"g"`
			H any     `json:"h" doc:"whatever" default:"{\"a\":[1]}"`
			i int
		}](), `{"type":"object","properties":{` +
			`"A":{"type":"string","title":"A","description":"An a.","default":"ab","format":"email","minLength":1,` +
			`"maxLength":5,"pattern":"^a"},` +
			`"b":{"type":"integer","default":2,"enum":[1,2],"minimum":-9007199254740993,"maximum":9007199254740993},` +
			`"c":{"type":"number","minimum":0.5,"maximum":1e3},` +
			`"d":{"type":"boolean","x-mcp-header":"Dry-Run"},` +
			`"e":{"type":"string","enum":["low","high"]},` +
			`"g":{"type":"string"},` +
			`"h":{"description":"whatever","default":{"a":[1]}}},` +
			`"required":["e"],"additionalProperties":false}`},
		{reflect.TypeFor[struct {
			A int8   `json:"a"`
			B int16  `json:"b" minimum:"0"`
			C uint8  `json:"c"`
			D uint32 `json:"d" maximum:"7"`
			E uint64 `json:"e"`
			F int64  `json:"f"`
			G int64  `json:"g" mcp-header:"G"`
			H uint64 `json:"h" mcp-header:"H" maximum:"10"`
			I uint   `json:"i"`
		}](), `{"type":"object","properties":{` +
			`"a":{"type":"integer","minimum":-128,"maximum":127},` +
			`"b":{"type":"integer","minimum":0,"maximum":32767},` +
			`"c":{"type":"integer","minimum":0,"maximum":255},` +
			`"d":{"type":"integer","minimum":0,"maximum":7},` +
			`"e":{"type":"integer","minimum":0},` +
			`"f":{"type":"integer"},` +
			`"g":{"type":"integer","x-mcp-header":"G","minimum":-9007199254740991,"maximum":9007199254740991},` +
			`"h":{"type":"integer","x-mcp-header":"H","minimum":0,"maximum":10},` +
			`"i":{"type":"integer","minimum":0}},` +
			`"required":["a","b","c","d","e","f","g","h","i"],"additionalProperties":false}`},
		{reflect.TypeFor[struct {
			Bytes    []byte           `json:"bytes"`
			Digest   [4]byte          `json:"digest"`
			Raw      json.RawMessage  `json:"raw"`
			Time     time.Time        `json:"time"`
			Duration time.Duration    `json:"duration"`
			Addr     netip.Addr       `json:"addr"`
			Big      *big.Int         `json:"big"`
			Pair     [2]bool          `json:"pair"`
			Tags     []level          `json:"tags" enum:"a,b" minItems:"1" maxItems:"2" doc:"labels"`
			Ages     map[string]uint8 `json:"ages"`
			ByID     map[int]string   `json:"byID"`
			ByIP     map[netip.Addr]bool
			Quoted   int64   `json:"quoted,string"`
			Share    float32 `json:"share,string,omitempty"`
		}](), `{"type":"object","properties":{` +
			`"bytes":{"type":"string","contentEncoding":"base64"},` +
			`"digest":{"type":"string","contentEncoding":"base64"},` +
			`"raw":{},` +
			`"time":{"type":"string","format":"date-time"},` +
			`"duration":{"type":"string","pattern":"^[-+]?(0|(([0-9]+\\.?[0-9]*|\\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$"},` +
			`"addr":{"type":"string"},` +
			`"big":{},` +
			`"pair":{"type":"array","minItems":2,"maxItems":2,"items":{"type":"boolean"}},` +
			`"tags":{"type":"array","description":"labels","minItems":1,"maxItems":2,"items":{"type":"string",` +
			`"enum":["a","b"]}},` +
			`"ages":{"type":"object","properties":{},"additionalProperties":{"type":"integer","minimum":0,"maximum":255}},` +
			`"byID":{"type":"object","properties":{},"propertyNames":{"pattern":"^(0|-?[1-9][0-9]*)$"},` +
			`"additionalProperties":{"type":"string"}},` +
			`"ByIP":{"type":"object","properties":{},"additionalProperties":{"type":"boolean"}},` +
			`"quoted":{"type":"string","pattern":"^(0|-?[1-9][0-9]*)$"},` +
			`"share":{"type":"string","pattern":"^-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][-+]?[0-9]+)?$"}},` +
			`"required":["bytes","digest","raw","time","duration","addr","pair","tags","ages","byID","ByIP",` +
			`"quoted"],"additionalProperties":false}`},
		{reflect.TypeFor[shadowed](), `{"type":"object","properties":{` +
			`"created":{"type":"string","format":"date-time"},"street":{"type":"string"},"zip":{"type":"string",` +
			`"pattern":"^[0-9]{5}$"},` +
			`"id":{"type":"string"}},"required":["id"],"additionalProperties":false}`},
		{reflect.TypeFor[named](), `{"type":"object","properties":{"inner":{"type":"object","properties":{` +
			`"street":{"type":"string"},"zip":{"type":"string","pattern":"^[0-9]{5}$"}},"required":["street"],` +
			`"additionalProperties":false}},` +
			`"required":["inner"],"additionalProperties":false}`},
		{reflect.TypeFor[loose](),
			`{"type":"object","properties":{"known":{"type":"string"}},"required":["known"],` +
				`"additionalProperties":{"type":"integer"}}`},
		{reflect.TypeFor[pair[int, []string]](), `{"type":"object","properties":{"first":{"type":"integer"},` +
			`"second":{"type":"array","items":{"type":"string"}}},"required":["first","second"],` +
			`"additionalProperties":false}`},
		{reflect.TypeFor[tree](),
			`{"type":"object","properties":{"name":{"type":"string"},"kids":{"type":"array","items":{"$ref":"#"}}},` +
				`"required":["name"],"additionalProperties":false}`},
		{reflect.TypeFor[forest](),
			`{"type":"object","properties":{"trees":{"type":"object","properties":{},"additionalProperties":{"$ref":"#/$defs/tree"}},` +
				`"link":{"$ref":"#/$defs/chainOf_schema_pair_int_string"}},"required":["trees"],` +
				`"additionalProperties":false,"$defs":{` +
				`"tree":{"type":"object","properties":{"name":{"type":"string"},"kids":{"type":"array",` +
				`"items":{"$ref":"#/$defs/tree"}}},` +
				`"required":["name"],"additionalProperties":false},` +
				`"chainOf_schema_pair_int_string":{"type":"object","properties":{"value":{"type":"object",` +
				`"properties":{"first":{"type":"integer"},` +
				`"second":{"type":"string"}},"required":["first","second"],"additionalProperties":false},` +
				`"next":{"$ref":"#/$defs/chainOf_schema_pair_int_string"}},"required":["value"],` +
				`"additionalProperties":false}}}`},
		{reflect.TypeFor[even](),
			`{"type":"object","properties":{"Odd":{"type":"object","properties":{"Even":{"$ref":"#"}},` +
				`"additionalProperties":false}},"additionalProperties":false}`},
		{reflect.TypeFor[matrix](), `{"type":"array","items":{"type":"array","items":{"$ref":"#"}}}`},
	} {
		s, err := ForType(test.typ)
		if err != nil {
			t.Errorf("%v: %v", test.typ, err)
			continue
		}
		must.CheckEqual(t, cmp.Diff(test.want, string(s.JSON())), "", test.typ)
		if s.Unchecked() != nil {
			t.Errorf("%v: unchecked keywords: %v", test.typ, s.Unchecked())
		}
		must.Check(t, must.Err(oracle(s.JSON())), test.typ, "the oracle rejects the schema")
	}
}

func TestInferenceIsCachedAndDeterministic(t *testing.T) {
	first := must.Get(For[forest]())(t)
	again, _ := For[forest]()
	must.CheckEqual(t, again, first, "inferred twice")
	for range 20 {
		s := must.Get(infer(reflect.TypeFor[forest]()))(t)
		must.Equal(t, string(s.JSON()), string(first.JSON()))
	}
}

type selfPointer *selfPointer

type big19 struct{ A, B, C, D, E, F, G, H, I, J big18 }
type big18 struct{ A, B, C, D, E, F, G, H, I, J big17 }
type big17 struct{ A, B, C, D, E, F, G, H, I, J big16 }
type big16 struct{ A, B, C, D, E, F, G, H, I, J big15 }
type big15 struct{ A, B, C, D, E, F, G, H, I, J int }

func TestUnsupportedTypesNameTheField(t *testing.T) {
	for _, test := range []struct {
		typ  reflect.Type
		path string
	}{
		{reflect.TypeFor[struct{ C chan int }](), "struct { C chan int }.C"},
		{reflect.TypeFor[pair[func(), int]](), "pair[func(),int].First"},
		{reflect.TypeFor[struct{ A []map[string]complex128 }](), "struct { A []map[string]complex128 }.A[][]"},
		{reflect.TypeFor[pair[error, int]](), "pair[error,int].First"},
		{reflect.TypeFor[pair[json.Number, int]](), "pair[json.Number,int].First"},
		{reflect.TypeFor[map[float64]int](), "map[float64]int"},
		{reflect.TypeFor[selfPointer](), "schema.selfPointer"},
		{reflect.TypeFor[big19](), ""},
		{reflect.TypeFor[struct{ a int }](), ""},
		{reflect.StructOf([]reflect.StructField{
			{Name: "A", Type: reflect.TypeFor[int](), Tag: `json:"x"`},
			{Name: "B", Type: reflect.TypeFor[int](), Tag: `json:"x"`},
		}), ""},
		{reflect.TypeFor[struct {
			T time.Time `json:"t,format:unix"`
		}](), ""},
		{reflect.TypeFor[struct {
			S string `json:"s,string"`
		}](), ""},
	} {
		_, err := ForType(test.typ)
		var bad *typeError
		must.CheckThat(t, errors.As(err, &bad) && (test.path == "" || bad.Path == test.path),
			"%v: %v, want a *typeError about %s", test.typ, err, test.path)
	}
	_, err := ForType(nil)
	must.CheckThat(t, err != nil, "nil is a type")
}

func TestTagsWithoutEffectNameTheRightOne(t *testing.T) {
	const constraints = "the tag jsonschema belongs to another library; use doc for the description, and tags such " +
		"as enum and minimum for constraints"
	for tag, want := range map[reflect.StructTag]string{
		`jsonschema:"the \"city\" to use"`: `the tag jsonschema belongs to another library; use ` +
			`doc:"the \"city\" to use"`,
		`jsonschema:"required,description=City,enum=a"`: constraints,
		`jsonschema:"required"`:                         constraints,
		`jsonschema_description:"City"`: `the tag jsonschema_description belongs to another library; ` +
			`use doc:"City"`,
		`json:"city" description:"City"`: `the tag description belongs to another library; use ` +
			`doc:"City"`,
		`enums:"a,b" example:"a"`: `the tag enums belongs to another library; use enum:"a,b"`,
		`minlength:"1"`: `the tag minlength belongs to another library; use ` +
			`minLength:"1"`,
		`minLenght:"1"`:            `the tag minLenght has no effect; use minLength:"1"`,
		`doc:"City" minLenght:"1"`: `the tag minLenght has no effect; use minLength:"1"`,
		`max_length:"9"`:           `the tag max_length has no effect; use maxLength:"9"`,
		`Doc:"City"`:               `the tag Doc has no effect; use doc:"City"`,
		`patern:"^a"`:              `the tag patern has no effect; use pattern:"^a"`,
		`defualt:"a"`:              `the tag defualt has no effect; use default:"a"`,
		`mcp_header:"Region"`:      `the tag mcp_header has no effect; use mcp-header:"Region"`,

		// Types that are shared with another library carry its tags as well as
		// ours.
		`doc:"City" jsonschema:"required,description=City" description:"City"`: "",
		`enum:"a,b" enums:"a,b"`:                 "",
		`minLength:"1" minlength:"1" binding:""`: "",
		`minLength:"1" min_length:"1"`:           "",
		// Tags for other purposes.
		`json:"city" yaml:"city" bson:"city" xml:"city" db:"city" form:"city" header:"City" query:"city" ` +
			`uri:"city"`: "",
		`validate:"required,min=1" binding:"required" mapstructure:"city" env:"CITY" help:"City" ` +
			`desc:"City"`: "",
		`example:"Oslo" required:"true" short:"c" name:"city" protobuf:"bytes,1" gorm:"column:city" ` +
			`num:"1"`: "",
		`json:"city" malformed`: "",
	} {
		typ := reflect.StructOf([]reflect.StructField{{Name: "City", Type: reflect.TypeFor[string](), Tag: tag}})
		_, err := ForType(typ)
		var bad *typeError
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", tag, err)
		case want != "" && (!errors.As(err, &bad) || bad.Reason != want || bad.Path != typ.String()+".City"):
			t.Errorf("%s: %v\nwant %s", tag, err, want)
		}
	}
}

func TestMalformedTagsNameTheField(t *testing.T) {
	for _, typ := range []reflect.Type{
		reflect.TypeFor[struct {
			Bad int `minimum:"low"`
		}](),
		reflect.TypeFor[struct {
			Bad int `minimum:"01"`
		}](),
		reflect.TypeFor[struct {
			Bad int `minimum:""`
		}](),
		reflect.TypeFor[struct {
			Bad int `minimum:"2" maximum:"1"`
		}](),
		reflect.TypeFor[struct {
			Bad string `minimum:"2"`
		}](),
		reflect.TypeFor[struct {
			Bad int8 `maximum:"128"`
		}](),
		reflect.TypeFor[struct {
			Bad uint `minimum:"-1"`
		}](),
		reflect.TypeFor[struct {
			Bad string `minLength:"-1"`
		}](),
		reflect.TypeFor[struct {
			Bad string `minLength:"2" maxLength:"1"`
		}](),
		reflect.TypeFor[struct {
			Bad int `maxLength:"1"`
		}](),
		reflect.TypeFor[struct {
			Bad string `pattern:"("`
		}](),
		reflect.TypeFor[struct {
			Bad bool `pattern:"a"`
		}](),
		reflect.TypeFor[struct {
			Bad address `enum:"a"`
		}](),
		reflect.TypeFor[struct {
			Bad bool `enum:"true"`
		}](),
		reflect.TypeFor[struct {
			Bad int `enum:"1,x"`
		}](),
		reflect.TypeFor[struct {
			Bad string `enum:"a,a"`
		}](),
		reflect.TypeFor[struct {
			Bad int `default:"x"`
		}](),
		reflect.TypeFor[struct {
			Bad int `default:"1.5"`
		}](),
		reflect.TypeFor[struct {
			Bad int `default:"9" maximum:"5"`
		}](),
		reflect.TypeFor[struct {
			Bad string `default:"c" enum:"a,b"`
		}](),
		reflect.TypeFor[struct {
			Bad address `default:"{}"`
		}](),
		reflect.TypeFor[struct {
			Bad []string `mcp-header:"X"`
		}](),
		reflect.TypeFor[struct {
			Bad float64 `mcp-header:"X"`
		}](),
		reflect.TypeFor[struct {
			Bad string `mcp-header:""`
		}](),
		reflect.TypeFor[struct {
			Bad string `minItems:"1"`
		}](),
		reflect.TypeFor[struct {
			Bad []string `minItems:"2" maxItems:"1"`
		}](),
		reflect.TypeFor[struct {
			Bad int `json:",string" pattern:"1"`
		}](),
	} {
		_, err := ForType(typ)
		var bad *typeError
		must.CheckThat(t, errors.As(err, &bad) && bad.Path == typ.String()+".Bad",
			"%v: %v, want a *typeError about .Bad", typ, err)
	}
}

func TestHeadersThatCannotBeMirroredAreRejected(t *testing.T) {
	type mirrored struct {
		Region string `json:"region" mcp-header:"Region"`
	}
	type recursive struct {
		Region string     `json:"region" mcp-header:"Region"`
		Next   *recursive `json:"next"`
	}
	must.Check(t, must.Err(For[struct{ In mirrored }]()))
	must.Check(t, must.Err(For[recursive]()), "at the root of a recursive type")
	for _, typ := range []reflect.Type{
		reflect.TypeFor[struct{ In []mirrored }](),
		reflect.TypeFor[struct{ In map[string]mirrored }](),
		reflect.TypeFor[struct{ A, B mirrored }](),
		reflect.TypeFor[struct{ In recursive }](),
		reflect.TypeFor[struct {
			A string `mcp-header:"two words"`
		}](),
		reflect.TypeFor[struct {
			A string `mcp-header:"Region"`
			B string `mcp-header:"REGION"`
		}](),
	} {
		_, err := ForType(typ)
		var bad *typeError
		must.CheckThat(t, errors.As(err, &bad), "%v: %v, want a *typeError", typ, err)
	}
}
