package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
)

// listedTask is a task in the output of parley task ls.
type listedTask struct {
	ID      string `json:"taskId"`
	Tool    string `json:"tool"`
	Status  string `json:"status"`
	Updated string `json:"lastUpdatedAt"`
}

func newTaskLs() *cobra.Command {
	var flags dialFlags
	cmd := &cobra.Command{
		Use:   "ls TARGET [flags]",
		Short: "List the tasks that parley has started",
		Long: `List the tasks that parley call --task has started at a server, with their status. parley
remembers a task until a command has waited for it, has cancelled it, or finds that it has expired.
Tasks are stored like logins; see parley login.

` + targetHelp,
		Example: `
parley task ls http://127.0.0.1:7777/mcp`,
		RunE: func(cmd *cobra.Command, args []string) error {
			target, rest, err := split(cmd, args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return fmt.Errorf("unexpected argument %q; task ls has one TARGET", rest[0])
			}
			return listTasks(cmd, &flags, target)
		},
	}
	flags.add(cmd)
	completes(cmd, &flags, completeTarget, completeNothing)
	return cmd
}

func listTasks(cmd *cobra.Command, flags *dialFlags, target []string) error {
	stored, err := openLogins()
	if err != nil {
		return err
	}
	s := &taskStore{stored.store, func(error) {}} // the next parley task ls tries again
	records, err := s.tasks(cmd.Context())
	if err != nil {
		return err
	}
	var server string
	c, err := flags.dial(cmd, target, func(_ *client.Dialer, to client.Target) error {
		server = to.String()
		return nil
	})
	if err != nil {
		return err
	}
	defer release(cmd, c)
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
	return show(cmd, all, func(w io.Writer) error {
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
