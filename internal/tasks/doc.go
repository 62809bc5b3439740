// Package tasks runs requests as tasks: they continue after their response, and the client asks
// for their state (2025-11-25, basic/utilities/tasks; tasks extension of 2026-07-28).
//
// A [Task] is the state of one task, with the transitions that both protocols allow. It does no
// I/O. A [Store] keeps tasks in a store. A [Runner] runs their handlers.
package tasks
