package schema

import (
	"cmp"
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/internal/jsonscan"
)

// tags contains the annotations and constraints of one field.
type tags struct {
	title, doc, format, header string
	pattern                    string
	enum                       []string // as JSON
	minimum, maximum           string   // as JSON
	minLength, maxLength       string
	minItems, maxItems         string
	preset                     []byte // default as JSON; nil without a default

	kind kind // kind of the values that the constraints of scalars apply to, if they are scalars
	list bool // these values are the elements of a list
}

// ownTags lists the tags that parseTags reads.
var ownTags = []string{
	"doc", "title", "default", "enum", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems",
	"pattern", "format", "mcp-header",
}

// otherTags maps tags with which other libraries describe a property to the tags with the same meaning here.
var otherTags = map[string]string{
	"jsonschema": "doc", "jsonschema_description": "doc", "description": "doc", "docs": "doc",
	"enums": "enum", "minlength": "minLength", "maxlength": "maxLength",
}

// unreadTag returns the problem with a tag that looks like one of ours but would have no effect, or "". A field may
// carry the tags of another library in addition to ours.
func unreadTag(tag reflect.StructTag) string {
	names := namesOf(tag)
	has := func(name string) bool { return slices.Contains(names, name) }
	shared := slices.ContainsFunc(ownTags, has)
	for _, name := range names {
		if instead, ok := otherTags[name]; ok && !shared {
			value := tag.Get(name)
			// constraints, not a description
			if name == "jsonschema" && (strings.Contains(value, "=") || !strings.Contains(value, " ")) {
				return "the tag jsonschema belongs to another library; use doc for the description, and tags such as " +
					"enum and minimum for constraints"
			}
			return "the tag " + name + " belongs to another library; use " + instead + ":" + strconv.Quote(value)
		}
		for _, own := range ownTags {
			if name != own && !has(own) && otherTags[name] == "" && isMisspelt(name, own) {
				return "the tag " + name + " has no effect; use " + own + ":" + strconv.Quote(tag.Get(name))
			}
		}
	}
	return ""
}

// namesOf returns the names of a tag, whose syntax reflect.StructTag defines.
func namesOf(tag reflect.StructTag) (names []string) {
	for {
		name, rest, ok := strings.Cut(strings.TrimLeft(string(tag), " "), ":")
		value, err := strconv.QuotedPrefix(rest)
		if !ok || err != nil {
			return names
		}
		names, tag = append(names, name), reflect.StructTag(rest[len(value):])
	}
}

// isMisspelt reports whether a name differs from the name of a tag in case, in hyphens and underscores or, if the name
// is long, in one letter that is wrong, missing, superfluous or swapped with the next.
func isMisspelt(name, own string) bool {
	plain := strings.NewReplacer("-", "", "_", "")
	a, b := strings.ToLower(plain.Replace(name)), strings.ToLower(plain.Replace(own))
	if a == b || len(own) < 5 {
		return a == b
	}
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	a, b = a[i:], b[i:] // now they differ in the first letter
	switch len(a) - len(b) {
	case 1:
		return a[1:] == b
	case -1:
		return a == b[1:]
	case 0:
		return a[1:] == b[1:] || len(a) > 1 && a[0] == b[1] && a[1] == b[0] && a[2:] == b[2:]
	}
	return false
}

// describer is a type that describes its JSON with a schema.
type describer interface{ JSONSchema() string }

// ownSchema returns the schema that a method of the type returns.
func ownSchema(t reflect.Type) (schema string, ok bool) {
	if t.Kind() == reflect.Interface || t.Kind() == reflect.Pointer {
		return "", false
	}
	if !reflect.PointerTo(t).Implements(reflect.TypeFor[describer]()) {
		return "", false
	}
	return reflect.New(t).Interface().(describer).JSONSchema(), true
}

// kindOf returns the JSON kind of a field whose type is t, or of the elements of a list. The tags can say that a
// type with JSON methods is a string or a number.
func kindOf(f field, t reflect.Type) kind {
	if k := scalarKind(t, f.quoted); k != 0 || representationOf(t) != customType {
		return k
	}
	for _, name := range namesOf(f.tag) {
		switch name {
		case "minLength", "maxLength", "pattern", "format":
			return kindString
		case "minimum", "maximum":
			return kindNumber
		}
	}
	return 0
}

// scalarKind returns the JSON kind of a scalar type, or 0 for other types.
func scalarKind(t reflect.Type, quoted bool) kind {
	if schema, ok := ownSchema(t); ok {
		d := &document{}
		if d.scan([]byte(schema)) != nil || d.Tokens[0].Kind != kindObject {
			return 0
		}
		at, ok := d.member(0, "type")
		if !ok || d.Tokens[at].Kind != kindString {
			return 0
		}
		k, _ := jsonscan.KindNamed(d.Text(at))
		return k & (kindString | kindNumber | kindInteger | kindBoolean)
	}
	switch representationOf(t) {
	case timeType, durationType, textType:
		return kindString
	case plainType:
	default:
		return 0
	}
	if isBytes(t) {
		return kindString
	}
	switch t.Kind() {
	case reflect.String:
		return kindString
	case reflect.Bool:
		return kindBoolean
	case reflect.Float32, reflect.Float64:
		if quoted {
			return kindString
		}
		return kindNumber
	}
	if isInteger(t) {
		if quoted {
			return kindString
		}
		return kindInteger
	}
	return 0
}

func isInteger(t reflect.Type) bool {
	return reflect.Int <= t.Kind() && t.Kind() <= reflect.Uintptr
}

// parseTags reads the tags of a field of type t, which is not a pointer. It
// returns a problem with the tags or "".
func parseTags(f field, t reflect.Type) (tags, string) {
	if problem := unreadTag(f.tag); problem != "" {
		return tags{}, problem
	}
	get := f.tag.Get
	tg := tags{
		title: get("title"), doc: get("doc"), format: get("format"), header: get("mcp-header"), pattern: get("pattern"),
		minimum: get("minimum"), maximum: get("maximum"), minLength: get("minLength"), maxLength: get("maxLength"),
		minItems: get("minItems"), maxItems: get("maxItems"),
	}
	own := kindOf(f, t)
	if _, ok := f.tag.Lookup("mcp-header"); ok {
		switch {
		case own&(kindString|kindInteger|kindBoolean) == 0:
			return tg, "mcp-header can only be used for strings, integers and booleans"
		case tg.header == "":
			return tg, "mcp-header must name the header"
		}
	}

	// On a list, the constraints of scalars apply to the elements.
	k, list, scalar := own, false, t
	if own == 0 && representationOf(t) == plainType && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
		if elem, err := indirect(t.Elem()); err == nil {
			f := f
			f.quoted = false
			k, list, scalar = kindOf(f, elem), true, elem
		}
	}
	tg.kind, tg.list = k, list
	if problem := checkFormat(tg.format, scalar); problem != "" {
		return tg, problem
	}
	for _, name := range []string{"minItems", "maxItems"} {
		if value, ok := f.tag.Lookup(name); ok {
			if !list || t.Kind() == reflect.Array {
				return tg, name + " can only be used for slices"
			}
			if !isSize(value) {
				return tg, name + " must be a whole number, not " + quote(value)
			}
		}
	}
	if problem := tg.checkText(f, k); problem != "" {
		return tg, problem
	}
	if problem := tg.checkNumber(f, k); problem != "" {
		return tg, problem
	}
	if value, ok := f.tag.Lookup("enum"); ok {
		var problem string
		if tg.enum, problem = parseEnum(value, k); problem != "" {
			return tg, problem
		}
	}
	if value, ok := f.tag.Lookup("default"); ok {
		tg.preset = presetOf(value, own)
		if !json.Valid(tg.preset) {
			return tg, "default must be JSON for a field of this type, not " + quote(value)
		}
	}
	return tg, ""
}

// checkFormat returns the problem with a format that does not fit the JSON of a type, or "".
func checkFormat(format string, t reflect.Type) string {
	switch representationOf(t) {
	case timeType:
		if format != "" && format != "date-time" {
			return "format of a time.Time must be date-time, because its JSON has a date and a time; for format:" +
				strconv.Quote(format) + ", use a string"
		}
	case durationType:
		if format == "duration" {
			return `format of a time.Duration must not be duration, which means "PT1H30M"; its JSON is "1h30m"`
		}
	}
	return ""
}

func (tg *tags) checkText(f field, k kind) string {
	for _, name := range []string{"minLength", "maxLength", "pattern", "format"} {
		value, ok := f.tag.Lookup(name)
		if !ok {
			continue
		}
		if k != kindString {
			return name + " can only be used for strings"
		}
		switch name {
		case "minLength", "maxLength":
			if !isSize(value) {
				return name + " must be a whole number, not " + quote(value)
			}
		case "pattern":
			if _, err := regexp.Compile(value); err != nil {
				return "pattern must be a regular expression: " + err.Error()
			}
		}
	}
	if tg.minLength != "" && tg.maxLength != "" && atoi(tg.minLength) > atoi(tg.maxLength) {
		return "minLength must be at most maxLength"
	}
	if tg.minItems != "" && tg.maxItems != "" && atoi(tg.minItems) > atoi(tg.maxItems) {
		return "minItems must be at most maxItems"
	}
	return ""
}

func (tg *tags) checkNumber(f field, k kind) string {
	for _, name := range []string{"minimum", "maximum"} {
		if value, ok := f.tag.Lookup(name); ok {
			if k&(kindNumber|kindInteger) == 0 {
				return name + " can only be used for numbers"
			}
			if !isNumber(value) {
				return name + " must be a JSON number, not " + quote(value)
			}
		}
	}
	if tg.minimum != "" && tg.maximum != "" && newBound([]byte(tg.minimum)).cmp([]byte(tg.maximum)) < 0 {
		return "minimum must be at most maximum"
	}
	return ""
}

// parseEnum turns "a,b,c" into JSON values of a kind. It returns a problem or "".
func parseEnum(value string, k kind) ([]string, string) {
	var enum []string
	for item := range strings.SplitSeq(value, ",") {
		switch {
		case strings.TrimSpace(item) != item:
			return nil, "enum must list values without spaces beside the commas: " + quote(strings.TrimSpace(item)) +
				", not " + quote(item)
		case k == kindString:
			item = string(appendQuoted(nil, item))
		case k&(kindNumber|kindInteger) == 0:
			return nil, "enum can only be used for strings and numbers"
		case !isNumber(item):
			return nil, "enum of a number must list JSON numbers, not " + quote(item)
		}
		if slices.Contains(enum, item) {
			return nil, "enum must list " + item + " only once"
		}
		enum = append(enum, item)
	}
	return enum, ""
}

// presetOf returns a default as JSON. For a string, the tag is the text itself.
func presetOf(value string, k kind) []byte {
	if k == kindString {
		return appendQuoted(nil, value)
	}
	return []byte(value)
}

func isSize(s string) bool {
	n, err := strconv.ParseUint(s, 10, 31)
	return err == nil && s == strconv.FormatUint(n, 10)
}

func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

func isNumber(s string) bool {
	d := document{}
	return s != "" && d.scan([]byte(s)) == nil && d.Tokens[0].Kind == kindNumber && d.Tokens[0].Start == 0 &&
		int(d.Tokens[0].End) == len(s)
}

// field is a Go struct field as a property of a JSON object.
type field struct {
	name     string
	goName   string
	typ      reflect.Type
	tag      reflect.StructTag
	optional bool // may be absent
	quoted   bool // the option "string": a number in a string

	index []int
	named bool
}

// fieldsOf returns the properties of a struct in the order of its fields, including
// those of embedded structs, and the type of the values of an embedded map, which
// takes all other properties. It follows the rules of the JSON decoder: among
// fields with the same name, the shallowest wins, then the only one with a tag.
func fieldsOf(root reflect.Type) (fields []field, rest reflect.Type, err error) {
	type level struct {
		typ      reflect.Type
		index    []int
		optional bool
		walk     bool
	}
	queue := []level{{typ: root, walk: true}}
	seen := map[reflect.Type]bool{root: true}
	for len(queue) > 0 {
		in := queue[0]
		queue = queue[1:]
		for i := range in.typ.NumField() {
			sf := in.typ.Field(i)
			tag := sf.Tag.Get("json")
			if tag == "-" || !sf.IsExported() && !sf.Anonymous {
				continue
			}
			name, options, _ := strings.Cut(tag, ",")
			if without, ok := strings.CutSuffix(tag, ","); ok {
				if without == "-" {
					without = "-,case:strict" // has no further effect
				}
				return nil, nil, &typeError{Path: sf.Name,
					Reason: "the json tag must not end with a comma; write json:" + strconv.Quote(without)}
			}
			f := field{
				name: cmp.Or(name, sf.Name), goName: sf.Name, typ: sf.Type, tag: sf.Tag,
				index: append(slices.Clone(in.index), i), named: name != "",
				optional: in.optional || sf.Type.Kind() == reflect.Pointer,
			}
			embed := sf.Anonymous && name == ""
			for option := range strings.SplitSeq(options, ",") {
				switch option {
				case "omitempty", "omitzero":
					f.optional = true
				case "string":
					f.quoted = true
				case "embed":
					embed = true
				default:
					if strings.HasPrefix(option, "format:") {
						return nil, nil, &typeError{Path: sf.Name,
							Reason: `the json option "format" is not supported; use another type`}
					}
				}
			}
			if !embed {
				fields = append(fields, f)
				continue
			}
			inner := sf.Type
			if inner.Kind() == reflect.Pointer && inner.Name() == "" {
				inner = inner.Elem()
			}
			switch {
			case inner.Kind() == reflect.Struct:
				if in.walk {
					queue = append(queue, level{inner, f.index, in.optional ||
						sf.Type.Kind() == reflect.Pointer, !seen[inner]})
				}
				seen[inner] = true
			case inner.Kind() == reflect.Map && rest == nil:
				rest = inner.Elem()
			case inner == reflect.TypeFor[jsontext.Value]() && rest == nil:
				rest = reflect.TypeFor[any]()
			}
		}
	}
	return dominant(fields), rest, nil
}

// dominant removes the fields that others hide, and sorts the rest.
func dominant(fields []field) []field {
	byName := map[string][]field{}
	for _, f := range fields {
		byName[f.name] = append(byName[f.name], f)
	}
	var kept []field
	for _, same := range byName {
		slices.SortStableFunc(same, func(a, b field) int {
			if c := cmp.Compare(len(a.index), len(b.index)); c != 0 || a.named == b.named {
				return c
			}
			if a.named {
				return -1
			}
			return 1
		})
		if len(same) == 1 || len(same[0].index) != len(same[1].index) || same[0].named != same[1].named {
			kept = append(kept, same[0])
		}
	}
	slices.SortFunc(kept, func(a, b field) int { return slices.Compare(a.index, b.index) })
	return kept
}
