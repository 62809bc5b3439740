// Package tasks runs requests as tasks: they continue after their response, and the client asks
// for their state (2025-11-25, basic/utilities/tasks; tasks extension of 2026-07-28).
//
// A [Task] is the state of one task, with the transitions that both protocols allow. It does no I/O. A [Store] keeps
// tasks, encrypted, until their time is over. A [Runner] runs their handlers, and the questions of a handler are in its
// journal. A lease says which replica runs a task, and another takes it over.
//
// Package server decides which calls become tasks (server/taskcall.go), how long a task is kept, by default and at most
// (server/task.go), and serves the methods for tasks (server/taskmethods.go).
package tasks

// Where the rules are:
//
//   - task.go: which transitions a task allows, and how much it may ask. store.go: tasks per principal, sizes, and
//     whose a task is. places.go: how many run in a process, and which one is displaced.
//   - runner.go: time-outs of handlers, and the end of a process. lease.go: who takes over the tasks of a process that
//     has ended, runs them again, or leaves them to others (leaveFor). outcome.go: how long storing an
//     outcome is tried again, and results that are too large.
//   - journal.go: which answer belongs to which question when a handler runs again. progress.go: how often the status
//     message changes. changes.go: how soon a waiting request sees a change. audit.go: what is logged.
