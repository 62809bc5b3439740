package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

func newTaskWait() *cobra.Command {
	var flags sessionFlags
	cmd := &cobra.Command{
		Use:   "wait TARGET ID [flags]",
		Short: "Wait for a task and print its result",
		Long: `Wait for the end of a task, and print its result as parley call does. An interrupt ends the wait
and not the task.

If the task asks a question, parley shows it at the terminal, and you answer or decline. If it
asks you to open a page, parley opens it in your browser after you agree. Without a terminal, a
question that has no answer on the command line ends the wait and stays open.

` + answerHelp + `

` + targetHelp,
		Example: `
parley task wait http://127.0.0.1:7777/mcp ID
parley task wait --timeout 10m -o json http://127.0.0.1:7777/mcp ID`,
		RunE: func(cmd *cobra.Command, args []string) error {
			target, id, err := oneTask(cmd, args)
			if err != nil {
				return err
			}
			return waitForTask(cmd, &flags, target, id)
		},
	}
	flags.add(cmd)
	completes(cmd, &flags, completeTarget, completeTask, completeNothing)
	return cmd
}

func waitForTask(cmd *cobra.Command, flags *sessionFlags, target []string, id string) error {
	ctx, cancel := context.WithCancelCause(cmd.Context())
	defer cancel(nil)
	c, err := flags.open(cmd, target, "task", remembersTasks(cmd), func(d *client.Dialer, _ client.Target) error {
		if d.Elicit == nil {
			// An error would be the answer of a session, with which the tool could fail. The end of the wait
			// leaves the question open.
			leave := func(asked context.Context, _ *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				cancel(errQuestion)
				<-asked.Done()
				return nil, context.Cause(asked)
			}
			d.Elicit, d.ElicitURL = leave, leave
		}
		return nil
	})
	if err != nil {
		return err
	}
	defer c.close(cmd)
	task, err := c.Task(id, c.onProgress())
	if err != nil {
		return err
	}
	result, err := task.Wait(ctx)
	c.progress.Done()
	switch {
	case err != nil && context.Cause(ctx) == errQuestion:
		return errQuestion
	case err != nil:
		return err
	}
	return finishCall(cmd, c, "result", result)
}

// errQuestion is the error of a wait that ends because the task asks a question.
var errQuestion = errors.New("the task asks a question, and there is no terminal; run this command at a terminal, or answer with --answer")
