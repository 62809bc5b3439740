package schema_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/parley-mcp/parley/schema"
)

type booking struct {
	Table  string        `json:"table" doc:"which table" enum:"red,blue"`
	Guests int           `json:"guests" minimum:"1" maximum:"12" default:"2"`
	Length time.Duration `json:"length,omitzero"`
}

func ExampleFor() {
	s, err := schema.For[booking]()
	if err != nil {
		fmt.Println(err)
		return
	}
	err = s.Validate([]byte(`{"table": "green", "guests": 2.5}`))
	var invalid *schema.ValidationError
	if errors.As(err, &invalid) {
		fmt.Println(invalid.Describe("arguments"))
	}
	// Output: arguments/table: expected one of "red", "blue", got string "green"; arguments/guests: expected integer, got number 2.5
}

func ExampleCompile() {
	s, err := schema.Compile([]byte(`{
		"type": "object",
		"properties": {"city": {"type": "string", "minLength": 1}},
		"required": ["city"],
		"additionalProperties": false
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.IsObject())
	fmt.Println(s.Validate([]byte(`{"city": "Oslo"}`)))
	fmt.Println(s.Validate([]byte(`{"city": "Oslo", "town": "Oslo"}`)))
	// Output:
	// true
	// <nil>
	// value/town: expected one of the properties "city", got unknown property "town"
}

func ExampleDecode() {
	var b booking
	err := schema.Decode([]byte(`{"table": "red", "length": "1h30m"}`), &b)
	fmt.Println(b.Table, b.Guests, b.Length, err)
	// Output: red 2 1h30m0s <nil>
}

func ExampleMarshal() {
	raw, err := schema.Marshal(struct {
		Names []string      `json:"names"`
		Next  *string       `json:"next"`
		Took  time.Duration `json:"took"`
	}{Took: 90 * time.Second})
	fmt.Println(string(raw), err)
	// Output: {"names":[],"took":"1m30s"} <nil>
}
