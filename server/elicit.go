package server

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// Elicit asks the user to fill in a form, and returns it. T is a struct whose
// fields are the form's: strings, numbers, booleans, and enumerations of strings
// with the enum tag. Forms must not ask for secrets.
//
// ErrDeclined and ErrDismissed say that the user would not. Answers that do not fit
// T are asked for again, twice. Otherwise Elicit returns what [Ask] does; the code
// before it runs again for each round of a client of 2026-07-28, see [Once].
// Since 2025-06-18 (client/elicitation).
func Elicit[T any](ctx context.Context, message string, options ...AskOption) (T, error) {
	var form T
	err := Ask(ctx, ElicitInto(&form, message, options...))
	return form, err
}

// ElicitInto is the question of [Elicit] for [Ask]. The answer goes to into.
func ElicitInto[T any](into *T, message string, options ...AskOption) Asking {
	form, err := formOf[T]()
	if err != nil {
		return Asking{check: func(*rpc.Call) error { return err }}
	}
	a := newAsking(mcp.MethodElicit, mcp.ElicitParams{Message: message, RequestedSchema: form.JSON()}, options)
	a.check = canElicitForm
	a.accept = func(answer json.RawMessage) error {
		content, err := accepted(answer)
		if err != nil {
			return err
		}
		if err := form.Validate(content); err != nil {
			return fmt.Errorf("%w: %w", errUnfit, err)
		}
		var value T
		if err := schema.Decode(content, &value); err != nil {
			return fmt.Errorf("%w: %w", errUnfit, err)
		}
		*into = value
		return nil
	}
	return a
}

// ElicitForm is [Elicit] with a schema that is not known when the program is
// written. It returns the form's content as it came, after validation.
func ElicitForm(ctx context.Context, message string, requestedSchema json.RawMessage, options ...AskOption) (json.RawMessage, error) {
	if _, err := mcp.ParseElicitSchema(requestedSchema); err != nil {
		return nil, fmt.Errorf("the requested schema is not that of a form: %w", err)
	}
	form, err := schema.Compile(requestedSchema)
	if err != nil {
		return nil, err
	}
	a := newAsking(mcp.MethodElicit, mcp.ElicitParams{Message: message, RequestedSchema: requestedSchema}, options)
	a.check = canElicitForm
	var content json.RawMessage
	a.accept = func(answer json.RawMessage) (err error) {
		if content, err = accepted(answer); err != nil {
			return err
		}
		if err := form.Validate(content); err != nil {
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
	case !revision.FormElicitation.In(c.Revision):
		return fmt.Errorf("elicitation: %w", ErrUnsupported)
	case !c.Peer.Capabilities.Elicitation.SupportsForm():
		return &rpc.CapabilityError{Required: mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{}}}
	}
	return nil
}

// formOf returns the schema of T as a form: flat, and without what forms do not have.
func formOf[T any]() (*schema.Schema, error) {
	inferred, err := schema.For[T]()
	if err != nil {
		return nil, fmt.Errorf("elicit: %w", err)
	}
	form, err := mcp.ParseElicitSchema(inferred.JSON())
	if err != nil {
		return nil, fmt.Errorf("elicit: %T is not a form: %w", *new(T), err)
	}
	raw, err := json.Marshal(form)
	if err != nil {
		return nil, fmt.Errorf("elicit: %w", err)
	}
	return schema.Compile(raw)
}

// accepted returns the content of an answer that the user gave.
func accepted(answer json.RawMessage) (json.RawMessage, error) {
	var result mcp.ElicitResult
	if err := json.Unmarshal(answer, &result); err != nil {
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
