package server

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// Elicit asks the user to fill in a form, and returns the form's values. T is a struct whose
// fields are strings, numbers or booleans; the enum tag makes a string a choice. A field that is
// a pointer, has a default, or is tagged omitempty or omitzero is optional. A form must not ask
// for secrets; see [ElicitURL].
//
// It returns [ErrDeclined] or [ErrDismissed] if the user did not submit the form, [ErrBadAnswer]
// if the third answer still does not match T, and the other errors of [Ask]. Any other error
// means that T cannot be a form. With a client of 2026-07-28 the handler runs again from its
// beginning; see [Ask]. Since 2025-06-18 (client/elicitation).
func Elicit[T any](ctx context.Context, message string, options ...AskOption) (T, error) {
	var form T
	err := Ask(ctx, ElicitInto(&form, message, options...))
	return form, err
}

// ElicitInto returns the question of [Elicit] for [Ask], which stores the answer in into.
func ElicitInto[T any](into *T, message string, options ...AskOption) Question {
	form, err := formOf[T]()
	if err != nil {
		return Question{check: func(*rpc.Call) error { return err }}
	}
	a := newQuestion(mcp.MethodElicit, mcp.ElicitParams{Message: message, RequestedSchema: form.JSON()}, options)
	a.check = canElicitForm
	a.accept = func(answer json.RawMessage) error {
		content, err := accepted(answer)
		if err != nil {
			return err
		}
		var value T
		if err := form.Decode(content, &value); err != nil {
			return fmt.Errorf("%w: %w", errUnfit, err)
		}
		*into = value
		return nil
	}
	return a
}

// ElicitForm is [Elicit] with a JSON Schema instead of a type. The schema must be one that
// [mcp.ParseElicitSchema] accepts. ElicitForm returns the content of the form as the client sent
// it, after validation, without optional members that are null. The caller owns the content.
func ElicitForm(ctx context.Context, message string, requestedSchema json.RawMessage, options ...AskOption) (json.RawMessage, error) {
	if _, err := mcp.ParseElicitSchema(requestedSchema); err != nil {
		return nil, fmt.Errorf("elicit: %w", err)
	}
	form, err := schema.Compile(requestedSchema)
	if err != nil {
		return nil, fmt.Errorf("elicit: requested schema: %w", err)
	}
	a := newQuestion(mcp.MethodElicit, mcp.ElicitParams{Message: message, RequestedSchema: requestedSchema}, options)
	a.check = canElicitForm
	var content json.RawMessage
	a.accept = func(answer json.RawMessage) (err error) {
		if content, err = accepted(answer); err != nil {
			return err
		}
		if content, err = withoutNulls(form, content, false); err != nil {
			return fmt.Errorf("%w: %w", errUnfit, err)
		}
		return nil
	}
	if err := Ask(ctx, a); err != nil {
		return nil, err
	}
	return content, nil
}

func canElicitForm(c *rpc.Call) error {
	switch {
	case !c.Can(revision.FormElicitation):
		return fmt.Errorf("elicitation: %w", ErrUnsupported)
	case !c.Peer().Capabilities.Elicitation.SupportsForm():
		return &call.CapabilityError{Required: mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{}}}
	}
	return nil
}

// formOf returns the schema of T in the subset of JSON Schema that forms have.
func formOf[T any]() (*schema.Schema, error) {
	inferred, err := schema.For[T]()
	if err != nil {
		return nil, fmt.Errorf("elicit: %w", err)
	}
	if !inferred.IsObject() {
		return nil, fmt.Errorf("elicit: a form must be a struct whose fields are strings, numbers or booleans, not %s", reflect.TypeFor[T]())
	}
	form, err := mcp.ParseElicitSchema(inferred.JSON())
	if err != nil {
		return nil, fmt.Errorf("elicit: %T cannot be a form: %w", *new(T), err)
	}
	raw, err := json.Marshal(form)
	if err != nil {
		return nil, fmt.Errorf("elicit: %w", err)
	}
	return schema.Compile(raw)
}

// accepted returns the content of an answer with action accept.
func accepted(answer json.RawMessage) (json.RawMessage, error) {
	var result mcp.ElicitResult
	if err := schema.Decode(answer, &result); err != nil {
		return nil, fmt.Errorf("%w: elicitation/create: %w", errUnfit, err)
	}
	switch result.Action {
	case mcp.ElicitAccept:
		if result.Content == nil {
			return json.RawMessage("{}"), nil
		}
		return result.Content, nil
	case mcp.ElicitDecline:
		return nil, ErrDeclined
	case mcp.ElicitCancel:
		return nil, ErrDismissed
	}
	return nil, fmt.Errorf("%w: elicitation/create: unknown action %.20q", errUnfit, result.Action)
}
