package spec

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"

	"github.com/parley-mcp/parley/mcp"
)

// Kind is what a method is the method of.
type Kind int

// The kinds of methods.
const (
	Request Kind = iota + 1
	Notification
	// InputRequest is what a server asks in an InputRequiredResult and never sends by itself.
	InputRequest
)

// String implements fmt.Stringer.
func (k Kind) String() string {
	switch k {
	case Request:
		return "request"
	case Notification:
		return "notification"
	case InputRequest:
		return "input request"
	default:
		return fmt.Sprintf("Kind(%d)", int(k))
	}
}

// Method is a method that a schema defines.
type Method struct {
	Name       string
	Definition string // such as CallToolRequest
	Kind       Kind
	// FromClient and FromServer tell who sends it; an input request comes from the server.
	FromClient bool
	FromServer bool
}

// Methods returns the methods that the schema of rev defines, sorted by name. The schema of [Tasks] does
// not say who sends what: the client sends its requests and the server its notifications.
func Methods(rev mcp.Revision) []Method {
	definitions := make(map[string]definition)
	for name, raw := range Definitions(rev) {
		var d definition
		if err := json.Unmarshal(raw, &d); err != nil {
			panic(fmt.Sprintf("schema of %s: %s: %v", rev, name, err))
		}
		definitions[name] = d
	}

	var methods []Method
	for name, d := range definitions {
		method := d.method()
		if method == "" || isUnion(name) {
			continue
		}
		m := Method{Name: method, Definition: name}
		switch in := func(union string) bool { return definitions[union].includes(name, method) }; {
		case in("ClientRequest") || in("ServerRequest"):
			m.Kind, m.FromClient, m.FromServer = Request, in("ClientRequest"), in("ServerRequest")
		case in("ClientNotification") || in("ServerNotification"):
			m.Kind, m.FromClient, m.FromServer = Notification, in("ClientNotification"), in("ServerNotification")
		case in("InputRequest"):
			m.Kind, m.FromServer = InputRequest, true
		case rev == Tasks && d.extends("JSONRPCRequest"):
			m.Kind, m.FromClient = Request, true
		case rev == Tasks && d.extends("JSONRPCNotification"):
			m.Kind, m.FromServer = Notification, true
		default:
			panic(fmt.Sprintf("schema of %s: nobody sends a %s", rev, name))
		}
		methods = append(methods, m)
	}
	slices.SortFunc(methods, func(a, b Method) int { return cmp.Compare(a.Name, b.Name) })
	return methods
}

func isUnion(definition string) bool {
	switch definition {
	case "ClientRequest", "ServerRequest", "ClientNotification", "ServerNotification":
		return true
	}
	return false
}

// definition is as much of a definition as tells what method it is about.
type definition struct {
	Ref        string       `json:"$ref"`
	AllOf      []definition `json:"allOf"`
	AnyOf      []definition `json:"anyOf"`
	Properties struct {
		Method struct {
			Const string `json:"const"`
		} `json:"method"`
	} `json:"properties"`
}

func (d definition) method() string {
	if d.Properties.Method.Const != "" {
		return d.Properties.Method.Const
	}
	for _, part := range d.AllOf {
		if m := part.method(); m != "" {
			return m
		}
	}
	return ""
}

// includes reports whether the union d has the definition of that name. A union of one is written as
// what it is the union of, and then only the method tells.
func (d definition) includes(name, method string) bool {
	return d.method() == method || slices.ContainsFunc(d.AnyOf, func(part definition) bool {
		return path.Base(part.Ref) == name
	})
}

func (d definition) extends(name string) bool {
	return slices.ContainsFunc(d.AllOf, func(part definition) bool {
		return path.Base(part.Ref) == name
	})
}
