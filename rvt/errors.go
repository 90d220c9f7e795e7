package rvt

import (
	"fmt"

	"ciddk/ci"
)

func fail(verb string, s ci.Status) error { return &ci.Error{Verb: verb, Status: s} }

func failf(verb string, s ci.Status, detail string) error {
	return &ci.Error{Verb: verb, Status: s, Detail: detail}
}

// outside returns the error for a number that is out of range.
func outside(verb string, s ci.Status, what string, got, least, most int) error {
	return failf(verb, s, fmt.Sprintf("%s is %d, want %d to %d", what, got, least, most))
}

// handle returns the error for an argument that is nil, destroyed, or an object of another HCA
// or process.
func handle(verb string, s ci.Status, arg string, o any) error {
	if ci.IsNil(o) {
		return failf(verb, s, arg+" is nil")
	}
	return failf(verb, s, arg+" is destroyed, or not an object of this HCA and process")
}

func failErr(verb string, s ci.Status, err error) error {
	return &ci.Error{Verb: verb, Status: s, Err: err}
}
