// Package tasks runs requests as tasks: they continue after their response, and the client asks
// for their state (2025-11-25, basic/utilities/tasks; tasks extension of 2026-07-28).
//
// A [Task] is the state of one task, with the transitions that both protocols allow (task.go). It does no I/O. A
// [Store] keeps tasks, encrypted, until their time is over (store.go). A [Runner] runs their handlers (runner.go), and
// the questions of a handler are in its journal (journal.go). A lease says which replica runs a task, and another takes
// it over (lease.go). places.go limits how many tasks a caller may have.
//
// Package server decides which calls become tasks (server/taskcall.go), how long a task is kept, by default and at most
// (server/task.go), and serves the methods for tasks (server/taskmethods.go).
package tasks
