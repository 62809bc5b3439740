// Package contain decodes what a server sends as content, so that a fault costs the entry, block or member that has it, and
// nothing else. It is called by clients, only for results that the strict decoder rejects.
//
// These decide about more than themselves and stay strict: the type of a result, revisions, cursors, and the members that
// identify an entry, such as the name of a tool.
package contain
