// Package contain decodes what a server sends as content, so that a fault costs the entry, block or member that has it,
// and nothing else. Clients call it for the results that they receive, and the host and the server for results that
// they forward.
//
// These decide about more than themselves and stay strict: the type of a result, revisions, cursors, and the members
// that identify an entry, such as the name of a tool.
package contain
