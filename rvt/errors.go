package rvt

import (
	"fmt"

	"ciddk/ci"
)

func fail(verb string, s ci.Status) error { return &ci.Error{Verb: verb, Status: s} }

func failf(verb string, s ci.Status, detail string) error {
	return &ci.Error{Verb: verb, Status: s, Detail: detail}
}

// outside refuses a number that is not in its range.
func outside(verb string, s ci.Status, what string, got, least, most int) error {
	return failf(verb, s, fmt.Sprintf("%s is %d, want %d to %d", what, got, least, most))
}

// handle refuses an argument that is no live object of this HCA, with its kind's status; it names the argument.
func handle(verb string, s ci.Status, arg string, o any) error {
	if ci.IsNil(o) {
		return failf(verb, s, arg+" is nil")
	}
	return failf(verb, s, arg+" is destroyed, or not an object of this HCA")
}

func failErr(verb string, s ci.Status, err error) error {
	return &ci.Error{Verb: verb, Status: s, Err: err}
}
