// Package bench measures Parley beside floors that do no protocol work, in the
// same run: `make bench` prints how long a call takes and the ratio to its floor.
//
// What is exact are the allocations, so those are gates in the tests here. Times
// are never tested.
package bench
