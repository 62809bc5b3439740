// Package revision describes the differences between the revisions of the protocol as data: the methods and features of
// each revision, the negotiation of a version, and the conversion of a result for a peer of an older revision.
//
// [Classify] decides the era of a message. The packages of the eras look the revision up in these tables, so that other
// packages need not compare revisions.
package revision
