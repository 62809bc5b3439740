package use

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/login/credstore"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/completion"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/output"
	"github.com/parley-mcp/parley/cmd/parley/internal/use/toolargs"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

func NewTask() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "task",
		Short: "Get, wait for and cancel tasks",
		Long: `Look at, wait for and cancel the tasks that parley call --task started. A task is a tool call that continues
after the client has gone. Tasks need a server of 2025-11-25, or one of 2026-07-28 with the tasks extension.

Do not share the ID of a task: on a server without logins, whoever knows it can read and cancel the task.`,
		Example: `
parley call --task http://127.0.0.1:7777/mcp bake kind=plum
parley task ls http://127.0.0.1:7777/mcp
parley task wait http://127.0.0.1:7777/mcp ID`,
		Args: program.UnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTaskGet(), newTaskWait(), newTaskCancel(), newTaskLs())
	return cmd
}

// startTask starts a tool as a task and prints the id of the task. If the server runs the tool
// without a task, startTask prints the result.
func startTask(cmd *cobra.Command, c *session, tool string, arguments json.RawMessage) error {
	task, err := c.StartTool(cmd.Context(), tool, arguments, c.onProgress())
	c.progress.Done()
	switch {
	case err != nil:
		return err
	case task.ID() == "":
		cmd.PrintErrln("parley: warning: the server ran the tool without a task")
		result, err := task.Wait(cmd.Context())
		if err != nil {
			return err
		}
		return finishCall(cmd, c, tool, result)
	}
	started := struct {
		TaskID string `json:"taskId"`
	}{task.ID()}
	return output.Print(cmd, started, "%s\n", terminal.Line(task.ID()))
}

// oneTask splits the arguments of a command about one task.
func oneTask(cmd *cobra.Command, args []string) (target []string, id string, err error) {
	target, rest, err := dialing.Split(cmd, args)
	switch {
	case err != nil:
	case len(rest) == 0:
		err = errors.New("no task ID; parley call --task prints it, and parley task ls lists it")
	case len(rest) > 1:
		err = fmt.Errorf("unexpected argument %q; task %s takes one TARGET and one ID", rest[1], cmd.Name())
	default:
		id = rest[0]
	}
	return target, id, err
}

func newTaskGet() *cobra.Command {
	var flags dialing.Flags
	cmd := &cobra.Command{
		Use:   "get TARGET ID [flags]",
		Short: "Print the status of a task",
		Long: `Print the status of a task and its open questions. A server of 2025-11-25 does not list the questions.

` + dialing.TargetHelp,
		Example: `
parley task get http://127.0.0.1:7777/mcp ID`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, task, err := dialTask(cmd, args, &flags)
			if err != nil {
				return err
			}
			defer dialing.CloseQuietly(c)
			state, err := task.Get(cmd.Context())
			if err != nil {
				return err
			}
			return output.Print(cmd, state, "%s", renderTask(state))
		},
	}
	flags.Add(cmd)
	completion.Add(cmd, &flags, completion.Target, completion.Task, completion.Nothing)
	return cmd
}

// dialTask connects to the server of a command about one task.
func dialTask(cmd *cobra.Command, args []string, flags *dialing.Flags) (*client.Client, *client.Task, error) {
	target, id, err := oneTask(cmd, args)
	if err != nil {
		return nil, nil, err
	}
	c, err := flags.Dial(cmd, target, remembersTasks(cmd))
	if err != nil {
		return nil, nil, err
	}
	task, err := c.Task(id)
	if err != nil {
		dialing.CloseQuietly(c)
		return nil, nil, err
	}
	return c, task, nil
}

// renderTask returns lines with the status of a task and its open questions.
func renderTask(t *mcp.DetailedTask) string {
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s: %s\n", name, terminal.Line(value))
		}
	}
	line("status", string(t.Status))
	line("message", t.StatusMessage)
	line("created", t.CreatedAt)
	line("updated", t.LastUpdatedAt)
	if t.Error != nil {
		line("error", t.Error.Error())
	}
	for _, key := range slices.Sorted(maps.Keys(t.InputRequests)) {
		line("question "+terminal.Line(key), describeQuestion(t.InputRequests[key]))
	}
	return b.String()
}

// describeQuestion returns the message of an input request, and the fields of its form or its URL.
func describeQuestion(q mcp.InputRequest) string {
	var params mcp.ElicitParams
	if q.Method != mcp.MethodElicit || schema.Decode(q.Params, &params) != nil {
		return q.Method
	}
	if params.Mode == mcp.ElicitModeURL {
		return params.Message + " " + params.URL
	}
	return params.Message + " " + toolargs.Summary(params.RequestedSchema)
}

func newTaskCancel() *cobra.Command {
	var flags dialing.Flags
	cmd := &cobra.Command{
		Use:   "cancel TARGET ID [flags]",
		Short: "Cancel a task",
		Long: `Ask a server to cancel a task. The server may still complete the task. It is not an error if the
task has ended already.

` + dialing.TargetHelp,
		Example: `
parley task cancel http://127.0.0.1:7777/mcp ID`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, task, err := dialTask(cmd, args, &flags)
			if err != nil {
				return err
			}
			defer dialing.CloseQuietly(c)
			return task.Cancel(cmd.Context())
		},
	}
	flags.Add(cmd)
	completion.Add(cmd, &flags, completion.Target, completion.Task, completion.Nothing)
	return cmd
}

// listedTask is a task in the output of parley task ls.
type listedTask struct {
	ID      string `json:"taskId"`
	Tool    string `json:"tool"`
	Status  string `json:"status"`
	Updated string `json:"lastUpdatedAt"`
}

func newTaskLs() *cobra.Command {
	var flags dialing.Flags
	cmd := &cobra.Command{
		Use:   "ls TARGET [flags]",
		Short: "List the tasks that parley has started",
		Long: `List the tasks that parley call --task has started at a server, with their status. parley
remembers a task until a command has waited for it, has cancelled it, or finds that it has expired.
Tasks are stored like logins; see parley login.

` + dialing.TargetHelp,
		Example: `
parley task ls http://127.0.0.1:7777/mcp`,
		RunE: dialing.WithWords(func(cmd *cobra.Command, target, rest []string) error {
			if len(rest) > 0 {
				return fmt.Errorf("unexpected argument %q; task ls takes one TARGET", rest[0])
			}
			return listTasks(cmd, &flags, target)
		}),
	}
	flags.Add(cmd)
	completion.Add(cmd, &flags, completion.Target, completion.Nothing)
	return cmd
}

func listTasks(cmd *cobra.Command, flags *dialing.Flags, target []string) error {
	stored, err := credstore.Open()
	if err != nil {
		return err
	}
	s := stored.TaskStore(func(error) {}) // the next parley task ls tries again
	records, err := s.Tasks(cmd.Context())
	if err != nil {
		return err
	}
	var server string
	c, err := flags.Dial(cmd, target, func(_ *client.Dialer, to client.Target) error {
		server = to.String()
		return nil
	})
	if err != nil {
		return err
	}
	defer dialing.CloseQuietly(c)
	all := []listedTask{}
	for _, r := range records {
		if r.Server != server {
			continue
		}
		task, err := c.Task(r.ID)
		if err != nil {
			return err
		}
		state, err := task.Get(cmd.Context())
		switch {
		case errors.Is(err, client.ErrTaskNotFound):
			_ = s.DeleteTask(cmd.Context(), r) // never fails
			continue
		case err != nil:
			return err
		}
		all = append(all, listedTask{r.ID, r.Tool, string(state.Status), state.LastUpdatedAt})
	}
	return output.Show(cmd, all, func(w io.Writer) error {
		if len(all) == 0 {
			cmd.PrintErrln("You have no tasks at this server.")
			return nil
		}
		var rows [][]string
		for _, t := range all {
			rows = append(rows, []string{t.ID, t.Tool, t.Status, t.Updated})
		}
		return terminal.Table(w, 0, []string{"ID", "TOOL", "STATUS", "UPDATED"}, rows)
	})
}

// cannotAsk is a function for the questions of a server to a command without a terminal.
func cannotAsk(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	return nil, errNoTerminal
}

var errNoTerminal = errors.New("the server asks a question, and there is no terminal; run this command at a " +
	"terminal, or answer with --answer")

func newTaskWait() *cobra.Command {
	var flags sessionFlags
	cmd := &cobra.Command{
		Use:   "wait TARGET ID [flags]",
		Short: "Wait for a task and print its result",
		Long: `Wait for the end of a task, and print its result as parley call does. Ctrl-C stops waiting; the
task continues.

If the task asks a question, parley shows it at the terminal, and you answer or decline. If it
asks you to open a page, parley opens it in your browser after you agree. Without a terminal, a
question that has no answer on the command line ends the wait and stays open.

` + answerHelp + `

` + dialing.TargetHelp,
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
	completion.Add(cmd, &flags, completion.Target, completion.Task, completion.Nothing)
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
	defer c.close()
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
var errQuestion = errors.New("the task asks a question, and there is no terminal; run this command at a terminal, or " +
	"answer with --answer")

// startsTasks sets a Dialer up for a command that starts a task. The client declares that it answers
// questions, because a later command can answer those of the task.
func startsTasks(cmd *cobra.Command) func(*client.Dialer, client.Target) error {
	return func(d *client.Dialer, to client.Target) error {
		if _, ok := to.(*client.CommandTarget); ok {
			return errors.New("--task needs a server that keeps running: the program ends with parley, and its tasks " +
				"with it; serve it with parley bridge --addr, or call it without --task")
		}
		if d.Elicit == nil {
			d.Elicit, d.ElicitURL = cannotAsk, cannotAsk
		}
		return remembersTasks(cmd)(d, to)
	}
}

// remembersTasks sets a Dialer up to keep the ids of its tasks with the logins of the user, until it
// receives their outcome.
func remembersTasks(cmd *cobra.Command) func(*client.Dialer, client.Target) error {
	return func(d *client.Dialer, _ client.Target) error {
		stored, err := credstore.Open()
		if err != nil {
			return nil // parley task ls reports it
		}
		d.Tasks = stored.TaskStore(func(err error) {
			cmd.PrintErrln("parley: warning: cannot remember the task for parley task ls: " +
				terminal.Line(err.Error()))
		})
		return nil
	}
}
