package resourceuri

import (
	"fmt"
	"strings"
)

// TemplatePart is a literal of a URI template (RFC 6570) and the expression after it.
type TemplatePart struct {
	Literal    string
	Expression string // in braces; empty at the end of the template
	Operator   string // operator of the expression: one of + # . / ; ? & or none
	Variables  []TemplateVariable
}

// TemplateVariable is a variable of an expression. Its name may be anything.
type TemplateVariable struct {
	Name     string
	Exploded bool   // {name*}
	Prefix   string // :3 in {name:3}
}

// SplitTemplate returns the parts of a URI template. If a brace is not closed, it returns the parts before the brace
// and an error.
func SplitTemplate(template string) (parts []TemplatePart, err error) {
	for template != "" {
		literal, rest, found := strings.Cut(template, "{")
		part := TemplatePart{Literal: literal}
		if found {
			expression, after, closed := strings.Cut(rest, "}")
			if !closed {
				return append(parts, part), fmt.Errorf("missing } after {%s", expression)
			}
			part.Expression, rest = "{"+expression+"}", after
			if expression != "" && strings.Contains("+#./;?&", expression[:1]) {
				part.Operator, expression = expression[:1], expression[1:]
			}
			for spec := range strings.SplitSeq(expression, ",") {
				var v TemplateVariable
				v.Name, v.Exploded = strings.CutSuffix(spec, "*")
				if colon := strings.IndexByte(v.Name, ':'); colon >= 0 {
					v.Name, v.Prefix = v.Name[:colon], v.Name[colon:]
				}
				part.Variables = append(part.Variables, v)
			}
		}
		parts, template = append(parts, part), rest
	}
	return parts, nil
}

// Expand replaces the expressions of a URI template with values. It does not encode them, because a server may decode
// them. A variable without a value becomes empty. A template that cannot be split is unchanged.
func Expand(template string, values map[string]string) string {
	parts, err := SplitTemplate(template)
	if err != nil {
		return template
	}
	var b strings.Builder
	for _, part := range parts {
		b.WriteString(part.Literal)
		between := ","
		switch part.Operator {
		case ".", "/", ";", "&":
			between = part.Operator
		case "?":
			between = "&"
		}
		for i, v := range part.Variables {
			if i > 0 {
				b.WriteString(between)
			} else if part.Operator != "+" {
				b.WriteString(part.Operator)
			}
			if strings.Contains(";?&", part.Operator) && part.Operator != "" {
				b.WriteString(v.Name + "=")
			}
			b.WriteString(values[v.Name])
		}
	}
	return b.String()
}
