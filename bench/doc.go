// Package bench compares Parley with baselines that do no protocol work, in the same run. make bench prints the time
// of a call and %baseline, the speed in percent of the baseline's.
//
// Allocation counts are exact, so the tests have limits for them. Times have no limits.
package bench
