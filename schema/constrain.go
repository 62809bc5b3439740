package schema

import (
	"math"
	"reflect"
	"strconv"
	"strings"
)

// annotate writes the keywords that describe a value without constraining it.
func (tg *tags) annotate(o *object) {
	o.text("title", tg.title)
	o.text("description", tg.doc)
	o.raw("default", string(tg.preset))
	o.text("x-mcp-header", tg.header)
}

// constrain writes all keywords of a scalar.
func (tg *tags) constrain(o *object) {
	tg.annotate(o)
	o.text("format", tg.format)
	if tg.enum != nil {
		o.raw("enum", "["+strings.Join(tg.enum, ",")+"]")
	}
	o.raw("minimum", tg.minimum)
	o.raw("maximum", tg.maximum)
	o.raw("minLength", tg.minLength)
	o.raw("maxLength", tg.maxLength)
	o.text("pattern", tg.pattern)
}

// maxSafeInteger is the greatest integer that can be mirrored into a header
// (2026-07-28, transports/streamable-http, Schema Extension). A double represents
// all integers up to it exactly.
const maxSafeInteger = 1<<53 - 1

// boundInteger adds the bounds of an integer type to those of the tags, and returns
// a problem with the tags or "". Types of 64 bits get no bounds but zero, because
// many peers cannot represent such bounds exactly. The decoder rejects numbers that
// do not fit.
func (tg *tags) boundInteger(t reflect.Type) string {
	var low, high string
	bits := t.Bits()
	if k := t.Kind(); k == reflect.Int || k == reflect.Uint || k == reflect.Uintptr {
		bits = 64 // the same schema on every machine
	}
	switch {
	case t.Kind() >= reflect.Uint && bits == 64:
		low = "0"
	case t.Kind() >= reflect.Uint:
		low, high = "0", strconv.FormatUint(1<<bits-1, 10)
	case bits < 64:
		low, high = strconv.FormatInt(math.MinInt64>>(64-bits), 10), strconv.FormatInt(1<<(bits-1)-1, 10)
	}
	if tg.header != "" {
		safe := strconv.Itoa(maxSafeInteger)
		if high == "" {
			high = safe
		}
		if low == "" {
			low = "-" + safe
		}
	}
	for _, side := range []struct {
		own, tag  *string
		name      string
		direction int
	}{{&low, &tg.minimum, "minimum", 1}, {&high, &tg.maximum, "maximum", -1}} {
		if *side.own == "" {
			continue
		}
		if *side.tag == "" {
			*side.tag = *side.own
		} else if newBound([]byte(*side.own)).cmp([]byte(*side.tag))*side.direction < 0 {
			return side.name + " must be in the range of the type"
		}
	}
	return ""
}
