// Package revision holds what differs between the revisions of the protocol, as
// data: which methods each has, how a server answers an offer of a version, and
// how a result is said to a peer of an older revision.
//
// Nothing above this package asks which revision a peer speaks. The era rooms
// decide it once, at the door, and pass it down to the tables here.
package revision
