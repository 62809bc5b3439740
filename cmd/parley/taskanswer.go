package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/toolargs"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// answer is the answer to a question of a task, as the user has written it.
type answer struct {
	key     string // of the question; "" if the task has one
	words   []string
	object  json.RawMessage // all fields as one JSON object, or nil
	decline bool
}

func newTaskAnswer() *cobra.Command {
	var flags dialFlags
	var a answer
	var object objectFlag
	cmd := &cobra.Command{
		Use:   "answer TARGET ID [key=value …] [flags]",
		Short: "Answer a question of a task",
		Long: `Answer a question of a task, which parley task get prints. Only servers with the tasks extension
of 2026-07-28 accept it; parley task wait answers the questions of all servers at a terminal.

key=value sets a field of a form, as parley call sets an argument. Without fields, and for the
request to open a page, the answer is that the user agrees. --decline declines.

` + targetHelp,
		Example: `
parley task answer http://127.0.0.1:7777/mcp ID icing=sugar candles=3
parley task answer http://127.0.0.1:7777/mcp ID --decline`,
		RunE: func(cmd *cobra.Command, args []string) error {
			target, id, words, err := splitTask(cmd, args)
			if err != nil {
				return err
			}
			a.words = words
			given := object.text != ""
			if n := len(words); given && n > 0 || a.decline && (n > 0 || given) {
				return errors.New("cannot combine key=value, --json and --decline; use one of them")
			}
			if given {
				if a.object, err = object.read(cmd); err != nil {
					return err
				}
			}
			return answerTask(cmd, &flags, target, id, &a)
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&a.key, "question", "", "key of the question, if the task has several")
	object.add(cmd, "fields")
	cmd.Flags().BoolVar(&a.decline, "decline", false, "decline to answer")
	completes(cmd, &flags, completeTarget, completeTask, completeNothing)
	return cmd
}

func answerTask(cmd *cobra.Command, flags *dialFlags, target []string, id string, a *answer) error {
	c, err := flags.dial(cmd, target)
	if err != nil {
		return err
	}
	defer release(cmd, c)
	if r := c.Revision(); !r.Modern() {
		return fmt.Errorf("a server of %s accepts answers only while the client waits; run parley task wait at a terminal", r)
	}
	task, err := c.Task(id)
	if err != nil {
		return err
	}
	state, err := task.Get(cmd.Context())
	if err != nil {
		return err
	}
	key, err := a.question(state)
	if err != nil {
		return err
	}
	result, err := a.result(state.InputRequests[key])
	if err != nil {
		return err
	}
	raw, err := json.Marshal(result)
	if err != nil {
		return err
	}
	return task.Answer(cmd.Context(), mcp.InputResponses{key: raw})
}

// question returns the key of the question that the user answers.
func (a *answer) question(t *mcp.DetailedTask) (string, error) {
	_, open := t.InputRequests[a.key]
	switch {
	case len(t.InputRequests) == 0:
		return "", fmt.Errorf("the task has no open question; its status is %s", t.Status)
	case a.key != "" && open:
		return a.key, nil
	case a.key != "":
		return "", fmt.Errorf("the task has no open question %q; parley task get prints the open questions", a.key)
	case len(t.InputRequests) > 1:
		return "", errors.New("the task has several open questions; name one with --question, as parley task get prints it")
	}
	for key := range t.InputRequests {
		a.key = key
	}
	return a.key, nil
}

// result returns the response to an input request.
func (a *answer) result(q mcp.InputRequest) (*mcp.ElicitResult, error) {
	var params mcp.ElicitParams
	switch {
	case q.Method != mcp.MethodElicit:
		return nil, fmt.Errorf("the task needs an answer to %s, which parley does not support", q.Method)
	case a.decline:
		return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
	}
	if err := schema.Decode(q.Params, &params); err != nil {
		return nil, fmt.Errorf("cannot decode the question: %w", err)
	}
	if params.Mode == mcp.ElicitModeURL {
		if len(a.words) > 0 || a.object != nil {
			return nil, errors.New("the question is a request to open a page and has no fields; answer without key=value and --json")
		}
		return &mcp.ElicitResult{Action: mcp.ElicitAccept}, nil
	}
	content := a.object
	if content == nil {
		var err error
		if content, err = toolargs.Parse(params.RequestedSchema, a.words); err != nil {
			return nil, err
		}
	}
	if err := checkAnswer(params.RequestedSchema, content); err != nil {
		return nil, fmt.Errorf("the answer does not match the form: %w", err)
	}
	return mcp.AcceptElicit(content)
}

// checkAnswer returns an error unless content has valid values for fields of a form, and no others.
func checkAnswer(form, content json.RawMessage) error {
	parsed, err := mcp.ParseElicitSchema(form)
	if err != nil {
		return err
	}
	fields := make(map[string]json.RawMessage)
	if err := schema.Decode(content, &fields); err != nil {
		return err
	}
	for _, p := range parsed.Properties {
		delete(fields, p.Name)
	}
	for name := range fields {
		return fmt.Errorf("unknown field %q; the fields are %s", name, toolargs.Summary(form))
	}
	compiled, err := schema.Compile(form)
	if err != nil {
		return err
	}
	return compiled.Validate(content)
}

// cannotAsk is a function for the questions of a server to a command without a terminal.
func cannotAsk(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	return nil, errNoTerminal
}

var errNoTerminal = errors.New("the server asks a question, and there is no terminal; run this command at a terminal")
