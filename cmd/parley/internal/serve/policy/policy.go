// Package policy compiles the policy of a configuration file, and calls its webhooks. Conditions are expressions of
// CEL, the Common Expression Language.
package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/resourceuri"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/schema"
)

const (
	// maxCost bounds the evaluation of one condition, in steps of CEL.
	maxCost = 100_000
	// maxExpression is the maximum length of a condition, in bytes.
	maxExpression = 16 << 10
	// checkFrequency is the number of iterations after which an evaluation notices the end of its context.
	checkFrequency = 100
)

// MaxApprovalTimeout limits the time for an approval that a policy can set.
const MaxApprovalTimeout = time.Hour

// Compile compiles a policy. Errors begin with the file and the line of the rule.
func Compile(p *config.Policy) (host.Rules, error) {
	rules := host.Rules{Version: p.Version, Default: p.Default, GroupsFrom: p.GroupsFrom}
	if p.ApprovalTimeout > MaxApprovalTimeout {
		return rules, fmt.Errorf("%s: policy.approvalTimeout must not exceed %v", p.Source, MaxApprovalTimeout)
	}
	env, err := newEnvironment()
	if err != nil {
		return rules, err
	}
	for i := range p.Rules {
		rule := p.Rules[i].Rule
		if when := p.Rules[i].When; when != "" {
			if err = compile(env, when, &rule); err != nil {
				return rules, fmt.Errorf("%s: policy.rules[%d].when: %w", p.Rules[i].Source, i, err)
			}
		}
		rules.Rules = append(rules.Rules, rule)
	}
	return rules, nil
}

// newEnvironment returns the variables and functions of conditions.
func newEnvironment() (*cel.Env, error) {
	object := cel.MapType(cel.StringType, cel.DynType)
	return cel.NewEnv(
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(maxExpression),
		cel.Variable("server", cel.StringType),
		cel.Variable("method", cel.StringType),
		cel.Variable("kind", cel.StringType),
		cel.Variable("name", cel.StringType),
		cel.Variable("args", object),
		cel.Variable("annotations", object),
		cel.Variable("principal", cel.MapType(cel.StringType, cel.StringType)),
		cel.Variable("scopes", cel.ListType(cel.StringType)),
		cel.Variable("caller", object),
		cel.Function("within",
			cel.MemberOverload("string_within_string", []*cel.Type{cel.StringType, cel.StringType}, cel.BoolType,
				cel.BinaryBinding(within))),
	)
}

// within reports whether a path is a directory or in it, after dots are removed, or a URI is. Relative paths are in no
// directory.
func within(file, dir ref.Val) ref.Val {
	f, okFile := file.Value().(string)
	d, okDir := dir.Value().(string)
	switch {
	case !okFile || !okDir:
		return types.NewErr("within requires two strings")
	case resourceuri.HasScheme(d):
		if !strings.ContainsAny(f, "/\\:%") { // such as the name of a tool
			return types.False
		}
		inside, err := resourceuri.Within(f, d)
		if err != nil {
			return types.WrapErr(err)
		}
		return types.Bool(inside)
	case !path.IsAbs(f) || !path.IsAbs(d) || strings.ContainsAny(f, "\x00\\"):
		return types.False
	}
	f, d = path.Clean(f), path.Clean(d)
	return types.Bool(f == d || strings.HasPrefix(f, strings.TrimSuffix(d, "/")+"/"))
}

// compile sets the condition of a rule.
func compile(env *cel.Env, text string, rule *host.Rule) error {
	parsed, issues := env.Compile(text)
	if err := issues.Err(); err != nil {
		return fmt.Errorf("cannot compile the condition: %s", explain(issues))
	}
	if t := parsed.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return fmt.Errorf("the condition must be true or false, not of type %s", t)
	}
	program, err := env.Program(parsed, cel.CostLimit(maxCost), cel.InterruptCheckFrequency(checkFrequency))
	if err != nil {
		return fmt.Errorf("cannot compile the condition: %w", err)
	}
	root := ast.NavigateAST(parsed.NativeRep())
	rule.WhenForLists = len(ast.MatchDescendants(root, func(e ast.NavigableExpr) bool {
		return e.Kind() == ast.IdentKind && slices.Contains([]string{"args", "scopes", "caller"}, e.AsIdent())
	})) == 0
	rule.Claims = claimsOf(root)
	rule.When = func(ctx context.Context, r *host.Request) (bool, error) {
		result, _, err := program.ContextEval(ctx, variables(r))
		if err != nil {
			return false, err
		}
		match, ok := result.Value().(bool)
		if !ok {
			return false, fmt.Errorf("the condition must be true or false, not of type %s", result.Type().TypeName())
		}
		return match, nil
	}
	return nil
}

// claimsOf returns the names of the claims that a condition uses, such as "realm_access.roles". A claim whose name the
// condition computes is "*".
func claimsOf(root ast.NavigableExpr) (names []string) {
	for _, e := range ast.MatchDescendants(root, func(e ast.NavigableExpr) bool { return pathOf(e) != nil }) {
		path := pathOf(e)
		if parent, ok := e.Parent(); ok && len(pathOf(parent)) > len(path) || path[0] != "caller" {
			continue // a part of the longer path
		}
		name := "*"
		if len(path) > 2 {
			name = strings.Join(path[2:], ".")
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// pathOf returns the names in an expression such as caller.claims.a or caller.claims["a"]; nil for other expressions.
func pathOf(e ast.NavigableExpr) []string {
	var path []string
	switch e.Kind() {
	case ast.IdentKind:
		return []string{e.AsIdent()}
	case ast.SelectKind:
		s := e.AsSelect()
		if path = pathOf(s.Operand().(ast.NavigableExpr)); path != nil {
			path = append(path, s.FieldName())
		}
	case ast.CallKind:
		c := e.AsCall()
		if c.FunctionName() != operators.Index || c.Args()[1].Kind() != ast.LiteralKind {
			return nil
		}
		name, ok := c.Args()[1].AsLiteral().Value().(string)
		if path = pathOf(c.Args()[0].(ast.NavigableExpr)); path != nil && ok {
			path = append(path, name)
		} else if !ok { // the element of an array
			return nil
		}
	}
	return path
}

// explain returns the errors of the compiler in one line, each with its column.
func explain(issues *cel.Issues) string {
	var texts []string
	for _, e := range issues.Errors() {
		texts = append(texts, fmt.Sprintf("column %d: %s", e.Location.Column()+1, e.Message))
	}
	return strings.Join(texts, "; ")
}

// variables returns the values of the variables for a request.
func variables(r *host.Request) map[string]any {
	p := r.Caller.Principal
	annotations := map[string]any{}
	if r.Tool != nil && r.Tool.Annotations != nil {
		if raw, err := schema.Marshal(r.Tool.Annotations); err == nil {
			annotations, _ = valueOf(raw).(map[string]any)
		}
	}
	args, ok := valueOf(r.Arguments).(map[string]any)
	if !ok {
		args = map[string]any{}
	}
	scopes := r.Caller.Scopes
	if scopes == nil {
		scopes = []string{}
	}
	caller := map[string]any{}
	switch {
	case r.Caller.Claims != nil:
		caller["claims"] = valueOf(r.Caller.Claims)
	case p.Issuer() == "": // nobody has authenticated the caller
		caller["claims"] = map[string]any{}
	} // otherwise the claims are not known, and a condition that uses them fails
	return map[string]any{
		"server": r.Server, "method": r.Method, "kind": string(r.Kind), "name": r.Name,
		"args": args, "annotations": annotations, "scopes": scopes, "caller": caller,
		"principal": map[string]string{"issuer": p.Issuer(), "subject": p.Subject(), "client": p.Client()},
	}
}

// valueOf returns a JSON value as CEL expects it. Numbers without fraction and exponent are exact.
func valueOf(raw []byte) any {
	if len(raw) == 0 {
		return nil
	}
	switch raw[0] {
	case '{':
		object := make(map[string]any)
		for name, value := range jsonrpc.All(raw) {
			object[name] = valueOf(value)
		}
		return object
	case '[':
		var elements []json.RawMessage
		_ = schema.Decode(raw, &elements) // the JSON was checked
		array := make([]any, len(elements))
		for i, element := range elements {
			array[i] = valueOf(element)
		}
		return array
	case '"':
		return jsonrpc.Unquote(raw)
	case 't', 'f':
		return raw[0] == 't'
	case 'n':
		return nil
	}
	return numberOf(string(raw))
}

func numberOf(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return n
	}
	n, _ := strconv.ParseFloat(text, 64) // an infinity for a number that is too large
	return n
}
